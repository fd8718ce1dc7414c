import { afterEach, beforeEach, expect, test } from 'bun:test'
import { createPool } from '#internal/storage/index.ts'
import { createHealth, createMetrics, type Metrics } from '#internal/telemetry/index.ts'
import { testStores } from '#test/support/stores.ts'
import { watchParts } from './telemetry.ts'

let metrics: Metrics
let nowMs = 0
beforeEach(() => {
  nowMs = 0
  metrics = createMetrics({ service: 'test', version: '1' })
})
afterEach(() => metrics.close())

async function shown(name: string): Promise<string[]> {
  const { text } = await metrics.render()
  return text.split('\n').filter((line) => line.startsWith(`${name}{`))
}

test('loop silence gauge: shows silence as a share of its maximum, and one series with the longest silence of all reflectors', async () => {
  const health = createHealth({ clock: { now: () => nowMs } })
  watchParts(metrics, health)
  const retention = health.addHeartbeat('retention', 1_000)
  health.addHeartbeat('reflector secrets of shops', 4_000)
  nowMs = 500
  health.addHeartbeat('reflector secrets of stalls', 4_000)
  nowMs = 2_000
  const name = 'latchkey_process_loop_silence_ratio'
  expect(await shown(name)).toEqual([`${name}{loop="retention"} 2`, `${name}{loop="reflectors"} 0.5`])
  retention.stop()
  expect(await shown(name)).toEqual([`${name}{loop="retention"} 0`, `${name}{loop="reflectors"} 0.5`])
})

test('loop failure counter: exposes 0 before the first failure', async () => {
  const { loopFailed } = watchParts(metrics, createHealth())
  const name = 'latchkey_process_loop_failures_total'
  loopFailed('retention', 0)
  expect(await shown(name)).toEqual([`${name}{loop="retention"} 0`])
  loopFailed('retention')
  expect(await shown(name)).toEqual([`${name}{loop="retention"} 1`])
})

test('pool metrics: show open connections, the connection limit, waiting statements and broken connections', async () => {
  const { watchPool, connectionBroke } = watchParts(metrics, createHealth())
  const bounds = { connectionsMax: 1, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  const pool = createPool({ url: (await testStores()).databaseUrl, applicationName: 'test', ...bounds })
  watchPool('postgres', pool, 1)
  const client = await pool.connect()
  const waiting = pool.query('SELECT 1')
  const of = 'pool="postgres"'
  expect(await shown('latchkey_storage_pool_connections_count')).toEqual([
    `latchkey_storage_pool_connections_count{${of},state="used"} 1`,
    `latchkey_storage_pool_connections_count{${of},state="idle"} 0`,
  ])
  expect(await shown('latchkey_storage_pool_bound_count')).toEqual([
    `latchkey_storage_pool_bound_count{${of}} 1`,
  ])
  expect(await shown('latchkey_storage_pool_waiting_count')).toEqual([
    `latchkey_storage_pool_waiting_count{${of}} 1`,
  ])
  client.release()
  await waiting
  connectionBroke('postgres')
  const broken = 'latchkey_storage_postgres_connection_errors_total'
  expect(await shown(broken)).toEqual([`${broken}{${of}} 1`])
  await pool.end()
})
