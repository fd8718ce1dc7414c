import { isJsonObject, type JsonObject } from '#internal/base/index.ts'
import type { Caller } from '#internal/intake/index.ts'
import {
  createWalletSigner,
  eventCatalogue,
  type UnsignedCall,
  type WalletSigner,
} from '#internal/providers/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'

/** Signed webhook call. `caller` has the key that verifies the signature. */
export interface SignedCall {
  readonly caller: Caller
  readonly headers: Headers
  readonly body: Uint8Array
}

export interface SimulatedPayload {
  readonly rawType: string
  readonly payload: JsonObject
}

/** Returns undefined if the provider has no such type. */
export function sampleOf(provider: ProviderName, type: string): SimulatedPayload | undefined {
  if (provider === 'generic') return { rawType: type, payload: {} }
  const entry = eventCatalogue.find((each) => each.type === type)
  const found = entry?.providers.find((each) => each.provider === provider)
  return found && { rawType: found.providerRawType, payload: found.example }
}

/** Merges overrides into a payload, recursively for objects. Any other value replaces the value in the payload. */
export function merge(payload: JsonObject, overrides: JsonObject): JsonObject {
  const merged = Object.entries(overrides).map(([name, value]) => {
    const before = Object.hasOwn(payload, name) ? payload[name] : undefined
    return [name, isJsonObject(before) && isJsonObject(value) ? merge(before, value) : value] as const
  })
  return { ...payload, ...Object.fromEntries(merged) }
}

/** Writes and signs webhook calls as the real providers do. */
export class CallSigner {
  /** Undefined until the first call of the provider `wallet`. */
  #wallet: Promise<WalletSigner> | undefined

  /**
   * Signs with the tenant's secret, or with a key that only the returned caller trusts. The first call of the provider `wallet` takes about
   * 100 ms, because it generates this key.
   * @returns undefined if the tenant has no secret or settings for the provider, or if calls of the provider cannot be simulated
   */
  async write(
    caller: Caller,
    wanted: {
      readonly id: string
      readonly sample: SimulatedPayload
      readonly overrides: JsonObject
      readonly occurredAtMs: number
      readonly signedAtMs: number
    },
  ): Promise<SignedCall | undefined> {
    const { id, sample, overrides, occurredAtMs, signedAtMs } = wanted
    const payload = merge(sample.payload, overrides)
    const event = { id, rawType: sample.rawType, payload, occurredAtMs }
    const call = caller.provider.write?.(event, caller.settings)
    return call && (await this.#sign(caller, call, signedAtMs))
  }

  async #sign(caller: Caller, call: UnsignedCall, atMs: number): Promise<SignedCall | undefined> {
    const { keying, settings } = caller
    const { body } = call
    if (keying.kind === 'secrets') {
      const [secret] = keying.secrets()
      const headers = secret === undefined ? undefined : keying.provider.sign?.(call, secret, atMs)
      return headers && { caller, headers: new Headers(headers), body }
    }
    if (keying.kind === 'unsigned' || settings.wallet === undefined) return undefined
    this.#wallet ??= createWalletSigner().catch((error: unknown) => {
      this.#wallet = undefined
      throw error
    })
    const { signer, sign } = await this.#wallet
    const headers = sign({ body, webhookId: settings.wallet.webhookId, atMs })
    const { provider } = keying
    return {
      caller: { ...caller, keying: { kind: 'signer', provider, signer } },
      headers: new Headers(headers),
      body,
    }
  }
}
