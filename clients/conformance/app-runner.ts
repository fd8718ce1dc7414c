import { expect } from 'bun:test'
import { setTimeout as pause } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import { poll } from '#internal/dev/index.ts'
import type {
  AppCase,
  AppDelivery,
  AppRequest,
  AppStep,
  Deduplication,
  ExpectedResponse,
  Framework,
  HandlerScript,
} from './app-cases.ts'
import type { Driver } from './driver.ts'
import { answered, type FaultProxy, startFaultProxy } from './fault-proxy.ts'
import type { ConformanceService } from './record-runner.ts'

/** Parts of the test that a case uses. */
export interface AppParts {
  readonly driver: Driver
  readonly framework: Framework
  readonly service: ConformanceService
  /** Database with the table of outcomes and the table `handled (id text)`. */
  readonly databaseUrl: string
  /** Returns the number of committed rows of `handled` with this id. */
  countHandled(id: string): Promise<number>
}

const eventuallyMsMax = 15_000
const betweenTriesMs = 200
const secretOf = (letter: string) => `whsec_${btoa(letter.repeat(32))}`
const secrets = { first: secretOf('a'), second: secretOf('b'), other: secretOf('c') }

/** Runs a case in an app of its own, and fails unless all its expectations hold. */
export async function runAppCase(parts: AppParts, one: AppCase, by?: Deduplication): Promise<void> {
  const proxy = await startFaultProxy(parts.service.url)
  const run = new AppRun(parts, proxy, one, by)
  try {
    await run.open()
    for (const step of one.steps) await run.step(step)
    await run.end()
  } finally {
    await run.close()
    await proxy.close()
  }
}

type CallStep = Extract<AppStep, { start?: string }>

interface ReadResponse {
  readonly response: Response
  readonly bytes: Uint8Array
  readonly tookMs: number
}

class AppRun {
  readonly #parts: AppParts
  readonly #proxy: FaultProxy
  readonly #case: AppCase
  readonly #by: Deduplication | undefined
  readonly #id = crypto.randomUUID()
  readonly #eventId = `evt_${this.#id}`
  readonly #started = new Map<string, Promise<ReadResponse>>()
  readonly #joined = new Set<string>()
  #url = ''

  constructor(parts: AppParts, proxy: FaultProxy, one: AppCase, by: Deduplication | undefined) {
    this.#parts = parts
    this.#proxy = proxy
    this.#case = one
    this.#by = by
  }

