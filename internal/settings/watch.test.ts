import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { type Clock, systemClock } from '#internal/base/index.ts'
import { createPool, openRedis, type Pool } from '#internal/storage/index.ts'
import { createHealth } from '#internal/telemetry/index.ts'
import { someTenantId } from '#test/support/directory-tenant.ts'
import { createMigratedDatabase, migrateUrl } from '#test/support/migrated-database.ts'
import { createTestPostgres, type TestDatabase, testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { type RuntimeSettings, toRuntimeSettings } from './definitions.ts'
import { clearSetting, type StoredSetting, writeSetting } from './store.ts'
import { SettingsWatch, type SettingsWatchOptions, settingsChannel, tellSettings } from './watch.ts'

const clock: Clock = systemClock
let database: TestDatabase
let pool: Pool
let watches: SettingsWatch[]
let warned: object[]
beforeAll(async () => {
  database = await createMigratedDatabase()
  pool = openPool(database.url)
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  await pool.query('TRUNCATE settings')
  watches = []
  warned = []
})
afterEach(async () => {
  await Promise.all(watches.map((watch) => watch.stop()))
})

function openPool(url: string): Pool {
  const bounds = { connectionsMax: 4, queryTimeoutMs: 2_000, connectTimeoutMs: 1_000 }
  return createPool({ url, applicationName: 'test', onIdleError: () => undefined, ...bounds })
}

function watchOf(options: Partial<SettingsWatchOptions> = {}): SettingsWatch {
  const log = { info: () => undefined, warn: (fields: object) => void warned.push(fields) }
  const watch = new SettingsWatch({ pool, clock, log, ...options })
  watches.push(watch)
  return watch
}

const set = (name: string, value: unknown, on = pool) =>
  writeSetting({ pool: on, clock }, { name, value, tenantId: null, by: 'test' })

describe('a watch', () => {
  test('has the defaults before it was started, and what is set from its start on', async () => {
    await set('log.sampling', 0.25)
    const watch = watchOf()
    expect([watch.isRead, watch.current.version, watch.current.logShare]).toEqual([false, 0, 1])
    await watch.start()
    expect([watch.isRead, watch.current.logShare]).toEqual([true, 0.25])
    expect(watch.ageMs(Date.now())).toBeLessThan(5_000)
  })

  test('has a change within 2 s without being told, a cleared one too, and tells its listeners', async () => {
    const watch = watchOf()
    const heard: RuntimeSettings[] = []
    watch.onChange((settings) => heard.push(settings))
    await watch.start()
    await set('forwarding.paused', true)
    await until(() => watch.current.isForwardingPaused, 2_000)
    await clearSetting({ pool, clock }, { name: 'forwarding.paused', tenantId: null, by: 'test' })
    await until(() => !watch.current.isForwardingPaused, 2_000)
    expect(heard.map(({ isForwardingPaused }) => isForwardingPaused)).toEqual([false, true, false])
    expect(heard.at(-1)).toBe(watch.current)
  })

  test('that is told through Redis does not wait for its poll', async () => {
    const { redisUrl } = await testStores()
    const redis = openRedis({ url: redisUrl, onError: () => undefined, onRefused: () => undefined })
    const watch = watchOf({ pollMs: 60_000 })
    await watch.start()
    await redis.subscribe(settingsChannel, () => watch.notify())
    await set('log.sampling', 0.75)
    await tellSettings(redis)
    await until(() => watch.current.logShare === 0.75, 2_000)
    await redis.close()
  })

  test('that sees an older version, as of a restored database, reads it all the same', async () => {
    await set('log.sampling', 0.5)
    const watch = watchOf({ pollMs: 20 })
    await watch.start()
    const before = watch.current.version
    await pool.query('TRUNCATE settings')
    await pool.query('UPDATE settings_version SET version = $1', [before - 1])
    await until(() => watch.current.logShare === 1)
    expect(watch.current.version).toBe(before - 1)
  })

  test('shows that it looks, and keeps what it has once it is stopped', async () => {
    const health = createHealth({ clock })
    const watch = watchOf({ health })
    await watch.start()
    expect(health.liveness().ok).toBe(true)
    await set('log.sampling', 0.5)
    await watch.stop()
    const { logShare } = watch.current
    await watch.stop()
    expect(watch.current.logShare).toBe(logShare)
  })
})

test('while Postgres is away what was read stays in force, and what is set there afterwards is seen', async () => {
  const postgres = await createTestPostgres()
  await migrateUrl(postgres.url)
  const own = openPool(postgres.url)
  await set('forwarding.paused', true, own)
  const watch = watchOf({ pool: own, pollMs: 50 })
  await watch.start()
  await postgres.stop()
  await until(() => warned.length >= 2)
  expect(watch.current.isForwardingPaused).toBe(true)
  const late = watchOf({ pool: own, pollMs: 50 })
  await late.start()
  expect([late.isRead, late.current.isForwardingPaused]).toEqual([false, false])
  await postgres.restart()
  await until(() => late.current.isForwardingPaused)
  await set('forwarding.paused', false, own)
  await until(() => !watch.current.isForwardingPaused && !late.current.isForwardingPaused)
  await Promise.all([watch.stop(), late.stop()])
  await own.end()
  await postgres.stop()
}, 60_000)

describe('what is in force', () => {
  const row = (
    name: StoredSetting['name'],
    value: StoredSetting['value'],
    tenantId: StoredSetting['tenantId'] = null,
  ) => ({
    ...{ name, value, tenantId },
    ...{ version: 1, updatedAtMs: 0, updatedBy: 'x' },
  })
  const of = (...settings: StoredSetting[]) => toRuntimeSettings({ version: 1, settings })
  const [one, two] = [someTenantId(), someTenantId()]

  test('without settings is nothing but defaults', () => {
    const settings = toRuntimeSettings()
    expect(settings).toMatchObject({
      isForwardingPaused: false,
      forwardingPausedFor: new Set(),
      logShare: 1,
      limits: {},
      retention: { payloadDays: 30, eventDays: 90 },
    })
    expect(settings.isProviderPaused('card', one)).toBe(false)
  })

  test('is a pause of all or of the tenant, whichever there is', () => {
    const settings = of(
      row('providers.card.paused', true, one),
      row('providers.codehost.paused', true),
      row('providers.codehost.paused', false, one),
      row('forwarding.paused', true, two),
      row('forwarding.paused', false, one),
    )
    expect(settings.isProviderPaused('card', one)).toBe(true)
    expect(settings.isProviderPaused('card', two)).toBe(false)
    expect(settings.isProviderPaused('codehost', one)).toBe(true)
    expect(settings.isForwardingPaused).toBe(false)
    expect(settings.pauses).toBe(3)
    expect(settings.forwardingPausedFor).toEqual(new Set([two]))
  })

  test('has those limits that were set, as a Tenant has them', () => {
    expect(
      of(
        row('limits.locksPerMinute.hard', 5),
        row('limits.locksPerMinute.soft', 0),
        row('limits.recordBytes.soft', 7),
        row('limits.eventsPerMonth.over', 'refuse'),
      ).limits,
    ).toEqual({
      locksPerMinute: { soft: 0, hard: 5 },
      recordBytes: { soft: 7 },
      eventsPerMonth: { over: 'refuse' },
    })
  })
})
