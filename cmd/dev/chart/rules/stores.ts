import { type Alert, alert } from './rule.ts'

/** Each process compares its settings with Postgres every other second, so that their age says whether it is there. */
const age = 'latchkey_settings_age_seconds'
const unread = 1e9

/** What alerts tell of Postgres and Redis, as our processes see them. */
export function storeAlerts(): Alert[] {
  return [...postgresAlerts(), ...redisAlerts()]
}

function postgresAlerts(): Alert[] {
  // -1: never read.
  const known = `(${age} >= 0 or ${age} * 0 + ${unread})`
  return [
    alert({
      ...{ name: 'PostgresUnreachable', severity: 'critical', for: '1m' },
      expr: `min by (namespace) (${known}) > 30`,
      summary: '{{ $labels.namespace }}: Postgres answers no process',
      description:
        'Webhooks are spooled in Redis and answered 202, or 503 where Redis may lose them. Nothing is delivered. Records go on.',
    }),
    alert({
      ...{ name: 'PostgresUnreachableFromPod', severity: 'warning', for: '5m' },
      expr: `max by (namespace, pod) (${known}) > 60
        unless on (namespace) min by (namespace) (${known}) > 30`,
      summary: '{{ $labels.namespace }}/{{ $labels.pod }}: Postgres does not answer this pod',
      description: 'Others get answers. Its own settings and tenants are out of date.',
    }),
    alert({
      ...{ name: 'PostgresPoolExhausted', severity: 'warning', for: '5m' },
      expr: 'max by (namespace, pod, pool) (min_over_time(latchkey_storage_pool_waiting_count[5m])) > 0',
      summary:
        '{{ $labels.namespace }}/{{ $labels.pod }}: statements always wait for a connection of the pool “{{ $labels.pool }}”',
      description: 'Postgres is slow, or a process has more to do than its connections can carry.',
    }),
    alert({
      ...{ name: 'PostgresConnectionsBreak', severity: 'warning' },
      expr: 'sum by (namespace) (increase(latchkey_storage_postgres_connection_errors_total[15m])) > 10',
      summary:
        '{{ $labels.namespace }}: {{ $value | humanize }} connections to Postgres broke within 15 minutes',
      description:
        'They are made anew. A failover does this once; a proxy that ends idle connections does it always.',
    }),
  ]
}

function redisAlerts(): Alert[] {
  const failed = (reasons: string) => `latchkey_storage_redis_failures_total{reason=~"${reasons}"}`
  return [
    alert({
      ...{ name: 'RedisUnreachable', severity: 'critical', for: '2m' },
      expr: `sum by (namespace) (rate(${failed('disconnected|timeout')}[2m])) > 0.2`,
      summary: '{{ $labels.namespace }}: Redis gives no answer {{ $value | humanize }} times a second',
      description:
        'Calls about records are answered 503. Webhooks go on as long as Postgres is there; with both away they get 503.',
    }),
    alert({
      ...{ name: 'RedisFull', severity: 'critical' },
      expr: `sum by (namespace) (increase(${failed('full')}[5m])) > 0`,
      summary: '{{ $labels.namespace }}: Redis takes no more: its memory is full',
      description:
        'No lock is granted and no record is saved until there is room. Nothing is evicted, as it has to be.',
    }),
    alert({
      ...{ name: 'RedisRefusing', severity: 'warning', for: '5m' },
      expr: `sum by (namespace, reason) (rate(${failed('refused|overloaded')}[5m])) > 0.05`,
      summary: '{{ $labels.namespace }}: calls of Redis end as “{{ $labels.reason }}”',
      description:
        'refused: it says no, such as while it loads or to a user without a right. overloaded: more calls wait than may.',
    }),
  ]
}
