import type { Pool } from '#internal/storage/index.ts'
import type { Health, Metrics } from '#internal/telemetry/index.ts'

/** What is told of loops and pools, whichever a process has. */
export interface Watched {
  /** Turns of a loop failed, one unless more are given; none says that there is such a loop. */
  loopFailed(loop: string, turns?: number): void
  /** An idle connection of a pool broke. */
  connectionBroke(pool: string): void
  /** From now on the pool is read at each scrape, in place of the one of that name before. */
  watchPool(name: string, pool: Pool, connectionsMax: number): void
}

/** Declares the metrics of loops and pools. To be called once for a process. */
export function watchParts(metrics: Metrics, health: Health): Watched {
  watchLoops(metrics, health)
  const failures = metrics.counter({
    name: 'latchkey_process_loop_failures_total',
    help: 'Turns of background loops that failed; each is followed by another.',
    labels: ['loop'],
  })
  const broken = metrics.counter({
    name: 'latchkey_storage_postgres_connection_errors_total',
    help: 'Idle connections to Postgres that broke.',
    labels: ['pool'],
  })
  const pools = new Map<string, { readonly pool: Pool; readonly connectionsMax: number }>()
  declarePools(metrics, pools)
  return {
    loopFailed: (loop, turns = 1) => failures.with(loop).inc(turns),
    connectionBroke: (pool) => broken.with(pool).inc(),
    watchPool(name, pool, connectionsMax) {
      pools.set(name, { pool, connectionsMax })
      // Shown as 0 before the first one breaks, so that the first is a rise.
      broken.with(name).inc(0)
    },
  }
}

function watchLoops(metrics: Metrics, health: Health): void {
  const shown = new Set<string>()
  metrics.gauge({
    name: 'latchkey_process_loop_silence_ratio',
    help: 'Time since a loop’s last turn, as a share of the longest that is allowed: over 1 the process counts as dead.',
    labels: ['loop'],
    collect: (gauge) => {
      for (const loop of shown) gauge.with(loop).set(0)
      const longest = new Map<string, number>()
      for (const { name, silentMs, silentMsMax } of health.heartbeats()) {
        const loop = loopLabel(name)
        longest.set(loop, Math.max(longest.get(loop) ?? 0, silentMs / silentMsMax))
      }
      for (const [loop, ratio] of longest) {
        shown.add(loop)
        gauge.with(loop).set(ratio)
      }
    },
  })
}

/** Reflectors are named by what they follow, namespaces too: together they are one. */
function loopLabel(name: string): string {
  return name.startsWith('reflector ') ? 'reflectors' : name
}

function declarePools(
  metrics: Metrics,
  pools: ReadonlyMap<string, { readonly pool: Pool; readonly connectionsMax: number }>,
): void {
  metrics.gauge({
    name: 'latchkey_storage_pool_connections_count',
    help: 'Connections to Postgres by what they do: used, idle.',
    labels: ['pool', 'state'],
    collect: (gauge) => {
      for (const [name, { pool }] of pools) {
        gauge.with(name, 'used').set(pool.totalCount - pool.idleCount)
        gauge.with(name, 'idle').set(pool.idleCount)
      }
    },
  })
  metrics.gauge({
    name: 'latchkey_storage_pool_bound_count',
    help: 'Most connections that a pool makes.',
    labels: ['pool'],
    collect: (gauge) => {
      for (const [name, { connectionsMax }] of pools) gauge.with(name).set(connectionsMax)
    },
  })
  metrics.gauge({
    name: 'latchkey_storage_pool_waiting_count',
    help: 'Statements that wait for a connection of a pool.',
    labels: ['pool'],
    collect: (gauge) => {
      for (const [name, { pool }] of pools) gauge.with(name).set(pool.waitingCount)
    },
  })
}
