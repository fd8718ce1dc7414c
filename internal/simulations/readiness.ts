import type { Callers } from '#internal/intake/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import type { Chargeback } from './request.ts'

/** Whether a tenant can have a simulation; `problem` tells what to do about it. */
export type Readiness =
  | { readonly kind: 'ready' | 'suspended' | 'unreadable' }
  | { readonly kind: 'notReady'; readonly problem: string }

/** Whether calls of this provider would come in for this tenant. A pause passes, and a simulation waits for its end. */
export function readinessFor(
  callers: Pick<Callers, 'byTenant'>,
  tenant: DirectoryTenant,
  { provider }: Pick<Chargeback, 'provider'>,
): Readiness {
  const caller = callers.byTenant(tenant, provider)
  if (caller.kind === 'caller') {
    const isSet = provider !== 'wallet' || caller.settings.wallet !== undefined
    return isSet ? { kind: 'ready' } : { kind: 'notReady', problem: problems.wallet_not_set(provider) }
  }
  switch (caller.cause) {
    case 'provider_paused':
      return { kind: 'ready' }
    case 'tenant_suspended':
      return { kind: 'suspended' }
    case 'secrets_unreadable':
      return { kind: 'unreadable' }
    case 'provider_not_configured':
    case 'provider_not_enabled':
    case 'secrets_missing':
      return { kind: 'notReady', problem: problems[caller.cause](provider) }
    default:
      return { kind: 'notReady', problem: problems.other(provider) }
  }
}

const problems = {
  provider_not_configured: (provider: string) =>
    `This tenant does not take calls of "${provider}": add it to spec.providers of its Tenant, or name another provider`,
  provider_not_enabled: (provider: string) =>
    `"${provider}" is not rolled out to this tenant: its spec.walletRollout.stage is "off", which the platform team changes`,
  secrets_missing: (provider: string) =>
    `No signing secret of "${provider}" is in force for this tenant: see the conditions of its Tenant`,
  wallet_not_set: (provider: string) =>
    `"${provider}" has no webhookId in this tenant: set it in spec.providers of its Tenant`,
  other: (provider: string) =>
    `This tenant takes no calls of "${provider}": set the provider up in its Tenant, or name another one`,
}
