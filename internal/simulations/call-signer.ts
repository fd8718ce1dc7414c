import type { Clock } from '#internal/base/index.ts'
import {
  type Caller,
  createWalletSigner,
  signCard,
  type WalletSigner,
  withCertificate,
} from '#internal/intake/index.ts'

/** A call that its caller's adapter takes for the provider's own. */
export interface SignedCall {
  /** Whom the call is for; where calls are verified by a certificate, with the one that this call is signed with. */
  readonly caller: Caller
  readonly headers: Headers
}

/**
 * Signs calls as their providers do: with the tenant's own secret, or by a key in this process' memory that no adapter trusts but the
 * one that is handed its root.
 */
export class CallSigner {
  readonly #clock: Clock
  #wallet: Promise<WalletSigner> | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Gives undefined where there is nothing to sign with. The first call of a provider with certificates makes the key: tenths of a second. */
  async sign(caller: Caller, body: Uint8Array): Promise<SignedCall | undefined> {
    const { keying, settings } = caller
    if (keying.kind === 'secrets') {
      const [secret] = keying.secrets()
      if (secret === undefined) return undefined
      return { caller, headers: new Headers(signCard({ body, secret, atMs: this.#clock.now() })) }
    }
    const signer = await this.#walletSigner()
    const trusting = withCertificate(caller, signer.certificate)
    if (trusting === undefined || settings.wallet === undefined) return undefined
    const { webhookId } = settings.wallet
    const headers = new Headers(signer.sign({ body, webhookId, atMs: this.#clock.now() }))
    return { caller: trusting, headers }
  }

  #walletSigner(): Promise<WalletSigner> {
    this.#wallet ??= createWalletSigner(this.#clock.now()).catch((error: unknown) => {
      this.#wallet = undefined
      throw error
    })
    return this.#wallet
  }
}
