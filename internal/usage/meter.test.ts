import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { TenantId } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { defineScript } from '#internal/storage/index.ts'
import { meterLua } from '#internal/usage/index.ts'
import { labStartMs, openRecordLab, type RecordLab, readMeter } from '#test/support/records/record-lab.ts'
import type { LockLimits } from './limits.ts'
import { meterKeys } from './reading.ts'
import { saveEpochs } from './store.ts'

let lab: RecordLab
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())

const secondMs = 1000
const minuteMs = 60 * secondMs
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
const unlimited: LockLimits = { locksPerMinute: null, locksPerMonth: null, recordBytes: null }
let keys = 0

function acquire(tenantId: TenantId, limits: Partial<LockLimits> = {}, key = `k-${keys++}`) {
  return lab.store.acquire({
    tenantId,
    scope: 's',
    key,
    ttlMs: dayMs,
    lockMs: minuteMs,
    lockToken: `t-${key}`,
    fingerprint: '',
    attemptId: '',
    waits: false,
    limits: { ...unlimited, ...limits },
  })
}

const meterOf = (tenantId: TenantId) => readMeter(lab, tenantId)

async function sideFields(tenantId: TenantId): Promise<string[]> {
  return Object.keys((await lab.raw.hgetall(meterKeys(tenantId).side)) ?? {})
}

describe('month_end', () => {
  const script = defineScript('month-end', 'no-writes', [
    meterLua,
    `local out = {}
     for at, sec in ipairs(ARGV) do out[at] = string.format('%.0f', month_end(tonumber(sec))) end
     return out`,
  ])
  const monthEnds = async (seconds: readonly number[]) =>
    ((await lab.redis.evaluate(script, ['{month}'], seconds.map(String))) as string[]).map(Number)
  const byDate = (second: number) => {
    const date = new Date(second * 1000)
    return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1) / 1000
  }

  test.each([
    ['of January 1970', '1970-01-01T00:00:00Z', '1970-02-01T00:00:00Z'],
    ['of December', '2026-12-31T23:59:59Z', '2027-01-01T00:00:00Z'],
    ['of a leap February', '2028-02-29T23:59:59Z', '2028-03-01T00:00:00Z'],
    ['of a common February', '2027-02-28T12:00:00Z', '2027-03-01T00:00:00Z'],
    ['of February in a century year without a leap day', '2100-02-28T23:59:59Z', '2100-03-01T00:00:00Z'],
    ['of February in a century year with a leap day', '2000-02-29T00:00:00Z', '2000-03-01T00:00:00Z'],
    ['of a month from its first second', '2026-11-01T00:00:00Z', '2026-12-01T00:00:00Z'],
  ])('month_end: returns the end %s', async (_case, from, end) => {
    expect(await monthEnds([Date.parse(from) / 1000])).toEqual([Date.parse(end) / 1000])
  })

  test('month_end: returns the same as the calendar for any second', async () => {
    const second = fc.integer({ min: 0, max: Date.UTC(2400, 0, 1) / 1000 })
    await fc.assert(
      fc.asyncProperty(fc.array(second, { minLength: 100, maxLength: 100 }), async (seconds) => {
        expect(await monthEnds(seconds)).toEqual(seconds.map(byDate))
      }),
      { numRuns: 50 },
    )
  })
})

async function insertHour(tenantId: TenantId, hour: string, amount: number): Promise<void> {
  await lab.pool.query(
    `INSERT INTO usage_hourly (tenant_id, meter, hour, amount) VALUES ($1, 'locks', $2, $3)`,
    [tenantId, hour, amount],
  )
}

async function hoursOf(tenantId: TenantId): Promise<Record<string, number>> {
  const { rows } = await lab.pool.query<{ hour: Date; amount: number }>(
    'SELECT hour, amount FROM usage_hourly WHERE tenant_id = $1 ORDER BY hour',
    [tenantId],
  )
  return Object.fromEntries(rows.map(({ hour, amount }) => [hour.toISOString().slice(5, 13), amount]))
}

async function auditRows(tenantId: TenantId): Promise<number> {
  const { rows } = await lab.pool.query<{ count: number }>(
    `SELECT count(*) FROM audit WHERE tenant_id = $1 AND action = 'records.epoch_lost'`,
    [tenantId],
  )
  return rows[0]?.count ?? 0
}

const loseData = (tenantId: TenantId) => {
  const { meta, side } = meterKeys(tenantId)
  return lab.raw.del(meta, side)
}

