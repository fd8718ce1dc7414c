import { authenticateApiKey } from '#internal/access/index.ts'
import { type ApiError, apiError, type TenantId } from '#internal/base/index.ts'
import {
  type Directory,
  type DirectoryProvider,
  type DirectoryTenant,
  type KeyRing,
  neutralProviderName,
  openTenantSecrets,
  type ProviderName,
  providerField,
} from '#internal/tenants/index.ts'
import type { EventStateAtReceipt } from './event.ts'
import type { Provider, ProviderSettings } from './provider.ts'
import { findProvider } from './providers/registry.ts'
import type { RefusedCause } from './refused-calls.ts'

/** Whom a call is for and how it is checked: everything that needs no body, made once per tenant and change of it. */
export interface Caller {
  readonly kind: 'caller'
  readonly tenant: DirectoryTenant
  readonly provider: Provider
  readonly settings: ProviderSettings
  /** What the provider's `prepare` made. */
  readonly keys: unknown
  /** Opens the secrets behind `keys` again, for who cannot be handed these. */
  secrets(): readonly string[]
  readonly state: EventStateAtReceipt
}

/** A known tenant's call that may not come in, whatever its body says. */
export interface RefusedCaller {
  readonly kind: 'refused'
  readonly tenant: DirectoryTenant
  readonly provider: ProviderName
  readonly cause: RefusedCause
}

/** `stranger`: no tenant has this slug. */
export type FoundCaller = Caller | RefusedCaller | { readonly kind: 'stranger' } | ApiError

/** How callers are found. */
export interface CallersOptions {
  readonly directory: Directory
  readonly keyRing: KeyRing
  /** Whether calls of a provider for a tenant are put off just now; asked for each call. Default: never. */
  isPaused?(provider: ProviderName, tenantId: TenantId): boolean
  /** A tenant's secrets of a provider could not be opened: their key left the ring, or they were altered. */
  onUnreadableSecrets(tenant: DirectoryTenant, provider: ProviderName): void
}

/** Finds out from memory whom a call is for: by API key, or by the slug in its path. */
export class Callers {
  readonly #options: CallersOptions
  /** A changed tenant is another object, so what was prepared for the old one goes with it. */
  readonly #prepared = new WeakMap<DirectoryTenant, Map<ProviderName, Caller | RefusedCaller>>()

  constructor(options: CallersOptions) {
    this.#options = options
  }

  /** @returns 403 for a key nobody has or without scope `webhooks`, 404 for a provider nobody knows, 503 before a snapshot */
  byApiKey(authorization: string | null, providerName: string): FoundCaller {
    const name = neutralProviderName(providerName)
    if (name === undefined) return apiError('provider_unknown')
    const principal = authenticateApiKey(this.#options.directory, authorization, 'webhooks')
    if (!('kind' in principal)) return this.#find(principal.tenant, name)
    // To a provider, a suspended tenant looks like any other that takes no calls.
    return principal.code === 'tenant_suspended' ? { kind: 'stranger' } : principal
  }

  /** @returns 404 for a provider nobody knows, 503 before a snapshot */
  bySlug(slug: string, providerName: string): FoundCaller {
    const name = neutralProviderName(providerName)
    if (name === undefined) return apiError('provider_unknown')
    const { directory } = this.#options
    if (!directory.hasSnapshot()) return apiError('starting', undefined, { 'Retry-After': '1' })
    const tenant = directory.findTenantBySlug(slug)
    return tenant ? this.#find(tenant, name) : { kind: 'stranger' }
  }

  #find(tenant: DirectoryTenant, name: ProviderName): Caller | RefusedCaller {
    let callers = this.#prepared.get(tenant)
    if (!callers) this.#prepared.set(tenant, (callers = new Map()))
    let caller = callers.get(name)
    if (!caller) callers.set(name, (caller = this.#prepare(tenant, name)))
    if (caller.kind === 'caller' && this.#options.isPaused?.(name, tenant.id))
      return { kind: 'refused', tenant, provider: name, cause: 'provider_paused' }
    return caller
  }

  #prepare(tenant: DirectoryTenant, name: ProviderName): Caller | RefusedCaller {
    const refused = (cause: RefusedCause): RefusedCaller => ({
      kind: 'refused',
      tenant,
      provider: name,
      cause,
    })
    if (tenant.suspended) return refused('tenant_suspended')
    const configured = tenant.providers.find((each) => each.name === name)
    if (!configured) return refused('provider_not_configured')
    const provider = findProvider(name)
    if (!provider || (name === 'wallet' && tenant.walletStage === 'off'))
      return refused('provider_not_enabled')
    const open = () => openTenantSecrets(this.#options.keyRing, tenant, providerField(name))
    const secrets = open()
    if (secrets.unreadable > 0) this.#options.onUnreadableSecrets(tenant, name)
    if (secrets.values.length === 0) return refused('secrets_missing')
    return {
      kind: 'caller',
      tenant,
      provider,
      settings: settingsOf(configured),
      keys: provider.prepare(secrets.values),
      secrets: () => open().values,
      state: name === 'wallet' && tenant.walletStage === 'verify' ? 'verified' : 'accepted',
    }
  }
}

function settingsOf({ storefront, wallet, gateway }: DirectoryProvider): ProviderSettings {
  return { ...(storefront && { storefront }), ...(wallet && { wallet }), ...(gateway && { gateway }) }
}
