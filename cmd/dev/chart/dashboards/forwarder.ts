import { curve, type Dashboard, figure, of, quantiles, type Row, rate } from './panel.ts'

/** How events get to callbacks, and what else forwarders do. */
export function forwarderDashboard(): Dashboard {
  return {
    name: 'forwarder',
    title: 'Latchkey / Forwarder',
    description: 'Claims, attempts, the queue, replays, and the upkeep of tables.',
    rows: [now(), work(), trouble(), upkeep()],
  }
}

function now(): Row {
  return {
    title: 'Now',
    panels: [
      figure('Forwarders', 'short', `count(${of('latchkey_build_info', 'process="latchkey-forwarder"')})`, {
        description: 'Pods that are seen.',
      }),
      figure('Due', 'short', `max(${of('latchkey_deliveries_due_count')})`, {
        description: 'Exact to 10 000, estimated beyond.',
        bounds: [1_000, 10_000],
      }),
      figure('Oldest', 's', `max(${of('latchkey_deliveries_oldest_age_seconds')})`, {
        description: 'How long the delivery that is due longest has been so.',
        bounds: [60, 300],
      }),
      figure('In flight', 'short', `sum(${of('latchkey_deliveries_in_flight_count')})`, {
        description: 'Deliveries that are claimed and not answered.',
      }),
      figure('Breakers open', 'short', `max(${of('latchkey_deliveries_breakers_open_count')})`, {
        description: 'Callbacks that fail so often that they are tried rarely.',
        bounds: [1, 5],
      }),
      figure('Suspended', 'short', `max(${of('latchkey_deliveries_suspended_count')})`, {
        description: 'Callbacks that asked to be left alone.',
        bounds: [1, 10],
      }),
    ],
  }
}

function work(): Row {
  return {
    title: 'Work',
    panels: [
      curve(
        'Calls of callbacks',
        'ops',
        [[rate(of('latchkey_deliveries_attempts_total'), 'outcome'), '{{outcome}}']],
        'delivered: 2xx; refused: another answer; failed: none.',
      ),
      curve(
        'What came of them',
        'ops',
        [[rate(of('latchkey_deliveries_endings_total'), 'ending'), '{{ending}}']],
        'processed, tried again later, or failed for good.',
      ),
      curve(
        'By pod',
        'ops',
        [[rate(of('latchkey_deliveries_attempts_total'), 'pod'), '{{pod}}']],
        'Whether the work is shared.',
      ),
      curve(
        'How long callbacks take',
        's',
        quantiles('latchkey_deliveries_attempt_duration_seconds'),
        'The tenants’ own time.',
      ),
      curve(
        'Until the first attempt',
        's',
        quantiles('latchkey_deliveries_delay_seconds'),
        'From a provider’s call on.',
      ),
      curve(
        'Claims',
        'ops',
        [
          [rate(of('latchkey_deliveries_claims_total')), 'claims'],
          [rate(of('latchkey_deliveries_claimed_total')), 'deliveries'],
        ],
        'One claim takes many deliveries when many are due.',
      ),
      curve(
        'In flight',
        'short',
        [[`sum by (pod) (${of('latchkey_deliveries_in_flight_count')})`, '{{pod}}']],
        'A pod has room for a bounded number, and each tenant for its share.',
      ),
      curve(
        'Not written yet',
        'short',
        [[`sum by (pod) (${of('latchkey_deliveries_unsettled_count')})`, '{{pod}}']],
        'Answers that wait for Postgres.',
      ),
      curve(
        'Replays',
        'ops',
        [[rate(of('latchkey_deliveries_replayed_total'), 'fate'), '{{fate}}']],
        'Events that got another round, or were skipped.',
      ),
    ],
  }
}

function trouble(): Row {
  return {
    title: 'Trouble',
    panels: [
      curve(
        'Steps that fail',
        'ops',
        [[rate(of('latchkey_deliveries_failures_total'), 'step'), '{{step}}']],
        'Statements of forwarders. All but send are about Postgres.',
      ),
      curve(
        'Delivered twice',
        'short',
        [
          [`sum(increase(${of('latchkey_deliveries_lost_leases_total')}[$__rate_interval]))`, 'taken over'],
          [
            `sum(increase(${of('latchkey_deliveries_unwritable_total')}[$__rate_interval]))`,
            'cannot be written',
          ],
        ],
        'Deliveries that were not settled in time, or whose end Postgres refuses.',
      ),
      curve(
        'Callbacks',
        'short',
        [
          [
            `sum(increase(${of('latchkey_deliveries_breakers_opened_total')}[$__rate_interval]))`,
            'breaker opened',
          ],
          [
            `sum(increase(${of('latchkey_deliveries_callbacks_suspended_total')}[$__rate_interval]))`,
            'suspended',
          ],
          [`sum(increase(${of('latchkey_deliveries_unsigned_total')}[$__rate_interval]))`, 'unsigned'],
        ],
        'Unsigned: the tenant has no usable signing secret.',
      ),
      curve(
        'Corrections',
        'short',
        [
          [
            `sum(increase(${of('latchkey_deliveries_lane_corrections_total')}[$__rate_interval]))`,
            'lanes that overslept',
          ],
          [`sum(increase(${of('latchkey_deliveries_given_back_total')}[$__rate_interval]))`, 'given back'],
          [
            `sum(increase(${of('latchkey_deliveries_replay_failures_total')}[$__rate_interval]))`,
            'replay steps that failed',
          ],
        ],
        'The first stays flat while all is well; the second rises with each rollout.',
      ),
    ],
  }
}

function upkeep(): Row {
  return {
    title: 'Upkeep of tables',
    panels: [
      curve(
        'Partitions ahead',
        's',
        [[`min(${of('latchkey_storage_partitions_ahead_age_seconds')})`, 'assured']],
        'Time since those of the next days were known to be there. An hour is usual.',
      ),
      curve(
        'Partitions dropped',
        'short',
        [
          [
            `sum by (table) (increase(${of('latchkey_storage_partitions_dropped_total')}[$__rate_interval]))`,
            '{{table}} dropped',
          ],
          [
            `sum by (table) (increase(${of('latchkey_storage_partitions_blocked_total')}[$__rate_interval]))`,
            '{{table}} left for later',
          ],
        ],
        'Left for later: somebody uses it.',
      ),
      curve(
        'Rows removed',
        'ops',
        [[rate(of('latchkey_storage_expired_rows_total'), 'table'), '{{table}}']],
        'Rows whose time is over.',
      ),
      curve(
        'Behind',
        's',
        [[`max(${of('latchkey_storage_expired_partition_age_seconds')})`, 'oldest']],
        'How long ago the oldest partition that is still there could have gone.',
      ),
      curve(
        'Steps of retention that fail',
        'ops',
        [[rate(of('latchkey_storage_retention_failures_total'), 'table'), '{{table}}']],
        'The others go on.',
      ),
    ],
  }
}
