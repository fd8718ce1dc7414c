import { type DatabaseSettings, databaseOf, openPostgres } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import { eventReadSettings, tellForwarders } from '#internal/events/index.ts'
import { type ReplayStep, startReplayer } from '#internal/replays/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'

const replayPool = {
  applicationName: 'latchkey-forwarder',
  /** Steps are transactions that run one after the other. */
  connectionsMax: 1,
  queryTimeoutMs: 5_000,
  lifetimeMsMax: 3_600_000,
  sessionSettings: eventReadSettings,
}

/** Runs replay jobs for the scope's life on its own connection, so that deliveries never wait for them. */
export async function startReplays(
  host: Host,
  settings: DatabaseSettings,
  redis: RedisConnection,
): Promise<void> {
  const { log, health } = host
  const observe = observer(host)
  const pool = await openPostgres(host, 'postgres of replays', { ...replayPool, ...databaseOf(settings) })
  await host.scope.open({
    name: 'replays',
    open: () =>
      startReplayer({
        ...{ pool, clock: systemClock, health, onStep: observe },
        // A lost message delays the delivery until the next poll, at most 1 s.
        onQueued: (tenantIds) => void tellForwarders(redis, tenantIds).catch(() => undefined),
        onError: (cause, failures) => log.debug({ failures, cause }, 'replay poll failed'),
      }),
    close: (loop) => loop.stop(),
  })
}

function observer({ log, metrics }: Host): (step: Exclude<ReplayStep, { kind: 'idle' }>) => void {
  const events = metrics.counter({
    name: 'latchkey_replays_events_total',
    help: 'Events processed by replay jobs: queued for a new delivery cycle or skipped.',
    labels: ['fate'],
  })
  const failures = metrics.counter({
    name: 'latchkey_replays_failures_total',
    help: 'Failed steps of replay jobs.',
    labels: [],
  })
  for (const fate of ['queued', 'skipped']) events.with(fate).inc(0)
  return (step) => {
    if (step.kind === 'failed') {
      failures.with().inc()
      log.warn({ replay: step.id, cause: step.cause }, 'replay step failed')
    }
    if (step.kind !== 'stepped') return
    events.with('queued').inc(step.queuedCount)
    events.with('skipped').inc(step.skippedCount)
    if (step.isCompleted) log.info({ replay: step.id }, 'replay complete')
  }
}
