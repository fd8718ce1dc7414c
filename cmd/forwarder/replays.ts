import type { Core } from '#cmd/serving/core.ts'
import { openLoop } from '#cmd/serving/loop.ts'
import { noticePartsOf } from '#cmd/serving/notifications.ts'
import { type DatabaseSettings, databaseOf, eventReads, openPostgres } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import { notifyForwarders } from '#internal/events/index.ts'
import {
  countDueOutcomes,
  notifyOfFinishedReplays,
  type ReplayStep,
  type ReplayTurn,
  stepReplays,
} from '#internal/replays/index.ts'

const replayPool = {
  applicationName: 'latchkey-forwarder',
  /** One connection is enough, because replay steps are transactions that run one after another. */
  connectionsMax: 1,
  queryTimeoutMs: 5_000,
  ...eventReads,
}

const intervalMs = 500
const turnMsMax = 5_000
/** Interval of the loops over ended replays. */
const endedMs = 5_000

/** Runs replay jobs until the scope closes. Uses its own connection, so that deliveries never wait for replays. */
export async function startReplays(
  host: Host,
  settings: DatabaseSettings,
  core: Pick<Core, 'redis' | 'directory' | 'settings' | 'onNotified'>,
): Promise<void> {
  const { redis } = core
  const pool = await openPostgres(host, 'postgres of replays', { ...replayPool, ...databaseOf(settings) })
  const observe = observer(host)
  const onStep = (step: Step) => {
    observe(step)
    // If the notification is lost, the delivery waits for the next poll, at most 1 s.
    if (step.kind === 'stepped') void notifyForwarders(redis, step.queueIds).catch(() => undefined)
  }
  await openLoop(host, {
    name: 'replays',
    intervalMs,
    turnMsMax,
    runOnce: (signal) => stepReplays({ pool, clock: systemClock }, onStep, signal),
    onError: (cause, failures) => host.log.debug({ failures, cause }, 'replay poll failed'),
  })
  const notices = { pool, ...noticePartsOf(core) }
  const turnOf = (signal: AbortSignal, failed: string): ReplayTurn => ({
    nowMs: systemClock.now(),
    signal,
    onFailed: (replay, cause) => host.log.warn({ replay, cause }, failed),
  })
  await openLoop(host, {
    name: 'finished replays',
    intervalMs: endedMs,
    turnMsMax,
    async runOnce(signal) {
      const turn = turnOf(signal, 'notification of a finished replay failed; retrying')
      const queues = await notifyOfFinishedReplays(notices, turn)
      if (queues.length > 0) await notifyForwarders(redis, queues).catch(() => undefined)
    },
    onError: (cause, failures) => host.log.debug({ failures, cause }, 'poll of finished replays failed'),
  })
  await openLoop(host, {
    name: 'outcomes of replays',
    intervalMs: endedMs,
    turnMsMax,
    runOnce: (signal) =>
      countDueOutcomes(pool, turnOf(signal, 'count of a replay’s outcome failed; retrying')),
    onError: (cause, failures) => host.log.debug({ failures, cause }, 'poll of replay outcomes failed'),
  })
}

type Step = Exclude<ReplayStep, { kind: 'idle' }>

function observer({ log, metrics }: Host): (step: Step) => void {
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
  for (const outcome of ['queued', 'skipped']) events.with(outcome).inc(0)
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
