import { expect } from 'bun:test'
import type { TestAnswer, TestApi } from '#test/support/api.ts'
import { until } from '#test/support/until.ts'

/** Caller with the API key of a tenant. */
export interface Caller {
  readonly api: TestApi
  readonly apiKey: string
}

/** Answer and its duration. */
export interface TimedAnswer {
  readonly route: string
  readonly ms: number
  readonly answer: TestAnswer
}

/** Bound on answers while a store is unavailable. */
const refusalMsMax = 1000
const healMsMax = 10_000

/** Sends one request as the caller. */
export async function send(
  { api, apiKey }: Caller,
  method: string,
  path: string,
  body?: unknown,
): Promise<TimedAnswer> {
  const startedMs = performance.now()
  const answer = await api.call(method, path, body, { Authorization: `Bearer ${apiKey}` })
  return { route: `${method} ${path}`, ms: performance.now() - startedMs, answer }
}

/** Acquires the lock of `key`. */
export function acquire(caller: Caller, key: string, more: object = {}): Promise<TimedAnswer> {
  return send(caller, 'POST', '/v1/record', { scope: 'faults', key, ...more })
}

/** Saves a record under `key`, with the lock token if given. */
export function save(
  caller: Caller,
  key: string,
  body: unknown = { saved: key },
  lockToken?: string,
): Promise<TimedAnswer> {
  const fields = { scope: 'faults', key, status: 201, body, ...(lockToken !== undefined && { lockToken }) }
  return send(caller, 'PUT', '/v1/record', fields)
}

/** Reads the record of `key`. */
export function fetchRecord(caller: Caller, key: string): Promise<TimedAnswer> {
  return send(caller, 'GET', `/v1/record?scope=faults&key=${key}`)
}

/** Sends one request to each record route concurrently. */
export function callEveryRoute(caller: Caller, key: string): Promise<TimedAnswer[]> {
  return Promise.all([
    acquire(caller, key),
    save(caller, `${key}-put`),
    fetchRecord(caller, key),
    send(caller, 'DELETE', `/v1/record?scope=faults&key=${key}-gone`),
    send(caller, 'POST', '/v1/record/extend', { scope: 'faults', key, lockToken: 'a-token' }),
  ])
}

/** Expects 503 with its envelope within a second, and never "not cached". */
export function expectRefused({ route, ms, answer }: TimedAnswer, msMax = refusalMsMax): void {
  expect({ route, status: answer.status, ...answer.json }).toMatchObject({
    route,
    status: 503,
    statusCode: 503,
    error: 'Service Unavailable',
    code: 'store_unavailable',
    message: expect.any(String),
    requestId: expect.any(String),
  })
  expect(Number(answer.headers.get('Retry-After'))).toBeGreaterThan(0)
  expect(answer.text).not.toContain('cached')
  expect(ms).toBeLessThan(msMax)
}

/** Expects a refusal by every route, with each check of a batch refused, and a live process. */
export async function expectAway(caller: Caller, key = 'away'): Promise<void> {
  for (const answer of await callEveryRoute(caller, key)) expectRefused(answer)
  const checks = [1, 2].map((n) => ({ scope: 'faults', key: `${key}-${n}` }))
  const { answer, ms } = await send(caller, 'POST', '/v1/record/batch', { checks })
  expect(answer.status).toBe(200)
  const refused = { statusCode: 503, code: 'store_unavailable', retryAfterMs: 1000 }
  expect(answer.json).toMatchObject({ results: [refused, refused] })
  expect(answer.headers.get('Retry-After')).toBe('1')
  expect(ms).toBeLessThan(refusalMsMax)
  expect((await fetch(`${caller.api.opsUrl}/livez`)).status).toBe(200)
}

/** Waits, without a restart, until a lock is granted again; expects every earlier answer to be a refusal. */
export async function untilLocks(caller: Caller, name: string): Promise<void> {
  await until(
    `a lock after ${name}`,
    async () => {
      const timed = await acquire(caller, `${name}-${crypto.randomUUID()}`)
      if (timed.answer.status !== 200) return expectRefused(timed)
      expect(timed.answer.json).toMatchObject({ cached: false, locked: true })
      return true
    },
    healMsMax,
  )
}

/** Reads `/readyz`. */
export async function readiness(api: TestApi): Promise<{ status: number; text: string }> {
  const response = await fetch(`${api.opsUrl}/readyz`)
  return { status: response.status, text: await response.text() }
}

/** Waits until `/readyz` has the status; returns its text. */
export async function untilReadiness(api: TestApi, status: number): Promise<string> {
  return until(`/readyz ${status}`, async () => {
    const found = await readiness(api)
    return found.status === status ? found.text : undefined
  })
}