describe('seeding', () => {
  test('seeding: meters start with the counts of the running hour and month in Postgres', async () => {
    const tenantId = await lab.createTenant()
    await insertHour(tenantId, '2026-10-31T23:00:00Z', 100)
    await insertHour(tenantId, '2026-11-01T00:00:00Z', 5)
    await insertHour(tenantId, '2026-11-21T10:00:00Z', 3)
    await lab.meter.seed(tenantId)
    expect(await meterOf(tenantId)).toMatchObject({ minuteLocks: 0, hourLocks: 3, monthLocks: 8, bytes: 0 })
    expect((await acquire(tenantId, { locksPerMonth: 9 })).kind).toBe('locked')
    expect((await acquire(tenantId, { locksPerMonth: 9 })).kind).toBe('limited')
  })

  test('seeding: a window that has ended by Redis’ clock starts at zero', async () => {
    const tenantId = await lab.createTenant()
    await insertHour(tenantId, '2026-11-21T10:00:00Z', 3)
    await lab.raw.set(`{${tenantId}}:clock`, String(labStartMs + hourMs))
    await lab.meter.seed(tenantId)
    expect(await meterOf(tenantId)).toMatchObject({ hourLocks: 0, monthLocks: 3 })
    await loseData(tenantId)
    await lab.raw.set(`{${tenantId}}:clock`, String(labStartMs + 20 * dayMs))
    await lab.meter.seed(tenantId)
    expect(await meterOf(tenantId)).toMatchObject({ hourLocks: 0, monthLocks: 0 })
  })

  test('seeding: one of several concurrent processes wins, and no loss is reported', async () => {
    const tenantId = await lab.createTenant()
    const others = [1, 2, 3].map(() => lab.createMeter())
    await Promise.all([lab.meter, ...others].map((meter) => meter.seed(tenantId)))
    expect(await rememberedEpoch(tenantId)).toBe(await epochInRedis(tenantId))
    expect(lab.lostEpochs).not.toContain(tenantId)
  })

  test('seeding: concurrent first calls are all counted', async () => {
    const tenantId = await lab.createTenant()
    const outcomes = await Promise.all(Array.from({ length: 50 }, () => acquire(tenantId)))
    expect(new Set(outcomes.map((outcome) => outcome.kind))).toEqual(new Set(['locked']))
    expect((await meterOf(tenantId)).monthLocks).toBe(50)
  })

  test('seeding: existing meters do not change', async () => {
    const tenantId = await lab.createTenant()
    await acquire(tenantId)
    const before = await lab.raw.getBuffer(meterKeys(tenantId).meta)
    await lab.createMeter().seed(tenantId)
    expect(await lab.raw.getBuffer(meterKeys(tenantId).meta)).toEqual(before)
  })

  test('seeding: no lock is granted while Postgres fails', async () => {
    const tenantId = await lab.createTenant()
    await withoutTable('usage_hourly', async () => {
      await expect(acquire(tenantId, {}, 'k')).rejects.toMatchObject({
        name: 'RedisUnavailable',
        reason: 'refused',
      })
    })
    expect(await lab.raw.keys(`{${tenantId}}:*`)).toEqual([`{${tenantId}}:clock`])
    expect((await acquire(tenantId, {}, 'k')).kind).toBe('locked')
  })
})

/** Renames a table temporarily, so that Postgres fails for its readers. */
async function withoutTable(name: string, work: () => Promise<void>): Promise<void> {
  await lab.pool.query(`ALTER TABLE ${name} RENAME TO taken_away`)
  try {
    await work()
  } finally {
    await lab.pool.query(`ALTER TABLE taken_away RENAME TO ${name}`)
  }
}

describe('usage flush', () => {
  test('usage flush: writes counts, and a repeated flush changes nothing', async () => {
    const tenantId = await lab.createTenant()
    for (const _lock of [1, 2, 3]) await acquire(tenantId)
    await lab.meter.flush()
    expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 3 })
    lab.meter.markUsed(tenantId)
    await lab.meter.flush()
    await lab.createMeter().flush()
    expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 3 })
    await acquire(tenantId)
    await lab.meter.flush()
    expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 4 })
  })

  test('usage flush: writes every hour since the last flush', async () => {
    const tenantId = await lab.createTenant()
    for (const hour of [0, 1, 1, 5, 5, 5, 30]) {
      await lab.setClock(tenantId, labStartMs + hour * hourMs)
      await acquire(tenantId)
    }
    await lab.meter.flush()
    expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 1, '11-21T11': 2, '11-21T15': 3, '11-22T16': 1 })
  })

  test('usage flush: writes the last hour after days without locks', async () => {
    const tenantId = await lab.createTenant()
    await acquire(tenantId)
    await lab.setClock(tenantId, labStartMs + 9 * dayMs)
    await acquire(tenantId)
    await lab.meter.flush()
    expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 1, '11-30T10': 1 })
  })

  test('usage flush: never lowers an amount in Postgres', async () => {
    const tenantId = await lab.createTenant()
    await acquire(tenantId)
    await insertHour(tenantId, '2026-11-21T10:00:00Z', 7)
    await lab.meter.flush()
    expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 7 })
  })

  test('usage flush: the next flush repeats a failed flush', async () => {
    const tenantId = await lab.createTenant()
    await acquire(tenantId)
    await withoutTable('usage_hourly', async () => {
      await expect(lab.meter.flush()).rejects.toThrow()
    })
    expect(await hoursOf(tenantId)).toEqual({})
    await lab.meter.flush()
    expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 1 })
  })

  test('usage flush: writes more tenants than one batch', async () => {
    const tenants = await Promise.all(Array.from({ length: 70 }, () => lab.createTenant()))
    for (const tenantId of tenants) await acquire(tenantId)
    await lab.meter.flush()
    for (const tenantId of tenants) expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 1 })
  })

  test('usage flush: skips a tenant without data in Redis', async () => {
    const tenantId = await lab.createTenant()
    await acquire(tenantId)
    await loseData(tenantId)
    await lab.meter.flush()
    expect(await hoursOf(tenantId)).toEqual({})
  })

  test('usage flush: closed hours are removed from Redis after two days', async () => {
    const tenantId = await lab.createTenant()
    for (let visit = 0; visit < 120; visit += 1) {
      await lab.setClock(tenantId, labStartMs + visit * 7 * hourMs)
      await acquire(tenantId)
    }
    const hours = (await sideFields(tenantId)).filter((field) => field.startsWith('H'))
    expect(hours.length).toBeLessThanOrEqual(7)
  })
})

