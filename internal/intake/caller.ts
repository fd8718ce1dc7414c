import { authenticateApiKey } from '#internal/access/index.ts'
import { type ApiError, apiError } from '#internal/base/index.ts'
import type { EventStateAtReceipt } from '#internal/events/index.ts'
import {
  type AnyProvider,
  type CertificateProvider,
  type KnownProvider,
  KnownProviders,
  type OnUnusable,
  type Provider,
  type ProviderSettings,
  type TrustedSigner,
  unusable,
} from '#internal/providers/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import {
  type Declarations,
  type Directory,
  type DirectoryProvider,
  type DirectoryTenant,
  type ProviderName,
  providerAcceptance,
  providerField,
  type RetentionDays,
  retentionOf,
  type SecretOpener,
} from '#internal/tenants/index.ts'
import type { RefusedCause } from './refused-calls.ts'

/**
 * Tenant and provider of a call, with its verification keys. Prepared once per version of the tenant, of the declarations and of the
 * settings, and independent of single calls.
 */
export interface Caller {
  readonly kind: 'caller'
  readonly tenant: DirectoryTenant
  readonly provider: AnyProvider
  readonly settings: ProviderSettings
  readonly keying: Keying
  readonly state: EventStateAtReceipt
  readonly retention: RetentionDays
}

/**
 * Keys for verifying calls: shared secrets, or the certificate that each call names. For simulations only: a key of this process
 * (`signer`), or none (`unsigned`) for a provider whose calls only its vendor can sign.
 */
export type Keying =
  | {
      readonly kind: 'secrets'
      readonly provider: Provider
      /** Return value of the provider's `prepare`. */
      readonly keys: unknown
      /** JSON of a declared provider's declaration, for a worker. */
      readonly declared?: string
      /** Decrypts the secrets again, for a worker: `keys` cannot be sent to one. */
      secrets(): readonly string[]
      /**
       * Number of active secrets that are missing in `keys`, because the key ring cannot decrypt them. A call may be signed with one of
       * them.
       */
      readonly unreadableCount: number
    }
  | { readonly kind: 'certificate'; readonly provider: CertificateProvider }
  | { readonly kind: 'unsigned'; readonly provider: Provider }
  | { readonly kind: 'signer'; readonly provider: CertificateProvider; readonly signer: TrustedSigner }

/** Caller whose calls are all refused, with the cause. */
export interface RefusedCaller {
  readonly kind: 'refused'
  readonly tenant: DirectoryTenant
  readonly provider: ProviderName
  readonly cause: RefusedCause
}

/** `stranger`: no tenant has this slug, or the tenant of the API key is suspended. */
export type FoundCaller = Caller | RefusedCaller | { readonly kind: 'stranger' } | ApiError

type CallerSettings = Pick<SettingsWatch['current'], 'isProviderPaused' | 'retention'>

/** Dependencies of `Callers`. */
export interface CallersOptions {
  readonly directory: Pick<Directory, 'hasSnapshot' | 'findKey' | 'findTenantBySlug' | 'declarations'>
  readonly secrets: Pick<SecretOpener, 'open'>
  /**
   * Enables the reserved provider `gateway` for trials. Default: false; calls of `gateway` are then refused even if a tenant's spec
   * contains this provider.
   */
  readonly gatewaySandbox?: boolean
  /** Settings with paused providers, and with the retention of tenants that do not set it. */
  readonly settings: {
    readonly current: CallerSettings
    onChange(listener: (settings: CallerSettings) => void): void
  }
  /** Called once for each declaration that cannot be compiled, until any declaration changes. Must not throw. */
  readonly onUnusable?: OnUnusable
}

/** Finds callers in memory, by API key or by the slug in the path. */
export class Callers {
  readonly #options: CallersOptions
  readonly #known: KnownProviders
  /** Declarations from which the entries of `#prepared` were made. */
  #declarations: Declarations
  #settings: CallerSettings
  /** A changed tenant is a new object, so the entries of its old version are garbage-collected. */
  #prepared = new WeakMap<DirectoryTenant, Map<string, Caller | RefusedCaller>>()

  constructor(options: CallersOptions) {
    this.#options = options
    this.#known = new KnownProviders(() => options.directory.declarations(), options.onUnusable)
    this.#declarations = options.directory.declarations()
    this.#settings = options.settings.current
    options.settings.onChange((settings) => {
      this.#settings = settings
      this.#prepared = new WeakMap()
    })
  }

