import type { Adapter, Normalization, ProviderCall } from './provider.ts'

/** Verifies a call and reads it: both are pure, and what a large body costs is in them. Never throws. */
export function readCall<Keys>(provider: Adapter<Keys>, call: ProviderCall, keys: Keys): Normalization {
  const verification = provider.verify(call, keys)
  return verification.kind === 'refused' ? verification : provider.normalize(call)
}
