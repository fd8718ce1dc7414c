import { type BackoffBounds, backoffMs, within } from '#internal/base/index.ts'
import { type Sleep, sleep } from '#internal/process/index.ts'
import { classifySqlError, type SqlFailure } from './postgres/sql-failure.ts'

/** Result of writing one row. `unavailable`: unknown whether it is stored; write it again later. */
export type RowResult<Result> =
  | { readonly kind: 'written'; readonly result: Result }
  | { readonly kind: 'rejected'; readonly failure: SqlFailure; readonly error: unknown }
  | { readonly kind: 'unavailable'; readonly error: unknown }

/** Statement of a batch, and the reactions to its failures. */
export interface RowWrite<Row, Result> {
  /** Writes all rows or none, and returns a result per row, in their order. Must be safe to repeat. */
  write(rows: readonly Row[]): Promise<readonly Result[]>
  /** Creates the partitions that rows need. Without it a missing one counts as unavailable. */
  createPartitions?(rows: readonly Row[]): Promise<unknown>
  /** Returns whether to write again after the store was unavailable, once it has waited. Default: no. */
  retry?(error: unknown): Promise<boolean>
}

/** Immediate attempts at one statement after deadlocks and for new partitions. */
const immediateTriesMax = 4

/**
 * Writes a batch of rows and returns each one's result, in their order. Retries deadlocks, creates missing partitions, and halves
 * a rejected batch until the rejected row stands alone: at most twice as many statements as rows. Never throws.
 */
export async function writeRows<Row, Result>(
  rows: readonly Row[],
  statement: RowWrite<Row, Result>,
): Promise<RowResult<Result>[]> {
  if (rows.length === 0) return []
  const attempt = await tryWrite(rows, statement)
  if (attempt.kind === 'written') return attempt.results.map((result) => ({ kind: 'written', result }))
  if (attempt.kind === 'unavailable' || rows.length === 1) return rows.map(() => attempt)
  const middle = Math.ceil(rows.length / 2)
  const first = await writeRows(rows.slice(0, middle), statement)
  const last = first.at(-1)
  const second = rows.slice(middle)
  // A store that just failed is not asked again for the second half.
  if (last?.kind === 'unavailable') return [...first, ...second.map(() => last)]
  return [...first, ...(await writeRows(second, statement))]
}

/**
 * Writes a batch of rows like `writeRows`. For rows that a buffer keeps until they are written.
 * @returns the rows that Postgres rejected
 * @throws the error of an unavailable store; write all rows again then
 */
export async function writeRowsOrThrow<Row>(
  rows: readonly Row[],
  statement: Omit<RowWrite<Row, void>, 'write'> & { write(rows: readonly Row[]): Promise<unknown> },
): Promise<{ readonly row: Row; readonly error: unknown }[]> {
  const write = async (part: readonly Row[]) => {
    await statement.write(part)
    return part
  }
  const results = await writeRows(rows, { ...statement, write })
  const rejected: { row: Row; error: unknown }[] = []
  for (const [at, result] of results.entries()) {
    const row = rows[at]
    if (result.kind === 'unavailable') throw result.error
    if (result.kind === 'rejected' && row !== undefined) rejected.push({ row, error: result.error })
  }
  return rejected
}

type Attempt<Result> =
  | { readonly kind: 'written'; readonly results: readonly Result[] }
  | Exclude<RowResult<Result>, { readonly kind: 'written' }>

async function tryWrite<Row, Result>(
  rows: readonly Row[],
  statement: RowWrite<Row, Result>,
): Promise<Attempt<Result>> {
  for (let tries = 1; ; tries += 1) {
    let failed: unknown
    try {
      return { kind: 'written', results: await statement.write(rows) }
    } catch (error) {
      failed = error
    }
    const failure = classifySqlError(failed)
    if (failure.kind === 'rejected') return { kind: 'rejected', failure, error: failed }
    if (tries < immediateTriesMax) {
      if (failure.kind === 'retry') continue
      if (failure.kind === 'partition_missing' && statement.createPartitions) {
        try {
          await statement.createPartitions(rows)
          continue
        } catch (error) {
          failed = error
        }
      }
    }
    if (!(await statement.retry?.(failed))) return { kind: 'unavailable', error: failed }
    tries = 0
  }
}

