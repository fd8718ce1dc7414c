import { type Day, Shares, type TenantId, within } from '#internal/base/index.ts'
import {
  BatchWriter,
  ensurePartitions,
  numberArrayParam,
  type Pool,
  type PoolClient,
  type PurgeStep,
  type RedisConnection,
  sqlErrorOf,
  textArrayParam,
  writeRows,
} from '#internal/storage/index.ts'
import {
  type LockLimitName,
  type LockLimits,
  type Meter,
  recordEntryId,
  recordEntryIds,
} from '#internal/usage/index.ts'
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
  RecordsElsewhere,
  RecordsUnavailable,
  type SaveInput,
  savedKeysMax,
  wakeChannel,
} from './store.ts'

/**
 * Settings of the sessions of `DurableRecordStore`. Sequential scans are off and plans generic, because a session keeps its plans: one that
 * suits a nearly empty table must not stay in use after the table has grown.
 */
export const durableSessionSettings = {
  jit: 'off',
  enable_seqscan: 'off',
  plan_cache_mode: 'force_generic_plan',
} as const

/** Options of `DurableRecordStore`. */
export interface DurableRecordStoreOptions {
  /** Connections of this store alone: more than `writesMax`, since partitions are created while a transaction has a connection. */
  readonly pool: Pool
  /** Publishes ends of locks for which callers wait. */
  readonly redis: Pick<RedisConnection, 'publish'>
  readonly meter: Pick<Meter, 'markUsed'>
  /** Called for each change of a lock, for the lock history. Default: changes are not recorded. */
  readonly note?: NoteLock
  /** Called with each failure of Postgres. Default: failures are only returned to the callers. */
  readonly onError?: (error: unknown) => void
}

/** Maximum concurrent calls per process; a tenant may use a quarter. */
const callsMax = 2000
/** Maximum steps and bytes of one transaction. */
const batchStepsMax = 128
const batchBytesMax = 4 * 1024 * 1024
/** Maximum concurrent transactions, and waiting steps that start the second one. */
const writesMax = 2
const parallelSteps = 16
const readsMax = 2
/**
 * Number of parts into which batches divide the meters of a tenant. Transactions that run at the same time use different parts, and give fences of
 * different remainders by 16, of which the last one is for Redis.
 */
const stripes = 15
/** Maximum bytes of a record that is read after memory was reserved: the largest body with its headers. */
const anyRecordBytes = 2_000_000_000
const stepOverheadBytes = 512
/** Maximum time in ms that a batch waits for partitions: long enough to create some, short enough for its other steps to be answered. */
const createMsMax = 500

const unlimited = Number.POSITIVE_INFINITY
/** Stands for null in a parameter. */
const none = -1

type StepKind = 'acquire' | 'save' | 'remove' | 'extend' | 'forget'

/** One step on one key, and the caller that waits for its result. */
interface Step {
  readonly kind: StepKind
  readonly address: RecordAddress
  readonly token: string
  readonly ttlMs: number
  readonly lockMs: number
  /** Fingerprint of an acquisition, or the record of a save. Emptied at the deadline, to free memory. */
  text: string
  readonly attemptId: string
  readonly waits: boolean
  readonly limits: LockLimits | undefined
  readonly inlineBytesMax: number
  readonly overAtMs: number
  readonly settle: (result: Result | Error) => void
}

/** Result of a step, in the order of the columns of `record_result`. */
type Result = readonly [
  kind: string,
  value: string | null,
  fence: number,
  ms: number,
  takenOver: boolean,
  atMs: number | null,
  endedFence: number | null,
  wake: boolean,
  expiresOn: Day | null,
  minuteLocks: number | null,
]

interface Read {
  readonly address: RecordAddress
  readonly bytesMax: number
  readonly overAtMs: number
  /** Partition of the record; null if it is not known. */
  readonly day: Day | null
  readonly settle: (row: FoundRecord | undefined | Error) => void
}

