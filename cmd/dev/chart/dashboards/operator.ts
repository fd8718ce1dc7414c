import { curve, type Dashboard, figure, of, ofService, type Query, type Row } from './panel.ts'

const service = 'latchkey-operator'
const ours = (expr: string) => ofService(expr, service)
const per = (metric: string, by: string, labels = '') =>
  `sum by (${by}) (${ours(`rate(${of(metric, labels)}[$__rate_interval])`)})`

/** How Tenants get into force. Names are those of controller-runtime. */
export function operatorDashboard(): Dashboard {
  return {
    name: 'operator',
    title: 'Latchkey / Operator',
    description: 'The leader, its work on Tenants, and its talk with the API server.',
    rows: [now(), work(), queue(), server()],
  }
}

function now(): Row {
  return {
    title: 'Now',
    panels: [
      figure('Operators', 'short', `count(${of('latchkey_build_info', `process="${service}"`)})`, {
        description: 'Pods that are seen.',
      }),
      figure(
        'Leaders',
        'short',
        // Zero also where no operator has ever led, or none is seen: without a series Grafana shows no colour.
        `sum(${ours(of('leader_election_master_status', 'name="latchkey-operator"'))}) or vector(0)`,
        { description: 'One, always: with none, changes of Tenants wait.', exactly: 1 },
      ),
      figure('Tenants', 'short', `sum(max by (ready) (${of('latchkey_tenants_resources_count')}))`, {
        description: 'That are followed.',
      }),
      figure('Not ready', 'short', `max(${of('latchkey_tenants_resources_count', 'ready="False"')})`, {
        description: 'Tenants that need something; their conditions say what.',
        bounds: [1, 10],
      }),
      figure('Waiting', 'short', `max(${ours(of('workqueue_depth'))})`, {
        description: 'Tenants that wait for a worker.',
        bounds: [50, 500],
      }),
    ],
  }
}

function quantilesOf(metric: string): Query[] {
  return [0.5, 0.99].map((quantile) => [
    `histogram_quantile(${quantile}, ${per(`${metric}_bucket`, 'le')})`,
    `p${quantile * 100}`,
  ])
}

function work(): Row {
  return {
    title: 'Work',
    panels: [
      curve(
        'Reconciliations',
        'ops',
        [[per('controller_runtime_reconcile_total', 'result'), '{{result}}']],
        'By result. Errors are tried again, later and later.',
      ),
      curve(
        'Errors',
        'ops',
        [[per('controller_runtime_reconcile_errors_total', 'controller'), '{{controller}}']],
        'More than a tenth of the work is an alert.',
      ),
      curve(
        'How long they take',
        's',
        quantilesOf('controller_runtime_reconcile_time_seconds'),
        'One Tenant, from gathering to its status.',
      ),
      curve(
        'Tenants',
        'short',
        [[`max by (ready) (${of('latchkey_tenants_resources_count')})`, 'Ready={{ready}}']],
        'By their condition Ready.',
      ),
    ],
  }
}

function queue(): Row {
  return {
    title: 'Queue',
    panels: [
      curve(
        'How long they wait',
        's',
        quantilesOf('workqueue_queue_duration_seconds'),
        'In the queue, until a worker is free.',
      ),
      curve(
        'Queue',
        'short',
        [
          [`max by (name) (${ours(of('workqueue_depth'))})`, '{{name}} waiting'],
          [
            `max by (controller) (${ours(of('controller_runtime_active_workers'))})`,
            '{{controller}} under way',
          ],
          [
            `max by (controller) (${ours(of('controller_runtime_max_concurrent_reconciles'))})`,
            '{{controller}} at most',
          ],
        ],
        'Followers have none.',
      ),
      curve(
        'Into the queue',
        'ops',
        [
          [per('workqueue_adds_total', 'name'), '{{name}} added'],
          [per('workqueue_retries_total', 'name'), '{{name}} again'],
        ],
        'All Tenants come by again now and then.',
      ),
      curve(
        'Long work',
        's',
        [
          [`max by (name) (${ours(of('workqueue_longest_running_processor_seconds'))})`, '{{name}} longest'],
          [`max by (name) (${ours(of('workqueue_unfinished_work_seconds'))})`, '{{name}} all'],
        ],
        'What hangs grows here.',
      ),
    ],
  }
}

function server(): Row {
  return {
    title: 'API server',
    panels: [
      curve(
        'Calls by answer',
        'reqps',
        [[per('rest_client_requests_total', 'code'), '{{code}}']],
        '<error>: no answer. 403: a right is missing. 409: somebody else was first, as may be.',
      ),
      curve(
        'Calls by method',
        'reqps',
        [[per('rest_client_requests_total', 'method'), '{{method}}']],
        'Watches count once, when they begin.',
      ),
      curve(
        'Watches',
        'short',
        [
          [`max by (what) (${of('latchkey_kube_watches_count')})`, 'watches {{what}}'],
          [`max by (what) (${of('latchkey_kube_watch_connections_count')})`, 'connections {{what}}'],
        ],
        'Of one process. Beyond the bound the Secrets of further namespaces are not followed.',
      ),
      curve(
        'Calls in flight',
        'short',
        [[`max by (share, what) (${of('latchkey_kube_calls_count')})`, '{{share}} {{what}}']],
        'Of one process, watches aside. Renewals of the lease wait behind no others.',
      ),
      curve(
        'Who leads',
        'short',
        [[ours(of('leader_election_master_status', 'name="latchkey-operator"')), '{{pod}}']],
        '1 leads, 0 has led.',
      ),
    ],
  }
}
