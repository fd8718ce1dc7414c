import { expect } from 'bun:test'
import { once } from 'node:events'
import { type IncomingMessage, type OutgoingHttpHeaders, request as sendRequest } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import { poll } from '#internal/dev/index.ts'
import { until } from '#test/support/until.ts'
import type {
  AppDelivery,
  AppRequest,
  AppStep,
  Deduplication,
  ExpectedResponse,
  Framework,
  HandlerScript,
  MiddlewareCase,
  ReceiverCase,
} from './app-cases.ts'
import type { Driver } from './driver.ts'
import { answered, type FaultProxy, startFaultProxy } from './fault-proxy.ts'
import type { ConformanceService } from './services.ts'

/** Parts of the test that a case uses. */
export interface AppParts {
  readonly driver: Driver
  readonly framework: Framework
  readonly service: ConformanceService
  readonly database: AppDatabase
}

/** Database of receivers with the table of outcomes and the table `handled (id text)`. */
export interface AppDatabase {
  readonly url: string
  /** Returns the number of committed rows of `handled` with this id. */
  countHandled(id: string): Promise<number>
  /** Returns the number of connections with this `application_name` that wait for a lock. */
  countBlocked(applicationName: string): Promise<number>
}

const eventuallyMsMax = 15_000
const betweenTriesMs = 200
const secretOf = (letter: string) => `whsec_${btoa(letter.repeat(32))}`
const secrets = { first: secretOf('a'), second: secretOf('b'), other: secretOf('c') }

/** Runs a case of the middleware in an app of its own, and fails unless all its expectations hold. */
export function runMiddlewareCase(parts: AppParts, one: MiddlewareCase): Promise<void> {
  return runAppCase(parts, one)
}

/** Runs a case of receivers in an app of its own, and fails unless all its expectations hold. */
export function runReceiverCase(parts: AppParts, one: ReceiverCase, by: Deduplication): Promise<void> {
  return runAppCase(parts, one, { by, handled: one.handled ?? one.runs })
}

interface Receives {
  readonly by: Deduplication
  /** Events that are handled in the end. */
  readonly handled: number
}

async function runAppCase(
  parts: AppParts,
  one: MiddlewareCase | ReceiverCase,
  receives?: Receives,
): Promise<void> {
  await using proxy = await startFaultProxy(parts.service.url)
  await using run = new AppRun(parts, proxy, receives)
  await run.open(one.options ?? {})
  for (const step of one.steps) await run.step(step, one.handler)
  await run.end(one.runs)
}

interface ReadResponse {
  readonly status: number
  readonly headers: Headers
  readonly bytes: Uint8Array
  readonly tookMs: number
}

class AppRun implements AsyncDisposable {
  readonly #parts: AppParts
  readonly #proxy: FaultProxy
  readonly #receives: Receives | undefined
  readonly #id = crypto.randomUUID()
  readonly #eventId = `evt_${this.#id}`
  readonly #started = new Map<string, Promise<ReadResponse>>()
  readonly #joined = new Set<string>()
  #url = ''

  constructor(parts: AppParts, proxy: FaultProxy, receives: Receives | undefined) {
    this.#parts = parts
    this.#proxy = proxy
    this.#receives = receives
  }

