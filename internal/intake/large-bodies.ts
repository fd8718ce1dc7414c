import type { Normalization, ProviderCall } from './provider.ts'

/** A call as it goes to the worker. */
export interface ReadRequest extends Omit<ProviderCall, 'headers'> {
  readonly number: number
  readonly providerName: string
  readonly secrets: readonly string[]
  readonly headers: [string, string][]
}

/** What the worker made of it. */
export interface ReadResponse {
  readonly number: number
  readonly reading: Normalization
}

/** A large call, with what its provider's adapter needs. */
export interface LargeCall {
  readonly providerName: string
  readonly secrets: readonly string[]
  readonly call: Omit<ProviderCall, 'headers'> & { readonly headers: Headers }
}

/** Bodies beyond this are read in a worker: the largest take half a second, in which nobody else would be served. */
export const largeBodyBytes: number = 1024 * 1024
/** The only vendor with bodies of this size waits 10 s. */
const readMsMax = 6_000
/** A worker takes tens of megabytes, which are given back when nobody sends large bodies. */
const idleMs = 60_000
/** A compiled program is one module, and holds its other ones by their path in the repository. */
const workerUrl = import.meta.url.includes('/$bunfs/')
  ? new URL('./internal/intake/large-bodies.worker.ts', import.meta.url)
  : new URL('./large-bodies.worker.ts', import.meta.url)

interface Pending {
  settle(reading: Normalization | undefined): void
}

/** Verifies and reads large bodies beside the event loop, one after another. Bounded by its callers, who hold their bodies' room. */
export class LargeBodies {
  readonly #pending = new Map<number, Pending>()
  #worker: Worker | undefined
  #idle: ReturnType<typeof setTimeout> | undefined
  #number = 0

  /** Gives what the call says, or undefined when it could not be read in time: then nothing is known of it. Never rejects. */
  read({ providerName, secrets, call }: LargeCall): Promise<Normalization | undefined> {
    clearTimeout(this.#idle)
    this.#number += 1
    const number = this.#number
    const { promise, resolve } = Promise.withResolvers<Normalization | undefined>()
    const timer = setTimeout(() => this.#end(), readMsMax)
    this.#pending.set(number, {
      settle: (reading) => {
        clearTimeout(timer)
        this.#pending.delete(number)
        if (this.#pending.size === 0) this.#idle = setTimeout(() => this.#end(), idleMs).unref()
        resolve(reading)
      },
    })
    const request: ReadRequest = { ...call, number, providerName, secrets, headers: [...call.headers] }
    // Nothing is handed over: the body belongs to the caller's room.
    this.#open().postMessage(request, [])
    return promise
  }

  /** Ends the worker; what is under way is given up. Repeating it is harmless. */
  close(): void {
    clearTimeout(this.#idle)
    this.#end()
    clearTimeout(this.#idle)
  }

  #open(): Worker {
    if (this.#worker) return this.#worker
    const worker = new Worker(workerUrl.href)
    worker.addEventListener('message', ({ data }: MessageEvent<ReadResponse>) => {
      this.#pending.get(data.number)?.settle(data.reading)
    })
    worker.addEventListener('error', () => this.#end())
    // What is under way keeps the process up by its own connection.
    worker.unref()
    this.#worker = worker
    return worker
  }

  /** The next call gets another worker. */
  #end(): void {
    this.#worker?.terminate()
    this.#worker = undefined
    for (const { settle } of [...this.#pending.values()]) settle(undefined)
  }
}
