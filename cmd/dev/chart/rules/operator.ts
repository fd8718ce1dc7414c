import { type Alert, alert, ofService } from './rule.ts'

const service = 'latchkey-operator'
const lease = 'leader_election_master_status{name="latchkey-operator"}'

/** What alerts tell of the operator. Names are shared with other controllers, so each is held to ours. */
export function operatorAlerts(): Alert[] {
  const reconciled = (metric: string) =>
    `sum by (namespace, controller) (${ofService(`rate(controller_runtime_${metric}[10m])`, service)})`
  const leaders = `sum by (namespace) (${ofService(lease, service)})`
  const asked = (labels: string) =>
    `sum by (namespace) (${ofService(`rate(rest_client_requests_total${labels}[10m])`, service)})`
  return [
    alert({
      ...{ name: 'OperatorLeaderMissing', severity: 'critical', for: '3m' },
      // One that has never led shows no series at all, and one whose pods are gone none of its processes either.
      expr: `(${leaders} or 0 * group by (namespace) (last_over_time(latchkey_build_info{process="${service}"}[6h]))) == 0`,
      summary: '{{ $labels.namespace }}: no operator leads',
      description: 'New and changed Tenants are not put in force. What is in force goes on.',
    }),
    alert({
      ...{ name: 'OperatorTwoLeaders', severity: 'critical', for: '2m' },
      expr: `${leaders} > 1`,
      summary: '{{ $labels.namespace }}: {{ $value }} operators say that they lead',
      description:
        'Writes of the older one are refused by its fence, so that no harm is done while somebody looks.',
    }),
    alert({
      ...{ name: 'OperatorReconcileErrors', severity: 'warning', for: '15m' },
      expr: `${reconciled('reconcile_errors_total')} / (${reconciled('reconcile_total')} > 0) > 0.1`,
      summary: '{{ $labels.namespace }}: {{ $value | humanizePercentage }} of the work on Tenants fails',
      description:
        'It is tried again, later and later. Until then those Tenants are not as their manifests say.',
    }),
    alert({
      ...{ name: 'OperatorStale', severity: 'warning', for: '10m' },
      expr: `max by (namespace, name) (${ofService('workqueue_depth', service)}) > 0
        unless on (namespace) ${reconciled('reconcile_total')} > 0`,
      summary: '{{ $labels.namespace }}: {{ $value }} Tenants wait, and nothing works on them',
      description: 'The leader has work and has ended none for ten minutes.',
    }),
    alert({
      ...{ name: 'OperatorApiServerUnreachable', severity: 'warning', for: '10m' },
      expr: `${asked('{code="<error>"}')} / (${asked('')} > 0) > 0.5`,
      summary:
        '{{ $labels.namespace }}: {{ $value | humanizePercentage }} of the operator’s calls get no answer of the API server',
      description: 'Changes of Tenants are not seen, and the lease may not be renewed.',
    }),
    alert({
      ...{ name: 'TenantsNotReady', severity: 'info', for: '1h' },
      expr: 'max by (namespace) (latchkey_tenants_resources_count{ready="False"}) > 0',
      summary: '{{ $labels.namespace }}: {{ $value }} Tenants have not been Ready for an hour',
      description: 'Each says in its conditions what it needs.',
    }),
  ]
}
