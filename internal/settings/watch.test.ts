import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { systemClock as clock } from '#internal/base/index.ts'
import { createPool, openRedis, type Pool } from '#internal/storage/index.ts'
import { parseProviderName } from '#internal/tenants/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { type TestDatabase, testStores } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { until } from '#test/support/until.ts'
import { type RuntimeSettings, toRuntimeSettings } from './definitions.ts'
import { clearSetting, type StoredSetting, writeSetting } from './store.ts'
import { SettingsWatch, settingsChannel, tellSettings } from './watch.ts'

let database: TestDatabase
let pool: Pool
let watch: SettingsWatch
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 2_000, connectTimeoutMs: 1_000 }
  pool = createPool({ url: database.url, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})
beforeEach(async () => {
  await pool.query('TRUNCATE settings')
  watch = new SettingsWatch({ pool, clock, log: { info: () => undefined } })
})

const set = (name: string, value: unknown) =>
  writeSetting({ pool, clock }, { name, value, tenantId: null, by: 'test' })

test('settings watch: contains the defaults before the first read, then the stored settings', async () => {
  await set('log.sampling', 0.25)
  expect([watch.isRead, watch.current.version, watch.current.logShare]).toEqual([false, 0, 1])
  expect(watch.ageMs(Date.now())).toBe(Number.POSITIVE_INFINITY)
  await watch.look()
  expect([watch.isRead, watch.current.logShare]).toEqual([true, 0.25])
  expect(watch.ageMs(Date.now())).toBeLessThan(5_000)
})

test('settings watch: a read finds new and cleared settings, and notifies listeners only of changes', async () => {
  const heard: RuntimeSettings[] = []
  watch.onChange((settings) => heard.push(settings))
  await watch.look()
  await set('forwarding.paused', true)
  await watch.look()
  await clearSetting({ pool, clock }, { name: 'forwarding.paused', tenantId: null, by: 'test' })
  await watch.look()
  await watch.look()
  expect(heard.map(({ isForwardingPaused }) => isForwardingPaused)).toEqual([false, true, false])
  expect(heard.at(-1)).toBe(watch.current)
})

test('tellSettings: publishes a message on the settings channel', async () => {
  const { redisUrl } = await testStores()
  const redis = openRedis({ url: redisUrl, onError: () => undefined, onRefused: () => undefined })
  let messages = 0
  await redis.subscribe(settingsChannel, () => void (messages += 1))
  await tellSettings(redis)
  await until(() => messages > 0)
  await redis.close()
})

test('settings watch: reads all settings again when the version is lower than before, for example after a database restore', async () => {
  await set('log.sampling', 0.5)
  await watch.look()
  const before = watch.current.version
  await pool.query('TRUNCATE settings')
  await pool.query('UPDATE settings_version SET version = $1', [before - 1])
  await watch.look()
  expect([watch.current.logShare, watch.current.version]).toEqual([1, before - 1])
})

test('settings watch: keeps the last settings after a failed read, and the next read finds the changes', async () => {
  await set('forwarding.paused', true)
  await watch.look()
  const late = new SettingsWatch({ pool, clock, log: { info: () => undefined } })
  await pool.query('ALTER TABLE settings_version RENAME TO taken_away')
  for (const each of [watch, late]) await expect(each.look()).rejects.toThrow()
  await pool.query('ALTER TABLE taken_away RENAME TO settings_version')
  expect(watch.current.isForwardingPaused).toBe(true)
  expect([late.isRead, late.current.isForwardingPaused]).toEqual([false, false])
  await set('forwarding.paused', false)
  for (const each of [watch, late]) {
    await each.look()
    expect([each.isRead, each.current.isForwardingPaused]).toEqual([true, false])
  }
})

const row = (
  name: StoredSetting['name'],
  value: StoredSetting['value'],
  tenantId: StoredSetting['tenantId'] = null,
) => ({
  name,
  value,
  tenantId,
  version: 1,
  updatedAtMs: 0,
  updatedBy: 'x',
})
const of = (...settings: StoredSetting[]) => toRuntimeSettings({ version: 1, settings })
const [one, two] = [someTenantId(), someTenantId()]

test('toRuntimeSettings: without stored settings, all settings have their defaults', () => {
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

test('toRuntimeSettings: intake and forwarding are paused by a setting of the installation or of the tenant', () => {
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

test('toRuntimeSettings: a declared provider is paused like a built-in provider', () => {
  const slack = parseProviderName('slack')
  if (slack === undefined) throw new Error('slack is not the name of a provider')
  const settings = of(row('providers.slack.paused', true, one), row('providers.gone.paused', true))
  expect([settings.isProviderPaused(slack, one), settings.isProviderPaused(slack, two)]).toEqual([
    true,
    false,
  ])
  expect(settings.pauses).toBe(2)
})

test('toRuntimeSettings: contains only the limits that are set', () => {
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
