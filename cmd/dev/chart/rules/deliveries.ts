import { objectiveAlerts } from './objectives.ts'
import { type Alert, alert } from './rule.ts'

/** What alerts tell of events on their way to callbacks, and of what forwarders do beside that. */
export function deliveryAlerts(): Alert[] {
  return [...objectiveAlerts('delivery'), ...queueAlerts(), ...callbackAlerts(), ...upkeepAlerts()]
}

function queueAlerts(): Alert[] {
  const oldest = 'max by (namespace) (latchkey_deliveries_oldest_age_seconds)'
  const failed = 'sum by (namespace, step) (rate(latchkey_deliveries_failures_total[5m]))'
  return [
    alert({
      ...{ name: 'DeliveryQueueOld', severity: 'warning', for: '5m' },
      expr: `${oldest} > 300`,
      summary: '{{ $labels.namespace }}: an event has been due for {{ $value | humanizeDuration }}',
      description:
        'Forwarders do not keep up, or do not work. Callbacks that fail by themselves are not counted here.',
    }),
    alert({
      ...{ name: 'DeliveryQueueStuck', severity: 'critical', for: '5m' },
      expr: `${oldest} > 1800`,
      summary: '{{ $labels.namespace }}: an event has been due for {{ $value | humanizeDuration }}',
      description: 'Nothing is lost, and nothing arrives in time.',
    }),
    alert({
      ...{ name: 'DeliveryQueueDeep', severity: 'warning', for: '15m' },
      expr: 'max by (namespace) (latchkey_deliveries_due_count) > 10000',
      summary: '{{ $labels.namespace }}: {{ $value | humanize }} deliveries are due',
      description: 'More came in for a quarter of an hour than forwarders brought to callbacks.',
    }),
    alert({
      ...{ name: 'DeliveriesFailing', severity: 'warning', for: '10m' },
      expr: `${failed} > 0.05`,
      summary:
        '{{ $labels.namespace }}: forwarders’ step “{{ $labels.step }}” fails {{ $value | humanize }} times a second',
      description: 'Statements of forwarders fail. They try again, and deliveries wait.',
    }),
    alert({
      ...{ name: 'DeliveryLeasesLost', severity: 'warning' },
      expr: 'sum by (namespace) (increase(latchkey_deliveries_lost_leases_total[15m])) > 20',
      summary:
        '{{ $labels.namespace }}: {{ $value | humanize }} deliveries were taken over before they were settled',
      description: 'Callbacks get those events twice, with the same id.',
    }),
    alert({
      ...{ name: 'DeliveryUnwritable', severity: 'warning' },
      expr: 'sum by (namespace) (increase(latchkey_deliveries_unwritable_total[15m])) > 0',
      summary: '{{ $labels.namespace }}: the ends of {{ $value | humanize }} deliveries cannot be written',
      description:
        'Postgres refuses what a callback answered for what is in it, so that the delivery is made again and again. That is a fault of this program.',
    }),
  ]
}

function callbackAlerts(): Alert[] {
  return [
    alert({
      ...{ name: 'ManyCallbacksFailing', severity: 'warning', for: '15m' },
      expr: 'max by (namespace) (latchkey_deliveries_breakers_open_count) >= 5',
      summary: '{{ $labels.namespace }}: the callbacks of {{ $value }} tenants fail',
      description:
        'Several at once are rarely their own fault: look at names, the way out, and the proxy first.',
    }),
    alert({
      ...{ name: 'CallbacksSuspended', severity: 'info', for: '1h' },
      expr: 'max by (namespace) (latchkey_deliveries_suspended_count) > 0',
      summary: '{{ $labels.namespace }}: {{ $value }} callbacks asked to be left alone',
      description:
        'They answered 410 or asked for it. Their events wait until somebody resumes them, and end with their retention.',
    }),
    alert({
      ...{ name: 'Paused', severity: 'info', for: '1h' },
      expr: 'max by (namespace) (latchkey_settings_pauses_count) > 0',
      summary: '{{ $labels.namespace }}: {{ $value }} pauses have been in force for an hour',
      description: 'A setting pauses forwarding or a provider. Pauses are easily forgotten.',
    }),
    alert({
      ...{ name: 'ReplaysFailing', severity: 'warning' },
      expr: 'sum by (namespace) (increase(latchkey_deliveries_replay_failures_total[15m])) > 3',
      summary: '{{ $labels.namespace }}: steps of replays failed {{ $value | humanize }} times',
      description: 'They are tried again; meanwhile the replay stands still.',
    }),
  ]
}

function upkeepAlerts(): Alert[] {
  const age = 'min by (namespace) (latchkey_storage_partitions_ahead_age_seconds)'
  const description =
    'Tables of the day after tomorrow are made each hour. Without them the first call of a day makes its own, and every call waits for that.'
  return [
    alert({
      ...{ name: 'PartitionsNotAhead', severity: 'warning', for: '5m' },
      expr: `${age} > 21600 and ${age} <= 129600`,
      summary:
        '{{ $labels.namespace }}: tables of the next days were last made {{ $value | humanizeDuration }} ago',
      description,
    }),
    alert({
      ...{ name: 'PartitionsNotAhead', severity: 'critical', for: '5m' },
      expr: `${age} > 129600`,
      summary:
        '{{ $labels.namespace }}: tables of the next days were last made {{ $value | humanizeDuration }} ago',
      description,
    }),
    alert({
      ...{ name: 'RetentionBehind', severity: 'warning', for: '15m' },
      expr: 'max by (namespace) (latchkey_storage_expired_partition_age_seconds) > 7200',
      summary:
        '{{ $labels.namespace }}: data whose time was over {{ $value | humanizeDuration }} ago is still there',
      description:
        'Somebody holds a table open, or every turn of retention fails. The disk fills, and a promise to tenants is broken.',
    }),
  ]
}
