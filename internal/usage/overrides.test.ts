import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import type { Limits } from '#internal/tenants/index.ts'
import {
  labStartMs,
  openRecordLab,
  type RecordLab,
  randomTenantId,
} from '#test/support/records/record-lab.ts'
import { LimitsInForce } from './limits.ts'
import { clearLimitOverride, type OverrideSetting, setLimitOverride } from './overrides.ts'
import { readUsage } from './read-usage.ts'

let lab: RecordLab
beforeAll(async () => {
  lab = await openRecordLab()
}, 30_000)
afterAll(() => lab.close())

const hourMs = 3_600_000
const clock = { nowMs: labStartMs, now: () => clock.nowMs }
const parts = () => ({ pool: lab.pool, clock })
const openProcess = (settings?: ConstructorParameters<typeof LimitsInForce>[0]['settings']) =>
  new LimitsInForce({ ...parts(), ...(settings && { settings }) })

async function liveTenant(): Promise<TenantId> {
  const id = randomTenantId()
  await lab.pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at)
     VALUES ($1, $1, 'shops', $1, false, '{}', 1, now(), now(), now())`,
    [id],
  )
  return id
}

const settingOf = (tenantId: TenantId, more: Partial<OverrideSetting> = {}): OverrideSetting => ({
  tenantId,
  limit: 'locksPerMinute',
  hard: 5,
  expiresAtMs: clock.nowMs + hourMs,
  by: 'ops@platform.example',
  reason: 'a migration',
  ...more,
})

async function auditOf(tenantId: TenantId): Promise<unknown[]> {
  const { rows } = await lab.pool.query<{ action: string; actor: string; detail: object }>(
    `SELECT action, actor, detail FROM audit WHERE tenant_id = $1 ORDER BY id`,
    [tenantId],
  )
  return rows
}

test('overrides: apply in every process after its next poll, and expire by themselves', async () => {
  const id = await liveTenant()
  const tenant = { id, limits: { locksPerMinute: { soft: 3, hard: 10 } } }
  const processes = [openProcess(), openProcess()]
  const hardNow = () => processes.map((each) => each.of(tenant).locks.locksPerMinute)
  const look = () => Promise.all(processes.map((each) => each.look()))
  await look()
  expect(hardNow()).toEqual([10, 10])
  expect(await setLimitOverride(parts(), settingOf(id, { hard: 99 }))).toEqual({ kind: 'written' })
  await look()
  expect(hardNow()).toEqual([99, 99])
  expect(processes[0]?.of(tenant).all.locksPerMinute).toEqual({ soft: 3, hard: 99 })
  expect(processes[0]?.of({ ...tenant, id: randomTenantId() }).locks.locksPerMinute).toBe(10)
  await setLimitOverride(
    parts(),
    settingOf(id, { limit: 'eventsPerMonth', hard: null, expiresAtMs: clock.nowMs + 2 * hourMs }),
  )
  await look()
  clock.nowMs += hourMs
  expect(hardNow()).toEqual([10, 10])
  const report = await readUsage({ ...parts(), redis: lab.redis, limits: openProcess() }, tenant, {
    fromMs: 0,
    toMs: clock.nowMs,
  })
  expect(report.limits.map(({ limit, override }) => [limit, override?.hard])).toEqual([
    ['locksPerMinute', undefined],
    ['locksPerMonth', undefined],
    ['eventsPerMinute', undefined],
    ['eventsPerMonth', null],
    ['recordBytes', undefined],
  ])
})

test('overrides: a cleared override ends, and both writes are in the audit log', async () => {
  const id = await liveTenant()
  const limits = openProcess()
  await setLimitOverride(parts(), settingOf(id, { hard: 7 }))
  await setLimitOverride(parts(), settingOf(id, { hard: 8, reason: 'more of it' }))
  await limits.look()
  expect(limits.of({ id, limits: {} }).locks.locksPerMinute).toBe(8)
  const clearing = { tenantId: id, limit: 'locksPerMinute' as const, by: 'somebody' }
  expect(await clearLimitOverride(parts(), clearing)).toBe(true)
  expect(await clearLimitOverride(parts(), clearing)).toBe(false)
  await limits.look()
  expect(limits.of({ id, limits: {} }).locks.locksPerMinute).toBe(60_000)
  const until = new Date(clock.nowMs + hourMs).toISOString()
  const by = { action: 'usage.override_set', actor: 'ops@platform.example' }
  expect(await auditOf(id)).toEqual([
    { ...by, detail: { limit: 'locksPerMinute', hard: 7, expiresAt: until, reason: 'a migration' } },
    { ...by, detail: { limit: 'locksPerMinute', hard: 8, expiresAt: until, reason: 'more of it' } },
    { action: 'usage.override_cleared', actor: 'somebody', detail: { limit: 'locksPerMinute', hard: 8 } },
  ])
})

test('overrides: an override of a limit that a newer version added is kept and affects no other override', async () => {
  const id = await liveTenant()
  const tenant = { id, limits: {} }
  await setLimitOverride(parts(), settingOf(id, { hard: 7 }))
  await lab.pool.query(
    `INSERT INTO limit_overrides SELECT (jsonb_populate_record(o, '{"limit_name": "locksPerFortnight"}')).*
     FROM limit_overrides o WHERE tenant_id = $1`,
    [id],
  )
  await setLimitOverride(parts(), settingOf(id, { hard: 8 }))
  const limits = openProcess()
  await limits.look()
  expect(limits.of(tenant).locks.locksPerMinute).toBe(8)
  const { rows } = await lab.pool.query(
    'SELECT limit_name FROM limit_overrides WHERE tenant_id = $1 ORDER BY limit_name',
    [id],
  )
  expect(rows.map((row) => row.limit_name)).toEqual(['locksPerFortnight', 'locksPerMinute'])
})

test('overrides: the next write removes expired overrides', async () => {
  const [gone, kept] = [await liveTenant(), await liveTenant()]
  await setLimitOverride(parts(), settingOf(gone))
  clock.nowMs += hourMs
  await setLimitOverride(parts(), settingOf(kept))
  const { rows } = await lab.pool.query('SELECT tenant_id FROM limit_overrides WHERE tenant_id = ANY($1)', [
    [gone, kept],
  ])
  expect(rows).toEqual([{ tenant_id: kept }])
})

describe('invalid overrides', () => {
  test.each<[string, Partial<OverrideSetting>, string]>([
    ['of a negative value', { hard: -1 }, 'whole number'],
    ['of a fraction', { hard: 1.5 }, 'whole number'],
    ['that has already expired', { expiresAtMs: 0 }, 'in the future'],
    ['without an end', { expiresAtMs: Number.POSITIVE_INFINITY }, '366 days'],
    ['with an invalid end', { expiresAtMs: Number.NaN }, 'in the future'],
    ['without a reason', { reason: '' }, 'reason must'],
    ['with a line break in its reason', { reason: 'a\nb' }, 'reason must'],
    ['with a replaced byte in its reason', { reason: 'a\uFFFDb' }, 'reason must'],
    ['with a lone surrogate in its reason', { reason: '\uD83D' }, 'reason must'],
  ])('overrides: an override %s is refused and not stored', async (_case, more, words) => {
    const id = await liveTenant()
    const written = await setLimitOverride(parts(), settingOf(id, more))
    expect(written).toMatchObject({ kind: 'refused', problem: expect.stringContaining(words) })
    expect(await auditOf(id)).toEqual([])
  })

  test('overrides: an override for an unknown tenant is refused', async () => {
    const refused = { kind: 'refused', problem: 'There is no such tenant' } as const
    expect(await setLimitOverride(parts(), settingOf(randomTenantId()))).toEqual(refused)
  })
})

test('overrides: at the maximum, an existing override can be replaced, but no other can be set', async () => {
  const [id, other] = [await liveTenant(), await liveTenant()]
  await setLimitOverride(parts(), settingOf(id, { hard: 7 }))
  await lab.pool.query(
    `INSERT INTO limit_overrides SELECT 'full' || nth, 'recordBytes', 1, $1, 'r', now(), 'b'
     FROM generate_series(1, 10000 - (SELECT count(*) FROM limit_overrides)) nth`,
    [new Date(clock.nowMs + hourMs)],
  )
  const full = { kind: 'refused', problem: expect.stringContaining('10000 overrides') }
  expect(await setLimitOverride(parts(), settingOf(other))).toMatchObject(full)
  expect(await setLimitOverride(parts(), settingOf(id, { limit: 'recordBytes' }))).toMatchObject(full)
  expect(await setLimitOverride(parts(), settingOf(id, { hard: 8 }))).toEqual({ kind: 'written' })
  await lab.pool.query(`DELETE FROM limit_overrides WHERE tenant_id LIKE 'full%'`)
})

test('limits in force: changed defaults apply immediately to limits that are not set', () => {
  let apply: (settings: { readonly limits: Limits }) => void = () => undefined
  const limits = openProcess({
    follow(listener) {
      apply = listener
      apply({ limits: {} })
    },
  })
  const [open, own] = [
    { id: randomTenantId(), limits: {} },
    { id: randomTenantId(), limits: { recordBytes: { hard: 1 } } },
  ]
  expect(limits.of(open).locks.recordBytes).toBe(1024 ** 3)
  // The same object is returned, because limits without overrides are computed once.
  expect(limits.of(open)).toBe(limits.of(open))
  apply({ limits: { recordBytes: { hard: 2 } } })
  expect([limits.of(open), limits.of(own)].map(({ locks }) => locks.recordBytes)).toEqual([2, 1])
})
