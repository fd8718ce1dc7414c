import type { Clock } from '#internal/base/index.ts'
import { type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Health } from '#internal/telemetry/index.ts'
import { DirectoryIndex, type DirectoryTenant, type FoundKey } from './directory-index.ts'
import { listDirectoryChanges, listDirectoryPage, readDirectoryVersion } from './directory-store.ts'
import { errorFields, type TenantLog } from './log.ts'

/** All tenants, slugs and key hashes in memory, so that no request asks Postgres who is calling. */
export interface Directory {
  /** False until a first whole snapshot was read: callers answer 503, never 403. */
  hasSnapshot(): boolean
  /** The key of this SHA-256 (standard base64) and its tenant; undefined for unknown, expired and ended keys. */
  findKey(sha256Base64: string): FoundKey | undefined
  findTenantById(id: string): DirectoryTenant | undefined
  /** undefined for unknown slugs and for those of deleted tenants. */
  findTenantBySlug(slug: string): DirectoryTenant | undefined
  /** Milliseconds since the last successful look at Postgres, Infinity before the first. */
  ageMs(now: number): number
  /** Says that something changed: looks at once instead of at the next poll. Cheap, may be called any number of times. */
  notify(): void
  /** Resolves when the first attempt at a snapshot has ended, well or not; goes on trying with bounded waits. */
  start(): Promise<void>
  /** Ends the loop after the look under way, whose bound is the pool's. Answers stay as they are. Safe to repeat. */
  stop(): Promise<void>
  /** What is held, for metrics. `overfull`: tenants beyond the bound exist and get no answer. */
  stats(): { readonly tenants: number; readonly keys: number; readonly overfull: boolean }
}

/** What a directory is made of. */
export interface DirectoryOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: TenantLog
  /** Longest wait between two looks, default 1 s. */
  readonly pollMs?: number
  /** Tenants held at most, default 100 000 (about 1 KB each). Those over it get no answer and an error is logged. */
  readonly tenantsMax?: number
  /** Rows per query, default 1 000. */
  readonly pageRows?: number
  /** Where the directory shows that it still looks. */
  readonly health?: Health
  /** A number in [0, 1), for the spread of waits after failures. */
  readonly random?: () => number
}

/** Waits after failed looks: never longer than Postgres may stay unnoticed once it is back. */
const failureWaits = { firstMs: 250, maxMs: 2_000 }

/** Share by which the wait between looks varies. */
const jitter = 0.1
/** A whole look, also the first one at 100 000 tenants; each of its queries has the pool's bound. */
const lookMsMax = 60_000

/** Makes a directory; reads nothing before `start`. The pool stays the caller's. */
export function createDirectory(options: DirectoryOptions): Directory {
  return new PolledDirectory(options)
}

class PolledDirectory implements Directory {
  readonly #options: DirectoryOptions
  readonly #pollMs: number
  readonly #tenantsMax: number
  readonly #pageRows: number
  #index: DirectoryIndex | undefined
  #version = 0
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #failures = 0
  #overfullLogged = false
  #stopped = false
  #loop: SupervisedLoop | undefined
  readonly #firstLook = Promise.withResolvers<void>()

  constructor(options: DirectoryOptions) {
    this.#options = options
    this.#pollMs = options.pollMs ?? 1_000
    this.#tenantsMax = options.tenantsMax ?? 100_000
    this.#pageRows = options.pageRows ?? 1_000
  }

  hasSnapshot(): boolean {
    return this.#index !== undefined
  }

  findKey(sha256Base64: string): FoundKey | undefined {
    return this.#index?.findKey(sha256Base64, this.#options.clock.now())
  }

  findTenantById(id: string): DirectoryTenant | undefined {
    return this.#index?.findTenantById(id)
  }

  findTenantBySlug(slug: string): DirectoryTenant | undefined {
    return this.#index?.findTenantBySlug(slug)
  }

  ageMs(now: number): number {
    return Math.max(0, now - this.#lookedAtMs)
  }

  notify(): void {
    this.#loop?.wake()
  }

  start(): Promise<void> {
    if (!this.#stopped) this.#loop ??= this.#startLoop()
    return this.#firstLook.promise
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#loop?.stop()
    this.#firstLook.resolve()
  }

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
      // With its jitter it is no longer than was promised.
      intervalMs: this.#pollMs / (1 + jitter),
      jitter,
      turnMsMax: lookMsMax,
      backoff: failureWaits,
      runOnce: (signal) => this.#lookOnce(signal),
      onError: (error, failures) => this.#onFailedLook(error, failures),
      ...(health && { health }),
      ...(random && { random }),
    })
  }

  async #lookOnce(signal: AbortSignal): Promise<void> {
    await this.#look(signal)
    this.#lookedAtMs = this.#options.clock.now()
    if (this.#failures > 0)
      this.#options.log.info({ failures: this.#failures }, 'tenant directory reads again')
    this.#failures = 0
    this.#firstLook.resolve()
  }

  #onFailedLook(error: unknown, failures: number): void {
    this.#failures = failures
    const fields = { ...errorFields(error), failures, hasSnapshot: this.hasSnapshot() }
    this.#options.log.warn(fields, 'tenant directory could not be read, answers stay as they were')
    this.#firstLook.resolve()
  }

  async #look(signal: AbortSignal): Promise<void> {
    const version = await readDirectoryVersion(this.#options.pool)
    const index = this.#index
    // A version that went back means a restored database. After an overflow, room for those left out needs a whole read.
    const again = index === undefined || version < this.#version || (index.overfull && this.#hasRoom(index))
    if (again) return this.#readSnapshot(version, signal)
    if (version !== this.#version) await this.#readChanges(index, this.#version, signal)
  }

  #hasRoom(index: DirectoryIndex): boolean {
    return index.tenantCount < this.#tenantsMax
  }

  /** Pages are not one snapshot, so the changes since `version` are read over them before the new index counts. */
  async #readSnapshot(version: number, signal: AbortSignal): Promise<void> {
    const index = new DirectoryIndex(this.#tenantsMax)
    let afterId = ''
    while (!index.overfull) {
      signal.throwIfAborted()
      const rows = await listDirectoryPage(this.#options.pool, afterId, this.#pageRows)
      for (const row of rows) index.put(row)
      afterId = rows.at(-1)?.id ?? afterId
      if (rows.length < this.#pageRows) break
    }
    await this.#readChanges(index, version, signal)
    this.#index = index
  }

  async #readChanges(index: DirectoryIndex, since: number, signal: AbortSignal): Promise<void> {
    let version = since
    let cursor = { version: since + 1, id: '' }
    for (;;) {
      signal.throwIfAborted()
      const rows = await listDirectoryChanges(this.#options.pool, cursor, this.#pageRows)
      for (const row of rows) index.put(row)
      const last = rows.at(-1)
      if (last !== undefined) {
        version = last.version
        cursor = { version, id: last.id }
      }
      if (rows.length < this.#pageRows) break
    }
    this.#version = version
    this.#reportOverflow(index)
  }

  #reportOverflow(index: DirectoryIndex): void {
    if (index.overfull && !this.#overfullLogged) {
      this.#options.log.error(
        { tenantsMax: this.#tenantsMax },
        'more tenants than the directory holds: those over the bound get no answer',
      )
    }
    this.#overfullLogged = index.overfull
  }
}
