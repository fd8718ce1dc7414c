/** Call that can share a round trip with others. */
export interface Batchable {
  readonly entry: string
  /** Characters of its arguments, without the entry. */
  readonly chars: number
}

interface Batch<Call, Reply> {
  readonly calls: Call[]
  readonly callers: PromiseWithResolvers<Reply>[]
  readonly entries: Set<string>
  chars: number
}

/**
 * Batches calls of one group, such as those of a tenant, that are made together. No call waits for a later turn of the event loop. Unlike
 * `BatchWriter`, any number of batches is in flight, since Redis replies in order within a millisecond and a call has its own deadline.
 */
export class TurnBatches<Call extends Batchable, Reply> {
  readonly #options
  #batches: Batch<Call, Reply>[] = []
  readonly #open = new Map<string, Batch<Call, Reply>>()

  constructor(options: {
    readonly callsMax: number
    /** Maximum characters per batch. A longer call is sent alone. */
    readonly charsMax: number
    readonly repeatsEntries: boolean
    /** Returns a reply for each call, in order. If it rejects, each call gets the error. */
    send(calls: readonly Call[]): Promise<readonly Reply[]>
  }) {
    this.#options = options
  }

  /**
   * Adds a call to the open batch of its group. The first call queues a microtask that sends all batches, after the microtasks already
   * queued. @throws the error of `send`, and an Error if `send` returns no reply for this call
   */
  add(group: string, call: Call): Promise<Reply> {
    let batch = this.#open.get(group)
    if (!batch || !this.#fits(call, batch)) batch = this.#begin(group)
    const caller = Promise.withResolvers<Reply>()
    batch.calls.push(call)
    batch.callers.push(caller)
    batch.entries.add(call.entry)
    batch.chars += call.chars
    return caller.promise
  }

  #fits(call: Call, { calls, entries, chars }: Batch<Call, Reply>): boolean {
    const { callsMax, charsMax, repeatsEntries } = this.#options
    return (
      calls.length < callsMax &&
      chars + call.chars <= charsMax &&
      (repeatsEntries || !entries.has(call.entry))
    )
  }

  #begin(group: string): Batch<Call, Reply> {
    // Requests whose bodies arrived in one turn call `add` after the same number of microtasks, so this microtask runs after all of them.
    if (this.#batches.length === 0) queueMicrotask(this.#flush)
    const batch: Batch<Call, Reply> = { calls: [], callers: [], entries: new Set(), chars: 0 }
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
          const missing = callers.slice(replies.length)
          for (const caller of missing) caller.reject(new Error('a batch has fewer replies than calls'))
        },
        (error: unknown) => {
          for (const caller of callers) caller.reject(error)
        },
      )
  }
}
