import type { TenantId } from '#internal/base/index.ts'
import {
  type DirectoryKeyRow,
  type DirectoryRow,
  type DirectorySecretRow,
  type DirectorySink,
  type RecordStoreOfTenant,
  ruleNames,
} from './directory-store.ts'
import type { ApiKeyScope, RecordRules, TenantSpec } from './model.ts'
import type { CallbackSpec, NotificationsSpec } from './spec-destinations.ts'
import type { Limits } from './spec-limits.ts'

/**
 * Tenant data that requests use. An absent limit has the platform's default. `secrets` are encrypted; `openTenantSecrets` decrypts them.
 */
export interface DirectoryTenant {
  readonly id: TenantId
  readonly namespace: string
  readonly name: string
  /** Slug of the tenant; null while another tenant holds the wanted slug. A tenant without a slug is not served. */
  readonly slug: string | null
  readonly suspended: boolean
  readonly records: RecordRules
  readonly recordStore: RecordStoreOfTenant
  readonly limits: Limits
  /** Undefined for a tenant that only pulls its events. */
  readonly callback: DirectoryCallback | undefined
  /** Undefined, or absent, for a tenant that gets no notifications. */
  readonly notifications?: DirectoryNotifications | undefined
  /** Enabled providers under their neutral names. */
  readonly providers: readonly DirectoryProvider[]
  readonly walletStage: TenantSpec['walletRollout']['stage']
  readonly retention: TenantSpec['retention']
  /** Fields masked in displayed payloads, in addition to the built-in ones. */
  readonly redactedFields: readonly string[]
  readonly secrets: readonly DirectorySecretRow[]
}

/** Callback URL of a tenant, and its delivery rules. */
export interface DirectoryCallback {
  readonly url: string
  readonly rules: Omit<CallbackSpec, 'url' | 'signingSecretRef'>
}

/** Receiver of a tenant's notifications. `url` is absent if a Secret contains it. */
export type DirectoryNotifications = Omit<NotificationsSpec, 'signingSecretRef' | 'urlSecretRef'>

/** An enabled provider with its settings. */
export type DirectoryProvider = Omit<TenantSpec['providers'][number], 'enabled' | 'secretRef'>

/** API key data that requests use. */
export interface DirectoryKey {
  readonly name: string
  readonly scopes: ReadonlySet<ApiKeyScope>
  /** The key's expiry or the end of its rotation, whichever is earlier. */
  readonly expiresAtMs: number | null
}

/** An API key and its tenant. */
export interface FoundKey {
  readonly tenant: DirectoryTenant
  readonly key: DirectoryKey
}

interface Entry {
  readonly tenant: Omit<DirectoryTenant, 'secrets'> & { secrets: readonly DirectorySecretRow[] }
  sha256s: readonly string[]
}

const sharedMax = 1_000
const noSecrets: readonly DirectorySecretRow[] = []
const noSha256s: readonly string[] = []

/** Index of tenants by id, slug and key. If there are more than `tenantsMax` tenants, it skips the rest and sets `overfull`. */
export class DirectoryIndex implements DirectorySink {
  readonly #tenantsMax: number
  readonly #byId = new Map<string, Entry>()
  readonly #bySlug = new Map<string, DirectoryTenant>()
  readonly #byKey = new Map<string, FoundKey>()
  readonly #shared = new SharedValues()
  #overfull = false

  constructor(tenantsMax: number) {
    this.#tenantsMax = tenantsMax
  }

  /** Adds, replaces or removes a tenant. Its keys and secrets are added afterwards. Idempotent. */
  put(row: DirectoryRow): void {
    this.#forget(row.id)
    if (row.deleted) return
    if (this.#byId.size >= this.#tenantsMax) {
      this.#overfull = true
      return
    }
    const { id, name, slug, suspended, callbackUrl, notifications } = row
    const shared = this.#shared
    const rules = shared.rules(row.rules)
    const tenant: Entry['tenant'] = {
      id,
      namespace: shared.name(row.namespace),
      name,
      slug: slug === name ? name : slug,
      suspended,
      records: rules.records,
      recordStore: rules.recordStore,
      limits: rules.limits,
      callback: callbackUrl === null ? undefined : { url: callbackUrl, rules: rules.callback },
      notifications: notifications === null ? undefined : shared.notifications(notifications),
      providers: rules.providers,
      walletStage: rules.walletStage,
      retention: rules.retention,
      redactedFields: rules.redactedFields,
      secrets: noSecrets,
    }
    this.#byId.set(id, { tenant, sha256s: noSha256s })
    if (slug !== null) this.#bySlug.set(slug, tenant)
  }

  /** Adds a key of a tenant; nothing if the tenant was skipped, or is not served because it has no slug. */
  addKey(tenantId: string, { sha256Base64, rules }: DirectoryKeyRow): void {
    const entry = this.#byId.get(tenantId)
    if (entry === undefined || entry.tenant.slug === null) return
    entry.sha256s = entry.sha256s.concat(sha256Base64)
    this.#byKey.set(sha256Base64, { tenant: entry.tenant, key: this.#shared.key(rules) })
  }

