import type { Clock } from '#internal/base/index.ts'
import {
  createLineLimit,
  createSlugLabel,
  type Logger,
  type Metrics,
  type Sampler,
} from '#internal/telemetry/index.ts'
import type { LogFields } from './route.ts'
import type { RequestEvent } from './server.ts'

/** Bounds of the histogram in seconds: fine around the latency of a healthy store, coarse up to the longest wait for a lock. */
const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Maximum number of log lines per outcome and second for responses that any caller can cause without credentials. */
const unverifiedLinesPerSecondMax = 10

/** Dependencies of the request observer. */
export interface RequestObserverOptions {
  readonly log: Logger
  readonly metrics: Metrics
  readonly clock: Clock
  /** Samples the log lines of responses with a status below 400. Default: all lines are written. */
  readonly sampler?: Pick<Sampler, 'keeps'>
  /** Counts requests by tenant as well. Default: no. */
  readonly tenants?: {
    slugOf(tenantId: string): string | null | undefined
    /** Path prefixes of each area of the API. Other paths count as `other`. */
    readonly areas: Readonly<Record<string, readonly string[]>>
  }
}

/**
 * Creates the observer of finished requests. It writes one wide log line per request and updates a counter and a duration histogram.
 * Unverified outcomes get at most 10 log lines per outcome and second, and no duration, so that a flood of forged requests neither fills
 * the log nor distorts the latency objective.
 */
export function createRequestObserver({
  log,
  metrics,
  clock,
  sampler,
  tenants,
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
    // The caller chooses the method, so unknown routes share one label value, and the number of series stays limited.
    const method = event.route === 'unknown' ? 'other' : event.method
    return {
      answered: answered.with(method, event.route, String(event.status), event.outcome),
      durations: durations.with(method, event.route),
    }
  }
  const known = new Map<string, ReturnType<typeof seriesOf>>()
  const countByTenant = tenants && countRequestsByTenant(metrics, tenants)
  return (event, cause) => {
    countByTenant?.(event)
    const name = `${event.method} ${event.route} ${event.status} ${event.outcome}`
    let series = known.get(name)
    if (!series) {
      series = seriesOf(event)
      if (event.route !== 'unknown') known.set(name, series)
    }
    series.answered.inc()
    if (!event.unverified) series.durations.observe(event.durationMs / 1000)
    if (event.status < 400 && sampler?.keeps() === false) return
    if (event.unverified && !limit(event.outcome)) return
    const line = event.fields ? withFields(event, event.fields) : event
    if (event.status < 500) log.info(line, 'request')
    else log.error({ ...line, ...causeFields(cause) }, 'request failed')
  }
}

function countRequestsByTenant(
  metrics: Metrics,
  { slugOf, areas }: NonNullable<RequestObserverOptions['tenants']>,
): (event: RequestEvent) => void {
  const requests = metrics.counter({
    name: 'latchkey_tenants_requests_total',
    help: 'Requests by tenant slug (first 400 per process, then other), API area and result.',
    labels: ['tenant', 'area', 'result'],
  })
  const labelOf = createSlugLabel(slugOf)
  const starts = Object.entries(areas)
  const areaOf = (route: string) =>
    starts.find(([, paths]) => paths.some((path) => route.startsWith(path)))?.[0] ?? 'other'
  return (event) => {
    if (event.tenant !== undefined)
      requests.with(labelOf(event.tenant), areaOf(event.route), resultOf(event)).inc()
  }
}

function resultOf({ status, outcome }: RequestEvent): string {
  if (status >= 500) return 'unavailable'
  if (status === 429) return 'limited'
  if (status >= 400) return 'refused'
  return outcome === 'duplicate' ? 'duplicate' : 'accepted'
}

function withFields(event: RequestEvent, fields: LogFields): object {
  return { ...fields, ...event, fields: undefined }
}

/** Shortens the root cause to its first line, because further lines of a driver's message may contain statements or addresses. */
function causeFields(cause: unknown): object {
  if (!(cause instanceof Error)) return {}
  const root = cause.cause instanceof Error ? cause.cause : cause
  return { cause: `${root.name}: ${root.message.split('\n', 1)[0]?.slice(0, 200)}` }
}