  async open(options: object): Promise<void> {
    const { framework, service, database } = this.#parts
    const { url } = await this.#ask('serve', {
      framework,
      url: this.#proxy.url,
      apiKey: service.apiKey,
      options,
      ...(this.#receives && {
        by: this.#receives.by,
        databaseUrl: `${database.url}?application_name=${this.#id}`,
        secrets: [secrets.first, secrets.second],
      }),
    })
    this.#url = String(url)
  }

  async step(step: AppStep, handlerDefault: HandlerScript = {}): Promise<void> {
    if ('faults' in step) this.#proxy.script(step.faults)
    else if ('finish' in step) await this.#ask('finish')
    else if ('until' in step) await this.#proxy.until(step.until)
    else if ('untilRuns' in step) await this.#untilRuns(step.untilRuns)
    else if ('untilBlocked' in step) await this.#untilBlocked()
    else if ('other' in step) await this.#other(step)
    else if ('join' in step) {
      const started = this.#started.get(step.join)
      if (!started) throw new Error(`nothing was started as ${step.join}`)
      compare(await started, step.expect)
      this.#joined.add(step.join)
    } else if ('together' in step) {
      const calls = Array.from({ length: step.together }, () => this.#request(step.request, handlerDefault))
      for (const read of await Promise.all(calls)) compare(read, step.expect)
    } else {
      const handler = step.handler ?? handlerDefault
      const call = () =>
        'deliver' in step ? this.#deliver(step.deliver, handler) : this.#request(step.request, handler)
      if ('start' in step) this.#started.set(step.start, call())
      else if (step.eventually) await eventually(call, step.expect)
      else compare(await call(), step.expect)
    }
  }

  async end(runs: number): Promise<void> {
    expect([...this.#started.keys()].filter((name) => !this.#joined.has(name))).toEqual([])
    const counts = await this.#ask('runs')
    expect({ runs: counts['runs'] }).toEqual({ runs })
    if (!this.#receives) return
    const { by, handled } = this.#receives
    const found =
      by === 'transaction' ? await this.#parts.database.countHandled(this.#eventId) : counts['handled']
    expect({ handled: found }).toEqual({ handled })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ask('finish')
    await Promise.allSettled(this.#started.values())
    await this.#ask('close')
  }

  #ask(name: string, options: object = {}): Promise<Readonly<Record<string, unknown>>> {
    return this.#parts.driver.start({ do: name, client: this.#id, options }).result
  }

  async #untilRuns(expected: number): Promise<void> {
    let runs = 0
    const isReached = async () => {
      runs = Number((await this.#ask('runs'))['runs'])
      return runs >= expected || undefined
    }
    if (!(await poll(isReached, { deadlineMs: eventuallyMsMax })))
      throw new Error(`the handler was called ${runs} times and not ${expected}`)
  }

  async #untilBlocked(): Promise<void> {
    const isBlocked = async () => (await this.#parts.database.countBlocked(this.#id)) > 0
    await until('a transaction that waits for a lock', isBlocked, eventuallyMsMax)
  }

  #request(request: AppRequest, script: HandlerScript): Promise<ReadResponse> {
    const { method = 'POST', path = '/charges', user = 'ada', key = '"{id}"' } = request
    const keys = key === null ? [] : [key].flat().map((each) => each.replace('{id}', this.#id))
    const headers = {
      'x-user': user,
      'x-handler': encodeURIComponent(JSON.stringify(script)),
      'content-type': 'application/json',
      ...(keys.length > 0 && { 'idempotency-key': keys }),
    }
    const body = method === 'GET' ? undefined : (request.body ?? '{"amount":4200}')
    return send(this.#url + path, { method, headers, body })
  }

  #deliver(delivery: AppDelivery, script: HandlerScript): Promise<ReadResponse> {
    const { secret = 'first', ageSeconds = 0, change, padding } = delivery
    const at = new Date(Date.now() - ageSeconds * 1000)
    const payload = { handler: script, ...(padding !== undefined && { padding: 'ü'.repeat(padding / 2) }) }
    const event = {
      id: this.#eventId,
      type: 'payment.succeeded',
      provider: 'card',
      providerRawType: 'charge.succeeded',
      tenantId: 'ten_1',
      occurredAt: at.toISOString(),
      receivedAt: at.toISOString(),
      payload,
      headers: {},
    }
    const body = delivery.body ?? JSON.stringify(event)
    const signature = new Webhook(secrets[secret]).sign(this.#eventId, at, body)
    return send(`${this.#url}/hook`, {
      method: 'POST',
      body: change === 'body' ? `${body} ` : body,
      headers: {
        'content-type': 'application/json',
        'webhook-id': this.#eventId,
        'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
        ...(change !== 'no signature' && {
          'webhook-signature': change === 'malformed signature' ? 'v1 v1,a v1,ä' : signature,
        }),
      },
    })
  }

  async #other({ other, scope, with: fields }: Extract<AppStep, { other: string }>): Promise<void> {
    const { url, apiKey } = this.#parts.service
    const address = { scope, key: this.#receives === undefined ? `-:${this.#id}` : this.#eventId }
    const method = other === 'remove' ? 'DELETE' : 'PUT'
    const path = other === 'remove' ? `/v1/record?${new URLSearchParams(address)}` : '/v1/record'
    const response = await answered(() =>
      fetch(url + path, {
        method,
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        ...(other !== 'remove' && { body: JSON.stringify({ ...address, ...fields }) }),
      }),
    )
    expect(response.status).toBe(200)
  }
}

/** Repeats a call until its response is as expected; at most 15 s. */
async function eventually(call: () => Promise<ReadResponse>, expected: ExpectedResponse): Promise<void> {
  let failure: unknown
  const isExpected = async () => {
    const read = await call()
    try {
      compare(read, expected)
      return true
    } catch (error) {
      failure = error
      return
    }
  }
  if (!(await poll(isExpected, { deadlineMs: eventuallyMsMax, everyMs: betweenTriesMs }))) throw failure
}

interface Sent {
  readonly method: string
  /** A header with several values is sent several times, which `fetch` cannot do. */
  readonly headers: OutgoingHttpHeaders
  readonly body: string | undefined
}

async function send(url: string, { method, headers, body }: Sent): Promise<ReadResponse> {
  const startedAtMs = performance.now()
  // Uses a connection per request, since a server may close the connection after an exception.
  const sent = sendRequest(url, { method, headers, agent: false }).end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  const bytes = await buffer(response)
  const received = new Headers()
  for (const [name, values = []] of Object.entries(response.headersDistinct))
    for (const value of values) received.append(name, value)
  return {
    status: response.statusCode ?? 0,
    headers: received,
    bytes,
    tookMs: performance.now() - startedAtMs,
  }
}

/** Problem as RFC 9457 describes it, in the shape of the library. */
interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: string
}

function compare({ status, headers, bytes, tookMs }: ReadResponse, expected: ExpectedResponse): void {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
  const found: Required<Omit<ExpectedResponse, 'code' | 'detail' | 'msMax' | 'headers'>> = {
    status,
    text,
    base64: Buffer.from(bytes).toString('base64'),
    bytes: bytes.length,
    replayed: headers.get('idempotent-replayed') === 'true',
    cookies: headers.getSetCookie(),
  }
  const { code, detail, msMax, headers: named = {}, ...same } = expected
  const compared = Object.fromEntries(
    Object.keys(same).map((name) => [name, found[name as keyof typeof found]]),
  )
  expect(compared).toEqual(same)
  const namedFound = Object.keys(named).map((name) => [name, headers.get(name)] as const)
  expect(Object.fromEntries(namedFound)).toEqual(named)
  if (code !== undefined) {
    expect(headers.get('content-type')).toBe('application/problem+json')
    const problem = JSON.parse(text) as Problem
    expect(problem).toEqual({
      type: `https://latchkey.dev/problems/${code.replaceAll('_', '-')}`,
      title: expect.any(String),
      status,
      detail: expect.any(String),
      code,
    })
    expect(problem.detail).toContain(detail ?? '')
  }
  if (msMax !== undefined) expect(tookMs).toBeLessThan(msMax)
}
