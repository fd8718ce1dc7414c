import { type BackoffBounds, backoffMs, within } from '#internal/base/index.ts'
import { type Sleep, sleep } from '#internal/process/index.ts'
import { classifySqlError, type SqlFailure } from './postgres/sql-failure.ts'

/** `unavailable`: it is unknown whether the row is stored, so the caller must write it again later. */
type RowResult<Result> =
  | { readonly kind: 'written'; readonly result: Result }
  | { readonly kind: 'rejected'; readonly failure: SqlFailure; readonly error: unknown }
  | { readonly kind: 'unavailable'; readonly error: unknown }

export interface RowWrite<Row, Result> {
  /** Writes all rows or none. Returns results in the order of the rows. Must be safe to repeat. */
  write(rows: readonly Row[]): Promise<readonly Result[]>
  /**
   * Creates the partitions that `error` reported as missing. Rows whose partition is still missing afterwards are `unavailable`, as are all
   * rows without a partition if this callback is absent; others are written. If the callback throws, all rows are `unavailable`.
   */
  createPartitions?(rows: readonly Row[], error: unknown): Promise<unknown>
  /** Waits after a failure of the store, and returns whether to repeat the write. Default: no repetition. */
  retry?(error: unknown): Promise<boolean>
}

/** Maximum attempts in a row without a wait: a deadlock, and the creation of a missing partition, lead to another attempt. */
const immediateTriesMax = 4

/**
 * Writes a batch and returns results in the order of the rows. Retries after deadlocks and creates missing partitions. To find rows that
 * are rejected, or whose partitions stay missing, halves the batch repeatedly: at most 2n − 1 parts for n rows. Tries each part up to four
 * times in a row, and again while `retry` returns true. Never throws.
 */
export async function writeRows<Row, Result>(
  rows: readonly Row[],
  statement: RowWrite<Row, Result>,
): Promise<RowResult<Result>[]> {
  const results = await writeParts(rows, statement)
  return results.map((result) =>
    result.kind === 'partition_missing' ? { kind: 'unavailable', error: result.error } : result,
  )
}

type PartResult<Result> = RowResult<Result> | { readonly kind: 'partition_missing'; readonly error: unknown }

async function writeParts<Row, Result>(
  rows: readonly Row[],
  statement: RowWrite<Row, Result>,
): Promise<PartResult<Result>[]> {
  if (rows.length === 0) return []
  const attempt = await tryWrite(rows, statement)
  if (attempt.kind === 'written') return attempt.results.map((result) => ({ kind: 'written', result }))
  if (attempt.kind === 'unavailable' || rows.length === 1) return rows.map(() => attempt)
  const { createPartitions: _, ...rest } = statement
  // If partitions are still missing after their creation, the two halves of the batch do not try to create them again.
  const ofPart = attempt.kind === 'rejected' ? statement : rest
  const middle = Math.ceil(rows.length / 2)
  const first = await writeParts(rows.slice(0, middle), ofPart)
  const last = first.at(-1)
  const second = rows.slice(middle)
  // If the store failed on the first half, the second half is not sent.
  if (last?.kind === 'unavailable') return [...first, ...second.map(() => last)]
  return [...first, ...(await writeParts(second, ofPart))]
}

/**
 * Writes a batch like `writeRows`, for callers that keep the rows in a buffer until they are written. Returns the rejected rows.
 * @throws the error of an unavailable store; the caller must then write all rows again
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

async function tryWrite<Row, Result>(
  rows: readonly Row[],
  statement: RowWrite<Row, Result>,
): Promise<
  | { readonly kind: 'written'; readonly results: readonly Result[] }
  | Exclude<PartResult<Result>, { readonly kind: 'written' }>
> {
  for (let tries = 1; ; tries += 1) {
    let failed: unknown
    try {
      return { kind: 'written', results: await statement.write(rows) }
    } catch (error) {
      failed = error
    }
    const failure = classifySqlError(failed)
    if (failure.kind === 'rejected') return { kind: 'rejected', failure, error: failed }
    let { kind } = failure
    if (tries < immediateTriesMax) {
      if (kind === 'retry') continue
      if (kind === 'partition_missing' && statement.createPartitions) {
        try {
          await statement.createPartitions(rows, failed)
          continue
        } catch (error) {
          failed = error
          kind = 'unavailable'
        }
      }
    }
    if (!(await statement.retry?.(failed)))
      return { kind: kind === 'partition_missing' ? kind : 'unavailable', error: failed }
    tries = 0
  }
}

/** Creates a `retry` callback with exponential backoff and jitter. Both halves of a split batch share one retry count. */
export function retryWithBackoff(bounds: {
  readonly triesMax: number
  readonly waits: BackoffBounds
  readonly signal: AbortSignal
  onFailed(error: unknown): void
  readonly sleep?: Sleep
}): (error: unknown) => Promise<boolean> {
  let failures = 0
  return async (error) => {
    bounds.onFailed(error)
    await (bounds.sleep ?? sleep)(backoffMs(failures, bounds.waits, Math.random()), bounds.signal)
    failures += 1
    return failures < bounds.triesMax && !bounds.signal.aborted
  }
}

export interface BatchBounds<Item> {
  readonly itemsMax: number
  /** Maximum sum of `bytesOf` over a batch. An item above this maximum is written alone. Default: unlimited. */
  readonly bytesMax?: number
  bytesOf?(item: Item): number
}

