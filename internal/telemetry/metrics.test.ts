import { describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { createMetrics, type Metrics } from './metrics.ts'

const buckets = [0.1, 1]

async function render(metrics: Metrics): Promise<string> {
  metrics.close()
  return (await metrics.render()).text
}

function create(): Metrics {
  return createMetrics({ service: 'api', version: '1.2.3' })
}

test('metrics: renders counters, gauges and histograms in the Prometheus text format', async () => {
  const metrics = create()
  const calls = metrics.counter({
    name: 'latchkey_http_calls_total',
    help: 'Calls.',
    labels: ['route', 'outcome'],
  })
  calls.with('/a', 'ok').inc()
  calls.with('/a', 'ok').inc(2)
  calls.with('/a', 'no"\\\n').inc()
  const waiters = metrics.gauge({ name: 'latchkey_records_waiters_count', help: 'Waiters.', labels: [] })
  waiters.with().set(5)
  waiters.with().add(-2)
  const took = metrics.histogram({
    name: 'latchkey_http_call_seconds',
    help: 'Took.',
    labels: ['route'],
    buckets,
  })
  for (const seconds of [0.1, 0.5, 5]) took.with('/a').observe(seconds)
  const text = await render(metrics)
  for (const line of [
    '# TYPE latchkey_http_calls_total counter',
    'latchkey_http_calls_total{route="/a",outcome="ok"} 3',
    'latchkey_http_calls_total{route="/a",outcome="no\\"\\\\\\n"} 1',
    'latchkey_records_waiters_count 3',
    '# TYPE latchkey_http_call_seconds histogram',
    'latchkey_http_call_seconds_bucket{route="/a",le="0.1"} 1',
    'latchkey_http_call_seconds_bucket{route="/a",le="1"} 2',
    'latchkey_http_call_seconds_bucket{route="/a",le="+Inf"} 3',
    'latchkey_http_call_seconds_sum{route="/a"} 5.6',
    'latchkey_http_call_seconds_count{route="/a"} 3',
    'latchkey_build_info{process="api",version="1.2.3"} 1',
  ])
    expect(text.split('\n')).toContain(line)
})

test('metrics: every rendered line is valid in the Prometheus text format', async () => {
  const metrics = create()
  metrics
    .histogram({ name: 'latchkey_http_call_seconds', help: 'a\\b\nc', labels: [], buckets })
    .with()
    .observe(1)
  for (const line of (await render(metrics)).split('\n')) {
    expect(line).toMatch(/^$|^# (HELP|TYPE) [a-z_]+ .+$|^[a-z_]+(\{([a-z_]+="[^"\n]*",?)+\})? -?[0-9.e+-]+$/)
  }
  expect((await metrics.render()).contentType).toBe('text/plain; version=0.0.4; charset=utf-8')
})

test('process metrics: contain memory, CPU and event loop lag', async () => {
  const metrics = create()
  const value = async (name: string) =>
    Number(new RegExp(`^${name} (.+)$`, 'm').exec((await metrics.render()).text)?.[1])
  expect(await value('process_resident_memory_bytes')).toBeGreaterThan(1_000_000)
  const cpuBefore = await value('process_cpu_seconds_total')
  await value('latchkey_process_event_loop_lag_seconds')
  const deadlineMs = performance.now() + 3000
  let lag = 0
  while (lag < 0.05 && performance.now() < deadlineMs) {
    await new Promise((resolve) => setTimeout(resolve, 30))
    Bun.sleepSync(150)
    await new Promise((resolve) => setTimeout(resolve, 30))
    lag = await value('latchkey_process_event_loop_lag_seconds')
  }
  expect(lag).toBeGreaterThanOrEqual(0.05)
  expect(await value('process_cpu_seconds_total')).toBeGreaterThanOrEqual(cpuBefore)
  expect(Math.abs((await value('process_start_time_seconds')) - Date.now() / 1000)).toBeLessThan(3600)
  metrics.close()
})

test('gauge: `collect` is called at each scrape', async () => {
  const metrics = create()
  let size = 1
  metrics.gauge({
    name: 'latchkey_tenants_directory_count',
    help: 'x',
    labels: [],
    collect: (gauge) => gauge.with().set(size),
  })
  expect((await metrics.render()).text).toContain('latchkey_tenants_directory_count 1\n')
  size = 2
  expect(await render(metrics)).toContain('latchkey_tenants_directory_count 2\n')
})

test('gauge: `hide` removes the sample until the next `set`', async () => {
  const metrics = create()
  const gauge = metrics.gauge({ name: 'latchkey_tenants_directory_count', help: 'x', labels: ['kind'] })
  gauge.with('a').set(1)
  gauge.with('b').set(2)
  gauge.with('a').hide()
  const { text } = await metrics.render()
  expect(text).toContain('# TYPE latchkey_tenants_directory_count gauge\n')
  expect(text.match(/^latchkey_tenants_directory_count.*$/gm)).toEqual([
    'latchkey_tenants_directory_count{kind="b"} 2',
  ])
  gauge.with('a').set(0)
  expect(await render(metrics)).toContain('latchkey_tenants_directory_count{kind="a"} 0\n')
})

test('metrics: limit the number of series of an unbounded label', async () => {
  const metrics = create()
  const calls = metrics.counter({
    name: 'latchkey_http_calls_total',
    help: 'x',
    labels: ['route', 'outcome'],
  })
  for (let i = 0; i < 10_000; i += 1) calls.with(`/${i}`, 'ok').inc()
  const text = await render(metrics)
  expect(text.match(/^latchkey_http_calls_total/gm)).toHaveLength(2001)
  expect(text).toContain('latchkey_http_calls_total{route="other",outcome="other"} 8000')
})

test('metrics: counters never decrease, and histograms ignore NaN', async () => {
  const metrics = create()
  const calls = metrics.counter({ name: 'latchkey_http_calls_total', help: 'x', labels: [] }).with()
  calls.inc(2)
  calls.inc(-1)
  calls.inc(Number.NaN)
  const took = metrics
    .histogram({ name: 'latchkey_http_call_seconds', help: 'x', labels: [], buckets })
    .with()
  took.observe(Number.NaN)
  const text = await render(metrics)
  expect(text).toContain('latchkey_http_calls_total 2\n')
  expect(text).toContain('latchkey_http_call_seconds_count 0\n')
})

describe('a name', () => {
  test.each([
    ['that contains no folder of `internal`', 'latchkey_garage_cars_total'],
    ['without prefix', 'http_calls_total'],
    ['without noun', 'latchkey_http_total'],
    ['without unit', 'latchkey_http_calls'],
    ['with capitals', 'latchkey_http_Calls_total'],
    ['of a gauge', 'latchkey_http_call_bytes'],
  ])('metric name: a counter refuses a name %s', (_case, name) => {
    expect(() => create().counter({ name, help: 'x', labels: [] })).toThrow(RangeError)
  })

  test.each(['workqueue_depth', 'controller_runtime_active_workers', 'leader_election_master_status'])(
    'metric name: the controller-runtime name %s is accepted unchanged',
    async (name) => {
      const metrics = create()
      metrics
        .gauge({ name, help: 'x', labels: ['name'] })
        .with('tenant')
        .set(3)
      expect((await metrics.render()).text).toContain(`${name}{name="tenant"} 3`)
    },
  )

  test('metric name: a duplicate is rejected', () => {
    const metrics = create()
    metrics.counter({ name: 'latchkey_http_calls_total', help: 'x', labels: [] })
    expect(() => metrics.counter({ name: 'latchkey_http_calls_total', help: 'x', labels: [] })).toThrow()
  })

  test.each(['tenant_id', 'key', 'Route', 'le', 'service', 'namespace', ''])(
    'metric label: the label %p is refused',
    (label) => {
      expect(() =>
        create().counter({ name: 'latchkey_http_calls_total', help: 'x', labels: [label] }),
      ).toThrow(RangeError)
    },
  )

  test.each([[[]], [[1, 1]], [[2, 1]]])('histogram: rejects the buckets %p', (bounds) => {
    expect(() =>
      create().histogram({ name: 'latchkey_http_call_seconds', help: 'x', labels: [], buckets: bounds }),
    ).toThrow(RangeError)
  })
})

test('metric name: its second word is a folder of internal, and the error for another word names the folders', () => {
  const folders = readdirSync(resolve(import.meta.dir, '..'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .toSorted()
  expect(() => create().counter({ name: 'latchkey_unknown_calls_total', help: 'x', labels: [] })).toThrow(
    `latchkey_<module>_<noun>_<unit|total>; modules: ${folders.join(', ')}`,
  )
})
