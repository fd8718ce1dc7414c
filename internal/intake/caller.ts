import { authenticateApiKey } from '#internal/access/index.ts'
import { type ApiError, apiError, type TenantId } from '#internal/base/index.ts'
import type { EventStateAtReceipt } from '#internal/events/index.ts'
import {
  type Directory,
  type DirectoryProvider,
  type DirectoryTenant,
  neutralProviderName,
  type ProviderName,
  providerField,
  type SecretOpener,
} from '#internal/tenants/index.ts'
import type { TrustedSigner } from './certificate-chain.ts'
import type {
  AnyProvider,
  CertificateProvider,
  Provider,
  ProviderSettings,
  SigningCertificate,
} from './provider.ts'
import { findProvider } from './providers/registry.ts'
import type { RefusedCause } from './refused-calls.ts'

/** Whom a call is for and how it is checked: everything that needs no body, made once per tenant and change of it. */
export interface Caller {
  readonly kind: 'caller'
  readonly tenant: DirectoryTenant
  readonly provider: AnyProvider
  readonly settings: ProviderSettings
  readonly keying: Keying
  readonly state: EventStateAtReceipt
}

/**
 * What calls are verified with: secrets that the tenant shares with the provider, the certificate that a call names, or one
 * that was handed in.
 */
export type Keying =
  | {
      readonly kind: 'secrets'
      readonly provider: Provider
      /** What the provider's `prepare` made. */
      readonly keys: unknown
      /** Opens the secrets behind `keys` again, for who cannot be handed these. */
      secrets(): readonly string[]
      /** Live secrets that cannot be opened and are not among `keys`: a call may be signed with one of them. */
      readonly unreadableCount: number
    }
  | { readonly kind: 'certificate'; readonly provider: CertificateProvider }
  | { readonly kind: 'signer'; readonly provider: CertificateProvider; readonly signer: TrustedSigner }

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
  readonly secrets: Pick<SecretOpener, 'open'>
  /** Lets the reserved provider in, for trials. Default: no tenant's calls of it are taken, whatever its spec says. */
  readonly gatewaySandbox?: boolean
  /** Whether calls of a provider for a tenant are put off just now; asked for each call. Default: never. */
  isPaused?(provider: ProviderName, tenantId: TenantId): boolean
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
    if (!('kind' in principal)) return this.byTenant(principal.tenant, name)
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
    return tenant ? this.byTenant(tenant, name) : { kind: 'stranger' }
  }

  /** The caller that a provider's calls for this tenant have, whichever way they come. */
  byTenant(tenant: DirectoryTenant, name: ProviderName): Caller | RefusedCaller {
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
    if (!provider || !this.#isEnabled(tenant, name)) return refused('provider_not_enabled')
    const keying = this.#keyingOf(tenant, provider)
    if (typeof keying === 'string') return refused(keying)
    return {
      kind: 'caller',
      tenant,
      provider,
      settings: settingsOf(configured),
      keying,
      state: name === 'wallet' && tenant.walletStage === 'verify' ? 'verified' : 'accepted',
    }
  }

  #isEnabled(tenant: DirectoryTenant, name: ProviderName): boolean {
    if (name === 'gateway') return this.#options.gatewaySandbox ?? false
    return name !== 'wallet' || tenant.walletStage !== 'off'
  }

  #keyingOf(
    tenant: DirectoryTenant,
    provider: AnyProvider,
  ): Keying | 'secrets_missing' | 'secrets_unreadable' {
    if (!('prepare' in provider)) return { kind: 'certificate', provider }
    const open = () => this.#options.secrets.open(tenant, providerField(provider.name))
    const { values, unreadableKeyIds } = open()
    const unreadableCount = unreadableKeyIds.length
    if (values.length === 0) return unreadableCount > 0 ? 'secrets_unreadable' : 'secrets_missing'
    return {
      kind: 'secrets',
      provider,
      keys: provider.prepare(values),
      secrets: () => open().values,
      unreadableCount,
    }
  }
}

/**
 * The same caller, whose calls are verified by this certificate whatever they name: for calls that the platform makes to
 * itself. Undefined where the provider signs with secrets, or the certificate is not to be trusted.
 */
export function withCertificate(caller: Caller, certificate: SigningCertificate): Caller | undefined {
  const { keying } = caller
  if (keying.kind === 'secrets') return undefined
  const verdict = keying.provider.trust(certificate)
  if (verdict.kind !== 'trusted') return undefined
  return { ...caller, keying: { kind: 'signer', provider: keying.provider, signer: verdict.signer } }
}

function settingsOf({ storefront, wallet, gateway }: DirectoryProvider): ProviderSettings {
  return { ...(storefront && { storefront }), ...(wallet && { wallet }), ...(gateway && { gateway }) }
}