  /** Adds a secret of a tenant behind its other ones; nothing if the tenant was skipped. */
  addSecret(tenantId: string, { field, keyId, sealedBase64 }: DirectorySecretRow): void {
    const tenant = this.#byId.get(tenantId)?.tenant
    if (tenant === undefined) return
    const secret = { field: this.#shared.name(field), keyId: this.#shared.name(keyId), sealedBase64 }
    tenant.secrets = tenant.secrets.concat(secret)
  }

  findKey(sha256Base64: string, now: number): FoundKey | undefined {
    const found = this.#byKey.get(sha256Base64)
    if (found === undefined) return undefined
    const { expiresAtMs } = found.key
    return expiresAtMs !== null && expiresAtMs <= now ? undefined : found
  }

  findTenantById(id: string): DirectoryTenant | undefined {
    return this.#byId.get(id)?.tenant
  }

  findTenantBySlug(slug: string): DirectoryTenant | undefined {
    return this.#bySlug.get(slug)
  }

  /** Returns all tenants, in no particular order. */
  *tenants(): Iterable<DirectoryTenant> {
    for (const { tenant } of this.#byId.values()) yield tenant
  }

  hasOnlyDurableRecords(): boolean {
    for (const { tenant } of this.#byId.values())
      if (tenant.recordStore.current === 'redis' || tenant.recordStore.before === 'redis') return false
    return this.#byId.size > 0
  }

  get tenantCount(): number {
    return this.#byId.size
  }

  get keyCount(): number {
    return this.#byKey.size
  }

  /** True after a tenant was skipped. The value never becomes false again, because the index does not record skipped tenants. */
  get overfull(): boolean {
    return this.#overfull
  }

  #forget(id: string): void {
    const entry = this.#byId.get(id)
    if (entry === undefined) return
    this.#byId.delete(id)
    const { slug } = entry.tenant
    // Another tenant can have the slug or key now, so only entries that still point to this tenant are removed.
    if (slug !== null && this.#bySlug.get(slug) === entry.tenant) this.#bySlug.delete(slug)
    for (const sha256 of entry.sha256s) {
      if (this.#byKey.get(sha256)?.tenant === entry.tenant) this.#byKey.delete(sha256)
    }
  }
}

/**
 * Values that tenants share. Saves memory and parsing, because most tenants have one of a few sets of rules. A field remembers the first
 * 1 000 values; further ones belong to one tenant each.
 */
class SharedValues {
  readonly name = sharing((text) => text)
  readonly notifications = sharing((text) => parseFrozen(text) as DirectoryNotifications)
  readonly #records = sharing((text) => parseFrozen(text) as DirectoryTenant['records'])
  readonly #recordStore = sharing(parseRecordStore)
  readonly #limits = sharing((text) => parseFrozen(text) as DirectoryTenant['limits'])
  readonly #callback = sharing((text) => parseFrozen(text) as DirectoryCallback['rules'])
  readonly #retention = sharing((text) => parseFrozen(text) as DirectoryTenant['retention'])
  readonly #redactedFields = sharing((text) => parseFrozen(text) as DirectoryTenant['redactedFields'])
  readonly #providers = sharing((text) => parseFrozen(text) as readonly DirectoryProvider[])
  readonly #scopes = sharing((text): ReadonlySet<ApiKeyScope> => new Set(JSON.parse(text) as ApiKeyScope[]))

  /** All rules of a tenant. If they differ in one part, such as the names of providers' Secrets, tenants still share the other parts. */
  readonly rules = sharing((text) => {
    const lines = text.split('\n')
    const line = (name: (typeof ruleNames)[number]) => lines[ruleNames.indexOf(name)] ?? ''
    return {
      records: this.#records(line('records')),
      recordStore: this.#recordStore(line('recordStore')),
      limits: this.#limits(line('limits')),
      callback: this.#callback(line('callback')),
      providers: this.#providers(enabledProviders(line('providers'))),
      walletStage: line('walletStage') as DirectoryTenant['walletStage'],
      retention: this.#retention(line('retention')),
      redactedFields: this.#redactedFields(line('redactedFields')),
    }
  })

  readonly key = sharing((text): DirectoryKey => {
    const [name, scopes, expiresAtMs] = JSON.parse(text) as [string, ApiKeyScope[], number | null]
    return Object.freeze({ name, scopes: this.#scopes(JSON.stringify(scopes.sort())), expiresAtMs })
  })
}

/** Returns a parser that returns the same value for equal texts, as far as it remembers them. */
function sharing<T>(parse: (text: string) => T): (text: string) => T {
  const byText = new Map<string, T>()
  return (text) => {
    const known = byText.get(text)
    if (known !== undefined) return known
    const made = parse(text)
    if (byText.size < sharedMax) byText.set(text, made)
    return made
  }
}

/** Parses a part of a spec; an absent part, which no supported version stores, is null. */
function parseFrozen(text: string): object {
  return Object.freeze(JSON.parse(text || 'null') as object)
}

function parseRecordStore(text: string): RecordStoreOfTenant {
  const [current, before, generation, fence] = JSON.parse(text) as [
    RecordStoreOfTenant['current'],
    RecordStoreOfTenant['before'],
    number,
    number,
  ]
  return Object.freeze({ current, before, generation, fence })
}

/** Returns the JSON of a spec's enabled providers without what requests do not use. */
function enabledProviders(text: string): string {
  const all = JSON.parse(text) as TenantSpec['providers']
  return JSON.stringify(all.filter(({ enabled }) => enabled).map(toProvider))
}

function toProvider({
  name,
  acceptUnverified,
  storefront,
  wallet,
  gateway,
}: TenantSpec['providers'][number]): DirectoryProvider {
  return {
    name,
    ...(acceptUnverified && { acceptUnverified }),
    ...(storefront && { storefront }),
    ...(wallet && { wallet }),
    ...(gateway && { gateway }),
  }
}
