import { and, eq, getTableColumns, gte, or, sql } from 'drizzle-orm'
import {
  type Clock,
  dayAfter,
  encodeBase32,
  expectPageLimit,
  pageOf,
  type TenantId,
} from '#internal/base/index.ts'
import type { RefusalCause } from '#internal/providers/index.ts'
import {
  BufferedWriter,
  ensurePartitions,
  orm,
  type Pool,
  purgeByPartition,
  writeRowsOrThrow,
} from '#internal/storage/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import { refusedCalls } from './tables.ts'

/** Causes of refusing a call for a known tenant, in addition to those of the adapters. A closed set, used as values of a metric label. */
export const refusedCauses = [
  'tenant_suspended',
  'provider_not_configured',
  'provider_not_enabled',
  'provider_unverified',
  'secrets_missing',
  'secrets_unreadable',
  'loop_detected',
  'provider_paused',
  'certificate_unavailable',
  'events_per_minute',
  'events_per_month',
] as const
/** Cause of refusing a call, from an adapter or from `refusedCauses`. */
export type RefusedCause = RefusalCause | (typeof refusedCauses)[number]

/** A refused call as recorded. Its tenant can see all fields. */
interface NotedCall {
  readonly id: string
  readonly atMs: number
  readonly tenantId: TenantId
  readonly days: number
  readonly provider: ProviderName
  readonly cause: RefusedCause
  readonly sourceAddress: string | null
  /** Headers as JSON text: an object whose values are strings. Credentials are removed. */
  readonly headers: string
  /** Start of the body if the signature failed, else null. */
  readonly sample: string | null
}

const perSecondMax = 10
const waitingMax = 1_000
const sampleBytesMax = 1_024
const tenantCausesMax = 10_000

/** Returns the start of a body as text, without NUL characters, which Postgres refuses. */
export function sampleOf(body: Uint8Array): string {
  return new TextDecoder().decode(body.subarray(0, sampleBytesMax)).replaceAll('\0', '\ufffd')
}

/** A byte order mark takes three bytes but is not part of the text. */
const byteOrderMarkBytes = 3

/** Returns whether the sample is certainly the whole body. Pure. */
export function isWholeSample(sample: string): boolean {
  return Buffer.byteLength(sample) < sampleBytesMax - byteOrderMarkBytes
}

/**
 * Buffers refused calls before they are written to Postgres: at most ten per second for each tenant and cause, and 1 000 waiting. All other
 * calls are counted as dropped.
 */
export class RefusedCalls {
  readonly #pool: Pool
  readonly #clock: Clock
  readonly #writer: BufferedWriter<NotedCall[]>
  readonly #waiting: NotedCall[] = []
  #second = 0
  readonly #noted = new Map<string, number>()
  #dropped = 0

  constructor(pool: Pool, clock: Clock) {
    this.#pool = pool
    this.#clock = clock
    this.#writer = new BufferedWriter({
      take: () => (this.#waiting.length > 0 ? this.#waiting.splice(0) : undefined),
      write: (calls) => this.#write(calls),
    })
  }

  /** Number of dropped calls since the process started. */
  get dropped(): number {
    return this.#dropped
  }

  /** Returns whether a further call can be recorded. If not, counts it as dropped. */
  hasRoom(tenantId: TenantId, cause: RefusedCause): boolean {
    const second = Math.floor(this.#clock.now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#noted.clear()
    }
    const key = `${tenantId} ${cause}`
    const count = this.#noted.get(key) ?? 0
    const waiting = this.#waiting.length + (this.#writer.pending?.length ?? 0)
    const full = waiting >= waitingMax || this.#noted.size >= tenantCausesMax
    if (count >= perSecondMax || full) {
      this.#dropped += 1
      return false
    }
    this.#noted.set(key, count + 1)
    return true
  }

  note(call: Omit<NotedCall, 'id' | 'atMs'>): void {
    const atMs = this.#clock.now()
    this.#waiting.push({ ...call, id: idOf(atMs, crypto.getRandomValues(new Uint8Array(idLength))), atMs })
  }

  /**
   * Writes all waiting calls in one statement. Drops and counts calls that Postgres rejects.
   * @throws errors of Postgres while it is unavailable; the next flush then writes the calls
   */
  async flush(): Promise<void> {
    // At most two batches: one that failed before, and the calls since then.
    await this.#writer.flush(2)
  }

  async #write(calls: readonly NotedCall[]): Promise<void> {
    const rejected = await writeRowsOrThrow(calls, {
      // Idempotent: a repeat conflicts with the ids that are already stored, and writes nothing.
      write: (part) => orm(this.#pool).insert(refusedCalls).values(part.map(rowOf)).onConflictDoNothing(),
      createPartitions: (part) => {
        const days = new Set(part.map(expiresOn))
        return ensurePartitions(
          this.#pool,
          Array.from(days, (day) => ({ table: 'refused_calls', day })),
        )
      },
    })
    this.#dropped += rejected.length
  }
}

const idLength = 16

/** Makes an id of the time and the bytes of `rest`, so that ids sort by time, as event ids do. Pure. */
function idOf(atMs: number, rest: Uint8Array): string {
  const bytes = Buffer.from(rest)
  bytes.writeUIntBE(atMs, 0, 6)
  return `ref_${encodeBase32(bytes)}`
}

