import { curve, type Dashboard, of, type Row, rate } from './panel.ts'

/** Postgres and Redis, as our processes see them. */
export function storesDashboard(): Dashboard {
  return {
    name: 'stores',
    title: 'Latchkey / Stores',
    description: 'Postgres and Redis from our side, and what waits for them.',
    rows: [postgres(), redis(), memory()],
  }
}

function postgres(): Row {
  return {
    title: 'Postgres',
    panels: [
      curve(
        'Last answer',
        's',
        [[`max by (pod) (${of('latchkey_settings_age_seconds')})`, '{{pod}}']],
        'Time since runtime settings were last compared with Postgres, which happens each second or two.',
      ),
      curve(
        'Connections',
        'short',
        [
          [`sum by (pool, state) (${of('latchkey_storage_pool_connections_count')})`, '{{pool}} {{state}}'],
          [`sum by (pool) (${of('latchkey_storage_pool_bound_count')})`, '{{pool}} at most'],
        ],
        'Of all pods, by pool.',
      ),
      curve(
        'Waiting for a connection',
        'short',
        [[`max by (pod, pool) (${of('latchkey_storage_pool_waiting_count')})`, '{{pod}} {{pool}}']],
        'Statements. More than moments of it mean that Postgres is slow.',
      ),
      curve(
        'Broken connections',
        'short',
        [
          [
            `sum by (pool) (increase(${of('latchkey_storage_postgres_connection_errors_total')}[$__rate_interval]))`,
            '{{pool}}',
          ],
        ],
        'Idle ones that the other side ended.',
      ),
      curve(
        'Events that could not be stored',
        'ops',
        [[rate(of('latchkey_webhooks_store_failures_total'), 'kind'), '{{kind}}']],
        'unavailable: Postgres away, so that they are spooled; refused: never to be stored, a fault of ours.',
      ),
      curve(
        'Waiting for a commit',
        'short',
        [[`sum by (pod) (${of('latchkey_webhooks_pending_count')})`, '{{pod}}']],
        'Events whose providers still wait.',
      ),
      curve(
        'Roll-ups of usage that fail',
        'ops',
        [[rate(of('latchkey_usage_flush_failures_total')), 'failed']],
        'They are made up for.',
      ),
    ],
  }
}

function redis(): Row {
  return {
    title: 'Redis',
    panels: [
      curve(
        'Calls without an answer',
        'ops',
        [[rate(of('latchkey_storage_redis_failures_total'), 'reason'), '{{reason}}']],
        'full: maxmemory is reached. timeout: it hangs or is slow.',
      ),
      curve(
        'Failed connections',
        'ops',
        [[rate(of('latchkey_storage_redis_connection_errors_total'), 'pod'), '{{pod}}']],
        'They are tried again for ever.',
      ),
      curve(
        'Spool',
        'short',
        [
          [`max(${of('latchkey_webhooks_spool_entries_count')})`, 'waiting'],
          [`max(${of('latchkey_webhooks_spool_dead_count')})`, 'set aside'],
        ],
        'Events that Redis keeps for Postgres.',
      ),
      curve(
        'Size of the spool',
        'bytes',
        [[`max(${of('latchkey_webhooks_spool_bytes')})`, 'bytes']],
        'It is bounded, in sum and for each tenant.',
      ),
      curve(
        'Not spooled',
        'ops',
        [
          [rate(of('latchkey_webhooks_spool_refused_total'), 'reason'), '{{reason}}'],
          [rate(of('latchkey_webhooks_spool_dead_total'), 'reason'), 'set aside: {{reason}}'],
        ],
        'Providers got 503 for these and send them again; what was set aside needs somebody.',
      ),
      curve(
        'Records lost',
        'short',
        [[`sum(increase(${of('latchkey_records_epochs_lost_total')}[$__rate_interval]))`, 'tenants']],
        'Redis has lost what it held of them. Never more than 0.',
      ),
      curve(
        'Waiting for a busy key',
        'short',
        [[`sum by (pod) (${of('latchkey_records_waiters_count')})`, '{{pod}}']],
        'Checks that wait, 1 000 a pod at most.',
      ),
      curve(
        'Counted late',
        'short',
        [[`sum(${of('latchkey_usage_uncounted_events_count')})`, 'events in no meter']],
        'Since the start.',
      ),
    ],
  }
}

function memory(): Row {
  return {
    title: 'In memory',
    panels: [
      curve(
        'Tenants',
        'short',
        [[`max by (pod) (${of('latchkey_tenants_directory_count')})`, '{{pod}}']],
        'As many in each pod.',
      ),
      curve(
        'Age of tenants',
        's',
        [[`max by (pod) (${of('latchkey_tenants_directory_age_seconds')})`, '{{pod}}']],
        'Since they were last compared with Postgres; -1 before that.',
      ),
      curve(
        'Certificates of the wallet',
        'ops',
        [[rate(of('latchkey_webhooks_certificate_fetches_total'), 'outcome'), '{{outcome}}']],
        'Fetches, by what came of them.',
      ),
      curve(
        'Histories behind',
        'short',
        [
          [`sum(${of('latchkey_executions_waiting_count')})`, 'executions waiting'],
          [
            `sum(increase(${of('latchkey_executions_dropped_total')}[$__rate_interval]))`,
            'executions dropped',
          ],
          [`sum(${of('latchkey_webhooks_refused_dropped_count')})`, 'refused calls dropped'],
          [`sum(${of('latchkey_figures_dropped_count')})`, 'figures dropped'],
        ],
        'What is shown to people and was too much to be written.',
      ),
    ],
  }
}