/** Bounds of retrying while a store is unavailable. */
export interface RetryBounds {
  readonly triesMax: number
  readonly waits: BackoffBounds
  /** Ends waiting and retrying. */
  readonly signal: AbortSignal
  onFailed(error: unknown): void
  readonly sleep?: Sleep
}

/** Makes a `retry` for `writeRows` with exponential backoff and jitter; one batch's halves share its tries. */
export function retryWithBackoff(bounds: RetryBounds): (error: unknown) => Promise<boolean> {
  let failures = 0
  return async (error) => {
    bounds.onFailed(error)
    await (bounds.sleep ?? sleep)(backoffMs(failures, bounds.waits, Math.random()), bounds.signal)
    failures += 1
    return failures < bounds.triesMax && !bounds.signal.aborted
  }
}

/** Size limits of a batch. */
export interface BatchBounds<Item> {
  readonly itemsMax: number
  /** Total of `bytesOf` over a batch; a larger item goes alone. Default unlimited. */
  readonly bytesMax?: number
  bytesOf?(item: Item): number
}

/** Removes a batch from the front of a queue: at least one item where there is any. */
export function takeBatch<Item>(queue: Item[], { itemsMax, bytesMax, bytesOf }: BatchBounds<Item>): Item[] {
  let count = Math.min(queue.length, itemsMax)
  if (bytesMax !== undefined && bytesOf) {
    let bytes = 0
    const over = queue.findIndex((item) => (bytes += bytesOf(item)) > bytesMax)
    if (over >= 0) count = Math.min(count, Math.max(1, over))
  }
  return queue.splice(0, count)
}

/** Configuration of a `BatchWriter`. */
export interface BatchWriterOptions<Item> extends BatchBounds<Item> {
  /**
   * Writes one batch and reports the items' results to their owners. Its slot is free once it has ended. Must not reject.
   * @param markLate called when the items' owners wait no longer: later items then do not wait for this batch
   */
  write(batch: Item[], markLate: () => void): Promise<void>
  /** Items that may wait; more are refused and counted. Default unlimited: the producers are bounded. */
  readonly waitingMax?: number
  /** Batches in flight; default 1. */
  readonly batchesMax?: number
  /** Waiting items at which a batch starts at once, beside those in flight; default never. */
  readonly parallelItems?: number
  /**
   * Time from the start of one batch to the start of the next, so that under load items share a statement's cost; an item at rest
   * goes at once. At least `leastMs`, else `share` times the duration of the last batch, at most `mostMs`. Default none.
   */
  readonly gather?: { readonly leastMs: number; readonly mostMs: number; readonly share: number }
  /** Starts batches in a microtask, so that items added in one tick share the first one. Default: at once. */
  readonly deferred?: boolean
  readonly now?: () => number
}

/** Gathers items into batches by count, bytes and time, with a bounded number of batches in flight. */
export class BatchWriter<Item> {
  readonly #options: BatchWriterOptions<Item>
  readonly #now: () => number
  #waiting: Item[] = []
  #itemsInFlight = 0
  #batches = 0
  #lateBatches = 0
  #startedAtMs = Number.NEGATIVE_INFINITY
  #gatherMs: number
  #timer: ReturnType<typeof setTimeout> | undefined
  #dropped = 0
  readonly #idle: (() => void)[] = []

