import { isIP } from 'node:net'
import type { Server } from 'bun'
import { type Clock, systemClock } from '#internal/base/index.ts'
import { urlHost } from '#internal/http/index.ts'
import { sleep } from '#internal/process/index.ts'
import { type DemoOutcome, demoOutcomeOf } from './demo-events.ts'
import {
  type Delivery,
  DeliveryLog,
  deliveriesKeptMax,
  lineOf,
  linesPerSecondMax,
  readCall,
  type SinkTenants,
  Tally,
  TerminalLines,
} from './sink-deliveries.ts'

/** Options of the sink, a server that receives callbacks. */
export interface SinkOptions extends SinkTenants {
  /** Port to listen on; 0 chooses a free port. */
  readonly port: number
  /** IP address to listen on. Default: 127.0.0.1. */
  readonly bindAddress?: string | undefined
  readonly say: (line: string) => void
  /** Delay of /slow in ms. Default: 20 000. */
  readonly slowMs?: number
  /** Default: the system clock. */
  readonly clock?: Clock
}

/** Running sink, which receives callbacks. */
export interface RunningSink {
  /** Port that the sink listens on, also if 0 was requested. */
  readonly port: number
  /** Base URL with a trailing slash. */
  readonly url: string
  /** Stops the sink and aborts all calls in flight. Repeating the call is safe. */
  stop(): Promise<void>
}

/** Maximum bytes of a body: larger than any event that intake accepts. */
const bodyBytesMax = 26 * 1024 * 1024
/** Maximum bytes of all bodies that are being read concurrently. */
const bodiesBytesMax = 8 * bodyBytesMax
const callsMax = 1000
/** Idle timeout of a connection. Longer than the delay of /slow. */
const idleSecondsMax = 30
const slowMsDefault = 20_000
/** Paths that fail or delay on purpose, to demonstrate retries. Subpaths behave alike. */
const trials = {
  '/fail': 'answers 500',
  '/flaky': 'answers 500 to the first two calls of each webhook-id, then 200',
  '/slow': 'answers 200 after 20 seconds',
  '/gone': 'answers 410, which suspends the callback',
} as const
/** Interval in seconds after which a browser requests the list again. */
const refreshSeconds = 2
const flakyFailures = 2
const demoTrials: Record<Exclude<DemoOutcome, DemoFailure>, string> = {
  taken: '/',
  flaky: '/flaky',
  failing: '/fail',
}
/** Outcomes that end the delivery of a demo event without retries: how many of its calls the sink refuses, and the reason that it sends. */
const demoFailures = {
  mended: { refused: 1, error: 'The stock service did not answer in time' },
  broken: {
    refused: Number.POSITIVE_INFINITY,
    error: 'Unknown product: the order names none that this shop has',
  },
} as const
type DemoFailure = keyof typeof demoFailures
/** Response header that ends the delivery cycle of the event. */
const abortHeaders = { 'webhook-delivery': 'abort-message' }
/** Host names that a request may use, in addition to IP addresses. Any other name may be DNS rebinding. */
const ownHosts = /^([a-z0-9-]+\.)*localhost$/
const listHeaders = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
}

