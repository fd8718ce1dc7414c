/** A call that can share a round trip with others. */
export interface Batchable {
  /** Redis key of the record or lock. */
  readonly entry: string
  /** Approximate size in bytes, without the entry. */
  readonly bytes: number
}

/** Options of `TurnBatches`. */
export interface TurnBatchesOptions<Call, Reply> {
  readonly callsMax: number
  /** Maximum bytes of a batch. A longer call is sent alone. */
  readonly bytesMax: number
  /** True if a batch may have several calls of one entry. */
  readonly repeatsEntries: boolean
  /** Sends one batch and returns a reply for each call, in order. Its error becomes the error of each call. */
  send(calls: readonly Call[]): Promise<readonly Reply[]>
}

interface Batch<Call, Reply> {
  readonly calls: Call[]
  readonly callers: PromiseWithResolvers<Reply>[]
  readonly entries: Set<string>
  bytes: number
}

/**
 * Batches calls of one group, such as those of a tenant, whose requests arrived in one turn of the event loop: they share one round trip. No
 * call waits for a later turn.
 */
export class TurnBatches<Call extends Batchable, Reply> {
  readonly #options: TurnBatchesOptions<Call, Reply>
  /** Batches of this turn in the order of their first calls, and the last one of each group. */
  #batches: Batch<Call, Reply>[] = []
  readonly #open = new Map<string, Batch<Call, Reply>>()

  constructor(options: TurnBatchesOptions<Call, Reply>) {
    this.#options = options
  }

  /** Sends a call together with those of its group that are added before the next microtask of this one. */
  add(group: string, call: Call): Promise<Reply> {
    let batch = this.#open.get(group)
    if (!batch || !this.#fits(call, batch)) batch = this.#begin(group)
    const caller = Promise.withResolvers<Reply>()
    batch.calls.push(call)
    batch.callers.push(caller)
    batch.entries.add(call.entry)
    batch.bytes += call.bytes
    return caller.promise
  }

  #fits(call: Call, { calls, entries, bytes }: Batch<Call, Reply>): boolean {
    const { callsMax, bytesMax, repeatsEntries } = this.#options
    return (
      calls.length < callsMax &&
      bytes + call.bytes <= bytesMax &&
      (repeatsEntries || !entries.has(call.entry))
    )
  }

  #begin(group: string): Batch<Call, Reply> {
    // Requests whose bodies arrived in one turn continue step by step together, so all of them have called before this runs.
    if (this.#batches.length === 0) queueMicrotask(this.#flush)
    const batch: Batch<Call, Reply> = { calls: [], callers: [], entries: new Set(), bytes: 0 }
    this.#batches.push(batch)
    this.#open.set(group, batch)
    return batch
  }

  readonly #flush = (): void => {
    const batches = this.#batches
    this.#batches = []
    this.#open.clear()
    for (const { calls, callers } of batches)
      this.#options.send(calls).then(
        (replies) => {
          for (const [at, reply] of replies.entries()) callers[at]?.resolve(reply)
        },
        (error: unknown) => {
          for (const caller of callers) caller.reject(error)
        },
      )
  }
}
