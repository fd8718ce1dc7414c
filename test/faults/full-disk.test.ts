import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { command } from '#test/support/stores/redis-topology.ts'
import { until } from '#test/support/until.ts'
import { printCounts } from './event-ledger.ts'
import { answersOf, type EventLoad } from './event-load.ts'
import { type EventScene, inFlightMax, openEventScene } from './event-scene.ts'
import { startRecordLoad } from './record-load.ts'

/** File size limit, reached after some hundred events. */
const fileBytesMax = 512 * 1024

/** Waits for `count` further refusals. */
async function untilRefused(load: EventLoad, count: number): Promise<void> {
  const from = load.answers.get(503) ?? 0
  await until(`${count} answers 503`, () => (load.answers.get(503) ?? 0) >= from + count)
}

describe('full disk, appendfsync always', () => {
  let scene: EventScene
  beforeAll(async () => {
    scene = await openEventScene()
  }, 60_000)
  afterAll(() => scene?.close())

  // Redis exits if it cannot write its file, and again after each restart until there is room.
  test('full disk, appendfsync always: without Postgres, new events are refused and earlier events are delivered', async () => {
    await scene.redis.restart({ fileBytesMax })
    const load = scene.startLoad()
    await load.untilMore(50)
    scene.postgres.signal('SIGKILL')
    await load.untilMore(50, 202)
    await untilRefused(load, 50)
    const acknowledged = load.ledger.acknowledgedCount()
    // Restarts Redis as a supervisor would; Redis may exit before the first connection.
    await scene.redis.restart({ fileBytesMax }).catch(() => undefined)
    await untilRefused(load, 50)
    const again = load.ledger.acknowledgedCount() - acknowledged
    await Promise.all([scene.redis.restart(), scene.postgres.restart()])
    await load.untilMore(100, 200)
    await scene.finish(load)
    const counts = load.ledger.counts()
    printCounts('disk full for Redis’ file, Postgres away', counts, `${answersOf(load)}; ${again} while full`)
    expect(counts.lost).toBe(0)
    expect(load.ledger.acknowledgedCount(202)).toBeGreaterThanOrEqual(50)
    expect(counts.twice).toBeLessThanOrEqual(inFlightMax)
  }, 120_000)

  test('full disk, appendfsync always: with Postgres, events get 200, and records get 503 within their time limit', async () => {
    await scene.redis.restart({ emptied: true, fileBytesMax })
    const load = scene.startLoad()
    const records = startRecordLoad(() => scene.api.url, 16)
    // Waits until the API has reconnected, because earlier refusals are not caused by the full disk.
    await records.untilMore(50, 200)
    await records.untilMore(50, 503)
    records.begin()
    await Promise.all([load.untilMore(100, 200), records.untilMore(50, 503)])
    const full = records.seen()
    await scene.redis.restart()
    await records.untilMore(50, 200)
    await records.end()
    await scene.finish(load)
    const counts = load.ledger.counts()
    printCounts(
      'disk full for Redis’ file',
      counts,
      `${answersOf(load)}; records during the fault ${full.text}`,
    )
    expect(load.ledger.missing(200).length).toBe(0)
    expect(counts.lost).toBe(0)
    expect([...full.answers.keys()]).toEqual([503])
    expect(full.slowestMs).toBeLessThan(2_000)
  }, 120_000)
})

describe('full disk, appendfsync everysec, spool set as durable', () => {
  let scene: EventScene
  beforeAll(async () => {
    scene = await openEventScene({
      redisArgs: ['--appendfsync', 'everysec', '--auto-aof-rewrite-percentage', '0'],
      apiEnv: { LATCHKEY_REDIS_SPOOL_DURABLE: 'true' },
    })
  }, 60_000)
  afterAll(() => scene?.close())

  // Redis keeps running and refuses writes (MISCONF) until it has written the commands that it has already acknowledged. The spool is
  // drained only afterwards, since removing an entry is a write.
  test('full disk, appendfsync everysec: no event that Redis refuses is acknowledged, and service resumes when space is free', async () => {
    await scene.redis.restart({ fileBytesMax })
    const load = scene.startLoad()
    const records = startRecordLoad(() => scene.api.url)
    await records.untilMore(50, 200)
    scene.postgres.signal('SIGKILL')
    await load.untilMore(50, 202)
    await untilRefused(load, 50)
    const [reply] = await command(scene.redis, ['INFO', 'persistence'])
    records.begin()
    await Promise.all([untilRefused(load, 50), records.untilMore(50, 503)])
    const full = records.seen()
    await records.end()
    await scene.postgres.restart()
    await load.untilMore(100, 200)
    const waiting = load.ledger.missing(202).length
    // Makes Redis replace the file with a far smaller one.
    await command(scene.redis, ['BGREWRITEAOF'])
    await scene.finish(load)
    const counts = load.ledger.counts()
    const fault = 'disk full for Redis’ file, synced each second, Postgres away'
    printCounts(fault, counts, `${answersOf(load)}; records during the fault ${full.text}`)
    expect(waiting).toBeGreaterThanOrEqual(50)
    expect(String(reply)).toContain('aof_last_write_status:err')
    expect(counts.lost).toBe(0)
    expect([...full.answers.keys()]).toEqual([503])
    expect(counts.twice).toBeLessThanOrEqual(inFlightMax)
  }, 120_000)
})