/**
 * Starts a receiver of callbacks on the loopback address, or on `bindAddress`. Every POST is a delivery: the sink verifies its signature,
 * shows it in the terminal and in the list at /, and responds with 200, or with a failure or delay on the paths in `trials`. Deliveries of
 * the demo get the response that their outcome requires and are not shown.
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
  readonly #log = new DeliveryLog()
  readonly #flaky = new Tally()
  readonly #demo = new Tally()
  readonly #lines: TerminalLines
  readonly #stopping = new AbortController()
  readonly #server: Server<undefined>
  #calls = 0
  #bodiesBytes = 0

  constructor(options: SinkOptions) {
    const { bindAddress = '127.0.0.1', clock = systemClock, say } = options
    this.#options = options
    this.#clock = clock
    this.#lines = new TerminalLines(say, clock, linesPerSecondMax)
    this.#server = Bun.serve({
      port: options.port,
      hostname: bindAddress,
      // Set explicitly because Bun 1.4.5 ignores its own default, and a second server would silently share the port.
      reusePort: false,
      maxRequestBodySize: bodyBytesMax,
      idleTimeout: idleSecondsMax,
      development: false,
      fetch: (request) => (request.method === 'POST' ? this.#receive(request) : this.#show(request)),
      error(cause) {
        say(`The receiver of deliveries failed: ${cause.message}`)
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

  async #receive(request: Request): Promise<Response> {
    const bytes = Number(request.headers.get('content-length') ?? bodyBytesMax)
    if (this.#calls >= callsMax || this.#bodiesBytes + bytes > bodiesBytesMax)
      return Response.json({ error: 'too many at a time' }, { status: 503, headers: { 'Retry-After': '1' } })
    this.#calls += 1
    this.#bodiesBytes += bytes
    try {
      const body = await request.arrayBuffer().finally(() => {
        this.#bodiesBytes -= bytes
      })
      return await this.#take(request, new Uint8Array(body))
    } finally {
      this.#calls -= 1
    }
  }

  async #take({ url, headers, signal }: Request, body: Uint8Array): Promise<Response> {
    const { pathname, search } = new URL(url)
    const call = { path: pathname + search, headers, body, nowMs: this.#clock.now() }
    const read = readCall(call, this.#options)
    const outcome = demoOutcomeOf(read.body)
    if (outcome !== undefined) {
      if (outcome === 'mended' || outcome === 'broken') return this.#refuse(outcome, read.webhookId)
      const { status } = decideAnswer(demoTrials[outcome], () => this.#demo.count(read.webhookId))
      return Response.json({ demo: outcome }, { status })
    }
    const { status, isSlow } = decideAnswer(pathname, () => this.#flaky.count(read.webhookId))
    const delivery = this.#log.add({ ...read, status })
    this.#lines.show(() => lineOf(delivery))
    if (isSlow)
      await sleep(this.#options.slowMs ?? slowMsDefault, AbortSignal.any([signal, this.#stopping.signal]))
    const { number, attempt, signature } = delivery
    const verified = signature.kind === 'ok' ? 'ok' : signature.reason
    return Response.json({ number, attempt, signature: verified }, { status })
  }

  #refuse(outcome: DemoFailure, webhookId: string): Response {
    const { refused, error } = demoFailures[outcome]
    return this.#demo.count(webhookId) > refused
      ? Response.json({ demo: outcome })
      : Response.json({ demo: outcome, error }, { status: 500, headers: abortHeaders })
  }

  /** Shows the deliveries: one line each, or in full as JSON. */
  #show(request: Request): Response {
    const { pathname, hostname } = new URL(request.url)
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return plain(405, 'POST a delivery, or GET the list', { Allow: 'GET, HEAD, POST' })
    if (!ownHosts.test(hostname) && isIP(hostname.replace(/^\[|\]$/g, '')) === 0)
      return plain(421, `Use ${this.url}`)
    const deliveries = this.#log.newestFirst()
    switch (pathname) {
      case '/':
        return plain(200, listOf(deliveries, this.url), { Refresh: String(refreshSeconds) })
      case '/deliveries.json':
        return new Response(JSON.stringify({ deliveries }, null, 2), {
          headers: { ...listHeaders, 'Content-Type': 'application/json' },
        })
      default:
        return plain(404, `The deliveries are at ${this.url}`)
    }
  }
}

function listOf(deliveries: readonly Delivery[], url: string): string {
  const lines = deliveries.length === 0 ? ['None yet.'] : deliveries.map(lineOf)
  const paths = Object.entries(trials).map(([path, does]) => `  ${path.padEnd(7)}${does}`)
  return `Deliveries to ${url}: the last ${deliveriesKeptMax}, newest first.
With headers and bodies: ${url}deliveries.json

${lines.join('\n')}

To watch retries, point a callback at one of these paths of this server:

${paths.join('\n')}`
}

/** `countCall` counts a call to /flaky and returns the number of calls with its webhook-id. */
function decideAnswer(pathname: string, countCall: () => number): { status: number; isSlow: boolean } {
  const trial = Object.keys(trials).find((path) => pathname === path || pathname.startsWith(`${path}/`))
  if (trial === '/fail') return { status: 500, isSlow: false }
  if (trial === '/gone') return { status: 410, isSlow: false }
  if (trial === '/flaky') return { status: countCall() <= flakyFailures ? 500 : 200, isSlow: false }
  return { status: 200, isSlow: trial === '/slow' }
}

function plain(status: number, text: string, more: Record<string, string> = {}): Response {
  return new Response(`${text}\n`, {
    status,
    headers: { ...listHeaders, ...more, 'Content-Type': 'text/plain; charset=utf-8' },
  })
}