/** Row of a record: its fingerprint, bytes and, unless it is too long, the record itself. */
type FoundRecord = readonly [at: number, fingerprint: string, bytes: number, record: string | null]
/** Row of a read. Without a record, the generation says whether it may be elsewhere. */
type ReadRow = readonly [...(FoundRecord | [at: number, null, null, null]), generation: number | null]

const stepsText = `SELECT kind, value, fence, ms, taken_over, at_ms, ended_fence, wake, expires_on::text, minute_locks
FROM run_record_steps($1, $2::text[], $3::text[], $4::float8[], $5::text[], $6::text[], $7::float8[], $8::text[], $9::text[],
  $10::float8[], $11::float8[], $12::text[], $13::text[], $14::float8[], $15::float8[], $16::float8[], $17::float8[], $18::float8[], $19::float8[],
  $20::float8[], $21::float8[])`

/** Stands for the result of a step that was not run, whose caller has its error already. */
const notRun: Result = ['lost', null, 0, 0, false, null, null, false, null, null]

const readText = (ofPartition: string) => `
SELECT u.n - 1, e.fingerprint, octet_length(e.record), CASE WHEN octet_length(e.record) <= $3 THEN e.record END,
  CASE WHEN e.id IS NULL THEN (SELECT record_store_generation FROM tenants WHERE id = u.tenant_id) END
FROM unnest($1::text[], $2::text[], $4::text[]) WITH ORDINALITY AS u (id, tenant_id, day, n)
LEFT JOIN record_entries AS e ON e.id = u.id::uuid ${ofPartition}
  AND e.record IS NOT NULL AND e.expires_at > (SELECT record_clock() / 1000)`

const readAnywhere = { name: 'read_records', text: readText('') }
const readInPartition = { name: 'read_records_of_days', text: readText('AND e.expires_on = u.day::date') }

/**
 * Stores records and locks in Postgres. Every change is answered after its commit. Concurrent calls share transactions, and each
 * transaction is one call of `run_record_steps`.
 */
export class DurableRecordStore implements MovableRecordStore {
  readonly answers = new Shares(longBytesMax)
  readonly #options: DurableRecordStoreOptions
  readonly #calls = new Shares(callsMax)
  readonly #saved = new RecentKeys<Day>(savedKeysMax)
  readonly #steps: BatchWriter<Step>
  readonly #reads: BatchWriter<Read>
  #creating: Promise<unknown> | undefined
  readonly #freeStripes = shuffled(Array.from({ length: stripes }, (_, stripe) => stripe))

