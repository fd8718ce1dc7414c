import type { TenantSpec } from './model.ts'

/** The only provider that is rolled out to a tenant in stages: in one stage, its events are stored but not delivered. */
export const stagedProvider = 'wallet'

/** SQL text of a tenant's stage of the wallet rollout, for a row `t` of `tenants`. */
export const walletStageText = "t.spec #>> '{walletRollout,stage}'"

/** `state` of the events that are received: `accepted` events are delivered, `verified` events are only stored. */
type ProviderAcceptance<Entry> =
  | { readonly kind: 'accept'; readonly entry: Entry; readonly state: 'accepted' | 'verified' }
  | {
      readonly kind: 'refuse'
      readonly cause: 'not_configured' | 'disabled' | 'reserved' | 'stage_off' | 'unverified'
    }

/** Decides whether a tenant accepts calls and events of a provider. Ignores the suspension of the tenant and pauses. Pure. */
export function providerAcceptance<
  Entry extends { readonly enabled?: boolean; readonly acceptUnverified?: boolean | undefined },
>({
  provider,
  entry,
  walletStage,
  isUnverified = false,
  gatewaySandbox = false,
}: {
  /** Name of the provider, not an alias. */
  readonly provider: string
  /** Entry of the provider in `spec.providers`; undefined if there is none. */
  readonly entry: Entry | undefined
  readonly walletStage: TenantSpec['walletRollout']['stage']
  /** True if the declaration of the provider was not compared with a real call of the vendor. Default: false. */
  readonly isUnverified?: boolean
  /** Whether the reserved provider `gateway` is enabled for trials. Default: false. */
  readonly gatewaySandbox?: boolean
}): ProviderAcceptance<Entry> {
  if (entry === undefined) return { kind: 'refuse', cause: 'not_configured' }
  if (entry.enabled === false) return { kind: 'refuse', cause: 'disabled' }
  if (provider === 'gateway' && !gatewaySandbox) return { kind: 'refuse', cause: 'reserved' }
  if (isUnverified && !entry.acceptUnverified) return { kind: 'refuse', cause: 'unverified' }
  if (provider !== stagedProvider || walletStage === 'enabled')
    return { kind: 'accept', entry, state: 'accepted' }
  return walletStage === 'verify'
    ? { kind: 'accept', entry, state: 'verified' }
    : { kind: 'refuse', cause: 'stage_off' }
}
