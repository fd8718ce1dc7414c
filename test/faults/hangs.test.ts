import { afterAll, beforeAll, expect, test } from 'bun:test'
import { printCounts } from './event-ledger.ts'
import { answersOf } from './event-load.ts'
import { type EventScene, inFlightMax, openEventScene } from './event-scene.ts'
import { startRecordLoad } from './record-load.ts'

/** As the contract of this suite has it: longer than every time-out of the API and every lease of this scene. */
const hangMs = 20_000
let scene: EventScene

beforeAll(async () => {
  scene = await openEventScene()
}, 60_000)
afterAll(async () => {
  scene?.redis.signal('SIGCONT')
  scene?.postgres.wake()
  await scene?.close()
})

test('Redis that hangs for 20 s: events are answered 200, records 503 within their bound, and nothing is lost', async () => {
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
  printCounts('SIGSTOP of Redis for 20 s', counts, `${answersOf(load)}; records meanwhile ${hung.text}`)
  expect(counts.lost).toBe(0)
  expect([...load.answers.keys()]).toEqual([200])
  expect(load.slowestMs()).toBeLessThan(intakeMsMax)
  expect(counts.twice).toBe(0)
  // Those under way as it stopped may have been answered just before.
  expect(hung.answers.get(503)).toBeGreaterThan(20)
  expect(hung.answers.get(200) ?? 0).toBeLessThanOrEqual(records.callers)
  expect(hung.slowestMs).toBeLessThan(recordMsMax)
}, 120_000)

test('Postgres that hangs for 20 s: events are answered 202 within their bound, records as ever, and nothing is lost', async () => {
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
  printCounts('SIGSTOP of Postgres for 20 s', counts, `${answersOf(load)}; records meanwhile ${hung.text}`)
  expect(counts.lost).toBe(0)
  expect([...load.answers.keys()].toSorted()).toEqual([200, 202])
  expect(load.answers.get(202)).toBeGreaterThan(100)
  expect(load.slowestMs()).toBeLessThan(intakeMsMax)
  // What was sent as Postgres stopped is not settled for longer than its lease, yet stays its forwarder's.
  expect(counts.twice).toBeLessThanOrEqual(inFlightMax)
  expect([...hung.answers.keys()]).toEqual([200])
  expect(hung.slowestMs).toBeLessThan(recordMsMax)
}, 120_000)

/** Two seconds for Postgres, then for Redis, and some for a busy machine. */
const intakeMsMax = 5_000
/** 900 ms, and some for a busy machine. */
const recordMsMax = 2_000