  constructor(options: DurableRecordStoreOptions) {
    this.#options = options
    const shared = { itemsMax: batchStepsMax, parallelItems: parallelSteps, deferred: true }
    this.#steps = new BatchWriter({
      ...shared,
      batchesMax: writesMax,
      bytesMax: batchBytesMax,
      bytesOf: (step) => stepOverheadBytes + step.text.length,
      write: (batch, markLate) => this.#write(batch, markLate),
    })
    this.#reads = new BatchWriter({ ...shared, batchesMax: readsMax, write: (batch) => this.#read(batch) })
  }

  /** Number of calls that wait for a transaction. */
  get pending(): number {
    return this.#calls.taken
  }

  async acquire(asked: AcquireInput): Promise<AcquireOutcome> {
    const input = withDeadline(asked)
    const entry = entryKey(input)
    const day = this.#saved.get(entry)
    if (day !== undefined) {
      const found = await this.#find(input, longRecordBytes, day)
      if (found && found[3] !== null) return replayOf(input, found[1], found[3])
      this.#saved.delete(entry)
    }
    return this.#acquireInRoom(input)
  }

  /** Reserves memory for a long record before it is read. */
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
    const result = await this.#run(input, {
      kind: 'acquire',
      token: input.lockToken,
      ttlMs: input.ttlMs,
      lockMs: input.lockMs,
      text: input.fingerprint,
      attemptId: input.attemptId,
      waits: input.waits,
      limits: input.limits,
      inlineBytesMax,
    })
    const [kind, value, fence, ms, takenOver, atMs, endedFence, , expiresOn] = result
    switch (kind) {
      case 'hit':
        if (expiresOn !== null && inlineBytesMax === longRecordBytes)
          this.#saved.set(entryKey(input), expiresOn)
        return { kind, record: value ?? '' }
      case 'long':
        return { kind, bytes: ms }
      case 'busy':
        return { kind, remainingMs: ms }
      case 'mismatch':
        return { kind }
      case 'limited':
        return { kind, limit: value as LockLimitName, retryAfterMs: ms }
      default:
        this.#options.meter.markUsed(input.tenantId)
        this.#noteLocked(input, { fence, heldMs: ms, reenteredAtMs: atMs, endedFence })
        return { kind: 'locked', lockToken: value ?? '', fence, expiresInMs: ms, takenOver }
    }
  }

  #noteLocked(
    address: RecordAddress,
    lock: { fence: number; heldMs: number; reenteredAtMs: number | null; endedFence: number | null },
  ): void {
    const { note } = this.#options
    const { fence, heldMs, reenteredAtMs, endedFence } = lock
    if (reenteredAtMs !== null)
      return note?.(address, { kind: 'extended', fence, atMs: reenteredAtMs, heldMs })
    note?.(address, { kind: 'acquired', fence, heldMs })
    if (endedFence !== null)
      note?.(address, { kind: 'taken_over', fence: endedFence, atMs: Math.floor(fence / 1000) })
  }

  /** Notes the end of a lock that is taken over in the current store. */
  #noteEnded(address: RecordAddress, [kind, , , , hasEnded, atMs, endedFence]: Result): void {
    if (kind === 'elsewhere' && hasEnded)
      this.#options.note?.(address, { kind: 'taken_over', fence: endedFence ?? 0, atMs: atMs ?? 0 })
  }

  async save(input: SaveInput): Promise<SaveOutcome> {
    const result = await this.#run(input, {
      kind: 'save',
      token: input.lockToken,
      ttlMs: input.ttlMs ?? none,
      lockMs: input.defaultTtlMs,
      text: input.record,
    })
    const [kind, , fence, , , atMs] = result
    if (kind === 'saved') {
      this.#options.meter.markUsed(input.tenantId)
      const status = statusOf(input.record)
      this.#options.note?.(input, { kind: 'completed', fence, atMs: atMs ?? 0, status })
      return { kind }
    }
    return { kind: kind === 'exists' ? 'exists' : 'lost' }
  }

  async fetch(asked: RecordAddress): Promise<FetchOutcome> {
    const address = withDeadline(asked)
    const found = await this.#find(address, longRecordBytes)
    if (!found) return { kind: 'none' }
    const [, , bytes, record] = found
    if (record !== null) return { kind: 'hit', record }
    if (!this.answers.take(bytes, address.tenantId)) return { kind: 'long', bytes }
    try {
      const whole = await this.#find(address, anyRecordBytes)
      return whole && whole[3] !== null ? { kind: 'hit', record: whole[3] } : { kind: 'none' }
    } finally {
      this.answers.give(bytes, address.tenantId)
    }
  }

  async remove(address: RecordAddress, lockToken: string): Promise<boolean> {
    const [, , fence, existed, , atMs] = await this.#run(address, { kind: 'remove', token: lockToken })
    if (existed === 1 && fence !== null)
      this.#options.note?.(address, { kind: 'released', fence, atMs: atMs ?? 0 })
    return existed === 1
  }

  async extend(address: RecordAddress, lockToken: string, lockMs: number | null): Promise<ExtendOutcome> {
    const step = { kind: 'extend', token: lockToken, lockMs: lockMs ?? none } as const
    const [kind, , fence, heldMs, , atMs] = await this.#run(address, step)
    if (kind !== 'extended') return { kind: 'lost' }
    this.#options.note?.(address, { kind, fence, atMs: atMs ?? 0, heldMs })
    return { kind, fence, expiresInMs: heldMs }
  }

  async forgetMark({ place, ...address }: RecordAddress, fence: number): Promise<void> {
    const at = { ...address, ...(place && { place: { ...place, fence } }) }
    await this.#run(at, { kind: 'forget', token: '' })
  }

  #run(
    address: RecordAddress,
    step: Pick<Step, 'kind' | 'token'> & Partial<Omit<Step, 'overAtMs' | 'settle'>>,
  ): Promise<Result> {
    return this.#inTime(address, (settle, overAtMs) => {
      const queued: Step = {
        ...{ ttlMs: none, lockMs: none, text: '', attemptId: '', waits: false, limits: undefined },
        ...{ inlineBytesMax: 0, overAtMs, settle, address },
        ...step,
      }
      this.#steps.add(queued)
      return () => {
        queued.text = ''
      }
    })
  }

  #find(address: RecordAddress, bytesMax: number, day: Day | null = null): Promise<FoundRecord | undefined> {
    return this.#inTime(address, (settle, overAtMs) => {
      this.#reads.add({ address, bytesMax, day, overAtMs, settle })
      return () => undefined
    })
  }

  /**
   * Waits for a result, until the deadline of the call. `start` queues the work and returns what to do at the deadline. The call counts until
   * its work leaves the queue, when `give` is called, so that the queue is bounded while Postgres hangs.
   */
  #inTime<T>(
    address: RecordAddress,
    start: (settle: (result: T | Error) => void, overAtMs: number) => () => void,
  ): Promise<T> {
    const { overAtMs = performance.now() + callMsMax } = address
    const leftMs = overAtMs - performance.now()
    if (leftMs <= 0) return Promise.reject(new RecordsUnavailable('timeout'))
    if (!this.#calls.take(1, address.tenantId)) return Promise.reject(new RecordsUnavailable('overloaded'))
    return new Promise<T>((resolve, reject) => {
      const settle = (result: T | Error) => {
        clearTimeout(timer)
        if (result instanceof Error) reject(result)
        else resolve(result)
      }
      const giveUp = start(settle, overAtMs)
      const timer = setTimeout(() => {
        giveUp()
        reject(new RecordsUnavailable('timeout'))
      }, leftMs)
    })
  }

  async #write(batch: readonly Step[], markLate: () => void): Promise<void> {
    const results = await this.#writeSteps(batch, markLate)
    for (const { address } of batch) this.#calls.give(1, address.tenantId)
    // One failure for all calls of a transaction, also if all their callers have given up.
    const failures = new Set<unknown>()
    for (const [at, result] of results.entries()) {
      const step = batch[at]
      if (!step) continue
      if (result.kind === 'written') {
        if (result.result[7]) this.#wake(step.address)
        this.#noteEnded(step.address, result.result)
        step.settle(refusalOf(result.result) ?? result.result)
      } else {
        failures.add(result.error)
        step.settle(new RecordsUnavailable('refused', result.error))
      }
    }
    for (const error of failures) this.#options.onError?.(error)
  }

  /** Runs steps on one connection, so that none waits in the queue of the pool after its deadline was looked at. */
  async #writeSteps(batch: readonly Step[], markLate: () => void) {
    let client: PoolClient
    try {
      client = await this.#options.pool.connect()
    } catch (error) {
      return batch.map(() => ({ kind: 'unavailable' as const, error }))
    }
    const stripe = this.#freeStripes.shift() ?? 0
    let createByMs: number | undefined
    let broken: Error | undefined
    // The pool does not listen to a connection in use, and without a listener an error event would become an uncaught exception.
    const onError = (error: Error) => {
      broken = error
    }
    client.on('error', onError)
    try {
      return await writeRows(batch, {
        write: (rows) =>
          this.#runInTime(client, stripe, rows).catch((error: unknown) => {
            broken = error instanceof Error ? error : new Error('a query failed', { cause: error })
            throw error
          }),
        createPartitions: (_steps, error) => {
          markLate()
          createByMs ??= performance.now() + createMsMax
          return this.#createPartitions(error, createByMs)
        },
      })
    } finally {
      client.off('error', onError)
      // As after `pool.query`, a connection on which a statement has failed is closed.
      client.release(broken)
      this.#freeStripes.push(stripe)
    }
  }

  /** Runs the steps whose deadline is not over. The callers of the others have received their error. */
  async #runInTime(client: PoolClient, stripe: number, steps: readonly Step[]): Promise<readonly Result[]> {
    const nowMs = performance.now()
    const live = steps.filter(({ overAtMs }) => overAtMs > nowMs)
    const results = live.length === 0 ? [] : await this.#runSteps(client, stripe, live)
    const byStep = new Map(live.map((step, at) => [step, results[at]]))
    return steps.map((step) => byStep.get(step) ?? notRun)
  }

  async #runSteps(client: PoolClient, stripe: number, steps: readonly Step[]): Promise<readonly Result[]> {
    const tenants = [...new Set(steps.map(({ address }) => address.tenantId))].sort()
    const tenantAt = new Map(tenants.map((tenant, at) => [tenant, at + 1]))
    const byEntry = new Map(steps.map(({ address }) => [entryKey(address), address]))
    // In ascending order of their ids, in which all transactions lock them.
    const keys = [...byEntry]
      .map(([entry, address]) => ({ entry, address, id: recordEntryId(address.tenantId, entry) }))
      .sort((one, other) => (one.id < other.id ? -1 : 1))
    const keyAt = new Map(keys.map(({ entry }, at) => [entry, at + 1]))
    const texts = (pick: (step: Step) => string) => textArrayParam(steps.map(pick))
    const numbers = (pick: (step: Step) => number) => numberArrayParam(steps.map(pick))
    const { rows } = await client.query<Result & unknown[]>({
      name: 'run_record_steps',
      text: stepsText,
      rowMode: 'array',
      values: [
        stripe,
        textArrayParam(tenants),
        textArrayParam(keys.map(({ id }) => id)),
        numberArrayParam(keys.map(({ address }) => tenantAt.get(address.tenantId) ?? 0)),
        textArrayParam(keys.map(({ address }) => address.scope)),
        textArrayParam(keys.map(({ address }) => address.key)),
        numbers(({ address }) => keyAt.get(entryKey(address)) ?? 0),
        texts(({ kind }) => kind),
        // A text in Postgres cannot contain NUL, and no lock has a token with it or with its replacement.
        texts(({ token }) => token.replaceAll('\0', '\u{FFFD}')),
        numbers(({ ttlMs }) => ttlMs),
        numbers(({ lockMs }) => lockMs),
        texts(({ text }) => text),
        texts(({ attemptId }) => attemptId),
        numbers(({ waits }) => (waits ? 1 : 0)),
        numbers(({ limits }) => limits?.locksPerMinute ?? unlimited),
        numbers(({ limits }) => limits?.locksPerMonth ?? unlimited),
        numbers(({ limits }) => limits?.recordBytes ?? unlimited),
        numbers(({ inlineBytesMax }) => inlineBytesMax),
        numbers(({ address }) => address.place?.generation ?? 0),
        numbers(({ address }) => address.place?.fence ?? none),
        numbers(({ address }) => (address.place?.isTakeover ? 1 : 0)),
      ],
    })
    return rows
  }

  /**
   * Creates the partitions that a batch misses. Never throws, so that a step whose partition cannot be created fails alone. One batch at a time
   * creates partitions, for which the others wait, too.
   */
  async #createPartitions(missing: unknown, createByMs: number): Promise<void> {
    const leftMs = createByMs - performance.now()
    if (leftMs <= 0) return
    // See `run_record_steps`.
    const days = sqlErrorOf(missing)?.detail?.split(' ') ?? []
    const wanted = days.map((day) => ({ table: 'record_entries' as const, day }))
    this.#creating ??= ensurePartitions(this.#options.pool, wanted)
      .catch((error: unknown) => this.#options.onError?.(error))
      .finally(() => {
        this.#creating = undefined
      })
    await within(leftMs, this.#creating, () => undefined)
  }

  /** Wakes callers that wait for the key. If Redis is unavailable, they find the end of the lock by polling. */
  #wake(address: RecordAddress): void {
    this.#options.redis.publish(wakeChannel(address.tenantId), entryKey(address)).catch(() => undefined)
  }

  async #read(batch: readonly Read[]): Promise<void> {
    const nowMs = performance.now()
    const live = batch.filter(({ overAtMs }) => overAtMs > nowMs)
    const short = live.filter(isShort)
    await this.#readTogether(short.filter(({ day }) => day !== null))
    await this.#readTogether(short.filter(({ day }) => day === null))
    // Long records are read one after another, so that a batch of reads is bounded by its number of short records.
    for (const long of live.filter((read) => !isShort(read))) await this.#readTogether([long])
    for (const { address } of batch) this.#calls.give(1, address.tenantId)
  }

  async #readTogether(reads: readonly Read[]): Promise<void> {
    const [first] = reads
    if (!first) return
    try {
      const { rows } = await this.#options.pool.query<ReadRow & unknown[]>({
        ...(first.day === null ? readAnywhere : readInPartition),
        rowMode: 'array',
        values: [
          textArrayParam(reads.map(({ address }) => recordEntryId(address.tenantId, entryKey(address)))),
          textArrayParam(reads.map(({ address }) => address.tenantId)),
          first.bytesMax,
          textArrayParam(reads.map(({ day }) => day)),
        ],
      })
      const found = new Map(rows.map((row) => [row[0], row]))
      for (const [at, { address, settle }] of reads.entries()) settle(recordIn(found.get(at), address))
    } catch (error) {
      this.#options.onError?.(error)
      for (const { settle } of reads) settle(new RecordsUnavailable('refused', error))
    }
  }
}

