import { afterAll, beforeAll, expect, test } from 'bun:test'
import { genericBody, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { isNightly } from '#test/support/nightly.ts'
import { until } from '#test/support/until.ts'
import { printCounts } from './event-ledger.ts'
import { answersOf } from './event-load.ts'
import { type EventScene, inFlightMax, openEventScene } from './event-scene.ts'
import { startRecordLoad } from './record-load.ts'

/** Longer than every time-out of the API and every lease of this scene. */
const hangMs = isNightly ? 20_000 : 10_000
/** Time limit of what follows a hang. */
const storedMsMax = 20_000
let scene: EventScene

beforeAll(async () => {
  scene = await openEventScene()
}, 60_000)
afterAll(async () => {
  scene?.redis.signal('SIGCONT')
  scene?.postgres.wake()
  await scene?.close()
})

test('Redis hang of many seconds: events get 200, records get 503 within their time limit, and no event is lost', async () => {
  const load = scene.startLoad()
  const records = startRecordLoad(() => scene.api.url)
  await Promise.all([load.untilMore(200), records.untilMore(50, 200)])
  scene.redis.signal('SIGSTOP')
  records.begin()
  await Bun.sleep(hangMs)
  const hung = records.seen()
  scene.redis.signal('SIGCONT')
  await Promise.all([load.untilMore(200), records.untilMore(50, 200)])
  await records.end()
  await scene.finish(load)
  const counts = load.ledger.counts()
  printCounts(
    `SIGSTOP of Redis for ${hangMs / 1000} s`,
    counts,
    `${answersOf(load)}; records during the fault ${hung.text}`,
  )
  expect(counts.lost).toBe(0)
  expect([...load.answers.keys()]).toEqual([200])
  expect(load.slowestMs()).toBeLessThan(intakeMsMax)
  expect(counts.twice).toBe(0)
  // Calls in flight when the process was stopped may have been answered with 200.
  expect(hung.answers.get(503)).toBeGreaterThan(20)
  expect(hung.answers.get(200) ?? 0).toBeLessThanOrEqual(records.callers)
  expect(hung.slowestMs).toBeLessThan(recordMsMax)
}, 120_000)

test('Postgres hang of many seconds: events get 202 within their time limit, records get 200, and no event is lost', async () => {
  const load = scene.startLoad()
  const records = startRecordLoad(() => scene.api.url)
  await Promise.all([load.untilMore(200), records.untilMore(50, 200)])
  await scene.postgres.hang()
  records.begin()
  await Bun.sleep(hangMs)
  const hung = records.seen()
  scene.postgres.wake()
  await Promise.all([load.untilMore(200, 200), records.untilMore(50, 200)])
  await records.end()
  await scene.finish(load)
  const counts = load.ledger.counts()
  printCounts(
    `SIGSTOP of Postgres for ${hangMs / 1000} s`,
    counts,
    `${answersOf(load)}; records during the fault ${hung.text}`,
  )
  expect(counts.lost).toBe(0)
  expect([...load.answers.keys()].toSorted()).toEqual([200, 202])
  expect(load.answers.get(202)).toBeGreaterThan(100)
  expect(load.slowestMs()).toBeLessThan(intakeMsMax)
  // Deliveries in flight at the stop stay incomplete beyond their lease, but the forwarder keeps them.
  expect(counts.twice).toBeLessThanOrEqual(inFlightMax)
  expect([...hung.answers.keys()]).toEqual([200])
  expect(hung.slowestMs).toBeLessThan(recordMsMax)
}, 120_000)

test('Postgres hang: of 200 events, only the events in flight at the first timeout are slow', async () => {
  const url = `${scene.api.url}/v1/t/acme/webhooks/generic`
  const send = async () => {
    const startedMs = performance.now()
    const { status } = await fetch(url, { method: 'POST', ...signGeneric(genericBody()) })
    return { status, tookMs: performance.now() - startedMs }
  }
  expect((await send()).status).toBe(200)
  await scene.postgres.hang()
  const underWay = await Promise.all(Array.from({ length: senders }, send))
  const later: Awaited<ReturnType<typeof send>>[] = []
  for (let sent = senders; sent < 200; sent += senders) {
    later.push(...(await Promise.all(Array.from({ length: senders }, send))))
    // Long enough for several probes of the circuit breaker.
    await Bun.sleep(restMs)
  }
  scene.postgres.wake()
  const all = [...underWay, ...later]
  const slow = all.filter(({ tookMs }) => tookMs > 500).length
  const slowestLater = Math.max(...later.map(({ tookMs }) => tookMs))
  const stored = await until('stored again', async () => (await send()).status === 200, storedMsMax)
    .then(() => 'yes')
    .catch(() => 'no')
  console.log(
    `hang of Postgres, circuit breaker: sent ${all.length}, over 500 ms ${slow} (in flight at the first time-out ${senders}), slowest later ${slowestLater.toFixed(0)} ms, stored again ${stored}`,
  )
  expect(new Set(all.map(({ status }) => status))).toEqual(new Set([202]))
  expect(slow).toBeLessThanOrEqual(senders)
  expect(stored).toBe('yes')
  expect(scene.api.lines(opened).length).toBeGreaterThanOrEqual(1)
  // A batch in flight may open the breaker once more; a probe closes it again.
  await until(
    'a closed circuit breaker',
    async () => scene.api.lines(closed).length === scene.api.lines(opened).length,
    storedMsMax,
  )
}, 120_000)

const senders = 10
const restMs = 250
const opened = 'event store circuit breaker opened: events are spooled without trying Postgres'
const closed = 'event store circuit breaker closed: events are stored in Postgres'
/** Two seconds each for Postgres and Redis, plus a margin for a busy machine. */
const intakeMsMax = 5_000
/** 900 ms plus a margin for a busy machine. */
const recordMsMax = 2_000
