import type { KeySource, ProviderCall, ProviderEvent, Refused } from '#internal/providers/index.ts'

export interface ReadRequest extends Omit<ProviderCall, 'headers' | 'published'> {
  readonly number: number
  readonly providerName: string
  readonly declared?: string | undefined
  readonly secrets: readonly string[]
  readonly headers: [string, string][]
  /** Published keys as they were fetched, since key objects cannot be sent to a worker. */
  readonly published?: { readonly source: KeySource; readonly text: string } | undefined
}

export interface ReadResponse {
  readonly number: number
  readonly reading: ProviderEvent | Refused
}

/** A provider's call with all its headers. */
export type ReceivedCall = Omit<ProviderCall, 'headers'> & { readonly headers: Headers }

/** Bodies above this size are verified in a worker. The largest take half a second, for which they would block the event loop. */
export const largeBodyBytes: number = 1024 * 1024
/** Maximum time for a response of the worker. The only vendor with such large bodies waits 10 s for a response. */
const readMsMax = 6_000
/** Time after which an idle worker is stopped, since it uses tens of megabytes. */
const idleMs = 60_000
/** The worker is beside this file, or beside the bundle that contains this file. */
const workerUrl = import.meta.url.endsWith('.ts')
  ? new URL('./large-bodies.worker.ts', import.meta.url)
  : new URL('./large-bodies.worker.js', import.meta.url)

/**
 * Verifies and normalizes large bodies in a worker, one after another. The limited memory for bodies also limits the queue: each waiting
 * call keeps the memory of its body reserved.
 */
export class LargeBodies {
  readonly #pending = new Map<number, (reading: ProviderEvent | Refused | undefined) => void>()
  #worker: Worker | undefined
  #idle: ReturnType<typeof setTimeout> | undefined
  #number = 0

  /** Returns the worker's result, or undefined if it did not respond within 6 s. Never rejects. */
  read(
    call: ReceivedCall,
    { providerName, declared, secrets }: Pick<ReadRequest, 'providerName' | 'declared' | 'secrets'>,
  ): Promise<ProviderEvent | Refused | undefined> {
    clearTimeout(this.#idle)
    this.#number += 1
    const number = this.#number
    const { promise, resolve } = Promise.withResolvers<ProviderEvent | Refused | undefined>()
    const timer = setTimeout(() => this.#end(), readMsMax)
    this.#pending.set(number, (reading) => {
      clearTimeout(timer)
      this.#pending.delete(number)
      if (this.#pending.size === 0) this.#idle = setTimeout(() => this.#end(), idleMs).unref()
      resolve(reading)
    })
    const { published, ...plain } = call
    const request: ReadRequest = {
      ...plain,
      number,
      providerName,
      declared,
      secrets,
      headers: [...call.headers],
      published: published && { source: published.source, text: published.text },
    }
    // The body is copied to the worker and not transferred, since the caller still needs the body.
    this.#open().postMessage(request, [])
    return promise
  }

  /** Stops the worker and gives up calls in flight. Idempotent. */
  close(): void {
    this.#end()
    clearTimeout(this.#idle)
  }

  #open(): Worker {
    if (this.#worker) return this.#worker
    const worker = new Worker(workerUrl.href)
    worker.addEventListener('message', ({ data }: MessageEvent<ReadResponse>) => {
      this.#pending.get(data.number)?.(data.reading)
    })
    worker.addEventListener('error', () => this.#end())
    // The worker does not keep the process alive; the connections of calls in flight do.
    worker.unref()
    this.#worker = worker
    return worker
  }

  #end(): void {
    this.#worker?.terminate()
    this.#worker = undefined
    for (const answer of Array.from(this.#pending.values())) answer(undefined)
  }
}
