import { type Day, Shares, type TenantId } from '#internal/base/index.ts'
import type { Pool, PurgeStep, RedisConnection } from '#internal/storage/index.ts'
import { type Meter, recordEntryIds } from '#internal/usage/index.ts'
import { DurableQueue } from './durable-queue.ts'
import type { Result } from './durable-steps.ts'
import type { NoteLock } from './lock-history.ts'
import {
  type AcquireOutcome,
  type ExtendOutcome,
  type FetchOutcome,
  type RecordAddress,
  type SaveOutcome,
  statusOf,
} from './record.ts'
import { longRecordBytes } from './scripts.ts'
import {
  type AcquireInput,
  callMsMax,
  entryKey,
  longBytesMax,
  type MovableRecordStore,
  RecentKeys,
  type SaveInput,
  savedKeysMax,
  wakeChannel,
} from './store.ts'

/**
 * Session settings for `DurableRecordStore`: generic plans without sequential scans. A session keeps its plans, and a plan for a nearly
 * empty table must not stay in use after the table has grown.
 */
export const durableSessionSettings = {
  jit: 'off',
  enable_seqscan: 'off',
  plan_cache_mode: 'force_generic_plan',
} as const

/** Above the size of any record. Used as maximum once memory for the record has been reserved. */
const anyRecordBytes = 2_000_000_000

/** Stores records and locks in Postgres. Returns only after a change is committed. Concurrent calls share transactions. */
export class DurableRecordStore implements MovableRecordStore {
  readonly answers = new Shares(longBytesMax)
  readonly #options
  readonly #queue: DurableQueue
  readonly #saved = new RecentKeys<Day>(savedKeysMax)

  constructor(options: {
    /** Pool of this store only, with more than two connections: two concurrent transactions keep theirs while partitions are created. */
    readonly pool: Pool
    /** Publishes ends of locks for which callers wait. */
    readonly redis: Pick<RedisConnection, 'publish'>
    readonly meter: Pick<Meter, 'markUsed'>
    /** Called for each change of a lock. Default: no lock history. */
    readonly note?: NoteLock
    /** Called for each failure of Postgres. Default: only the callers get the failures. */
    readonly onError?: (error: unknown) => void
  }) {
    this.#options = options
    const { pool, onError } = options
    const onCommitted = (address: RecordAddress, result: Result) => this.#announce(address, result)
    this.#queue = new DurableQueue({ pool, onCommitted, ...(onError && { onError }) })
  }

  get pending(): number {
    return this.#queue.pending
  }

  async acquire(asked: AcquireInput): Promise<AcquireOutcome> {
    const input = withDeadline(asked)
    const entry = entryKey(input)
    const day = this.#saved.get(entry)
    if (day !== undefined) {
      const found = await this.#queue.find(input, longRecordBytes, day)
      if (found && found[3] !== null) return replayOf(input, found[1], found[3])
      this.#saved.delete(entry)
    }
    return this.#acquireInRoom(input)
  }

