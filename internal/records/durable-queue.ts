import { type Day, Shares, within } from '#internal/base/index.ts'
import {
  BatchWriter,
  ensurePartitions,
  missingRecordPartitions,
  type Pool,
  type PoolClient,
  writeRows,
} from '#internal/storage/index.ts'
import {
  type FoundRecord,
  type Read,
  type Result,
  readRecords,
  refusalOf,
  runSteps,
  type Step,
} from './durable-steps.ts'
import type { RecordAddress } from './record.ts'
import { longRecordBytes } from './scripts.ts'
import { callMsMax, RecordsUnavailable } from './store.ts'

/** Maximum concurrent calls per process; a tenant may use a quarter. */
const callsMax = 2000
/** Maximum steps and bytes of one transaction. */
const batchStepsMax = 128
const batchBytesMax = 4 * 1024 * 1024
const stepOverheadBytes = 512
/** Maximum concurrent transactions, and waiting steps that start the second one. */
const writesMax = 2
const parallelSteps = 16
const readsMax = 2
/**
 * Number of parts into which batches divide the meters of a tenant. Transactions that run at the same time use different parts, and give fences of
 * different remainders by 16, of which the last one is for Redis.
 */
const stripes = 15
/** Maximum time in ms that a batch waits for partitions: long enough to create some, short enough for its other steps to be answered. */
const createMsMax = 500

/** Step, and the caller that waits for its result. */
interface QueuedStep extends Step {
  /** Emptied when the caller gives up, to free memory. */
  record?: string
  /** 0 when the caller has given up: its timer can fire a part of a millisecond early. */
  overAtMs: number
  readonly settle: (result: Result | Error) => void
}

/** Read, and the caller that waits for it. */
interface QueuedRead extends Read {
  readonly overAtMs: number
  readonly settle: (found: FoundRecord | undefined | Error) => void
}

/**
 * Queue of calls to records in Postgres. Concurrent calls share transactions and reads. Each call ends by its deadline with a result, which
 * is committed, or with an error.
 */
export class DurableQueue {
  readonly #options
  readonly #calls = new Shares(callsMax)
  readonly #steps: BatchWriter<QueuedStep>
  readonly #reads: BatchWriter<QueuedRead>
  #creating: Promise<unknown> | undefined
  readonly #freeStripes = shuffled(Array.from({ length: stripes }, (_, stripe) => stripe))

  constructor(options: {
    readonly pool: Pool
    /** Called with the result of each committed step, also if its caller has given up. Must not throw. */
    readonly onCommitted: (address: RecordAddress, result: Result) => void
    /** Called with each failure of Postgres. Default: failures are only returned to the callers. */
    readonly onError?: (error: unknown) => void
  }) {
    this.#options = options
    const shared = { itemsMax: batchStepsMax, parallelItems: parallelSteps, deferred: 'microtask' as const }
    this.#steps = new BatchWriter({
      ...shared,
      batchesMax: writesMax,
      bytesMax: batchBytesMax,
      bytesOf: (step) => stepOverheadBytes + (step.record?.length ?? 0),
      write: (batch, markLate) => this.#write(batch, markLate),
    })
    this.#reads = new BatchWriter({ ...shared, batchesMax: readsMax, write: (batch) => this.#read(batch) })
  }

  /** Number of calls that wait for a transaction. */
  get pending(): number {
    return this.#calls.taken
  }

  /** Runs a step. @throws RecordsUnavailable or RecordsElsewhere */
  run(address: RecordAddress, step: Omit<Step, 'address'>): Promise<Result> {
    return this.#inTime(address, (settle, overAtMs) => {
      const queued: QueuedStep = { ...step, address, overAtMs, settle }
      this.#steps.add(queued)
      return () => {
        queued.record = ''
        queued.overAtMs = 0
      }
    })
  }

  /** Reads a record of at most `bytesMax` bytes, or its size. `day`: its partition, if it is known. @throws RecordsUnavailable */
  find(address: RecordAddress, bytesMax: number, day: Day | null = null): Promise<FoundRecord | undefined> {
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

  async #write(batch: readonly QueuedStep[], markLate: () => void): Promise<void> {
    const results = await this.#writeSteps(batch, markLate)
    for (const { address } of batch) this.#calls.give(1, address.tenantId)
    // One failure for all calls of a transaction, also if all their callers have given up.
    const failures = new Set<unknown>()
    for (const [at, result] of results.entries()) {
      const step = batch[at]
      if (!step) continue
      if (result.kind === 'written') {
        const { result: committed } = result
        if (committed) this.#options.onCommitted(step.address, committed)
        step.settle(committed ? (refusalOf(committed) ?? committed) : new RecordsUnavailable('timeout'))
      } else {
        failures.add(result.error)
        step.settle(new RecordsUnavailable('refused', result.error))
      }
    }
    for (const error of failures) this.#options.onError?.(error)
  }

  /** Runs steps on one connection, so that none waits in the queue of the pool after its deadline was looked at. */
  async #writeSteps(batch: readonly QueuedStep[], markLate: () => void) {
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

  /** Runs the steps whose deadline is not over, and returns undefined for the others. */
  async #runInTime(
    client: PoolClient,
    stripe: number,
    steps: readonly QueuedStep[],
  ): Promise<readonly (Result | undefined)[]> {
    const nowMs = performance.now()
    const live = steps.filter(({ overAtMs }) => overAtMs > nowMs)
    const results = live.length === 0 ? [] : await runSteps(client, stripe, live)
    const byStep = new Map(live.map((step, at) => [step, results[at]]))
    return steps.map((step) => byStep.get(step))
  }

  /**
   * Creates the partitions that a batch misses. Never throws, so that a step whose partition cannot be created fails alone. One batch at a time
   * creates partitions, for which the others wait, too.
   */
  async #createPartitions(missing: unknown, createByMs: number): Promise<void> {
    const leftMs = createByMs - performance.now()
    if (leftMs <= 0) return
    this.#creating ??= ensurePartitions(this.#options.pool, missingRecordPartitions(missing))
      .catch((error: unknown) => this.#options.onError?.(error))
      .finally(() => {
        this.#creating = undefined
      })
    await within(leftMs, this.#creating, () => undefined)
  }

  async #read(batch: readonly QueuedRead[]): Promise<void> {
    const nowMs = performance.now()
    const live = batch.filter(({ overAtMs }) => overAtMs > nowMs)
    const short = live.filter(isShort)
    await this.#readTogether(short.filter(({ day }) => day !== null))
    await this.#readTogether(short.filter(({ day }) => day === null))
    // Long records are read one after another, so that a batch of reads is bounded by its number of short records.
    for (const long of live.filter((read) => !isShort(read))) await this.#readTogether([long])
    for (const { address } of batch) this.#calls.give(1, address.tenantId)
  }

  async #readTogether(reads: readonly QueuedRead[]): Promise<void> {
    try {
      const found = await readRecords(this.#options.pool, reads)
      for (const [at, { settle }] of reads.entries()) settle(found[at])
    } catch (error) {
      this.#options.onError?.(error)
      for (const { settle } of reads) settle(new RecordsUnavailable('refused', error))
    }
  }
}

function isShort({ bytesMax }: Read): boolean {
  return bytesMax <= longRecordBytes
}

function shuffled(values: number[]): number[] {
  return values
    .map((value) => ({ value, rank: Math.random() }))
    .sort((one, other) => one.rank - other.rank)
    .map(({ value }) => value)
}
