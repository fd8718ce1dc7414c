import type { TenantId } from '#internal/base/index.ts'
import {
  DirectoryDecoder,
  type DirectoryKey,
  type DirectoryNotifications,
  type DirectoryRules,
} from './directory-codec.ts'
import type { DirectoryKeyRow, DirectoryRow, DirectorySecretRow, DirectorySink } from './directory-store.ts'

/**
 * Tenant data that requests use. An absent limit has the platform's default. `secrets` are encrypted; `openTenantSecrets` decrypts them.
 */
export interface DirectoryTenant extends Omit<DirectoryRules, 'callback'> {
  readonly id: TenantId
  readonly namespace: string
  readonly name: string
  /** Slug of the tenant; null while another tenant holds the wanted slug. A tenant without a slug is not served. */
  readonly slug: string | null
  readonly suspended: boolean
  /** Undefined for a tenant that only pulls its events. */
  readonly callback: DirectoryCallback | undefined
  /** Undefined, or absent, for a tenant that gets no notifications. */
  readonly notifications?: DirectoryNotifications | undefined
  readonly secrets: readonly DirectorySecretRow[]
}

/** Callback URL of a tenant, and its delivery rules. */
export interface DirectoryCallback {
  readonly url: string
  readonly rules: DirectoryRules['callback']
}

/** An API key and its tenant. */
export interface FoundKey {
  readonly tenant: DirectoryTenant
  readonly key: DirectoryKey
}

interface IndexedTenant {
  readonly tenant: Omit<DirectoryTenant, 'secrets'> & { secrets: readonly DirectorySecretRow[] }
  sha256s: readonly string[]
}

const noSecrets: readonly DirectorySecretRow[] = []
const noSha256s: readonly string[] = []

/** Skips tenants beyond `tenantsMax` and sets `overfull`. */
export class DirectoryIndex implements DirectorySink {
  readonly #tenantsMax: number
  readonly #byId = new Map<string, IndexedTenant>()
  readonly #bySlug = new Map<string, DirectoryTenant>()
  readonly #byKey = new Map<string, FoundKey>()
  readonly #shared = new DirectoryDecoder()
  #overfull = false

  constructor(tenantsMax: number) {
    this.#tenantsMax = tenantsMax
  }

  /** Keys and secrets are added afterwards. Idempotent. */
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
    const tenant: IndexedTenant['tenant'] = {
      id,
      namespace: shared.name(row.namespace),
      name,
      slug: slug === name ? name : slug,
      suspended,
      ...rules,
      callback: callbackUrl === null ? undefined : { url: callbackUrl, rules: rules.callback },
      notifications: notifications === null ? undefined : shared.notifications(notifications),
      secrets: noSecrets,
    }
    this.#byId.set(id, { tenant, sha256s: noSha256s })
    if (slug !== null) this.#bySlug.set(slug, tenant)
  }

  /** Adds nothing if the tenant was skipped, or is not served because it has no slug. */
  addKey(tenantId: string, { sha256Base64, rules }: DirectoryKeyRow): void {
    const entry = this.#byId.get(tenantId)
    if (entry === undefined || entry.tenant.slug === null) return
    entry.sha256s = entry.sha256s.concat(sha256Base64)
    this.#byKey.set(sha256Base64, { tenant: entry.tenant, key: this.#shared.key(rules) })
  }

  /** Appends; adds nothing if the tenant was skipped. */
  addSecret(tenantId: string, { field, keyId, sealedBase64 }: DirectorySecretRow): void {
    const tenant = this.#byId.get(tenantId)?.tenant
    if (tenant === undefined) return
    const secret = { field: this.#shared.name(field), keyId: this.#shared.name(keyId), sealedBase64 }
    tenant.secrets = tenant.secrets.concat(secret)
  }

  findKey(sha256Base64: string, nowMs: number): FoundKey | undefined {
    const found = this.#byKey.get(sha256Base64)
    if (found === undefined) return undefined
    const { expiresAtMs } = found.key
    return expiresAtMs !== null && expiresAtMs <= nowMs ? undefined : found
  }

  findTenantById(id: string): DirectoryTenant | undefined {
    return this.#byId.get(id)?.tenant
  }

  findTenantBySlug(slug: string): DirectoryTenant | undefined {
    return this.#bySlug.get(slug)
  }

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

  /** Never becomes false again, because the index does not record skipped tenants. */
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
