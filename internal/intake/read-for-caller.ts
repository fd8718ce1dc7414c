import type { Caller, Keying } from './caller.ts'
import type { CertificateStore } from './certificate-store.ts'
import { type LargeBodies, type LargeCall, largeBodyBytes } from './large-bodies.ts'
import type { CertificateProvider, Normalization } from './provider.ts'
import { readCall } from './read-call.ts'

/** What reading works with. */
export interface ReadContext {
  readonly largeBodies: LargeBodies
  readonly certificates: Pick<CertificateStore, 'find'>
}

/**
 * Result of reading a call. `unread`: it could not be read in time. `uncertified`: its certificate could not be fetched. `unverifiable`: no
 * secret that could be opened has signed it, and there are others that could not be opened.
 */
export type Reading = Normalization | UnknownCall

/** A call that could not be verified or refused. */
export type UnknownCall =
  | { readonly kind: 'unread' }
  | { readonly kind: 'uncertified' }
  | { readonly kind: 'unverifiable' }

type Call = LargeCall['call']

/** Verifies and reads a call with what its caller is known by. Never rejects. */
export async function readForCaller(context: ReadContext, caller: Caller, call: Call): Promise<Reading> {
  const { keying } = caller
  switch (keying.kind) {
    case 'secrets': {
      const reading = await readBySecrets(context, keying, call)
      const isMismatch = reading.kind === 'refused' && reading.cause === 'signature_mismatch'
      return isMismatch && keying.unreadableCount > 0 ? { kind: 'unverifiable' } : reading
    }
    case 'certificate':
      return readByCertificate(context, keying.provider, { caller, call })
    case 'signer':
      return readCall(keying.provider, call, keying.signer)
  }
}

async function readBySecrets(
  { largeBodies }: ReadContext,
  keying: Extract<Keying, { kind: 'secrets' }>,
  call: Call,
): Promise<Reading> {
  const { provider, keys } = keying
  if (call.body.length <= largeBodyBytes) return readCall(provider, call, keys)
  const large = { providerName: provider.name, secrets: keying.secrets(), call }
  return (await largeBodies.read(large)) ?? { kind: 'unread' }
}

async function readByCertificate(
  { certificates }: ReadContext,
  provider: CertificateProvider,
  { caller, call }: { readonly caller: Caller; readonly call: Call },
): Promise<Reading> {
  const located = provider.locate(call)
  if (located.kind === 'refused') return located
  const { url, environment } = located
  const found = await certificates.find({ tenantId: caller.tenant.id, environment, url })
  switch (found.kind) {
    case 'trusted':
      return readCall(provider, call, found.signer)
    case 'refused':
      return found
    case 'unavailable':
      return { kind: 'uncertified' }
  }
}
