import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { checkDelivery } from '#test/support/events/delivery-check.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { genericBody, signGeneric } from '#test/support/intake/webhook-calls.ts'
import type { TestProcess } from '#test/support/processes/api-process.ts'
import { cloneTenants } from '#test/support/tenants/cloned-tenants.ts'
import { until } from '#test/support/until.ts'
import { EventLedger, printCounts } from './event-ledger.ts'
import { callbackYaml, type EventScene, loadSlug, openEventScene, tenantAt } from './event-scene.ts'

/** Payload of which a tenant's payload memory in a forwarder holds 16. */
const payloadBytes = 1024 * 1024
const sendingMax = 16
const eventCount = 24
/** Minimum events that intake has handed to a forwarder at its end. */
const handedMin = 8
/** Tenant whose events are sent to the API. */
const calledSlug = 'called'
const calledApiKey = 'lk_test_called_0123456789abcdef0123456789abcd'
/** Documented bound for the work of a killed forwarder. CI allows more, since its other work delays the processes. */
const takeoverMsMax = process.env['CI'] === undefined ? 5_000 : 15_000
/** Longer than a lease and than the take-over by another forwarder. */
const stoppedMs = 12_000
/** Several leases, below the time-out of an attempt. */
const slowCallMs = 11_000

let scene: EventScene
let pool: Pool
let callback: HeldCallback
/** Tenants of the tests to come, since each test uses one of its own. */
let tenantIds: TenantId[]
let tenantId: TenantId
let first: TestProcess
let second: TestProcess | undefined

beforeAll(async () => {
  callback = startHeldCallback()
  scene = await openEventScene({ manifests: tenantAt(calledSlug, calledApiKey, callbackYaml(callback.url)) })
  const bounds = { connectionsMax: 2, queryTimeoutMs: 30_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: scene.postgres.url, applicationName: 'test', ...bounds })
  tenantIds = await cloneTenants(pool, { of: loadSlug, count: 4, callback: { url: callback.url } })
}, 60_000)
afterAll(async () => {
  await pool?.end()
  await scene?.close()
  await callback?.stop()
})
beforeEach(async () => {
  callback.hold()
  const next = tenantIds.shift()
  if (next === undefined) throw new Error('no tenant is left')
  tenantId = next
  await end(second)
  // Starts the second forwarder only after the first one has claimed the events.
  await scene.restartForwarder()
  first = scene.forwarder
}, 60_000)

async function end(process: TestProcess | undefined): Promise<void> {
  process?.signal('SIGKILL')
  await process?.exited
}

interface HeldCallback {
  readonly url: string
  /** Deliveries since the last `hold`, by event id. */
  readonly ledger: EventLedger
  /** Number of calls without an answer. */
  held(): number
  /** Holds further calls. */
  hold(): void
  /** Answers the held calls, and further calls at once. */
  release(): void
  stop(): Promise<void>
}

/** Starts a callback. */
function startHeldCallback(): HeldCallback {
  let ledger = new EventLedger()
  let gate = Promise.withResolvers<void>()
  let held = 0
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const body = await request.text()
      checkDelivery({ headers: request.headers, body })
      ledger.arrived(request.headers.get('webhook-id') ?? '')
      held += 1
      await gate.promise
      held -= 1
      return new Response(null, { status: 204 })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/`,
    get ledger() {
      return ledger
    },
    held: () => held,
    hold() {
      ledger = new EventLedger()
      gate = Promise.withResolvers<void>()
    },
    release: () => gate.resolve(),
    stop: () => server.stop(true),
  }
}

/** Accepts events of 1 MiB and waits until the first forwarder sends as many as its memory holds and has claimed the rest. */
async function acceptLarge(): Promise<void> {
  const payload = JSON.stringify({ text: 'x'.repeat(payloadBytes) })
  const events = Array.from({ length: eventCount }, () => receivedEvent({ tenantId, payload, payloadBytes }))
  const { ledger } = callback
  for (const { id } of events) ledger.sent(id)
  await acceptEvents(pool, events)
  for (const { id } of events) ledger.acknowledged(id, 200)
  await until('calls of the first forwarder', () => callback.held() === sendingMax)
  await until('claims of all events', async () => (await count('lease IS NOT NULL')) === eventCount)
}

async function count(condition: string): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(
    `SELECT count(*)::integer AS n FROM deliveries_due WHERE tenant_id = $1 AND ${condition}`,
    [tenantId],
  )
  return rows[0]?.n ?? 0
}

/** Sends an event to the API. */
async function sendCall(): Promise<void> {
  const url = `${scene.api.url}/v1/t/${calledSlug}/webhooks/generic`
  const { status } = await fetch(url, { method: 'POST', ...signGeneric(genericBody()) })
  expect(status).toBe(200)
}

/** Returns the number of events that intake has handed to the first forwarder. */
async function handedCount(): Promise<number> {
  const { opsPort } = await first.logged('listening')
  const metrics = await (await fetch(`http://localhost:${opsPort}/metrics`)).text()
  return Number(/\nlatchkey_delivery_handed_total (\d+)\n/.exec(metrics)?.[1])
}

/** Sends events one by one until the first forwarder has got this many more from intake. Returns how many were sent. */
async function sendUntilHanded(more: number): Promise<number> {
  const before = await handedCount()
  let sent = 0
  await until(`${more} handed events`, async () => {
    await sendCall()
    sent += 1
    return (await handedCount()) >= before + more
  })
  return sent
}

