import { expect } from 'bun:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Expected, OnceStep, RecordCase, Step, WorkScript } from './cases.ts'
import type { Driver, DriverCall } from './driver.ts'
import { answered, type FaultProxy, startFaultProxy } from './fault-proxy.ts'
import type { ConformanceService } from './services.ts'

/** Parts of the test that a case uses. */
export interface RecordParts {
  readonly driver: Driver
  readonly service: ConformanceService
}

/** Scope of all cases. Each run of a case has a key of its own. */
const scope = 'conformance'

/** Runs a case and fails unless all its expectations hold. */
export async function runRecordCase(parts: RecordParts, one: RecordCase): Promise<void> {
  await using proxy = await startFaultProxy(parts.service.url)
  const run = new RecordRun(parts, proxy)
  await run.open(one)
  await run.steps(one.steps)
  await run.end(one)
}

interface Started {
  readonly call: DriverCall
  readonly startedAtMs: number
}

class RecordRun {
  readonly #parts: RecordParts
  readonly #proxy: FaultProxy
  readonly #key = crypto.randomUUID()
  readonly #started = new Map<string, Started>()
  readonly #joined = new Set<string>()
  #token = ''
  #pending: unknown
  #effects = 0

  constructor(parts: RecordParts, proxy: FaultProxy) {
    this.#parts = parts
    this.#proxy = proxy
  }

  async open({ client, clockAheadMs }: RecordCase): Promise<void> {
    const { url } = this.#proxy
    const options = {
      url,
      apiKey: this.#parts.service.apiKey,
      ...client,
      ...(clockAheadMs && { clockAheadMs }),
    }
    await this.#start('open', options).call.result
  }

  async steps(steps: readonly Step[]): Promise<void> {
    for (const step of steps) await this.#step(step)
  }

  async end({ effects, record }: RecordCase): Promise<void> {
    expect([...this.#started.keys()].filter((name) => !this.#joined.has(name))).toEqual([])
    expect({ effects: this.#effects }).toEqual({ effects })
    if (record === undefined) return
    const query = new URLSearchParams({ scope, key: this.#key })
    const { body } = await this.#call('GET', `/v1/record?${query}`)
    expect({ record: body['record'] ?? null }).toEqual({ record })
  }

  async #step(step: Step): Promise<void> {
    if ('faults' in step) this.#proxy.script(step.faults)
    else if ('wait' in step) await pause(step.wait)
    else if ('until' in step) await this.#proxy.until(step.until)
    else if ('other' in step) await this.#other(step)
    else if ('once' in step) await this.#once(step)
    else if ('abort' in step) this.#find(step.abort).call.abort()
    else if ('join' in step) {
      await this.#finish(this.#find(step.join), step.expect)
      this.#joined.add(step.join)
    } else if ('complete' in step)
      await this.#finish(this.#start('complete', { ...step.complete, pending: this.#pending }), step.expect)
    else if ('decorated' in step) {
      const options = { scope, key: this.#key, args: step.decorated }
      await this.#finish(this.#start('decorated', options, {}, step.work && { work: step.work }), step.expect)
    } else {
      const name = 'fetchRecord' in step ? 'fetchRecord' : 'removeRecord'
      await this.#finish(this.#start(name, { scope, key: this.#key }), step.expect)
    }
  }

  #find(name: string): Started {
    const started = this.#started.get(name)
    if (!started) throw new Error(`nothing was started as ${name}`)
    return started
  }

  async #once(step: OnceStep): Promise<void> {
    const more = {
      ...(step.recovery !== undefined && { recover: true }),
      ...(step.unwrap && { unwrap: true }),
    }
    const started = this.#start(
      'once',
      { scope, key: this.#key, ...step.once },
      { ...more, signal: 'start' in step },
      step,
    )
    if ('start' in step) this.#started.set(step.start, started)
    else await this.#finish(started, step.expect)
  }

  #start(
    name: string,
    options: object,
    more: object = {},
    script: Pick<OnceStep, 'work' | 'recovery' | 'takenOver'> = {},
  ): Started {
    const aborted = Promise.withResolvers<void>()
    const request = { do: name, client: this.#key, options, ...more }
    const call = this.#parts.driver.start(request, {
      aborted: () => aborted.resolve(),
      ask: async (question, context) => {
        if (question === 'recovery') return script.recovery
        this.#effects += 1
        if (script.takenOver !== undefined) expect(context['takenOver']).toBe(script.takenOver)
        return this.#work(script.work ?? {}, aborted.promise)
      },
    })
    return { call, startedAtMs: performance.now() }
  }

  async #work(
    { do: steps = [], untilSignal, ...reply }: WorkScript,
    aborted: Promise<void>,
  ): Promise<object> {
    await this.steps(steps)
    if (untilSignal) await aborted
    return 'returns' in reply || Object.keys(reply).length > 0 ? reply : { returns: null }
  }

  async #finish({ call, startedAtMs }: Started, expected: Expected): Promise<void> {
    const { pending, debug, ...result } = await call.result
    const tookMs = performance.now() - startedAtMs
    if (pending !== undefined) this.#pending = pending
    const secrets = [this.#parts.service.apiKey, this.#key, ...(this.#token === '' ? [] : [this.#token])]
    const told = JSON.stringify(debug ?? [])
    expect(secrets.filter((secret) => told.includes(secret))).toEqual([])
    const { calls, msMax, msMin, retryAfterMs, valueJson, ...named } = expected
    const same = { ...named, ...(valueJson !== undefined && { value: JSON.parse(valueJson) as unknown }) }
    const compared = Object.fromEntries(
      Object.keys({ ...same, ...nameOf(result) }).map((name) => [name, result[name]]),
    )
    expect(compared).toEqual(same)
    if (retryAfterMs !== undefined)
      expect(Number(result['retryAfterMs'])).toBeGreaterThanOrEqual(retryAfterMs)
    if (calls) expect({ ...this.#proxy.counts, ...calls }).toEqual(this.#proxy.counts)
    if (msMax !== undefined) expect(tookMs).toBeLessThan(msMax)
    if (msMin !== undefined) expect(tookMs).toBeGreaterThanOrEqual(msMin)
  }

  async #other({
    other,
    with: fields,
    answer = {},
    status = 200,
  }: Extract<Step, { other: string }>): Promise<void> {
    const base = { scope, key: this.#key, ...fields }
    const owned = { lockToken: this.#token, ...base }
    const query = (of: object) => `/v1/record?${new URLSearchParams(of as Record<string, string>)}`
    const calls = {
      acquire: () => this.#call('POST', '/v1/record', base),
      save: () =>
        this.#call('PUT', '/v1/record', { status: 200, headers: {}, ...(this.#token === '' ? base : owned) }),
      extend: () => this.#call('POST', '/v1/record/extend', owned),
      release: () => this.#call('DELETE', query(owned)),
      remove: () => this.#call('DELETE', query(base)),
    }
    const found = await calls[other]()
    if (typeof found.body['lockToken'] === 'string') this.#token = found.body['lockToken']
    expect(found).toMatchObject({ status, body: answer })
  }

  async #call(
    method: string,
    path: string,
    body?: object,
  ): Promise<{ status: number; body: Record<string, unknown> }> {
    const { url, apiKey } = this.#parts.service
    const headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' }
    const sent = {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    }
    const response = await answered(() => fetch(`${url}${path}`, sent))
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
}

/** Members of a result that every expectation has to name. */
function nameOf({ kind, thrown }: Readonly<Record<string, unknown>>): object {
  return {
    ...(kind !== undefined && thrown === undefined && { kind }),
    ...(thrown !== undefined && { thrown }),
  }
}