const firstIdAt = (atMs: number) => idOf(atMs, new Uint8Array(idLength))

function expiresOn({ atMs, days }: NotedCall): string {
  return dayAfter(atMs, days)
}

function rowOf(call: NotedCall): typeof refusedCalls.$inferInsert {
  const { days: _days, atMs, ...columns } = call
  return { ...columns, expiresOn: expiresOn(call), refusedAt: new Date(atMs) }
}

/** Filter and position of a page of refused calls. */
export interface RefusedListRequest {
  /** Omit it for the calls to all tenants. */
  readonly tenantId?: TenantId
  readonly provider?: string
  readonly cause?: string
  /** From `fromMs`, and before `toMs`. Ids contain the time, so the range also bounds how many calls are examined. */
  readonly fromMs?: number
  readonly toMs?: number
  /** Cursor: `next` of the previous page. */
  readonly after?: string
  /** Maximum number of calls, 1 to 100. */
  readonly limit: number
}

/** Refused call as listed. */
export interface RefusedCallView {
  readonly id: string
  readonly tenantId: TenantId
  readonly provider: string
  readonly cause: string
  readonly refusedAtMs: number
  readonly sourceAddress: string | null
  /** Headers as JSON text: an object whose values are strings. Credentials are removed. */
  readonly headers: string
  /** Start of the body if the signature failed, else null. */
  readonly sample: string | null
}

/**
 * Page of refused calls, newest first. `next` is undefined on the last page. A short page with `next` reached its maximum of examined
 * calls.
 */
export interface RefusedPage {
  readonly calls: readonly RefusedCallView[]
  readonly next: string | undefined
}

/** Cursor of the first page. Pages run from newest to oldest, so it sorts after every id. */
const behindAll = 'ref_~'

/** Maximum examined calls per filtered page. */
const examinedMax = 1_000

/**
 * Lists refused calls of one tenant or of all, without expired calls. With a filter it examines at most 1 000 calls. Requires a pool with
 * `eventReadSettings`.
 * @throws RangeError for a limit outside 1 to 100; errors of Postgres
 */
export async function listRefusedCalls(
  pool: Pool,
  { tenantId, provider, cause, fromMs, toMs, after = behindAll, limit }: RefusedListRequest,
  nowMs: number,
): Promise<RefusedPage> {
  expectPageLimit(limit, 'calls')
  const db = orm(pool)
  // Uses the index over tenant and id in its order. The tenant is part of comparison and order, so that the planner chooses no other index.
  // The calls to all tenants are read in the order of the primary key.
  const key = sql`(${refusedCalls.tenantId}, ${refusedCalls.id})`
  const first = fromMs === undefined ? '' : firstIdAt(fromMs)
  const end = toMs === undefined ? behindAll : firstIdAt(toMs)
  const before = after < end ? after : end
  const isWithin =
    tenantId === undefined
      ? sql`${refusedCalls.id} >= ${first} AND ${refusedCalls.id} < ${before}`
      : sql`${key} >= (${tenantId}, ${first}) AND ${key} < (${tenantId}, ${before})`
  const isInRange = and(gte(refusedCalls.expiresOn, dayAfter(nowMs, 0)), isWithin)
  const order = tenantId === undefined ? sql`id DESC` : sql`tenant_id DESC, id DESC`
  if (provider === undefined && cause === undefined) {
    const calls = db
      .select()
      .from(refusedCalls)
      .where(isInRange)
      .orderBy(order)
      .limit(limit + 1)
    const { page, next } = pageOf(
      await calls.prepare(tenantId === undefined ? 'list_all_refused_calls' : 'list_refused_calls').execute(),
      limit,
    )
    return { calls: page.map(viewOf), next }
  }
  const nth = sql`row_number() OVER (ORDER BY ${order})`.mapWith(Number).as('nth')
  const examined = db
    .select({ ...getTableColumns(refusedCalls), nth })
    .from(refusedCalls)
    .where(isInRange)
    .orderBy(order)
    .limit(examinedMax)
    .as('examined')
  const isMatch = and(
    provider === undefined ? undefined : eq(examined.provider, provider),
    cause === undefined ? undefined : eq(examined.cause, cause),
  )
  // The last examined row is always returned, since its id is where the next page starts.
  const rows = await db
    .select({ ...examined._.selectedFields, isMatch: sql<boolean>`${isMatch}`.as('is_match') })
    .from(examined)
    .where(or(isMatch, eq(examined.nth, examinedMax)))
    .orderBy(order)
    .limit(limit + 1)
  const { page, next } = pageOf(rows, limit)
  const calls = page.filter((row) => row.isMatch).map(viewOf)
  return { calls, next: next ?? page.find((row) => row.nth === examinedMax)?.id }
}

function viewOf(row: typeof refusedCalls.$inferSelect): RefusedCallView {
  const { id, tenantId, provider, cause, refusedAt, sourceAddress, headers, sample } = row
  return { id, tenantId, provider, cause, refusedAtMs: refusedAt.getTime(), sourceAddress, headers, sample }
}

/** Removes a deleted tenant's refused calls. */
export const purgeRefusedCalls = purgeByPartition('refused_calls', 'id')
