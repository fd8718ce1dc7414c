import type { Clock, TenantId } from '#internal/base/index.ts'
import { type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { Health, Logger } from '#internal/telemetry/index.ts'
import {
  DirectoryDecoder,
  type DirectoryKey,
  type DirectoryNotifications,
  type DirectoryRules,
} from './directory-codec.ts'
import {
  type DirectoryKeyRow,
  type DirectoryRow,
  type DirectorySecretRow,
  type DirectorySink,
  readDirectory,
  readDirectoryChanges,
  readDirectoryVersion,
} from './directory-store.ts'
import {
  type Declarations,
  emptyDeclarations,
  listDeclarationChanges,
  withChanges,
} from './providers/provider-store.ts'

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

/** Redis channel that announces tenant changes to all directories. The messages are empty. */
export const directoryChannel = 'latchkey:tenants'

/**
 * Notifies the directories of all processes that tenants changed. Idempotent. @throws RedisUnavailable; directories then find the change by
 * polling
 */
export async function notifyDirectories(redis: RedisConnection): Promise<void> {
  await redis.publish(directoryChannel, '')
}

export interface DirectoryOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>
  /** Maximum interval between two reads; default 1 s. */
  readonly pollMs?: number
  /** Maximum number of tenants; default 100 000 of about 1 KB each. Further tenants are not served, and an error is logged. */
  readonly tenantsMax?: number
  /** Rows per page of a complete read; default 1 000. */
  readonly pageRows?: number
  readonly health?: Health
  /** In [0, 1); jitter of delays after failures. */
  readonly random?: () => number
}

/** Backoff after failed reads. Its maximum limits the delay after Postgres becomes available again. */
const failureWaits = { firstMs: 250, maxMs: 2_000 }
const jitter = 0.1
const bounds = { pollMs: 1_000, tenantsMax: 100_000, pageRows: 1_000 }
/** Minimum number of tenants at which a complete read ends with a garbage collection, which takes about 2 µs per tenant. */
const collectedTenantsMin = 10_000
/** Deadline of a read, including the first read of 100 000 tenants. */
const readMsMax = 60_000

/** Keeps all tenants, slugs and key hashes in memory, so that requests do not query Postgres. Reads nothing before `start`. */
export class Directory {
  readonly #options: DirectoryOptions & typeof bounds
  #index: DirectoryIndex | undefined
  #declarations: Declarations = emptyDeclarations
  #version = 0
  #readAtMs = Number.NEGATIVE_INFINITY
  #failures = 0
  #overfullLogged = false
  #stopped = false
  #loop: SupervisedLoop | undefined
  readonly #firstRead = Promise.withResolvers<void>()

  constructor(options: DirectoryOptions) {
    this.#options = { ...bounds, ...options }
  }

  /** Returns whether a snapshot was read. Until then callers must respond 503, never 403. */
  hasSnapshot(): boolean {
    return this.#index !== undefined
  }

  /** Expects standard base64. Undefined for an expired key, and for a replaced key after the overlap of its rotation. */
  findKey(sha256Base64: string): FoundKey | undefined {
    return this.#index?.findKey(sha256Base64, this.#options.clock.now())
  }

  findTenantById(id: string): DirectoryTenant | undefined {
    return this.#index?.findTenantById(id)
  }

  findTenantBySlug(slug: string): DirectoryTenant | undefined {
    return this.#index?.findTenantBySlug(slug)
  }

  /** Returns all tenants in no particular order; none before the first snapshot. */
  tenants(): Iterable<DirectoryTenant> {
    return this.#index?.tenants() ?? []
  }

  /** Returns the active declarations by name and alias; after any declaration has changed, another object. */
  declarations(): Declarations {
    return this.#declarations
  }

  /** Returns whether all records of all tenants are in Postgres; false if there are no tenants. */
  hasOnlyDurableRecords(): boolean {
    return this.#index?.hasOnlyDurableRecords() ?? false
  }

