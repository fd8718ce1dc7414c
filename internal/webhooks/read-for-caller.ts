import type { Caller } from './caller.ts'
import type { CertificateStore } from './certificate-store.ts'
import { type LargeBodies, type LargeCall, largeBodyBytes } from './large-bodies.ts'
import type { CertificateProvider, Normalization } from './provider.ts'
import { readCall } from './read-call.ts'

/** What reading works with. */
export interface ReadContext {
  readonly largeBodies: LargeBodies
  readonly certificates: Pick<CertificateStore, 'find'>
}

/** What a call says; or that it could not be read in time, or that its certificate was not to be had. */
export type Reading = Normalization | { readonly kind: 'unread' } | { readonly kind: 'uncertified' }

type Call = LargeCall['call']

/** Verifies and reads a call with what its caller is known by. Never rejects. */
export async function readForCaller(context: ReadContext, caller: Caller, call: Call): Promise<Reading> {
  const { keying } = caller
  switch (keying.kind) {
    case 'secrets': {
      const { provider, keys } = keying
      if (call.body.length <= largeBodyBytes) return readCall(provider, call, keys)
      const large = { providerName: provider.name, secrets: keying.secrets(), call }
      return (await context.largeBodies.read(large)) ?? { kind: 'unread' }
    }
    case 'certificate':
      return readByCertificate(context, keying.provider, { caller, call })
    case 'signer':
      return readCall(keying.provider, call, keying.signer)
  }
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
