import type { Caller } from '#internal/intake/index.ts'
import { createWalletSigner, type UnsignedCall, type WalletSigner } from '#internal/providers/index.ts'

/** Signed call with the caller that its signature verifies. */
export interface SignedCall {
  readonly caller: Caller
  readonly headers: Headers
}

/** Signs simulated calls as their providers do. */
export class CallSigner {
  /** Signer of wallet calls, created with the first such call. */
  #wallet: Promise<WalletSigner> | undefined

  /**
   * Signs a call with the tenant's secret, or with a key that only the returned caller trusts. Returns undefined without a secret or
   * settings, and for a provider whose calls cannot be simulated. The first wallet call generates a key, which takes about 100 ms.
   */
  async sign(caller: Caller, call: UnsignedCall, atMs: number): Promise<SignedCall | undefined> {
    const { keying, settings } = caller
    if (keying.kind === 'secrets') {
      const [secret] = keying.secrets()
      const headers = secret === undefined ? undefined : keying.provider.sign?.(call, secret, atMs)
      return headers && { caller, headers: new Headers(headers) }
    }
    if (keying.kind === 'unsigned' || settings.wallet === undefined) return undefined
    this.#wallet ??= createWalletSigner().catch((error: unknown) => {
      this.#wallet = undefined
      throw error
    })
    const { signer, sign } = await this.#wallet
    const headers = sign({ body: call.body, webhookId: settings.wallet.webhookId, atMs })
    const { provider } = keying
    return {
      caller: { ...caller, keying: { kind: 'signer', provider, signer } },
      headers: new Headers(headers),
    }
  }
}