  /**
   * Finds the caller by its API key.
   * @returns 403 for an unknown key or a key without scope `webhooks`, 404 for an unknown provider, 503 before the first snapshot of the
   * tenants
   */
  byApiKey(authorization: string | null, providerName: string): FoundCaller {
    const known = this.#find(providerName)
    if ('code' in known) return known
    const { name } = known
    const principal = authenticateApiKey(this.#options.directory, authorization, 'webhooks')
    if (!('kind' in principal)) return this.byTenant(principal.tenant, name)
    // A suspended tenant gets the same response as an unknown tenant.
    return principal.code === 'tenant_suspended' ? { kind: 'stranger' } : principal
  }

  /**
   * Finds the caller by the slug of the path.
   * @returns 404 for an unknown provider, 503 before the first snapshot of the tenants
   */
  bySlug(slug: string, providerName: string): FoundCaller {
    const { directory } = this.#options
    const tenant = directory.findTenantBySlug(slug)
    const prepared = tenant && this.#preparedFor(tenant).get(providerName)
    if (prepared?.kind === 'caller') return prepared
    const known = this.#find(providerName)
    if ('code' in known) return known
    if (!directory.hasSnapshot()) return apiError('starting', undefined, { 'Retry-After': '1' })
    return tenant ? this.byTenant(tenant, known.name) : { kind: 'stranger' }
  }

  byTenant(tenant: DirectoryTenant, name: ProviderName): Caller | RefusedCaller {
    const callers = this.#preparedFor(tenant)
    let caller = callers.get(name)
    if (!caller) callers.set(name, (caller = this.#prepare(tenant, name)))
    return caller
  }

  retentionOf(tenant: DirectoryTenant): RetentionDays {
    return retentionOf(tenant.retention, this.#settings.retention)
  }

  #preparedFor(tenant: DirectoryTenant): Map<string, Caller | RefusedCaller> {
    const declarations = this.#options.directory.declarations()
    if (declarations !== this.#declarations) {
      this.#declarations = declarations
      this.#prepared = new WeakMap()
    }
    let callers = this.#prepared.get(tenant)
    if (!callers) this.#prepared.set(tenant, (callers = new Map()))
    return callers
  }

  /** Returns the names, in lower case, of the provider's headers that contain signatures or credentials. */
  secretHeadersOf(name: ProviderName): readonly string[] {
    const known = this.#find(name)
    return 'code' in known ? [] : known.adapter.secretHeaders
  }

  #find(name: string): KnownProvider | ApiError {
    const known = this.#known.find(name)
    return known === unusable ? declarationUnusable : (known ?? apiError('provider_unknown'))
  }

  #prepare(tenant: DirectoryTenant, name: ProviderName): Caller | RefusedCaller {
    const refused = (cause: RefusedCause): RefusedCaller => ({
      kind: 'refused',
      tenant,
      provider: name,
      cause,
    })
    if (tenant.suspended) return refused('tenant_suspended')
    const known = this.#find(name)
    // A tenant can name a declared provider by an alias.
    const acceptance = providerAcceptance({
      provider: name,
      entry: tenant.providers.find((each) => each.name === name || this.#find(each.name) === known),
      walletStage: tenant.walletStage,
      isUnverified: 'isUnverified' in known && known.isUnverified,
      gatewaySandbox: this.#options.gatewaySandbox ?? false,
    })
    if (acceptance.kind === 'refuse') return refused(refusals[acceptance.cause])
    if ('code' in known) return refused('provider_not_enabled')
    const { entry, state } = acceptance
    const keying = this.#keyingOf(tenant, known, entry.name)
    if (typeof keying === 'string') return refused(keying)
    if (this.#settings.isProviderPaused(name, tenant.id)) return refused('provider_paused')
    return {
      kind: 'caller',
      tenant,
      provider: known.adapter,
      settings: settingsOf(entry),
      keying,
      state,
      retention: this.retentionOf(tenant),
    }
  }

  #keyingOf(
    tenant: DirectoryTenant,
    { adapter: provider, declared }: KnownProvider,
    configuredName: ProviderName,
  ): Keying | 'secrets_missing' | 'secrets_unreadable' {
    if (!('prepare' in provider)) return { kind: 'certificate', provider }
    const open = () => this.#options.secrets.open(tenant, providerField(configuredName))
    const { values, unreadableKeyIds } = open()
    const unreadableCount = unreadableKeyIds.length
    if (values.length === 0) return unreadableCount > 0 ? 'secrets_unreadable' : 'secrets_missing'
    return {
      kind: 'secrets',
      provider,
      keys: provider.prepare(values),
      secrets: () => open().values,
      ...(declared !== undefined && { declared }),
      unreadableCount,
    }
  }
}

/**
 * Response while a declaration cannot be compiled. Another version of this service stored it, since it was valid when it was stored. The
 * vendor retries.
 */
const declarationUnusable = apiError(
  'starting',
  'The declaration of this provider needs another version of this service: send the call again',
  { 'Retry-After': '30' },
)

const refusals = {
  not_configured: 'provider_not_configured',
  disabled: 'provider_not_configured',
  reserved: 'provider_not_enabled',
  stage_off: 'provider_not_enabled',
  unverified: 'provider_unverified',
} as const

function settingsOf({ storefront, wallet, gateway }: DirectoryProvider): ProviderSettings {
  return { ...(storefront && { storefront }), ...(wallet && { wallet }), ...(gateway && { gateway }) }
}
