import type { Server } from 'bun'
import { type Clock, systemClock, within } from '#internal/base/index.ts'
import { urlHost } from '#internal/http/index.ts'
import { sleep } from '#internal/process/index.ts'
import { type DemoFate, demoFateOf } from '../demo/mark.ts'
import { answerRead } from './answer-read.ts'
import type { Delivery } from './delivery.ts'
import { DeliveryLog, Tally } from './delivery-log.ts'
import { readCall, type Tenants } from './read-call.ts'
import { TerminalLines } from './terminal-lines.ts'
import { planAnswer } from './trials.ts'

/** What a sink is made of. */
export interface SinkOptions extends Tenants {
  /** 0 takes a free one. */
  readonly port: number
  /** IP address to listen on; default 127.0.0.1. */
  readonly bindAddress?: string | undefined
  /** Prints a line for the person at the terminal. */
  readonly say: (line: string) => void
  /** How long /slow takes, default 20 s. */
  readonly slowMs?: number
  /** Default the machine's. */
  readonly clock?: Clock
}

/** A sink that takes calls. */
export interface RunningSink {
  /** The port that is listened on, also where 0 was asked for. */
  readonly port: number
  /** Its address, with / at the end. */
  readonly url: string
  /** Ends it with all calls and streams under way. Repeating it is harmless. */
  stop(): Promise<void>
}

/** More than any event that intake takes. */
const bodyBytesMax = 26 * 1024 * 1024
/** Of all bodies that are being read at a time. */
const bodiesBytesMax = 8 * bodyBytesMax
const callsMax = 1000
const readMsMax = 30_000
const slowMsDefault = 20_000

/**
 * Starts a receiver of callbacks on this machine, for this machine only unless `bindAddress` says otherwise. Every POST is a delivery: its signature is checked, it is
 * shown at the terminal and on the page at /, and is answered 200, or what the path of a trial asks for. What the demo has sent is
 * answered as it asks, and not shown. Nothing outlives `stop`.
 * @throws when the port is taken
 */
export function startSink(options: SinkOptions): RunningSink {
  return new Sink(options)
}

class Sink implements RunningSink {
  readonly port: number
  readonly url: string
  readonly #options: SinkOptions
  readonly #clock: Clock
  readonly #run: string
  readonly #log = new DeliveryLog()
  readonly #flaky = new Tally()
  readonly #demo = new Tally()
  readonly #lines: TerminalLines
  readonly #stopping = new AbortController()
  readonly #server: Server<undefined>
  #calls = 0
  #bodiesBytes = 0

  constructor(options: SinkOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#run = String(this.#clock.now())
    this.#lines = new TerminalLines(options.say, this.#clock)
    const { bindAddress = '127.0.0.1' } = options
    this.#server = Bun.serve({
      port: options.port,
      hostname: bindAddress,
      // Said, since Bun 1.4.5 does not keep to its default: a second server would share the port without a word.
      reusePort: false,
      maxRequestBodySize: bodyBytesMax,
      development: false,
      fetch: (request, server) => this.#answer(request, server),
      error: (cause) => {
        options.say(`The receiver of deliveries failed: ${cause.message}`)
        return new Response('failed, see the terminal\n', { status: 500 })
      },
    })
    this.port = this.#server.port ?? options.port
    this.url = `http://${urlHost(bindAddress)}:${this.port}/`
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#lines.flush()
    await this.#server.stop(true)
  }

  #answer(request: Request, server: Server<undefined>): Response | Promise<Response> {
    // Streams and slow answers are quiet for longer than a server's own patience; their bounds are ours.
    server.timeout(request, 0)
    if (request.method === 'POST') return this.#receive(request)
    return answerRead(request, {
      log: this.#log,
      run: this.#run,
      url: this.url,
      stopping: this.#stopping.signal,
    })
  }

  async #receive(request: Request): Promise<Response> {
    if (this.#calls >= callsMax) return tooMany()
    this.#calls += 1
    try {
      const body = await this.#read(request)
      return body instanceof Response ? body : await this.#take(request, body)
    } finally {
      this.#calls -= 1
    }
  }

  async #read(request: Request): Promise<Uint8Array | Response> {
    const declared = request.headers.get('content-length')
    const bytes = declared === null ? bodyBytesMax : Number(declared)
    if (this.#bodiesBytes + bytes > bodiesBytesMax) return tooMany()
    this.#bodiesBytes += bytes
    try {
      const reading = request.arrayBuffer().then(
        (buffer) => new Uint8Array(buffer),
        () => answer(400, { error: 'the body broke off' }),
      )
      return await within(readMsMax, reading, () => answer(408, { error: 'the body was sent too slowly' }))
    } finally {
      this.#bodiesBytes -= bytes
    }
  }

  async #take(request: Request, body: Uint8Array): Promise<Response> {
    const { pathname, search } = new URL(request.url)
    const { headers } = request
    const call = { path: pathname + search, headers, body, nowMs: this.#clock.now() }
    const read = readCall(call, this.#options)
    const fate = demoFateOf(read.body)
    // Shown among the others, what a person has sent would be hard to find.
    if (fate !== undefined) return this.#takeDemo(fate, read.webhookId)
    const { status, isSlow } = planAnswer(pathname, () => this.#flaky.count(read.webhookId))
    const delivery = this.#log.add({ ...read, status })
    this.#lines.show(delivery)
    if (isSlow) {
      const ended = AbortSignal.any([request.signal, this.#stopping.signal])
      await sleep(this.#options.slowMs ?? slowMsDefault, ended)
    }
    return answer(status, receiptOf(delivery))
  }

  #takeDemo(fate: DemoFate, webhookId: string): Response {
    const { status } = planAnswer(demoPaths[fate], () => this.#demo.count(webhookId))
    return answer(status, { demo: fate })
  }
}

/** The trials that the demo's events go through. */
const demoPaths: Record<DemoFate, string> = { taken: '/', flaky: '/flaky', failing: '/fail' }

function receiptOf({ number, attempt, signature }: Delivery) {
  return { number, attempt, signature: signature.kind === 'ok' ? 'ok' : signature.reason }
}

function tooMany(): Response {
  return answer(503, { error: 'too many at a time' }, { 'Retry-After': '1' })
}

function answer(status: number, value: object, headers: Record<string, string> = {}): Response {
  return Response.json(value, { status, headers })
}