  /** Time since the last successful read from Postgres; Infinity before the first. */
  ageMs(nowMs: number): number {
    return Math.max(0, nowMs - this.#readAtMs)
  }

  /** Reads immediately instead of at the next poll. Cheap to call. */
  notify(): void {
    this.#loop?.wake()
  }

  /** Resolves after the first attempt to read a snapshot, successful or not. Failed attempts are retried with backoff. */
  start(): Promise<void> {
    if (!this.#stopped) this.#loop ??= this.#startLoop()
    return this.#firstRead.promise
  }

  /** Waits for the current read. The tenants in memory can still be found. Idempotent. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#loop?.stop()
    this.#firstRead.resolve()
  }

  /** `overfull`: tenants beyond `tenantsMax` exist and are not served. */
  stats(): { tenants: number; keys: number; overfull: boolean } {
    const index = this.#index
    return {
      tenants: index?.tenantCount ?? 0,
      keys: index?.keyCount ?? 0,
      overfull: index?.overfull ?? false,
    }
  }

  #startLoop(): SupervisedLoop {
    const { health, random } = this.#options
    return superviseLoop({
      name: 'tenant directory',
      // The interval including its jitter is at most pollMs.
      intervalMs: this.#options.pollMs / (1 + jitter),
      jitter,
      turnMsMax: readMsMax,
      backoff: failureWaits,
      runOnce: (signal) => this.#readOnce(signal),
      onError: (error, failures) => this.#onFailedRead(error, failures),
      ...(health && { health }),
      ...(random && { random }),
    })
  }

  async #readOnce(signal: AbortSignal): Promise<void> {
    await this.#readNew(signal)
    this.#readAtMs = this.#options.clock.now()
    if (this.#failures > 0)
      this.#options.log.info({ failures: this.#failures }, 'tenant directory is current again')
    this.#failures = 0
    this.#firstRead.resolve()
  }

  #onFailedRead(error: unknown, failures: number): void {
    this.#failures = failures
    const fields = { cause: error, failures, hasSnapshot: this.hasSnapshot() }
    this.#options.log.warn(fields, 'tenant directory could not be updated; it keeps its contents')
    this.#firstRead.resolve()
  }

  async #readNew(signal: AbortSignal): Promise<void> {
    const version = await readDirectoryVersion(this.#options.pool)
    const index = this.#index
    // A lower version means that the database was restored. After an overflow, only a complete read finds the skipped tenants.
    const again = index === undefined || version < this.#version || (index.overfull && this.#hasRoom(index))
    if (again) return this.#readSnapshot(version, signal)
    if (version === this.#version) return
    const since = this.#version
    await this.#readChanges(index, since, signal)
    await this.#readDeclarations(this.#declarations, since)
    // A change of a declaration raises the version, but adds no tenant to the changes.
    this.#version = Math.max(version, this.#version)
  }

  /** Reads changed declarations. Called after tenants were read, so that no tenant is newer than the declarations that it names. */
  async #readDeclarations(before: Declarations, since: number): Promise<void> {
    this.#declarations = withChanges(before, await listDeclarationChanges(this.#options.pool, since))
  }

  #hasRoom(index: DirectoryIndex): boolean {
    return index.tenantCount < this.#options.tenantsMax
  }

  /** Reads all tenants. They are not a snapshot, so changes since `version` are applied before the new index is used. */
  async #readSnapshot(version: number, signal: AbortSignal): Promise<void> {
    const { pool, pageRows, tenantsMax } = this.#options
    const index = new DirectoryIndex(tenantsMax)
    await readDirectory(pool, index, { pageRows, signal })
    await this.#readChanges(index, version, signal)
    await this.#readDeclarations(emptyDeclarations, -1)
    this.#index = index
    // Frees the rows that were read, which would otherwise stay in memory until the heap has doubled.
    if (index.tenantCount >= collectedTenantsMin) Bun.gc(true)
  }

  async #readChanges(index: DirectoryIndex, since: number, signal: AbortSignal): Promise<void> {
    const { pool, pageRows } = this.#options
    let after = { version: since + 1, id: '' }
    let version = since
    for (;;) {
      signal.throwIfAborted()
      const { count, last } = await readDirectoryChanges(pool, index, after, pageRows)
      if (last !== undefined) {
        after = last
        version = last.version
      }
      if (count < pageRows) break
    }
    this.#version = version
    this.#reportOverflow(index)
  }

  #reportOverflow(index: DirectoryIndex): void {
    if (index.overfull && !this.#overfullLogged) {
      this.#options.log.error(
        { tenantsMax: this.#options.tenantsMax },
        'tenant directory is full: tenants beyond tenantsMax are not served',
      )
    }
    this.#overfullLogged = index.overfull
  }
}

interface IndexedTenant {
  readonly tenant: Omit<DirectoryTenant, 'secrets'> & { secrets: readonly DirectorySecretRow[] }
  sha256s: readonly string[]
}

const noSecrets: readonly DirectorySecretRow[] = []
const noSha256s: readonly string[] = []

/** Skips tenants beyond `tenantsMax` and sets `overfull`. */
class DirectoryIndex implements DirectorySink {
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

  /** True after a tenant was skipped. Never becomes false again, because the index does not record skipped tenants. */
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
