import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import {
  clearSetting,
  declaredPausesMax,
  listSettings,
  readSettings,
  type SettingWriting,
  tenantsPerSettingMax,
  writeSetting,
} from './store.ts'

const nowMs = Date.parse('2026-11-01T12:00:00Z')
const clock = { now: () => nowMs }
let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 8, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  await pool.query('TRUNCATE settings, audit, tenants CASCADE')
})

async function addTenant(isDeleted = false): Promise<TenantId> {
  const id = someTenantId()
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, suspended, spec, version, resource_created_at, created_at, updated_at,
       deleted_at) VALUES ($1, $1, 'shops', $1, false, '{}', 1, now(), now(), now(), CASE WHEN $2 THEN now() END)`,
    [id, isDeleted],
  )
  return id
}

const set = (name: string, value: unknown, more: Partial<SettingWriting> = {}) =>
  writeSetting({ pool, clock }, { name, value, tenantId: null, by: 'ada', ...more })
const clear = (name: string, more: Partial<SettingWriting> = {}) =>
  clearSetting({ pool, clock }, { name, tenantId: null, by: 'ada', ...more })
const stored = async () => (await readSettings(pool)).settings

async function auditRows(): Promise<unknown[]> {
  const { rows } = await pool.query(
    `SELECT actor, action, tenant_id AS tenant, detail->'name' AS name, detail->'old' AS old, detail->'new' AS new,
       (detail->'version')::bigint AS version, at FROM audit ORDER BY id`,
  )
  return rows
}

describe('a write', () => {
  test('settings: when `records.durability` is written or cleared, the records of tenants move to the other store', async () => {
    const tenantId = await addTenant()
    const storeOf = async () => {
      const text = 'SELECT record_store AS store, record_store_generation AS moves FROM tenants WHERE id = $1'
      return (await pool.query(text, [tenantId])).rows
    }
    await set('records.durability', 'postgres')
    expect(await storeOf()).toEqual([{ store: 'postgres', moves: 1 }])
    await clear('records.durability')
    expect(await storeOf()).toEqual([{ store: 'redis', moves: 2 }])
  })

  test('settings: a write stores the actor and time, and its audit entry contains the old value', async () => {
    const first = await set('retention.payloadDays', 10)
    const second = await set('retention.payloadDays', 20, { by: 'bob@example' })
    if (first.kind !== 'written' || second.kind !== 'written') throw new Error('not written')
    expect(second.version).toBeGreaterThan(first.version)
    expect(second.old).toBe(10)
    expect(await stored()).toEqual([
      {
        name: 'retention.payloadDays',
        tenantId: null,
        value: 20,
        version: second.version,
        updatedAtMs: nowMs,
        updatedBy: 'bob@example',
      },
    ])
    const row = { action: 'settings.set', tenant: null, name: 'retention.payloadDays', at: new Date(nowMs) }
    expect(await auditRows()).toEqual([
      { ...row, actor: 'ada', old: null, new: 10, version: first.version },
      { ...row, actor: 'bob@example', old: 10, new: 20, version: second.version },
    ])
  })

  test('settings: settings of a tenant and of the installation are listed separately', async () => {
    const tenantId = await addTenant()
    await set('forwarding.paused', false)
    await set('forwarding.paused', true, { tenantId })
    const listed = async (id: TenantId | null) =>
      (await listSettings(pool, id))
        .filter(({ stored: each }) => each)
        .map(({ name, value }) => [name, value])
    expect(await listed(tenantId)).toEqual([['forwarding.paused', true]])
    expect(await listed(null)).toEqual([['forwarding.paused', false]])
    expect(await auditRows()).toMatchObject([{ tenant: null }, { tenant: tenantId }])
  })

  test('settings: a write with a wrong expected version is a conflict and changes nothing', async () => {
    const first = await set('log.sampling', 0.5, { expectedVersion: 0 })
    if (first.kind !== 'written') throw new Error('not written')
    const before = await readSettings(pool)
    expect(await set('log.sampling', 0.1, { expectedVersion: 0 })).toMatchObject({
      kind: 'conflict',
      present: { value: 0.5, version: first.version },
    })
    expect(await clear('log.sampling', { expectedVersion: first.version + 1 })).toMatchObject({
      kind: 'conflict',
    })
    expect(await readSettings(pool)).toEqual(before)
    expect(await set('log.sampling', 0.1, { expectedVersion: first.version })).toMatchObject({
      kind: 'written',
    })
    expect(await auditRows()).toHaveLength(2)
  })

  test('settings: one of several concurrent writes with the same expected version succeeds', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, (_none, nth) => set('log.sampling', nth / 10, { expectedVersion: 0 })),
    )
    expect(outcomes.map(({ kind }) => kind).toSorted()).toEqual([...Array(7).fill('conflict'), 'written'])
    expect(await auditRows()).toHaveLength(1)
  })

  test.each<[what: string, name: string, value: unknown, more: Partial<SettingWriting>, problem: string]>([
    [
      'with an unknown name',
      'log.samples',
      1,
      {},
      'There is no setting of that name: did you mean log.sampling?',
    ],
    ['with an invalid value', 'log.sampling', 2, {}, '"log.sampling" must be a number from 0 to 1'],
    [
      'without an actor',
      'log.sampling',
      1,
      { by: '' },
      'The actor must be named, in 1 to 200 printable characters',
    ],
    [
      'by an actor whose name has two lines',
      'log.sampling',
      1,
      { by: 'a\nb' },
      'The actor must be named, in 1 to 200 printable characters',
    ],
    [
      'for an unknown tenant',
      'forwarding.paused',
      true,
      { tenantId: someTenantId() },
      'There is no such tenant',
    ],
    [
      'that contradicts another setting',
      'retention.eventDays',
      3,
      {},
      'retention.payloadDays must not exceed retention.eventDays: they would be 30 and 3',
    ],
  ])('settings: a write %s is refused and stores nothing', async (_what, name, value, more, problem) => {
    const before = await readSettings(pool)
    expect(await set(name, value, more)).toEqual({ kind: 'refused', problem })
    expect(await readSettings(pool)).toEqual(before)
    expect(await auditRows()).toEqual([])
  })

  test('settings: a write for a deleted tenant is refused', async () => {
    const tenantId = await addTenant(true)
    expect(await set('forwarding.paused', true, { tenantId })).toMatchObject({ kind: 'refused' })
  })

  test('settings: a write is refused if more tenants than the maximum would have own settings', async () => {
    const tenantId = await addTenant()
    const another = await addTenant()
    await pool.query(
      `INSERT INTO settings SELECT 'ten_' || n, 'forwarding.paused', 'true', 1, now(), 'x' FROM generate_series(2, $1::integer) n`,
      [tenantsPerSettingMax],
    )
    expect(await set('forwarding.paused', true, { tenantId })).toMatchObject({ kind: 'written' })
    expect(await set('forwarding.paused', true, { tenantId: another })).toMatchObject({ kind: 'refused' })
    expect(await set('providers.card.paused', true, { tenantId: another })).toMatchObject({ kind: 'written' })
    expect(await set('forwarding.paused', false, { tenantId })).toMatchObject({ kind: 'written' })
  })
})

describe('pauses of declared providers', () => {
  const pause = 'providers.slack.paused'

  test('settings: the pause of a declared provider is listed for its owner while the pause is stored, or if the provider is requested', async () => {
    const listed = async (owner: TenantId | null, asked: readonly string[] = []) =>
      (await listSettings(pool, owner, asked)).flatMap(({ name, value }) => (name === pause ? [value] : []))
    const tenantId = await addTenant()
    expect([await listed(null), await listed(tenantId, [pause])]).toEqual([[], [false]])
    expect(await set(pause, true, { tenantId })).toMatchObject({ kind: 'written' })
    expect([await listed(null), await listed(tenantId)]).toEqual([[], [true]])
  })

  test('settings: at most 1000 pauses of declared providers can be stored, and stored pauses can be changed and cleared', async () => {
    await pool.query(
      `INSERT INTO settings SELECT '', 'providers.p' || n || '.paused', 'true', 1, now(), 'x' FROM generate_series(1, $1::integer) n`,
      [declaredPausesMax],
    )
    expect(await set(pause, true)).toEqual({
      kind: 'refused',
      problem: '1000 pauses of declared providers are set, which is the maximum: clear some',
    })
    expect(await set('providers.p1.paused', false)).toMatchObject({ kind: 'written', old: true })
    expect(await set('providers.card.paused', true)).toMatchObject({ kind: 'written' })
    expect(await clear('providers.p2.paused')).toMatchObject({ kind: 'written' })
    expect(await set(pause, true)).toMatchObject({ kind: 'written' })
  })
})

describe('limits on emitted kinds', () => {
  const hardOf = (kind: string) => `limits.${kind}PerMonth.hard`

  test('settings: a limit on an emitted kind is listed while the limit is stored, or if the kind is requested', async () => {
    const listed = async (asked?: string) =>
      (await listSettings(pool, null, asked === undefined ? [] : [asked])).flatMap(({ name, value }) =>
        name === hardOf('exports.rows') ? [value] : [],
      )
    expect(await listed()).toEqual([])
    expect(await listed(hardOf('exports.rows'))).toEqual([null])
    await set(hardOf('exports.rows'), 5)
    expect([await listed(), await listed(hardOf('exports.rows'))]).toEqual([[5], [5]])
    await clear(hardOf('exports.rows'))
    expect(await listed()).toEqual([])
  })

  test('settings: limits can be set on 50 emitted kinds and changed later, but not on a 51st kind', async () => {
    await pool.query(
      `INSERT INTO settings SELECT '', 'limits.k' || n || 'PerMonth.hard', '9', 1, now(), 'x' FROM generate_series(1, 50) n`,
    )
    expect(await set(hardOf('k1'), 8)).toMatchObject({ kind: 'written', old: 9 })
    expect(await set('limits.k50PerMonth.soft', 9)).toMatchObject({ kind: 'written' })
    const problem = 'Limits of 50 emitted kinds are set, which is the maximum: clear some'
    expect(await set(hardOf('other'), 8)).toEqual({ kind: 'refused', problem })
    expect(await clear(hardOf('k1'))).toMatchObject({ kind: 'written', old: 8 })
    expect(await set(hardOf('other'), 8)).toMatchObject({ kind: 'written' })
  })

  const problem =
    'There is no limit eventPerMonth: did you mean eventsPerMonth? Otherwise first limit the kind event in spec.limits.emitted of a Tenant that uses it'

  test('settings: a limit whose name looks like a misspelled `eventsPerMonth` is refused', async () => {
    const emitted = JSON.stringify({ limits: { emitted: [{ kind: 'event', hard: 1 }] } })
    await pool.query('UPDATE tenants SET spec = $1 WHERE id = $2', [emitted, await addTenant(true)])
    expect(await set(hardOf('event'), 9)).toEqual({ kind: 'refused', problem })
  })

  test('settings: a limit whose name looks like a misspelled `eventsPerMonth` is accepted if a Tenant limits this kind', async () => {
    const emitted = JSON.stringify({ limits: { emitted: [{ kind: 'event', hard: 1 }] } })
    await pool.query('UPDATE tenants SET spec = $1 WHERE id = $2', [emitted, await addTenant()])
    expect(await set(hardOf('event'), 9)).toMatchObject({ kind: 'written' })
  })

  test('settings: a limit whose name looks like a misspelled `eventsPerMonth` is accepted if this kind already has a setting', async () => {
    await pool.query(`INSERT INTO settings VALUES ('', 'limits.eventPerMonth.soft', '9', 1, now(), 'x')`)
    expect(await set(hardOf('event'), 9)).toMatchObject({ kind: 'written' })
  })
})

describe('clearing', () => {
  test('settings: clearing restores the default and is audited, and clearing again changes nothing', async () => {
    await set('retention.payloadDays', 10)
    const before = await readSettings(pool)
    expect(await clear('retention.payloadDays')).toEqual({
      kind: 'written',
      name: 'retention.payloadDays',
      version: 0,
      old: 10,
    })
    const after = await readSettings(pool)
    expect(after.version).toBeGreaterThan(before.version)
    expect(after.settings).toEqual([])
    expect(await clear('retention.payloadDays')).toMatchObject({ kind: 'written', old: undefined })
    expect(await readSettings(pool)).toEqual(after)
    expect(await auditRows()).toMatchObject([{ new: 10 }, { action: 'settings.cleared', old: 10, new: null }])
  })

  test('settings: clearing a setting is refused when the default contradicts another setting', async () => {
    await set('limits.eventsPerMinute.hard', 10)
    await set('retention.payloadDays', 3)
    await set('retention.eventDays', 5)
    expect(await clear('retention.payloadDays')).toMatchObject({ kind: 'refused' })
    expect(await clear('limits.eventsPerMinute.hard')).toMatchObject({ kind: 'written' })
  })
})

test('readSettings: skips rows with an unknown name or value', async () => {
  await set('log.sampling', 0.5)
  await pool.query(
    `INSERT INTO settings VALUES ('', 'log.colour', '"red"', 1, now(), 'x'), ('', 'forwarding.paused', '"maybe"', 1, now(), 'x')`,
  )
  expect((await stored()).map(({ name }) => name)).toEqual(['log.sampling'])
})