  async #acquireInRoom(input: AcquireInput): Promise<AcquireOutcome> {
    const outcome = await this.#acquire(input, input.long === 'whole' ? anyRecordBytes : longRecordBytes)
    if (outcome.kind !== 'long' || input.long === 'sized') return outcome
    if (!this.answers.take(outcome.bytes, input.tenantId)) return outcome
    try {
      return await this.#acquire(input, anyRecordBytes)
    } finally {
      this.answers.give(outcome.bytes, input.tenantId)
    }
  }

  async #acquire(input: AcquireInput, inlineBytesMax: number): Promise<AcquireOutcome> {
    const result = await this.#queue.run(input, {
      kind: 'acquire',
      token: input.lockToken,
      ttlMs: input.ttlMs,
      lockMs: input.lockMs,
      fingerprint: input.fingerprint,
      attemptId: input.attemptId,
      waits: input.waits,
      limits: input.limits,
      inlineBytesMax,
    })
    const outcome = acquiredOf(result)
    if (outcome.kind === 'locked') {
      this.#options.meter.markUsed(input.tenantId)
      this.#noteLocked(input, outcome, result)
    }
    if (outcome.kind === 'hit' && result.expiresOn !== null && inlineBytesMax === longRecordBytes)
      this.#saved.set(entryKey(input), result.expiresOn)
    return outcome
  }

  #noteLocked(
    address: RecordAddress,
    { fence, expiresInMs: heldMs }: Extract<AcquireOutcome, { kind: 'locked' }>,
    { isReentry, atMs, endedFence }: Result,
  ): void {
    const { note } = this.#options
    if (isReentry) return note?.(address, { kind: 'extended', fence, atMs, heldMs })
    note?.(address, { kind: 'acquired', fence, heldMs })
    if (endedFence !== null)
      note?.(address, { kind: 'taken_over', fence: endedFence, atMs: Math.floor(fence / 1000) })
  }

  async save(input: SaveInput): Promise<SaveOutcome> {
    const { kind, fence, atMs } = await this.#queue.run(input, {
      kind: 'save',
      token: input.lockToken,
      ttlMs: input.ttlMs,
      defaultTtlMs: input.defaultTtlMs,
      record: input.record,
    })
    if (kind === 'saved') {
      this.#options.meter.markUsed(input.tenantId)
      const status = statusOf(input.record)
      this.#options.note?.(input, { kind: 'completed', fence: fence ?? 0, atMs, status })
      return { kind }
    }
    return { kind: kind === 'exists' ? 'exists' : 'lost' }
  }

  async fetch(asked: RecordAddress): Promise<FetchOutcome> {
    const address = withDeadline(asked)
    const found = await this.#queue.find(address, longRecordBytes)
    if (!found) return { kind: 'none' }
    const [, , bytes, record] = found
    if (record !== null) return { kind: 'hit', record }
    if (!this.answers.take(bytes, address.tenantId)) return { kind: 'long', bytes }
    try {
      const whole = await this.#queue.find(address, anyRecordBytes)
      return whole && whole[3] !== null ? { kind: 'hit', record: whole[3] } : { kind: 'none' }
    } finally {
      this.answers.give(bytes, address.tenantId)
    }
  }

  async remove(address: RecordAddress, lockToken: string): Promise<boolean> {
    const step = { kind: 'remove', token: lockToken } as const
    const { isWritten, fence, atMs } = await this.#queue.run(address, step)
    if (isWritten && fence !== null) this.#options.note?.(address, { kind: 'released', fence, atMs })
    return isWritten
  }

  async extend(address: RecordAddress, lockToken: string, lockMs: number | null): Promise<ExtendOutcome> {
    const step = { kind: 'extend', token: lockToken, lockMs } as const
    const { kind, fence, remainingMs, atMs } = await this.#queue.run(address, step)
    if (kind !== 'extended' || fence === null || remainingMs === null) return { kind: 'lost' }
    this.#options.note?.(address, { kind, fence, atMs, heldMs: remainingMs })
    return { kind, fence, expiresInMs: remainingMs }
  }

  async forgetMark(address: RecordAddress, fence: number): Promise<void> {
    await this.#queue.run(address, { kind: 'forget', token: '', markFence: fence })
  }

  /** Announces the end of a lock to callers that wait for it, and to the lock history if the other store takes the lock over. */
  #announce(address: RecordAddress, { kind, wake, endedFence, atMs }: Result): void {
    // If Redis is unavailable, waiting callers find the end of the lock by polling.
    if (wake)
      this.#options.redis.publish(wakeChannel(address.tenantId), entryKey(address)).catch(() => undefined)
    if (kind === 'elsewhere' && endedFence !== null)
      this.#options.note?.(address, { kind: 'taken_over', fence: endedFence, atMs })
  }
}

/** Returns the last fence of a tenant in Postgres; 0 if there is none. */
export async function findLastFence(pool: Pool, tenantId: TenantId): Promise<number> {
  const { rows } = await pool.query<{ fence: number }>({
    name: 'find_last_fence',
    text: 'SELECT coalesce(max(fence), 0) AS fence FROM record_meters WHERE tenant_id = $1',
    values: [tenantId],
  })
  return rows[0]?.fence ?? 0
}

function withDeadline<Address extends RecordAddress>(address: Address): Address {
  return address.overAtMs === undefined ? { ...address, overAtMs: performance.now() + callMsMax } : address
}

function acquiredOf(result: Result): AcquireOutcome {
  const { kind, record, recordBytes, token, fence, takenOver, remainingMs, limitName, retryMs } = result
  if (kind === 'hit' && record !== null) return { kind, record }
  if (kind === 'long' && recordBytes !== null) return { kind, bytes: recordBytes }
  if (kind === 'busy' && remainingMs !== null) return { kind, remainingMs }
  if (kind === 'mismatch') return { kind }
  if (kind === 'limited' && limitName !== null) return { kind, limit: limitName, retryAfterMs: retryMs ?? 0 }
  if (kind === 'locked' && token !== null && fence !== null)
    return { kind, lockToken: token, fence, expiresInMs: remainingMs ?? 0, takenOver: takenOver === true }
  throw new Error(`unknown result of an acquisition: ${kind}`)
}

function replayOf({ fingerprint }: AcquireInput, saved: string, record: string): AcquireOutcome {
  return fingerprint !== '' && saved !== '' && saved !== fingerprint
    ? { kind: 'mismatch' }
    : { kind: 'hit', record }
}

/** Maximum bytes per batch of a purge. */
const purgeBytesMax = 64 * 1024 * 1024

/** Purges records and locks of a deleted tenant through the primary key, whose first bytes identify the tenant. */
export const purgeRecords: PurgeStep = async (pool, id, rowsMax) => {
  const { rows } = await pool.query<{ id: string; day: Day }>({
    name: 'records-find-purged',
    text: `SELECT id, day FROM (
             SELECT id, expires_on::text AS day, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - bytes AS bytes_before FROM (
               SELECT id, expires_on, bytes FROM record_entries
               WHERE id BETWEEN $1::uuid AND $2::uuid AND tenant_id = $3 ORDER BY id LIMIT $4
             ) AS first
           ) AS entries WHERE bytes_before < $5`,
    values: [...recordEntryIds(id), id, rowsMax, purgeBytesMax],
  })
  for (const [day, ofDay] of Map.groupBy(rows, (row) => row.day))
    await pool.query(
      'DELETE FROM record_entries WHERE expires_on = $1::date AND id = ANY($2) AND tenant_id = $3',
      [day, ofDay.map((row) => row.id), id],
    )
  return rows.length
}
