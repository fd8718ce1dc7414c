import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { readStats } from './read-stats.ts'
import { type StatsBatch, StatsRecorder, writeStats } from './stats-recorder.ts'
import { emptyCell, StatsTally } from './stats-tally.ts'

const startMs = Date.parse('2026-11-01T12:58:00Z')
const minuteMs = 60_000
const hourMs = 3_600_000
const [one, other, deleted] = [someTenantId(), someTenantId(), someTenantId()]

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
  for (const id of [one, other, deleted])
    await pool.query(
      `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at, deleted_at)
       VALUES ($1, $1, 'shops', $1, false, '{}', 1, now(), now(), now(), $2)`,
      [id, id === deleted ? new Date() : null],
    )
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  await pool.query('TRUNCATE stats_minutely, stats_hourly, stats_queue, stats_writers')
})

/** Simulates the counting of a process, with a clock that only the test moves. */
function createProcess(writingTo: Pool = pool) {
  const clock = { nowMs: startMs, now: () => clock.nowMs }
  const tally = new StatsTally(clock)
  const refused: number[] = []
  const onRefused = (cells: number) => void refused.push(cells)
  const recorder = new StatsRecorder({ pool: writingTo, tally, clock, onRefused })
  return { clock, tally, recorder, refused }
}

const accepted = async (tenants: 'all' | readonly TenantId[], stepMs = minuteMs) =>
  (await readStats(pool, { tenants, fromMs: startMs, toMs: startMs + 4 * minuteMs, stepMs })).points.map(
    (point) => point.accepted,
  )

describe('stats recorder', () => {
  test('stats recorder: several processes add up to sums per minute by tenant and in total, and to hourly sums at their end', async () => {
    const [first, second] = [createProcess(), createProcess()]
    for (const { clock, tally, recorder } of [first, second]) {
      for (let minute = 0; minute < 4; minute += 1) {
        tally.count(one, 'accepted')
        if (minute === 2) tally.count(other, 'accepted')
        await recorder.flush()
        tally.count(one, 'accepted')
        await recorder.flush()
        clock.nowMs += minuteMs
      }
      await recorder.flushAll()
    }
    expect(await accepted([one])).toEqual([4, 4, 4, 4])
    expect(await accepted([other])).toEqual([0, 0, 2, 0])
    expect(await accepted([one, other])).toEqual([4, 4, 6, 4])
    expect(await accepted('all')).toEqual([4, 4, 6, 4])
    expect(await accepted('all', hourMs)).toEqual([8, 10])
    expect(await accepted([other], hourMs)).toEqual([0, 2])
  })

  test('stats recorder: stores the causes of refusals and the maximum queue depth', async () => {
    for (const [nth, cause] of ['signature_mismatch', 'provider_paused', 'signature_mismatch'].entries()) {
      const { tally, recorder } = createProcess()
      tally.countRefused(one, cause)
      tally.noteQueue({ dueCount: nth === 1 ? 9 : 1, oldestAgeMs: nth })
      await recorder.flushAll()
    }
    const { points, total } = await readStats(pool, {
      tenants: 'all' as const,
      fromMs: startMs,
      toMs: startMs + minuteMs,
      stepMs: minuteMs,
    })
    expect(points[0]?.refusedBy).toEqual({ provider_paused: 1, signature_mismatch: 2 })
    expect(points[0]?.queue).toEqual({ dueCount: 9, oldestAgeMs: 2 })
    expect([total.refused, total.refusedBy]).toEqual([3, { provider_paused: 1, signature_mismatch: 2 }])
  })

  test('stats recorder: keeps no stats of a deleted tenant', async () => {
    const { tally, recorder } = createProcess()
    tally.count(deleted, 'accepted')
    await recorder.flushAll()
    expect(await accepted([deleted])).toEqual([0, 0, 0, 0])
    expect((await pool.query(`SELECT FROM stats_hourly WHERE tenant_id <> ''`)).rowCount).toBe(0)
  })

  test('stats recorder: concurrent writers for the same tenants all succeed without deadlock', async () => {
    const ids = [one, other]
    await Promise.all(
      Array.from({ length: 8 }, async (_none, nth) => {
        const { tally, recorder } = createProcess()
        for (let times = 0; times < 20; times += 1) {
          for (const id of nth % 2 === 0 ? ids : ids.toReversed()) tally.count(id, 'accepted')
          await recorder.flushAll()
        }
      }),
    )
    expect(await accepted('all')).toEqual([320, 0, 0, 0])
  })
})

describe('stats batch', () => {
  const batch = (turn: number): StatsBatch => {
    const cell = emptyCell(one, startMs)
    cell.counts[0] = 3
    return { writer: 'w', turn, minutes: [cell], hours: [], queue: new Map() }
  }

  test('stats batch: a repeated batch adds nothing, even during the first write or after a later batch', async () => {
    await Promise.all([writeStats(pool, batch(1)), writeStats(pool, batch(1))])
    await writeStats(pool, batch(1))
    expect(await accepted([one])).toEqual([3, 0, 0, 0])
    await writeStats(pool, batch(2))
    await writeStats(pool, batch(1))
    expect(await accepted([one])).toEqual([6, 0, 0, 0])
  })

  test('stats batch: a batch with a lost reply is repeated unchanged, and later counts follow', async () => {
    let losesAnswers = true
    const lossy = new Proxy(pool, {
      get: (target, name) =>
        name !== 'query'
          ? Reflect.get(target, name)
          : async (query: { text: string; values: unknown[] }) => {
              const answer = await target.query(query)
              if (losesAnswers) throw new Error('the connection broke')
              return answer
            },
    })
    const { tally, recorder } = createProcess(lossy)
    tally.count(one, 'accepted')
    await expect(recorder.flush()).rejects.toThrow('broke')
    tally.count(one, 'accepted')
    await expect(recorder.flush()).rejects.toThrow('broke')
    losesAnswers = false
    await recorder.flushAll()
    expect(await accepted([one])).toEqual([2, 0, 0, 0])
  })

  test('stats batch: a batch that Postgres rejects is reported and does not block later batches', async () => {
    const { tally, recorder, refused } = createProcess()
    tally.countRefused(one, 'of \0 bytes')
    tally.count(other, 'accepted')
    await recorder.flushAll()
    expect(refused).toEqual([3 + 3])
    tally.count(other, 'accepted')
    await recorder.flushAll()
    expect(await accepted([other])).toEqual([1, 0, 0, 0])
  })
})
