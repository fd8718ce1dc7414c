import type { Counter, Histogram, Metrics } from './metrics.ts'

/** Declares metrics without labels: their only series is at hand at once. */
export interface UnlabelledMetrics {
  /** Is rendered from the start, as 0. */
  counter(name: string, help: string): ReturnType<Counter<readonly []>['with']>
  /** Is read when it is scraped; `read` is cheap and must not throw. */
  gauge(name: string, help: string, read: () => number): void
  histogram(
    name: string,
    help: string,
    buckets: readonly number[],
  ): ReturnType<Histogram<readonly []>['with']>
}

/** Gives the short form of declaring metrics without labels. Names and buckets are held to the same rules. */
export function unlabelled(metrics: Metrics): UnlabelledMetrics {
  return {
    counter: (name, help) => metrics.counter({ name, help, labels: [] }).with(),
    gauge(name, help, read) {
      metrics.gauge({ name, help, labels: [], collect: (each) => each.with().set(read()) })
    },
    histogram: (name, help, buckets) => metrics.histogram({ name, help, labels: [], buckets }).with(),
  }
}
