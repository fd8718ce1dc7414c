import type { Logger, Metrics, Sampler } from '#internal/telemetry/index.ts'
import type { LogFields } from './route.ts'
import type { RequestEvent } from './server.ts'

/** Seconds, fine where a healthy store answers and coarse up to the longest wait of a check. */
const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/**
 * Makes what is told of each answered request: one wide log line, a counter and a duration.
 * @param keepsLine asked for each answer under 400, whose line is left out where it says no; default: all are written
 */
export function createRequestObserver(
  log: Logger,
  metrics: Metrics,
  keepsLine: Sampler = () => true,
): (event: RequestEvent, cause: unknown) => void {
  const answered = metrics.counter({
    name: 'latchkey_http_requests_total',
    help: 'Answered requests by route, status and outcome.',
    labels: ['method', 'route', 'status', 'outcome'],
  })
  const durations = metrics.histogram({
    name: 'latchkey_http_request_duration_seconds',
    help: 'Time from the request’s head to its answer; a check that waits for a busy key includes its wait.',
    labels: ['method', 'route'],
    buckets: durationBuckets,
  })
  const seriesOf = (event: RequestEvent) => {
    // A request names its own method; what no route has is counted as one.
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
    series.durations.observe(event.durationMs / 1000)
    if (event.status < 400 && !keepsLine()) return
    const line = event.fields ? withFields(event, event.fields) : event
    if (event.status < 500) log.info(line, 'request')
    else log.error({ ...line, ...causeFields(cause) }, 'request failed')
  }
}

/** The line's own fields keep their names. */
function withFields(event: RequestEvent, fields: LogFields): object {
  return { ...fields, ...event, fields: undefined }
}

/** What broke, without the text of statements or addresses that a driver's message may carry beyond its first line. */
function causeFields(cause: unknown): object {
  if (!(cause instanceof Error)) return {}
  const root = cause.cause instanceof Error ? cause.cause : cause
  return { cause: `${root.name}: ${root.message.split('\n', 1)[0]?.slice(0, 200)}` }
}
