import { objectiveAlerts } from './objectives.ts'
import { type Alert, alert } from './rule.ts'

/** What alerts tell of providers' calls, of records and of what is counted beside them. */
export function intakeAlerts(): Alert[] {
  return [
    ...objectiveAlerts('intake'),
    ...objectiveAlerts('records'),
    ...spoolAlerts(),
    ...lossAlerts(),
    ...providerAlerts(),
    ...directoryAlerts(),
  ]
}

function spoolAlerts(): Alert[] {
  return [
    alert({
      ...{ name: 'SpoolInUse', severity: 'warning', for: '2m' },
      expr: 'max by (namespace) (latchkey_webhooks_spool_entries_count) > 0',
      summary: '{{ $labels.namespace }}: {{ $value }} events wait in Redis for Postgres',
      description:
        'Postgres did not take events in time, so they were spooled and answered 202. They are stored once it is back; until then Redis alone holds them.',
    }),
    alert({
      ...{ name: 'SpoolNotDraining', severity: 'critical', for: '5m' },
      expr: 'max by (namespace) (latchkey_webhooks_spool_oldest_age_seconds) > 900',
      summary: '{{ $labels.namespace }}: an event has been in the spool for {{ $value | humanizeDuration }}',
      description: 'Events answered 202 are not stored yet, and are not delivered meanwhile.',
    }),
    alert({
      ...{ name: 'SpoolRefusing', severity: 'critical' },
      expr: 'sum by (namespace, reason) (increase(latchkey_webhooks_spool_refused_total[5m])) > 0',
      summary: '{{ $labels.namespace }}: events can be put nowhere ({{ $labels.reason }}): providers get 503',
      description:
        'Postgres does not take events and neither does the spool. Providers send them again for hours or days, each by its own rules; what they give up is lost.',
    }),
    alert({
      ...{ name: 'SpoolDeadEntries', severity: 'warning' },
      expr: 'max by (namespace) (latchkey_webhooks_spool_dead_count) > 0',
      summary: '{{ $labels.namespace }}: {{ $value }} spooled events were set aside',
      description:
        'They were acknowledged with 202 and could not be stored. Somebody has to decide about each.',
    }),
  ]
}

function lossAlerts(): Alert[] {
  return [
    alert({
      ...{ name: 'RecordsLost', severity: 'critical' },
      expr: 'sum by (namespace) (increase(latchkey_records_epochs_lost_total[15m])) > 0',
      summary: '{{ $labels.namespace }}: Redis has lost the records of {{ $value | humanize }} tenants',
      description:
        'Operations that were finished may run once more, since nothing remembers them. Tenants have to be told.',
    }),
    alert({
      ...{ name: 'EventsUnstorable', severity: 'critical' },
      expr: 'sum by (namespace) (increase(latchkey_webhooks_store_failures_total{kind="refused"}[15m])) > 0',
      summary: '{{ $labels.namespace }}: Postgres will never take {{ $value | humanize }} events',
      description:
        'A verified event was refused for what is in it, and its provider got a 500. That is a fault of this program.',
    }),
    alert({
      ...{ name: 'ExecutionsDropped', severity: 'warning' },
      expr: 'sum by (namespace) (increase(latchkey_executions_dropped_total[15m])) > 0',
      summary: '{{ $labels.namespace }}: {{ $value | humanize }} executions are missing in their history',
      description: 'Locks and records are as they should be; what is shown of them has gaps.',
    }),
    alert({
      ...{ name: 'UsageNotRolledUp', severity: 'warning', for: '10m' },
      expr: 'sum by (namespace) (rate(latchkey_usage_flush_failures_total[5m])) > 0.05',
      summary: '{{ $labels.namespace }}: usage has not got into Postgres for ten minutes',
      description: 'Counts stand in Redis and are made up for. Limits hold; what Postgres shows is behind.',
    }),
    alert({
      ...{ name: 'EventsUncounted', severity: 'warning' },
      expr: 'sum by (namespace) (delta(latchkey_usage_uncounted_events_count[15m])) > 0',
      summary: '{{ $labels.namespace }}: {{ $value | humanize }} events were accepted and counted nowhere',
      description:
        'More tenants waited for Redis than there is room for. Their usage is too low by that much.',
    }),
  ]
}

