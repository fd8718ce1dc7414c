import type { ProcessTelemetry } from '#cmd/serving/telemetry.ts'
import type { AccessObserver } from '#internal/access/index.ts'

/** Counts what the API server says of tokens and rights. To be called once for a process: it declares a metric. */
export function createAccessObserver({
  log,
  metrics,
}: Pick<ProcessTelemetry, 'log' | 'metrics'>): AccessObserver {
  const reviews = metrics.counter({
    name: 'latchkey_access_reviews_total',
    help: 'Questions to the API server about tokens and rights, by what it answered; what was remembered is not asked.',
    labels: ['review', 'outcome'],
  })
  for (const review of ['token', 'access'])
    for (const outcome of ['allowed', 'refused', 'unavailable']) reviews.with(review, outcome).inc(0)
  return {
    reviewed(review, outcome, failure) {
      reviews.with(review, outcome).inc()
      if (failure !== undefined)
        log.warn({ review, failure: failure.message }, 'the API server did not say what may be done')
    },
  }
}
