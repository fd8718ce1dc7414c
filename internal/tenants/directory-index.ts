import type { DirectoryKeyRow, DirectoryRow } from './directory-store.ts'
import type { ApiKeyScope, CallbackSpec, TenantSpec } from './model.ts'

/**
 * Tenant data that requests use. An absent limit has the platform's default. `secrets` are encrypted; `openTenantSecrets` decrypts them.
 */
export interface DirectoryTenant
  extends Omit<DirectoryRow, 'deleted' | 'version' | 'callback' | 'notifications' | 'providers' | 'keys'> {
  /** Undefined for a tenant that only pulls its events. */
  readonly callback: DirectoryCallback | undefined
  /** Undefined, or absent, for a tenant that gets no notifications. */
  readonly notifications?: DirectoryNotifications | undefined
  /** Enabled providers under their neutral names. */
  readonly providers: readonly DirectoryProvider[]
}

/** Callback URL of a tenant, and its delivery rules. */
export interface DirectoryCallback {
  readonly url: string
  readonly rules: Omit<CallbackSpec, 'url' | 'signingSecretRef'>
}

/** Receiver of a tenant's notifications. */
export type DirectoryNotifications = NonNullable<DirectoryRow['notifications']>

/** An enabled provider with its settings. */
export type DirectoryProvider = Omit<TenantSpec['providers'][number], 'enabled' | 'secretRef'>

/** API key data that requests use. */
export interface DirectoryKey extends Omit<DirectoryKeyRow, 'sha256Base64' | 'scopes'> {
  readonly scopes: ReadonlySet<ApiKeyScope>
}

/** An API key and its tenant. */
export interface FoundKey {
  readonly tenant: DirectoryTenant
  readonly key: DirectoryKey
}

interface Entry {
  readonly tenant: DirectoryTenant
  readonly sha256s: readonly string[]
}

const sharedMax = 1_000

/** Index of tenants by id, slug and key. If there are more than `tenantsMax` tenants, it skips the rest and sets `overfull`. */
export class DirectoryIndex {
  readonly #tenantsMax: number
  readonly #byId = new Map<string, Entry>()
  readonly #bySlug = new Map<string, DirectoryTenant>()
  readonly #byKey = new Map<string, FoundKey>()
  readonly #shared = new Map<string, object>()
  #overfull = false

  constructor(tenantsMax: number) {
    this.#tenantsMax = tenantsMax
  }

  /** Adds, replaces or removes a tenant. Idempotent. */
  put(row: DirectoryRow): void {
    this.#forget(row.id)
    if (row.deleted) return
    if (this.#byId.size >= this.#tenantsMax) {
      this.#overfull = true
      return
    }
    const tenant: DirectoryTenant = {
      id: row.id,
      namespace: row.namespace,
      name: row.name,
      slug: row.slug,
      suspended: row.suspended,
      records: this.#share(row.records),
      recordStore: this.#share(row.recordStore),
      limits: this.#share(row.limits),
      callback: this.#callbackOf(row),
      ...(row.notifications && { notifications: row.notifications }),
      providers: this.#share(row.providers.filter(({ enabled }) => enabled).map(toProvider)),
      walletStage: row.walletStage,
      retention: this.#share(row.retention),
      redactedFields: this.#share(row.redactedFields),
      secrets: row.secrets,
    }
    this.#byId.set(row.id, { tenant, sha256s: row.keys.map((key) => key.sha256Base64) })
    if (tenant.slug === null) return
    this.#bySlug.set(tenant.slug, tenant)
    for (const { sha256Base64, name, scopes, expiresAtMs } of row.keys) {
      const key = { name, scopes: this.#scopeSet(scopes), expiresAtMs }
      this.#byKey.set(sha256Base64, { tenant, key })
    }
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

  #callbackOf({ callback }: DirectoryRow): DirectoryCallback | undefined {
    if (callback === null) return undefined
    const { url, ...rules } = callback
    return { url, rules: this.#share(rules) }
  }

  #scopeSet(scopes: readonly ApiKeyScope[]): ReadonlySet<ApiKeyScope> {
    const sorted = [...scopes].sort()
    return this.#shareAs(`scopes ${sorted.join()}`, () => new Set(sorted))
  }

  /** Returns one shared object for equal rules of several tenants. Saves memory, because most tenants have one of a few sets of rules. */
  #share<T extends object>(value: T): T {
    return this.#shareAs(JSON.stringify(value), () => Object.freeze(value))
  }

  #shareAs<T extends object>(text: string, make: () => T): T {
    const known = this.#shared.get(text)
    if (known !== undefined) return known as T
    const made = make()
    if (this.#shared.size < sharedMax) this.#shared.set(text, made)
    return made
  }
}

function toProvider({
  name,
  acceptUnverified,
  storefront,
  wallet,
  gateway,
}: DirectoryRow['providers'][number]): DirectoryProvider {
  return {
    name,
    ...(acceptUnverified && { acceptUnverified }),
    ...(storefront && { storefront }),
    ...(wallet && { wallet }),
    ...(gateway && { gateway }),
  }
}