function providerAlerts(): Alert[] {
  const calls = (outcome: string) =>
    `sum by (namespace, provider) (rate(latchkey_webhooks_calls_total${outcome}[15m]))`
  return [
    alert({
      ...{ name: 'TenantSecretsUnreadable', severity: 'critical', for: '1m' },
      expr: `max by (namespace) (latchkey_tenants_unreadable_count) > 0
        or max by (namespace) (latchkey_tenants_key_ring_unfit_count) > 0
        or sum by (namespace) (increase(latchkey_deliveries_unsigned_total[15m])) > 0`,
      summary: '{{ $labels.namespace }}: tenants’ secrets cannot be opened with the key ring',
      description:
        'Calls of their providers get 503 and their events wait until the ring has the missing key. A pod whose ring opens none of the secrets does not become ready.',
    }),
    alert({
      ...{ name: 'BodiesDropped', severity: 'warning', for: '10m' },
      expr: 'sum by (namespace) (rate(latchkey_http_requests_total{outcome="body_dropped"}[5m])) > 1',
      summary:
        '{{ $labels.namespace }}: {{ $value | humanize }} calls a second were dropped while their bodies arrived',
      description:
        'Memory for bodies is full, and the slowest bodies make room for the others. Either callers open many connections and send next to nothing, or the API needs more pods.',
    }),
    alert({
      ...{ name: 'SignaturesRefused', severity: 'warning', for: '15m' },
      expr: `${calls('{outcome=~"signature_.*|certificate_not_found"}')} / ${calls('')} > 0.5
        and ${calls('')} > 0.02`,
      summary:
        '{{ $labels.namespace }}: {{ $value | humanizePercentage }} of the calls of {{ $labels.provider }} have a wrong signature',
      description:
        'Most likely a signing secret was rotated on one side only, or somebody tries addresses out.',
    }),
    alert({
      ...{ name: 'WalletCertificateFetchFailing', severity: 'warning', for: '15m' },
      expr: `sum by (namespace) (increase(latchkey_webhooks_certificate_fetches_total{outcome=~"failed|refused"}[30m])) > 0
        unless sum by (namespace) (increase(latchkey_webhooks_certificate_fetches_total{outcome="trusted"}[30m])) > 0`,
      summary: '{{ $labels.namespace }}: the wallet’s signing certificates cannot be had',
      description:
        'Calls signed with one that is not known yet are answered 503 and come again for three days. Known ones go on working.',
    }),
    alert({
      ...{ name: 'WalletCertificateExpiring', severity: 'warning', for: '1h' },
      expr: 'min by (namespace) (latchkey_webhooks_certificate_expiry_seconds) < 259200',
      summary:
        '{{ $labels.namespace }}: a signing certificate of the wallet ends in {{ $value | humanizeDuration }}',
      description: 'The provider still signs with it. Once it has ended such calls are refused.',
    }),
  ]
}

function directoryAlerts(): Alert[] {
  const age = 'latchkey_tenants_directory_age_seconds'
  return [
    alert({
      ...{ name: 'TenantDirectoryStale', severity: 'warning', for: '5m' },
      expr: `max by (namespace, pod) (${age}) > 120 or max by (namespace, pod) (${age}) < 0`,
      summary:
        '{{ $labels.namespace }}/{{ $labels.pod }}: tenants in memory are not those of Postgres any more',
      description:
        'New tenants and keys are refused by this pod, and those that were taken away still work there.',
    }),
    alert({
      ...{ name: 'TenantDirectoryOverfull', severity: 'critical' },
      expr: 'max by (namespace) (latchkey_tenants_directory_overfull_count) > 0',
      summary: '{{ $labels.namespace }}: there are more tenants than a process holds in memory',
      description: 'Those over the bound get no answer.',
    }),
  ]
}
