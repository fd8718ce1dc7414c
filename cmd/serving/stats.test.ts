import { expect, test } from 'bun:test'
import { createMetrics } from '#internal/telemetry/index.ts'
import { showQueue } from './stats.ts'

test('queue gauges: expose the last reading for 30 s, and no sample before the first reading', async () => {
  let nowMs = 1_000
  const metrics = createMetrics({ service: 'test', version: '1' })
  const show = showQueue(metrics, { now: () => nowMs })
  const shown = async () => {
    const { text } = await metrics.render()
    return text.match(/^latchkey_events_.*$/gm)?.map((line) => line.replace('latchkey_events_', ''))
  }
  expect(await shown()).toBeUndefined()
  show({ dueCount: 0, oldestAgeMs: 0, suspendedCount: 0, openBreakerCount: 0 })
  const empty = ['due_count 0', 'due_age_seconds 0', 'callbacks_suspended_count 0', 'breakers_open_count 0']
  expect(await shown()).toEqual(empty)
  nowMs += 20_000
  show({ dueCount: 7, oldestAgeMs: 2_500, suspendedCount: 1, openBreakerCount: 3 })
  nowMs += 30_000
  const full = ['due_count 7', 'due_age_seconds 2.5', 'callbacks_suspended_count 1', 'breakers_open_count 3']
  expect(await shown()).toEqual(full)
  nowMs += 1
  expect(await shown()).toBeUndefined()
  show({ dueCount: 7, oldestAgeMs: 2_500, suspendedCount: 1, openBreakerCount: 3 })
  expect(await shown()).toEqual(full)
  metrics.close()
})