describe('epoch loss', () => {
  test('epoch loss: is reported once with one audit row, and counts are kept', async () => {
    const tenantId = await lab.createTenant()
    for (const _lock of [1, 2]) await acquire(tenantId)
    await lab.meter.flush()
    expect(lab.lostEpochs).not.toContain(tenantId)
    await loseData(tenantId)
    await acquire(tenantId)
    const other = lab.createMeter()
    other.markUsed(tenantId)
    await Promise.all([lab.meter.flush(), other.flush()])
    expect(lab.lostEpochs.filter((lost) => lost === tenantId)).toEqual([tenantId])
    expect(await auditRows(tenantId)).toBe(1)
    expect(await meterOf(tenantId)).toMatchObject({ hourLocks: 3, monthLocks: 3 })
    expect(await hoursOf(tenantId)).toEqual({ '11-21T10': 3 })
  })

  test('epoch loss: is reported by the next flush if the epoch could not be saved', async () => {
    const tenantId = await lab.createTenant()
    await acquire(tenantId)
    await loseData(tenantId)
    await lab.pool.query('ALTER TABLE record_epochs ADD CONSTRAINT refuses CHECK (false) NOT VALID')
    await expect(acquire(tenantId)).rejects.toMatchObject({ name: 'RedisUnavailable' })
    await lab.pool.query('ALTER TABLE record_epochs DROP CONSTRAINT refuses')
    await acquire(tenantId)
    expect(await auditRows(tenantId)).toBe(0)
    await lab.meter.flush()
    expect(await auditRows(tenantId)).toBe(1)
    expect(lab.lostEpochs).toContain(tenantId)
  })

  test('epoch loss: a late write of an epoch from before the loss reports nothing', async () => {
    const tenantId = await lab.createTenant()
    await acquire(tenantId)
    const late = lab.createMeter()
    late.markUsed(tenantId)
    const blocker = await lab.pool.connect()
    await blocker.query('BEGIN')
    await blocker.query('LOCK TABLE usage_hourly IN SHARE MODE')
    const flushing = late.flush()
    await untilBlocked()
    await loseData(tenantId)
    await acquire(tenantId)
    expect(await auditRows(tenantId)).toBe(1)
    await blocker.query('COMMIT')
    blocker.release()
    await flushing
    await lab.meter.flush()
    await late.flush()
    expect(await auditRows(tenantId)).toBe(1)
    expect(lab.lostEpochs.filter((lost) => lost === tenantId)).toEqual([tenantId])
    expect(await rememberedEpoch(tenantId)).toBe(await epochInRedis(tenantId))
  })
})

test('saveEpochs: replaces only the known epoch', async () => {
  const tenantId = await lab.createTenant()
  const save = (epoch: string, known: string | undefined) =>
    saveEpochs(lab.pool, [{ tenantId, epoch, known }], 'test')
  expect(await save('A', undefined)).toEqual([])
  expect(await save('B', 'A')).toEqual([tenantId])
  for (const late of [save('A', undefined), save('B', 'A'), save('C', 'A')]) expect(await late).toEqual([])
  expect(await rememberedEpoch(tenantId)).toBe('B')
  expect(await auditRows(tenantId)).toBe(1)
})

/** Waits until a statement on this database waits for a lock. */
async function untilBlocked(): Promise<void> {
  const blocked = await poll(
    async () => {
      const { rows } = await lab.pool.query<{ count: number }>(
        `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      )
      return Number(rows[0]?.count) > 0 || undefined
    },
    { deadlineMs: 4000 },
  )
  expect(blocked).toBe(true)
}

async function rememberedEpoch(tenantId: TenantId): Promise<string | undefined> {
  const { rows } = await lab.pool.query<{ epoch: string }>(
    'SELECT epoch FROM record_epochs WHERE tenant_id = $1',
    [tenantId],
  )
  return rows[0]?.epoch
}

async function epochInRedis(tenantId: TenantId): Promise<string> {
  const packed = Buffer.from((await lab.raw.getBuffer(meterKeys(tenantId).meta)) ?? [])
  return packed.subarray(72).toString()
}
