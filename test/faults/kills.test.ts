import { afterAll, beforeAll, expect, test } from 'bun:test'
import { printCounts } from './event-ledger.ts'
import { answersOf, type EventLoad } from './event-load.ts'
import { type EventScene, openEventScene } from './event-scene.ts'

let scene: EventScene

beforeAll(async () => {
  scene = await openEventScene()
}, 60_000)
afterAll(() => scene?.close())

/** Maximum time from a delivery to its written outcome on a busy machine. Outcomes are gathered for 100 ms. */
const unwrittenMsMax = 2_000

/** Faults, and whether they repeat deliveries without a written outcome, as those of the forwarder and of Postgres do. */
const kills: readonly (readonly [
  fault: string,
  repeats: boolean,
  kill: (load: EventLoad) => Promise<void>,
])[] = [
  ['SIGKILL of the API', false, () => scene.restartApi()],
  ['SIGKILL of the forwarder', true, () => scene.restartForwarder()],
  [
    'SIGKILL of Redis, its file kept',
    false,
    async (load) => {
      scene.redis.signal('SIGKILL')
      await load.untilMore(50)
      await scene.redis.restart()
    },
  ],
  [
    'immediate stop of Postgres',
    true,
    async (load) => {
      scene.postgres.signal('SIGQUIT')
      await load.untilMore(50, 202)
      await scene.postgres.restart()
    },
  ],
  [
    'SIGKILL of Postgres',
    true,
    async (load) => {
      scene.postgres.signal('SIGKILL')
      await load.untilMore(50, 202)
      await scene.postgres.restart()
    },
  ],
  [
    'SIGKILL of both stores',
    true,
    async () => {
      scene.postgres.signal('SIGKILL')
      scene.redis.signal('SIGKILL')
      await Promise.all([scene.postgres.restart(), scene.redis.restart()])
    },
  ],
  [
    'SIGKILL of both stores, Redis after 202s and its file kept',
    true,
    async (load) => {
      scene.postgres.signal('SIGKILL')
      await load.untilMore(50, 202)
      scene.redis.signal('SIGKILL')
      await Promise.all([scene.postgres.restart(), scene.redis.restart()])
    },
  ],
]

test.each(kills)(
  '%s under load: no acknowledged event is lost, and only deliveries whose outcome was not written are repeated, at most once',
  async (fault, repeats, kill) => {
    const load = scene.startLoad()
    await load.untilMore(200)
    const faultAtMs = performance.now()
    await kill(load)
    await load.untilMore(200, 200)
    await scene.finish(load)
    const counts = load.ledger.counts()
    printCounts(fault, counts, answersOf(load))
    expect(counts.acknowledged).toBe(counts.sent)
    expect(counts.lost).toBe(0)
    expect(load.ledger.most).toBeLessThanOrEqual(repeats ? 2 : 1)
    expect(load.ledger.firstRepeatedMs).toBeGreaterThan(faultAtMs - unwrittenMsMax)
  },
  120_000,
)

test('SIGKILL of Redis with loss of its file: no event answered with 200 is lost', async () => {
  const load = scene.startLoad()
  await load.untilMore(200)
  scene.redis.signal('SIGKILL')
  await load.untilMore(50)
  await scene.redis.restart({ emptied: true })
  await load.untilMore(200, 200)
  await scene.finish(load)
  const counts = load.ledger.counts()
  printCounts('SIGKILL of Redis, its file lost', counts, answersOf(load))
  expect(load.ledger.missing(200).length).toBe(0)
  // On a busy machine, Postgres may take over 2 s, and the events are then spooled, so they can be lost.
  expect(counts.lost).toBeLessThanOrEqual(load.answers.get(202) ?? 0)
  expect(counts.twice).toBe(0)
}, 120_000)

test('SIGKILL of both stores with loss of Redis’ file: only events answered with 202 are lost', async () => {
  const load = scene.startLoad()
  await load.untilMore(200)
  scene.postgres.signal('SIGKILL')
  await load.untilMore(100, 202)
  await load.end()
  const spooled = load.ledger.acknowledgedCount(202)
  scene.redis.signal('SIGKILL')
  await scene.redis.restart({ emptied: true })
  await scene.postgres.restart()
  const after = scene.startLoad()
  await after.untilMore(200, 200)
  await scene.finish(after)
  const counts = load.ledger.counts()
  printCounts('SIGKILL of both stores, Redis’ file lost', counts, `${spooled} answered 202`)
  expect(load.ledger.missing(200).length).toBe(0)
  // Documents a limitation: a Redis that keeps its file loses no event (see above).
  expect(counts.lost).toBeGreaterThan(0)
  expect(counts.lost).toBeLessThanOrEqual(spooled)
  expect(load.ledger.most).toBeLessThanOrEqual(2)
  expect(after.ledger.missing().length).toBe(0)
}, 120_000)