/** Waits until the first forwarder has renewed all of its leases. */
async function untilRenewed(): Promise<void> {
  const { rows } = await pool.query<{ until: Date }>(
    'SELECT max(leased_until) AS until FROM deliveries_due WHERE tenant_id = $1',
    [tenantId],
  )
  await until('renewed leases', async () => {
    const { rows: later } = await pool.query<{ renewed: boolean }>(
      'SELECT min(leased_until) > $2 AS renewed FROM deliveries_due WHERE tenant_id = $1',
      [tenantId, rows[0]?.until],
    )
    return later[0]?.renewed
  })
}

/** Expects one recorded attempt and the state `processed` for each event. */
async function expectCompletedOnce(events: number): Promise<void> {
  await until('completion of all events', async () => (await count('true')) === 0)
  const { rows } = await pool.query<{ processed: number; attempts: number }>(
    `SELECT count(*) FILTER (WHERE state = 'processed')::integer AS processed,
      (SELECT count(*)::integer FROM attempts a JOIN events e ON e.id = a.event_id WHERE e.tenant_id = $1) AS attempts
    FROM events WHERE tenant_id = $1`,
    [tenantId],
  )
  expect(rows).toEqual([{ processed: events, attempts: events }])
}

test('SIGKILL of a forwarder: another forwarder delivers the calls in progress and the waiting claims within 5 s', async () => {
  await acceptLarge()
  await untilRenewed()
  second = await scene.startForwarder()
  // The second forwarder polls, but takes no event from the first one.
  await untilRenewed()
  expect(await count('claims = 1')).toBe(eventCount)
  const killedMs = performance.now()
  first.signal('SIGKILL')
  await first.exited
  callback.release()
  const { ledger } = callback
  const arrived = () => ledger.counts().delivered + ledger.counts().twice
  await until('delivery of all events again', () => arrived() === sendingMax + eventCount)
  const tookMs = performance.now() - killedMs
  await expectCompletedOnce(eventCount)
  printCounts('SIGKILL of a forwarder', ledger.counts(), `all delivered again after ${tookMs.toFixed(0)} ms`)
  expect(ledger.counts()).toEqual({
    sent: eventCount,
    acknowledged: eventCount,
    delivered: eventCount,
    lost: 0,
    twice: sendingMax,
  })
  expect(tookMs).toBeLessThan(takeoverMsMax)
}, 90_000)

test('SIGKILL of a forwarder: another forwarder delivers the events that intake handed to the killed forwarder within 5 s', async () => {
  const { rows: found } = await pool.query<{ id: TenantId }>('SELECT id FROM tenants WHERE slug = $1', [
    calledSlug,
  ])
  tenantId = found[0]?.id ?? tenantId
  callback.release()
  const before = await sendUntilHanded(1)
  await until('completion of the first events', async () => (await count('true')) === 0)
  callback.hold()
  const sent = await sendUntilHanded(handedMin)
  await until('calls of the first forwarder', () => callback.held() === sent)
  second = await scene.startForwarder()
  await untilRenewed()
  expect(await count('claims = 1')).toBe(sent)
  const { ledger } = callback
  const { rows } = await pool.query<{ id: string }>(
    'SELECT event_id AS id FROM deliveries_due WHERE tenant_id = $1',
    [tenantId],
  )
  // From now on the ledger counts the deliveries of these events, which the second forwarder makes.
  for (const { id } of rows) {
    ledger.sent(id)
    ledger.acknowledged(id, 200)
  }
  const killedMs = performance.now()
  first.signal('SIGKILL')
  await first.exited
  callback.release()
  await until('delivery of all events again', () => ledger.counts().delivered === sent)
  const tookMs = performance.now() - killedMs
  await expectCompletedOnce(before + sent)
  const note = `at least ${handedMin} were handed; all delivered again after ${tookMs.toFixed(0)} ms`
  printCounts('SIGKILL of a forwarder with handed events', ledger.counts(), note)
  expect(ledger.counts()).toMatchObject({ delivered: sent, lost: 0, twice: 0 })
  expect(tookMs).toBeLessThan(takeoverMsMax)
}, 90_000)

test('SIGSTOP of a forwarder beyond its leases: another forwarder delivers its events, and the stopped forwarder repeats and completes none of them', async () => {
  await acceptLarge()
  second = await scene.startForwarder()
  first.signal('SIGSTOP')
  const stoppedAtMs = performance.now()
  callback.release()
  const { ledger } = callback
  await until('delivery by the second forwarder', () => ledger.counts().delivered === eventCount)
  await expectCompletedOnce(eventCount)
  await until(`${stoppedMs} ms`, () => performance.now() > stoppedAtMs + stoppedMs)
  first.signal('SIGCONT')
  await first.logged('delivery leases lost; deliveries will be repeated')
  // The first forwarder works again: it takes over from the second one.
  await end(second)
  const [id] = await acceptEvents(pool, [receivedEvent({ tenantId })])
  if (id === undefined) throw new Error('no event')
  ledger.sent(id)
  ledger.acknowledged(id, 200)
  await expectCompletedOnce(eventCount + 1)
  printCounts(`SIGSTOP of a forwarder for ${stoppedMs / 1000} s`, ledger.counts())
  expect(ledger.counts()).toMatchObject({ delivered: eventCount + 1, lost: 0, twice: sendingMax })
  expect(ledger.most).toBe(2)
}, 90_000)

test('Slow callback: no other forwarder claims an attempt that lasts several leases', async () => {
  second = await scene.startForwarder()
  await acceptEvents(pool, [receivedEvent({ tenantId })])
  await until('the call', () => callback.held() === 1)
  const calledMs = performance.now()
  await until(`${slowCallMs} ms`, () => performance.now() > calledMs + slowCallMs)
  expect(await count('claims = 1 AND leased_until > now()')).toBe(1)
  callback.release()
  await expectCompletedOnce(1)
  expect(callback.held()).toBe(0)
}, 60_000)
