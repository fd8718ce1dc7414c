import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { labStartMs, movableClock, openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import { Meter } from './meter.ts'
import { meterKeys } from './reading.ts'

let lab: RecordLab
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())

/** Creates more tenants with a lock each than one batch contains. The meters of the first tenant cannot be read until they are repaired. */
async function lockWithOneBroken() {
  const tenants = await Promise.all(Array.from({ length: 70 }, () => lab.createTenant()))
  for (const tenantId of tenants) await lock(tenantId)
  const [broken, ...others] = tenants
  if (!broken) throw new Error('there are tenants')
  const { meta } = meterKeys(broken)
  await lab.raw.send('RENAME', [meta, `${meta}:kept`])
  await lab.raw.rpush(meta, 'no meters')
  const mend = async () => void (await lab.raw.send('RENAME', [`${meta}:kept`, meta]))
  return { broken, others, mend }
}

async function lock(tenantId: TenantId): Promise<void> {
  await lab.store.acquire({
    tenantId,
    scope: 's',
    key: 'k',
    ttlMs: 60_000,
    lockMs: 60_000,
    lockToken: 't',
    fingerprint: '',
    attemptId: '',
    waits: false,
    limits: { locksPerMinute: null, locksPerMonth: null, recordBytes: null },
  })
}

/** Simulates another process, whose clock advances by this time on each read. */
function openProcess(tenants: readonly TenantId[], lookMs: number): Meter {
  let nowMs = labStartMs
  const meter = new Meter({
    actor: 'test',
    redis: lab.redis,
    pool: lab.pool,
    clockSource: movableClock,
    onEpochLost: () => undefined,
    clock: { now: () => (nowMs += lookMs) },
  })
  for (const tenantId of tenants) meter.markUsed(tenantId)
  return meter
}

async function rolledUp(tenants: readonly TenantId[]): Promise<number> {
  const { rows } = await lab.pool.query(
    'SELECT tenant_id FROM usage_hourly WHERE tenant_id = ANY($1) AND amount = 1',
    [tenants],
  )
  return rows.length
}

describe('usage flush with unreadable meters', () => {
  test('usage flush: a tenant with unreadable meters does not delay others and is written by the next flush', async () => {
    const { broken, others, mend } = await lockWithOneBroken()
    const meter = openProcess([broken, ...others], 0)
    await expect(meter.flush()).rejects.toThrow('WRONGTYPE')
    expect([await rolledUp(others), await rolledUp([broken])]).toEqual([69, 0])
    await mend()
    await meter.flush()
    expect(await rolledUp([broken])).toBe(1)
  })

  test('usage flush: stops after two seconds of failures, and the next flush starts with the remaining tenants', async () => {
    const { broken, others } = await lockWithOneBroken()
    const meter = openProcess([broken, ...others], 3_000)
    await expect(meter.flush()).rejects.toThrow('WRONGTYPE')
    expect(await rolledUp(others)).toBe(63)
    await expect(meter.flush()).rejects.toThrow('WRONGTYPE')
    expect(await rolledUp(others)).toBe(69)
  })
})

test('usage flush: writes no usage of a deleted and purged tenant', async () => {
  const [gone, other] = [await lab.createTenant(), await lab.createTenant()]
  for (const tenantId of [gone, other]) await lock(tenantId)
  await lab.pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at,
       deleted_at) VALUES ($1, $1, 'shops', $1, false, '{}', 1, now(), now(), now(), now())`,
    [gone],
  )
  await lab.pool.query('DELETE FROM record_epochs WHERE tenant_id = ANY($1)', [[gone, other]])
  await openProcess([gone, other], 0).flush()
  expect([await rolledUp([gone]), await rolledUp([other])]).toEqual([0, 1])
  const { rows } = await lab.pool.query('SELECT tenant_id FROM record_epochs WHERE tenant_id = ANY($1)', [
    [gone, other],
  ])
  expect(rows).toEqual([{ tenant_id: other }])
})