  async open(): Promise<void> {
    const { framework, service, databaseUrl } = this.#parts
    const served = await this.#ask('serve', {
      framework,
      url: this.#proxy.url,
      apiKey: service.apiKey,
      options: this.#case.options ?? {},
      ...(this.#by && { by: this.#by, databaseUrl, secrets: [secrets.first, secrets.second] }),
    })
    if (typeof served['url'] !== 'string') throw new Error(`no app was served: ${JSON.stringify(served)}`)
    this.#url = served['url']
  }

  async step(step: AppStep): Promise<void> {
    if ('faults' in step) this.#proxy.script(step.faults)
    else if ('finish' in step) await this.#ask('finish')
    else if ('untilRuns' in step) {
      const isReached = async () => ((await this.#ask('runs'))['runs'] === step.untilRuns ? true : undefined)
      if (!(await poll(isReached, { deadlineMs: eventuallyMsMax })))
        throw new Error('the handler did not run')
    } else if ('join' in step) {
      const started = this.#started.get(step.join)
      if (!started) throw new Error(`nothing was started as ${step.join}`)
      compare(await started, step.expect)
      this.#joined.add(step.join)
    } else if ('other' in step) await this.#other(step)
    else if ('together' in step) {
      const calls = Array.from({ length: step.together }, () => this.#request(step.request, this.#script({})))
      for (const read of await Promise.all(calls)) compare(read, step.expect)
    } else await this.#callAndCompare(step)
  }

  async end(): Promise<void> {
    expect([...this.#started.keys()].filter((name) => !this.#joined.has(name))).toEqual([])
    const { runs, handled } = await this.#ask('runs')
    expect({ runs }).toEqual({ runs: this.#case.runs })
    if (this.#by === undefined) return
    const found = this.#by === 'transaction' ? await this.#parts.countHandled(this.#eventId) : handled
    expect({ handled: found }).toEqual({ handled: this.#case.handled ?? this.#case.runs })
  }

  async close(): Promise<void> {
    await this.#ask('finish')
    await Promise.allSettled(this.#started.values())
    await this.#ask('close')
  }

  #ask(name: string, options: object = {}): Promise<Readonly<Record<string, unknown>>> {
    return this.#parts.driver.start({ do: name, client: this.#id, options }).result
  }

  async #callAndCompare(step: CallStep): Promise<void> {
    const script = this.#script(step)
    const call = () =>
      'deliver' in step ? this.#deliver(step.deliver, script) : this.#request(step.request, script)
    if (step.start !== undefined) {
      this.#started.set(step.start, call())
      return
    }
    if (!step.expect) throw new Error('a call has neither `start` nor `expect`')
    const untilMs = performance.now() + eventuallyMsMax
    for (;;) {
      const read = await call()
      try {
        compare(read, step.expect)
        return
      } catch (error) {
        if (!step.eventually || performance.now() > untilMs) throw error
        await pause(betweenTriesMs)
      }
    }
  }

  #script({ handler }: { readonly handler?: HandlerScript }): HandlerScript {
    return handler ?? this.#case.handler ?? {}
  }

  #request(request: AppRequest, script: HandlerScript): Promise<ReadResponse> {
    const { method = 'POST', path = '/charges', user = 'ada', key = `"${this.#id}"` } = request
    const headers = new Headers({
      'x-user': user,
      'x-handler': btoa(encodeURIComponent(JSON.stringify(script))),
    })
    headers.set('content-type', 'application/json')
    const keys = key === null ? [] : [key].flat()
    const body = request.body ?? '{"amount":4200}'
    return read(this.#url + path, {
      method,
      headers: [...headers, ...keys.map((each) => ['idempotency-key', each] as [string, string])],
      ...(method !== 'GET' && { body }),
    })
  }

  #deliver(delivery: AppDelivery, script: HandlerScript): Promise<ReadResponse> {
    const { secret = 'first', ageSeconds = 0, change, padding } = delivery
    const at = new Date(Date.now() - ageSeconds * 1000)
    const payload = { handler: script, ...(padding !== undefined && { padding: 'ü'.repeat(padding / 2) }) }
    const event = {
      ...{
        id: this.#eventId,
        type: 'payment.succeeded',
        provider: 'card',
        providerRawType: 'charge.succeeded',
      },
      ...{
        tenantId: 'ten_1',
        occurredAt: at.toISOString(),
        receivedAt: at.toISOString(),
        payload,
        headers: {},
      },
    }
    const body = delivery.body ?? JSON.stringify(event)
    const signature = new Webhook(secrets[secret]).sign(this.#eventId, at, body)
    return read(`${this.#url}/hook`, {
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
    const address = { scope, key: this.#by === undefined ? `-:${this.#id}` : this.#eventId }
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

async function read(url: string, init: RequestInit): Promise<ReadResponse> {
  const startedAtMs = performance.now()
  // A server may close the connection after an exception.
  const response = await fetch(url, { ...init, redirect: 'manual', keepalive: false })
  const bytes = new Uint8Array(await response.arrayBuffer())
  return { response, bytes, tookMs: performance.now() - startedAtMs }
}

/** Problem as RFC 9457 describes it, in the shape of the library. */
interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: string
}

function compare({ response, bytes, tookMs }: ReadResponse, expected: ExpectedResponse): void {
  const { headers } = response
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
  const found: Required<Omit<ExpectedResponse, 'code' | 'detail' | 'msMax' | 'headers'>> = {
    status: response.status,
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
      status: response.status,
      detail: expect.any(String),
      code,
    })
    expect(problem.detail).toContain(detail ?? '')
  }
  if (msMax !== undefined) expect(tookMs).toBeLessThan(msMax)
}
