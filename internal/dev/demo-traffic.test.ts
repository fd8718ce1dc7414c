import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { readStats } from '#internal/usage/index.ts'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { until } from '#test/support/until.ts'
import { demoHeader, demoReference } from './demo-events.ts'
import { type DemoStep, DemoTraffic } from './demo-traffic.ts'

const apiKey = 'lk_demo_0000000000000000000000000000'
const signal = new AbortController().signal

let api: TestApi
let pool: Pool
beforeAll(async () => {
  const manifest = join(import.meta.dir, '../../config/samples/dev/demo.yaml')
  api = await startTestApi({ manifests: await Bun.file(manifest).text() })
  const bounds = { connectionsMax: 2, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: api.databaseUrl, applicationName: 'test', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await api.close()
})

const traffic = (key = apiKey) => new DemoTraffic({ url: api.url, slug: 'demo', apiKey: key })
const column = async (text: string) => (await pool.query<{ name: string }>(text)).rows.map(({ name }) => name)

test('demo traffic: every step gets the expected response from the sample tenant', async () => {
  const demo = traffic()
  const steps: readonly DemoStep[] = [
    'event',
    'duplicate',
    'badSignature',
    'oldTimestamp',
    'notEnabled',
    'record',
    'simulation',
    'mended',
    'broken',
  ]
  for (const step of steps) expect([step, await demo.take(step, signal)]).toEqual([step, true])
  await until(async () => (await column('SELECT cause AS name FROM refused_calls')).length === 3)
  expect(await column('SELECT cause AS name FROM refused_calls ORDER BY 1')).toEqual([
    'provider_not_enabled',
    'signature_mismatch',
    'timestamp_outside_window',
  ])
  // Polls, because the API writes its counts up to some seconds after the responses.
  const today = { tenants: 'all' as const, fromMs: Date.now() - 3_600_000, toMs: Date.now(), stepMs: 60_000 }
  const counted = await until('stats', async () => {
    const { total } = await readStats(pool, { ...today, toMs: Date.now() })
    return total.refused === 3 && total.accepted >= 2 && total
  })
  expect(counted.duplicates).toBe(1)
  expect(counted.refusedBy).toEqual({
    provider_not_enabled: 1,
    signature_mismatch: 1,
    timestamp_outside_window: 1,
  })
})

test('demo traffic: a burst sends events of every provider, and each event has a known type and the demo header', async () => {
  await traffic().burst(signal)
  const count = (condition: string) => column(`SELECT count(*)::text AS name FROM events WHERE ${condition}`)
  expect(await column('SELECT DISTINCT provider AS name FROM events ORDER BY 1')).toEqual(
    expect.arrayContaining(['card', 'codehost', 'storefront']),
  )
  const types = await column(`SELECT DISTINCT type AS name FROM events`)
  expect(types).toEqual(expect.arrayContaining(['payment.succeeded']))
  // The deliveries of these events fail at once, so that the first replay can deliver them.
  expect(await count(`headers LIKE '%"${demoHeader}":"mended"%'`)).toEqual(['4'])
  // No type is unknown: an unknown type would begin with the provider's name.
  expect(types.filter((type) => /^(card|storefront|codehost)\./.test(type))).toEqual([])
  expect(
    await count(`headers NOT LIKE '%"${demoHeader}":"%' AND headers NOT LIKE '%"latchkey-simulation":"%'`),
  ).toEqual(['0'])
  expect(await column(`SELECT DISTINCT request->>'reference' AS name FROM simulations`)).toEqual(
    expect.arrayContaining([expect.stringContaining(demoReference)]),
  )
}, 30_000)

test('demo traffic: reports itself as futile after exactly twenty failed steps in a row', async () => {
  const stranger = new DemoTraffic({
    url: api.url,
    slug: 'nobody',
    apiKey: 'lk_nobody_00000000000000000000000000',
  })
  for (let times = 0; times < 19; times += 1) expect(await stranger.take('event', signal)).toBe(false)
  expect(stranger.isFutile).toBe(false)
  await stranger.next(signal)
  expect(stranger.isFutile).toBe(true)
})
