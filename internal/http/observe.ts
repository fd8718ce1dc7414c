import type { Clock } from '#internal/base/index.ts'
import { createLineLimit, type Logger, type Metrics, type Sampler } from '#internal/telemetry/index.ts'
import type { LogFields } from './route.ts'
import type { RequestEvent } from './server.ts'

/** Seconds: fine around the latency of a healthy store, coarse up to the longest wait of a check. */
const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Maximum log lines per outcome and second for answers that any caller can cause at will. */
const unverifiedLinesPerSecondMax = 10

/** Dependencies of the request observer. */
export interface RequestObserverOptions {
  readonly log: Logger
  readonly metrics: Metrics
  readonly clock: Clock
  /** Samples the log lines of answers below 400; default: all are written. */
  readonly keepsLine?: Sampler
}

/**
 * Creates the observer of answered requests: one wide log line, a counter and a duration each. Unverified outcomes get at most 10
 * lines per outcome and second and no duration, so that a flood of forged calls neither fills the log nor moves a latency objective.
 */
export function createRequestObserver({
  log,
  metrics,
  clock,
  keepsLine = () => true,
}: RequestObserverOptions): (event: RequestEvent, cause: unknown) => void {
  const answered = metrics.counter({
    name: 'latchkey_http_requests_total',
    help: 'Answered requests by route, status and outcome.',
    labels: ['method', 'route', 'status', 'outcome'],
  })
  const durations = metrics.histogram({
    name: 'latchkey_http_request_duration_seconds',
    help: 'Time from request head to response, including the wait of a check for a busy key. Excludes answers that any caller can cause without a key or a signing secret.',
    labels: ['method', 'route'],
    buckets: durationBuckets,
  })
  const suppressed = metrics.counter({
    name: 'latchkey_http_log_lines_suppressed_total',
    help: 'Request log lines suppressed by the rate limit on outcomes that any caller can cause.',
    labels: ['outcome'],
  })
  const limit = createLineLimit({
    perSecondMax: unverifiedLinesPerSecondMax,
    clock,
    onSuppressed: (outcome) => suppressed.with(outcome).inc(),
  })
  const seriesOf = (event: RequestEvent) => {
    // Callers choose the method: unknown routes share one label, so that series stay bounded.
    const method = event.route === 'unknown' ? 'other' : event.method
    return {
      answered: answered.with(method, event.route, String(event.status), event.outcome),
      durations: durations.with(method, event.route),
    }
  }
  const known = new Map<string, ReturnType<typeof seriesOf>>()
  return (event, cause) => {
    const name = `${event.method} ${event.route} ${event.status} ${event.outcome}`
    let series = known.get(name)
    if (!series) {
      series = seriesOf(event)
      if (event.route !== 'unknown') known.set(name, series)
    }
    series.answered.inc()
    if (!event.unverified) series.durations.observe(event.durationMs / 1000)
    if (event.status < 400 && !keepsLine()) return
    if (event.unverified && !limit(event.outcome)) return
    const line = event.fields ? withFields(event, event.fields) : event
    if (event.status < 500) log.info(line, 'request')
    else log.error({ ...line, ...causeFields(cause) }, 'request failed')
  }
}

/** The event's own fields take precedence. */
function withFields(event: RequestEvent, fields: LogFields): object {
  return { ...fields, ...event, fields: undefined }
}

/** Returns the root cause in one line: a driver's message may carry statements or addresses beyond its first. */
function causeFields(cause: unknown): object {
  if (!(cause instanceof Error)) return {}
  const root = cause.cause instanceof Error ? cause.cause : cause
  return { cause: `${root.name}: ${root.message.split('\n', 1)[0]?.slice(0, 200)}` }
}
