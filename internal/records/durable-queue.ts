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

/** Maximum calls in progress per process. A tenant may use a quarter. */
const callsMax = 2000
const batchStepsMax = 128
const batchBytesMax = 4 * 1024 * 1024
const stepOverheadBytes = 512
/** Maximum concurrent transactions. The second one starts when `parallelSteps` steps wait. */
const writesMax = 2
const parallelSteps = 16
const readsMax = 2
/**
 * Number of parts (stripes) of a tenant's meters. Concurrent transactions use different stripes, so that none waits for another. A fence
 * modulo 16 is the stripe that granted it, or 15 for Redis.
 */
const stripes = 15
/** Maximum time for which a batch waits for new partitions. Leaves time to answer the other steps of the batch. */
const createMsMax = 500

interface QueuedStep extends Step {
  /** Set to undefined when the caller gives up, to free memory. */
  record?: string
  /** Deadline; 0 once the caller has given up, since its timer can fire a fraction of a millisecond before the deadline. */
  overAtMs: number
  readonly settle: (result: Result | Error) => void
}

interface QueuedRead extends Read {
  readonly overAtMs: number
  readonly settle: (found: FoundRecord | undefined | Error) => void
}

/** Shares transactions and reads among concurrent calls. Each call ends by its deadline with a committed result or an error. */
export class DurableQueue {
  readonly #options
  readonly #calls = new Shares(callsMax)
  readonly #steps: BatchWriter<QueuedStep>
  readonly #reads: BatchWriter<QueuedRead>
  #creating: Promise<unknown> | undefined
  readonly #freeStripes = shuffled(Array.from({ length: stripes }, (_, stripe) => stripe))

  constructor(options: {
    readonly pool: Pool
    /** Called for each committed step, also if its caller has given up. Must not throw. */
    readonly onCommitted: (address: RecordAddress, result: Result) => void
    /** Called for each failure of Postgres. Default: only the callers get the failures. */
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

  /** Reads a record, or only its size if it exceeds `bytesMax` bytes. `day`: its partition, if known. @throws RecordsUnavailable */
  find(address: RecordAddress, bytesMax: number, day: Day | null = null): Promise<FoundRecord | undefined> {
    return this.#inTime(address, (settle, overAtMs) => {
      this.#reads.add({ address, bytesMax, day, overAtMs, settle })
      return () => undefined
    })
  }

  /**
   * Waits for a result until the deadline of the call. `start` queues the work and returns the function to run at the deadline. The call
   * counts towards `callsMax` until its work leaves the queue (`give`), which bounds the queue while Postgres hangs.
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
    // Reports one failure per transaction, even if all its callers have given up.
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

  /** Runs steps on one connection, so that no step waits in the queue of the pool after the check of its deadline. */
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
    // Listens for error events of the connection in use: without a listener, one would be an uncaught exception.
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
      // Closes a connection on which a statement has failed, as `pool.query` does.
      client.release(broken)
      this.#freeStripes.push(stripe)
    }
  }

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

  /** Never throws: without a partition, only the steps that need it fail. One batch at a time creates partitions; others wait. */
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
    // Reads long records one after another, so that a batch of reads is bounded by its number of short records.
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