/** Returns the last fence that a tenant's records in Postgres got, or 0. */
export async function findLastFence(pool: Pool, tenantId: TenantId): Promise<number> {
  const { rows } = await pool.query<{ fence: number }>({
    name: 'find_last_fence',
    text: 'SELECT coalesce(max(fence), 0) AS fence FROM record_meters WHERE tenant_id = $1',
    values: [tenantId],
  })
  return rows[0]?.fence ?? 0
}

function isShort({ bytesMax }: Read): boolean {
  return bytesMax <= longRecordBytes
}

/** Returns the address with the deadline of a call that may need several steps. */
function withDeadline<Address extends RecordAddress>(address: Address): Address {
  return address.overAtMs === undefined ? { ...address, overAtMs: performance.now() + callMsMax } : address
}

/** Returns the error for a step that changed nothing because the tenant's records have moved. */
function refusalOf(result: Result): Error | undefined {
  const [kind, fingerprint, fence, bytes, , , markFence, , , minuteLocks] = result
  if (kind === 'moved') return new RecordsUnavailable('moved')
  if (kind !== 'elsewhere') return undefined
  const mark = markFence !== null && { fence: markFence, fingerprint: fingerprint ?? '' }
  return new RecordsElsewhere({ fence, bytes, minuteLocks: minuteLocks ?? 0, ...(mark && { mark }) })
}

/** Returns the record of a read, or the error if the caller's view of where the tenant's records are is old. */
function recordIn(row: ReadRow | undefined, { place }: RecordAddress): FoundRecord | undefined | Error {
  const [at, fingerprint, bytes, record, generation] = row ?? []
  if (at !== undefined && typeof fingerprint === 'string')
    return [at, fingerprint, bytes ?? 0, record ?? null]
  return generation === (place?.generation ?? 0) ? undefined : new RecordsUnavailable('moved')
}

function replayOf({ fingerprint }: AcquireInput, saved: string, record: string): AcquireOutcome {
  return fingerprint !== '' && saved !== '' && saved !== fingerprint
    ? { kind: 'mismatch' }
    : { kind: 'hit', record }
}

function shuffled(values: number[]): number[] {
  return values
    .map((value) => ({ value, rank: Math.random() }))
    .sort((one, other) => one.rank - other.rank)
    .map(({ value }) => value)
}

/** Maximum bytes of records that one batch of a purge removes. */
const purgeBytesMax = 64 * 1024 * 1024

/** Purges records and locks of a deleted tenant in Postgres. Finds them through the primary key, whose first bytes are the tenant's. */
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