/** Removes a batch from the front of a queue: at least one item, unless the queue is empty. */
export function takeBatch<Item>(queue: Item[], { itemsMax, bytesMax, bytesOf }: BatchBounds<Item>): Item[] {
  let count = Math.min(queue.length, itemsMax)
  if (bytesMax !== undefined && bytesOf) {
    let bytes = 0
    const over = queue.findIndex((item) => (bytes += bytesOf(item)) > bytesMax)
    if (over >= 0) count = Math.min(count, Math.max(1, over))
  }
  return queue.splice(0, count)
}

/** Collects items into batches, with bounds on their items, bytes, frequency and concurrency. */
export class BatchWriter<Item> {
  readonly #options
  readonly #now: () => number
  #waiting: Item[] = []
  #itemsInFlight = 0
  #batches = 0
  #lateBatches = 0
  #startedAtMs = Number.NEGATIVE_INFINITY
  #timer: ReturnType<typeof setTimeout> | undefined
  #isStarting = false
  #dropped = 0
  readonly #idle: (() => void)[] = []

  constructor(
    options: BatchBounds<Item> & {
      /**
       * Writes one batch and reports each result to the owner of the item. Occupies one of the `batchesMax` slots until the promise resolves.
       * Must not reject.
       * @param markLate must be called when the owners of the items stop waiting for this batch; later items then do not wait for it either
       */
      write(batch: Item[], markLate: () => void): Promise<void>
      /** Maximum waiting items; further ones are refused and counted. Default: unlimited, for producers that have their own limit. */
      readonly waitingMax?: number
      /** Default: 1. */
      readonly batchesMax?: number
      /** Number of waiting items that starts a further batch immediately, concurrently with batches in flight. Default: never. */
      readonly parallelItems?: number
      /**
       * Minimum time between the starts of two batches, so that more items share one statement, unless `items` items wait. After a longer
       * pause, an item is written immediately. Default: no minimum time.
       */
      readonly gather?: { readonly ms: number; readonly items: number }
      /**
       * Defers the start of a batch after `add`, without a timer: `microtask` collects the items of one synchronous run, `turn` those that
       * all connections add in one turn of the event loop. Default: `add` starts a batch immediately.
       */
      readonly deferred?: 'microtask' | 'turn'
      readonly now?: () => number
    },
  ) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /** Counts waiting items and items in flight. */
  get size(): number {
    return this.#waiting.length + this.#itemsInFlight
  }

  get dropped(): number {
    return this.#dropped
  }

  /** Returns false, and counts the item as dropped, if the queue is full. */
  add(item: Item): boolean {
    if (this.#waiting.length >= (this.#options.waitingMax ?? Number.POSITIVE_INFINITY)) {
      this.#dropped += 1
      return false
    }
    this.#waiting.push(item)
    this.#startSoon()
    return true
  }

  takeWaiting(): Item[] {
    return this.#waiting.splice(0)
  }

  /** Runs other work that counts towards `batchesMax`. Returns undefined if `batchesMax` batches are in flight. */
  tryInSlot<T>(work: () => Promise<T>): Promise<T> | undefined {
    if (this.#batches >= (this.#options.batchesMax ?? 1)) return undefined
    this.#batches += 1
    return work().finally(() => {
      this.#batches -= 1
      this.#startNext()
    })
  }

  /** Resolves when no item waits or is in flight, or after `msMax`. Safe to repeat. */
  async drain(msMax: number): Promise<void> {
    if (this.size === 0) return
    const drained = new Promise<void>((resolve) => this.#idle.push(resolve))
    await within(msMax, drained, () => undefined)
  }

  #startSoon(): void {
    const { deferred } = this.#options
    if (deferred === undefined) return this.#startNext()
    if (this.#isStarting) return
    this.#isStarting = true
    const start = () => {
      this.#isStarting = false
      this.#startNext()
    }
    if (deferred === 'turn') setImmediate(start)
    else queueMicrotask(start)
  }

  #startNext(): void {
    const { batchesMax = 1, parallelItems = Number.POSITIVE_INFINITY, gather } = this.#options
    if (this.#waiting.length === 0) {
      if (this.#itemsInFlight === 0) for (const resolve of this.#idle.splice(0)) resolve()
      return
    }
    if (this.#batches >= batchesMax) return
    if (this.#waiting.length >= parallelItems) return this.#start()
    if (this.#batches > this.#lateBatches) return
    const waitMs = gather ? this.#startedAtMs + gather.ms - this.#now() : 0
    if (waitMs <= 0 || (gather && this.#waiting.length >= gather.items)) return this.#start()
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
    let late = 0
    const markLate = () => {
      if (late === 0) this.#lateBatches += late = 1
    }
    try {
      await this.#options.write(batch, markLate)
    } finally {
      this.#lateBatches -= late
      this.#batches -= 1
      this.#itemsInFlight -= count
      this.#startNext()
    }
  }
}

/** Writes the batches of a buffer at each `flush` of its owner's polling loop. Repeats a failed batch unchanged before the next one. */
export class BufferedWriter<Batch> {
  readonly #options
  #pending: Batch | undefined

  constructor(options: {
    /** Removes the next batch from the buffer of the owner; undefined if the buffer is empty. */
    take(): Batch | undefined
    /** Writes a batch. Must be safe to repeat. @throws when the store is unavailable */
    write(batch: Batch): Promise<void>
  }) {
    this.#options = options
  }

  /** Batch taken from the buffer, possibly not written yet. */
  get pending(): Batch | undefined {
    return this.#pending
  }

  /** Writes at most `batchesMax` batches. Must not run concurrently with itself. @throws the error of `write` */
  async flush(batchesMax: number): Promise<void> {
    for (let batches = 0; batches < batchesMax; batches += 1) {
      this.#pending ??= this.#options.take()
      if (this.#pending === undefined) return
      await this.#options.write(this.#pending)
      this.#pending = undefined
    }
  }
}
