import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Sample } from './metric-family.ts'

type Add = (name: string, help: string, type: 'counter' | 'gauge', samples: () => Sample[]) => void

const lagResolutionMs = 20

/**
 * Adds what a process knows of itself, under the names that Prometheus' dashboards expect.
 * https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics (2026-11)
 * @returns ends the measuring
 */
export function collectProcess(add: Add): () => void {
  const lag = monitorEventLoopDelay({ resolution: lagResolutionMs })
  lag.enable()
  const startedSeconds = Date.now() / 1000 - process.uptime()

  const gauge = (name: string, help: string, read: () => number) =>
    add(name, help, 'gauge', () => [{ labels: {}, value: read() }])
  add('process_cpu_seconds_total', 'User and system CPU time spent, in seconds.', 'counter', () => {
    const { user, system } = process.cpuUsage()
    return [{ labels: {}, value: (user + system) / 1e6 }]
  })
  gauge(
    'process_start_time_seconds',
    'When the process started, in seconds since 1970.',
    () => startedSeconds,
  )
  gauge('process_resident_memory_bytes', 'Resident memory.', () => process.memoryUsage.rss())
  gauge('latchkey_process_heap_used_bytes', 'Heap in use.', () => process.memoryUsage().heapUsed)
  gauge('latchkey_process_event_loop_lag_seconds', 'Longest delay of a timer since the last scrape.', () => {
    // The histogram holds the whole time between two samples, of which the resolution is no delay.
    const seconds = Math.max(0, lag.max / 1e6 - lagResolutionMs) / 1000
    lag.reset()
    return Number.isFinite(seconds) ? seconds : 0
  })
  return () => {
    lag.disable()
  }
}
