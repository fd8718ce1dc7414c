import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TestServer } from '../typescript/src/testing/test-server.ts'
import { type Fault, type FaultProxy, startFaultProxy } from './fault-proxy.ts'

const server = new TestServer()
let proxy: FaultProxy
let service: Bun.Server<undefined>
beforeAll(async () => {
  service = Bun.serve({ port: 0, fetch: server.fetch })
  proxy = await startFaultProxy(`http://127.0.0.1:${service.port}`)
})
afterAll(async () => {
  await proxy[Symbol.asyncDispose]()
  await service.stop(true)
})

/** Acquires a key and returns the status and body, or how the call failed. */
function acquire(key: string): Promise<string> {
  return fetch(`${proxy.url}/v1/record`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${server.apiKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ scope: 's', key }),
    signal: AbortSignal.timeout(300),
  }).then(
    async (response) => `${response.status} ${await response.text().catch(() => 'cut')}`,
    (error: Error) => (error.name === 'TimeoutError' ? 'timeout' : 'closed'),
  )
}

test.each<[Fault, RegExp, string]>([
  ['pass', /^200 .*"locked":true/, 'held'],
  ['call_lost', /^closed$/, 'none'],
  ['answer_lost', /^closed$/, 'held'],
  ['answer_cut', /^200 cut$/, 'held'],
  ['no_answer', /^timeout$/, 'none'],
  ['answer_withheld', /^timeout$/, 'held'],
  [{ delayMs: 50 }, /^200 .*"locked":true/, 'held'],
  [{ status: 503, code: 'store_unavailable', retryAfterSeconds: 1 }, /^503 .*"store_unavailable"/, 'none'],
  [{ status: 200, body: 'x', bodyTimes: 3 }, /^200 xxx$/, 'none'],
])('fault proxy: a call with the fault %j has its answer and effect', async (fault, answer, state) => {
  const key = JSON.stringify(fault)
  const before = proxy.counts.acquire
  proxy.script({ acquire: [{ fault, times: 1 }] })
  expect(await acquire(key)).toMatch(answer)
  expect(server.stateOf({ scope: 's', key }).kind).toBe(state as 'none')
  expect(proxy.counts.acquire - before).toBe(1)
  expect(await acquire(`${key} again`)).toMatch(/^200 /)
})
