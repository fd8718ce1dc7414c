import type { Metrics } from '#internal/telemetry/index.ts'
import type { CallShare } from './request.ts'
import { callsMax, type Transport } from './transport.ts'
import { watchBounds } from './watch-pool.ts'
import type { WorkQueue, WorkQueueOptions } from './work-queue.ts'

/** Metrics of the Kubernetes client. They have the names of controller-runtime's metrics, so that existing dashboards and alerts work. */
export type KubeMetrics = ReturnType<typeof createKubeMetrics>

const waitBuckets = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300]
const reconcileBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

/** Declares the metrics of the Kubernetes client. @throws when called twice for one registry */
export function createKubeMetrics(metrics: Metrics) {
  const queues = new Map<string, WorkQueue>()
  declareGauges(metrics, queues)
  const transports = new Set<Pick<Transport, 'stats'>>()
  declareTransport(metrics, transports)
  const queue = declareQueue(metrics)
  const reconcile = declareReconcile(metrics)
  const requests = metrics.counter({
    name: 'rest_client_requests_total',
    help: 'Requests to the API server by method and status; <error> where it gave no answer.',
    labels: ['code', 'method'],
  })
  const leading = metrics.gauge({
    name: 'leader_election_master_status',
    help: '1 while this process is the leader.',
    labels: ['name'],
  })
  return {
    /** `controller` is the queue's name and must come from a closed set. */
    forQueue(controller: string, concurrency: number): NonNullable<WorkQueueOptions['hooks']> {
      reconcile.concurrency.with(controller).set(concurrency)
      // The counter starts at 0, so that the first error is visible as an increase.
      reconcile.errors.with(controller).inc(0)
      queue.retries.with(controller).inc(0)
      const result = (kind: string) => reconcile.total.with(controller, kind)
      return {
        added: () => queue.adds.with(controller).inc(),
        depth: (count) => queue.depth.with(controller).set(count),
        started: (waitedSeconds) => {
          queue.waited.with(controller).observe(waitedSeconds)
          reconcile.active.with(controller).add(1)
        },
        finished: (kind, workedSeconds) => {
          queue.worked.with(controller).observe(workedSeconds)
          reconcile.active.with(controller).add(-1)
          reconcile.seconds.with(controller).observe(workedSeconds)
          result(kind).inc()
          if (kind === 'error') reconcile.errors.with(controller).inc()
        },
        retried: () => queue.retries.with(controller).inc(),
      }
    },
    /** Reads the queue at each scrape. Replaces an earlier queue of the same name. */
    watchQueue: (controller: string, watched: WorkQueue) => void queues.set(controller, watched),
    watchTransport: (transport: Pick<Transport, 'stats'>) => void transports.add(transport),
    onAnswer: (method: string, code: string) => requests.with(code, method).inc(),
    setLeading: (name: string, leads: boolean) => leading.with(name).set(leads ? 1 : 0),
  }
}

function declareQueue(metrics: Metrics) {
  const labels = ['name'] as const
  return {
    depth: metrics.gauge({ name: 'workqueue_depth', help: 'Keys that wait for a worker.', labels }),
    adds: metrics.counter({ name: 'workqueue_adds_total', help: 'Keys added.', labels }),
    retries: metrics.counter({ name: 'workqueue_retries_total', help: 'Retries of keys.', labels }),
    waited: metrics.histogram({
      name: 'workqueue_queue_duration_seconds',
      help: 'Time that keys waited for a worker.',
      labels,
      buckets: waitBuckets,
    }),
    worked: metrics.histogram({
      name: 'workqueue_work_duration_seconds',
      help: 'Duration of turns.',
      labels,
      buckets: waitBuckets,
    }),
  }
}

function declareReconcile(metrics: Metrics) {
  const labels = ['controller'] as const
  return {
    total: metrics.counter({
      name: 'controller_runtime_reconcile_total',
      help: 'Reconciliations by result.',
      labels: ['controller', 'result'],
    }),
    errors: metrics.counter({
      name: 'controller_runtime_reconcile_errors_total',
      help: 'Reconciliations that failed.',
      labels,
    }),
    seconds: metrics.histogram({
      name: 'controller_runtime_reconcile_time_seconds',
      help: 'Duration of reconciliations.',
      labels,
      buckets: reconcileBuckets,
    }),
    active: metrics.gauge({
      name: 'controller_runtime_active_workers',
      help: 'Reconciliations in progress.',
      labels,
    }),
    concurrency: metrics.gauge({
      name: 'controller_runtime_max_concurrent_reconciles',
      help: 'Maximum concurrent reconciliations.',
      labels,
    }),
  }
}

function declareGauges(metrics: Metrics, queues: ReadonlyMap<string, WorkQueue>): void {
  const labels = ['name'] as const
  metrics.gauge({
    name: 'workqueue_unfinished_work_seconds',
    help: 'Total time of the turns in progress.',
    labels,
    collect: (gauge) => {
      for (const [name, queue] of queues) gauge.with(name).set(queue.stats().unfinishedMs / 1000)
    },
  })
  metrics.gauge({
    name: 'workqueue_longest_running_processor_seconds',
    help: 'Time of the longest turn in progress.',
    labels,
    collect: (gauge) => {
      for (const [name, queue] of queues) gauge.with(name).set(queue.stats().longestMs / 1000)
    },
  })
}

const shares: readonly CallShare[] = ['lease', 'list', 'call']

/** Each gauge is summed over all transports. */
function declareTransport(metrics: Metrics, transports: ReadonlySet<Pick<Transport, 'stats'>>): void {
  const sum = (read: (stats: ReturnType<Transport['stats']>) => number) =>
    [...transports].reduce((total, transport) => total + read(transport.stats()), 0)
  metrics.gauge({
    name: 'latchkey_kube_watches_count',
    help: 'Watches to the API server: open or opening, and their limit.',
    labels: ['what'],
    collect: (gauge) => {
      gauge.with('open').set(sum(({ watches }) => watches))
      gauge.with('bound').set(watchBounds.watchesMax)
    },
  })
  metrics.gauge({
    name: 'latchkey_kube_watch_connections_count',
    help: 'Connections to the API server that carry watches: open, and their limit.',
    labels: ['what'],
    collect: (gauge) => {
      gauge.with('open').set(sum(({ connections }) => connections))
      gauge.with('bound').set(watchBounds.connectionsMax)
    },
  })
  metrics.gauge({
    name: 'latchkey_kube_calls_count',
    help: 'Calls to the API server other than watches, by share: in flight, waiting for a slot, and the limit.',
    labels: ['share', 'what'],
    collect: (gauge) => {
      for (const share of shares) {
        gauge.with(share, 'underway').set(sum(({ calls }) => calls[share].underWay))
        gauge.with(share, 'waiting').set(sum(({ calls }) => calls[share].waiting))
        gauge.with(share, 'bound').set(callsMax[share])
      }
    },
  })
}