  constructor(options: BatchWriterOptions<Item>) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    this.#gatherMs = options.gather?.leastMs ?? 0
  }

  /** Items that wait or are in flight. */
  get size(): number {
    return this.#waiting.length + this.#itemsInFlight
  }

  /** Items refused because the queue was full. */
  get dropped(): number {
    return this.#dropped
  }

  /** Adds an item; returns false, and counts it as dropped, when the queue is full. */
  add(item: Item): boolean {
    if (this.#waiting.length >= (this.#options.waitingMax ?? Number.POSITIVE_INFINITY)) {
      this.#dropped += 1
      return false
    }
    this.#waiting.push(item)
    if (!this.#options.deferred) this.#startNext()
    else if (this.#waiting.length === 1) queueMicrotask(() => this.#startNext())
    return true
  }

  /** Removes and returns all items that wait, such as those that must not wait for a store that has failed. */
  takeWaiting(): Item[] {
    return this.#waiting.splice(0)
  }

  /** Runs work in the slot of a batch; undefined when none is free. */
  tryInSlot<T>(work: () => Promise<T>): Promise<T> | undefined {
    if (this.#batches >= (this.#options.batchesMax ?? 1)) return undefined
    this.#batches += 1
    return work().finally(() => {
      this.#batches -= 1
      this.#startNext()
    })
  }

  /** Resolves once nothing waits and nothing is in flight, or after `msMax`. Repeating it is safe. */
  async drain(msMax: number): Promise<void> {
    if (this.size === 0) return
    const drained = new Promise<void>((resolve) => this.#idle.push(resolve))
    await within(msMax, drained, () => undefined)
  }

  #startNext(): void {
    const { batchesMax = 1, parallelItems = Number.POSITIVE_INFINITY } = this.#options
    if (this.#waiting.length === 0) {
      if (this.#itemsInFlight === 0) for (const resolve of this.#idle.splice(0)) resolve()
      return
    }
    if (this.#batches >= batchesMax) return
    if (this.#waiting.length >= parallelItems) return this.#start()
    if (this.#batches > this.#lateBatches) return
    const waitMs = this.#startedAtMs + this.#gatherMs - this.#now()
    if (waitMs <= 0) return this.#start()
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#startNext()
    }, waitMs)
  }

  #start(): void {
    const batch = takeBatch(this.#waiting, this.#options)
    this.#startedAtMs = this.#now()
    this.#batches += 1
    this.#itemsInFlight += batch.length
    void this.#run(batch, batch.length)
  }

  async #run(batch: Item[], count: number): Promise<void> {
    const startedAtMs = this.#now()
    let late = 0
    const markLate = () => {
      if (late === 0) this.#lateBatches += late = 1
    }
    try {
      await this.#options.write(batch, markLate)
    } finally {
      const { gather } = this.#options
      const tookMs = this.#now() - startedAtMs
      if (gather) this.#gatherMs = Math.min(gather.mostMs, Math.max(gather.leastMs, gather.share * tookMs))
      this.#lateBatches -= late
      this.#batches -= 1
      this.#itemsInFlight -= count
      this.#startNext()
    }
  }
}

/** Configuration of a `BufferedWriter`. */
export interface BufferedWriterOptions<Batch> {
  /** Removes the next batch from a bounded buffer; undefined when it is empty. */
  take(): Batch | undefined
  /** Writes a batch. Repeating it must be safe. @throws when the store is unavailable */
  write(batch: Batch): Promise<void>
}

/**
 * Writes a buffer when its owner's polling loop flushes it. Repeats a batch whose write failed, or whose result is unknown,
 * unchanged before any other.
 */
export class BufferedWriter<Batch> {
  readonly #options: BufferedWriterOptions<Batch>
  #pending: Batch | undefined

  constructor(options: BufferedWriterOptions<Batch>) {
    this.#options = options
  }

  /** Batch that was taken from the buffer and may be unwritten. */
  get pending(): Batch | undefined {
    return this.#pending
  }

  /** Writes at most `batchesMax` batches, one flush at a time. @throws what `write` throws */
  async flush(batchesMax: number): Promise<void> {
    for (let batches = 0; batches < batchesMax; batches += 1) {
      this.#pending ??= this.#options.take()
      if (this.#pending === undefined) return
      await this.#options.write(this.#pending)
      this.#pending = undefined
    }
  }
}
