import { type AlertCase, alertCase, always, gauge, info, of, perMinute, rise } from './sre-alert-case.ts'

const oldest = of('latchkey_events_due_age_seconds')
const ahead = of('latchkey_storage_partitions_ahead_age_seconds')
const stepFailed = of('latchkey_delivery_failures_total', 'step="claim"')

/** Cases of the delivery alerts. */
export const deliveryCases: readonly AlertCase[] = [
  gauge('DeliveryQueueOld', oldest, [600, 20], {
    when: 'a delivery has been due for ten minutes',
    fires: 'warning',
    value: '10m 0s',
  }),
  gauge('DeliveryQueueStuck', oldest, [3600, 600], {
    when: 'a delivery has been due for an hour',
    fires: 'critical',
    value: '1h 0m 0s',
  }),
  gauge('DeliveryQueueDeep', of('latchkey_events_due_count'), [25_000, 9_000], {
    when: 'tens of thousands of deliveries are due',
    fires: 'warning',
    value: '25k',
  }),
  alertCase('DeliveriesFailing', {
    when: 'claims fail',
    fires: 'warning',
    value: '100m',
    labels: { step: 'claim' },
    series: { [stepFailed]: perMinute(6) },
    quiet: {
      'one claim failed': { [stepFailed]: '0x30 1x100' },
      'it began a moment ago': { [stepFailed]: '0x36 0+6x100' },
    },
  }),
  rise('DeliveryLeasesLost', of('latchkey_delivery_lost_leases_total'), {
    when: 'many leases were lost',
    fires: 'warning',
    value: '42.86',
    by: 40,
    quiet: { 'few leases were lost': { [of('latchkey_delivery_lost_leases_total')]: '7x35 12x100' } },
  }),
  rise('DeliveryUnwritable', of('latchkey_delivery_unwritable_total'), {
    when: 'a result cannot be stored',
    fires: 'warning',
    value: '5.357',
  }),
  gauge('ManyCallbacksFailing', of('latchkey_events_breakers_open_count'), [6, 2], {
    when: 'the callbacks of six tenants fail',
    fires: 'warning',
    value: '6',
  }),
  gauge('CallbacksSuspended', of('latchkey_events_callbacks_suspended_count'), [2, 0], {
    when: 'two callbacks have been suspended for an hour',
    fires: 'info',
    value: '2',
    at: '70m',
    quiet: { 'it began a moment ago': { [of('latchkey_events_callbacks_suspended_count')]: '0x40 2x120' } },
  }),
  gauge('Paused', of('latchkey_settings_pauses_count'), [1, 0], {
    when: 'a pause has been active for an hour',
    fires: 'info',
    value: '1',
    at: '70m',
    quiet: { 'it began a moment ago': { [of('latchkey_settings_pauses_count')]: '0x40 1x120' } },
  }),
  rise('ReplaysFailing', of('latchkey_replays_failures_total'), {
    when: 'steps fail repeatedly',
    fires: 'warning',
    value: '5.357',
    quiet: { 'one step failed': { [of('latchkey_replays_failures_total')]: '7x35 8x100' } },
  }),
  gauge('PartitionsNotAhead', ahead, [28_800, 3_000], {
    when: 'partitions were last created eight hours ago',
    fires: 'warning',
    value: '8h 0m 0s',
    quiet: {
      'another forwarder created them': {
        [of('latchkey_storage_partitions_ahead_age_seconds', '', 'b')]: always(10),
      },
    },
  }),
  gauge('PartitionsNotAhead', ahead, [144_000, 3_000], {
    when: 'partitions were last created 40 hours ago',
    fires: 'critical',
    value: '1d 16h 0m 0s',
  }),
  gauge('RetentionBehind', of('latchkey_storage_expired_partition_age_seconds'), [10_800, 1_000], {
    when: 'a partition expired three hours ago',
    fires: 'warning',
    value: '3h 0m 0s',
  }),
]

const operator = { [info('operator')]: always(1) }
const lease = (pod?: string) => of('leader_election_master_status', 'name="latchkey-operator"', pod)
const reconciled = (metric: string, labels = '') =>
  of(`controller_runtime_${metric}`, `controller="tenant"${labels === '' ? '' : `,${labels}`}`)
const asked = (code: string) => of('rest_client_requests_total', `code="${code}",method="GET"`)
const depth = of('workqueue_depth', 'name="tenant"')
const stranger = (series: string) => series.replace(/job="[^"]*"/, 'job="another"')

/** Cases of the operator alerts. */
export const operatorCases: readonly AlertCase[] = [
  alertCase('OperatorLeaderMissing', {
    when: 'no operator leads',
    fires: 'critical',
    series: { ...operator, [lease()]: always(0) },
    quiet: {
      'one does': { [lease()]: always(1) },
      'there is no operator here': { [info('operator')]: '_x180' },
    },
  }),
  alertCase('OperatorLeaderMissing', {
    when: 'no operator has led yet',
    fires: 'critical',
    series: operator,
    quiet: { 'it began a moment ago': { [info('operator')]: '_x38 1x100' } },
  }),
  alertCase('OperatorLeaderMissing', {
    when: 'the leader and its pod are gone',
    fires: 'critical',
    series: { [info('operator')]: '1x20 _x160', [lease()]: '1x20 _x160' },
    quiet: { 'another one leads': { [info('operator', 'b')]: always(1), [lease('b')]: always(1) } },
  }),
  alertCase('OperatorLeaderMissing', {
    when: 'two operators run and neither leads',
    fires: 'critical',
    series: {
      ...operator,
      [info('operator', 'b')]: always(1),
      [lease()]: always(0),
      [lease('b')]: always(0),
    },
    quiet: { 'one does': { [lease('b')]: always(1) } },
  }),
  alertCase('OperatorTwoLeaders', {
    when: 'two operators lead',
    fires: 'critical',
    value: '2',
    series: {
      ...operator,
      [info('operator', 'b')]: always(1),
      [lease()]: always(1),
      [lease('b')]: always(1),
    },
    quiet: { 'the other one is not ours': { [info('operator', 'b')]: '_x180' } },
  }),
  alertCase('OperatorReconcileErrors', {
    when: 'every fifth reconcile fails',
    fires: 'warning',
    value: '20%',
    labels: { controller: 'tenant' },
    series: {
      ...operator,
      [reconciled('reconcile_total', 'result="success"')]: perMinute(8),
      [reconciled('reconcile_total', 'result="error"')]: perMinute(2),
      [reconciled('reconcile_errors_total')]: perMinute(2),
    },
    quiet: {
      'another controller’s do': { [info('operator')]: '_x180' },
      'few reconciles fail': { [reconciled('reconcile_total', 'result="success"')]: perMinute(80) },
    },
  }),
  alertCase('OperatorStale', {
    when: 'Tenants wait and none is reconciled',
    fires: 'warning',
    value: '3',
    labels: { name: 'tenant' },
    series: {
      ...operator,
      [depth]: always(3),
      [reconciled('reconcile_total', 'result="success"')]: always(9),
    },
    quiet: {
      'reconciles finish': { [reconciled('reconcile_total', 'result="success"')]: perMinute(1) },
      'nothing waits': { [depth]: always(0) },
      'another controller’s queue waits': { [depth]: always(0), [stranger(depth)]: always(3) },
    },
  }),
  alertCase('OperatorApiServerUnreachable', {
    when: 'most calls of the operator get no answer',
    fires: 'warning',
    value: '90%',
    series: { ...operator, [asked('<error>')]: perMinute(9), [asked('200')]: perMinute(1) },
    quiet: { 'few calls get no answer': { [asked('200')]: perMinute(100) } },
  }),
  gauge('TenantsNotReady', of('latchkey_tenants_resources_count', 'ready="False"'), [2, 0], {
    when: 'two Tenants are not Ready for an hour',
    fires: 'info',
    value: '2',
    at: '70m',
    quiet: {
      'it began a moment ago': { [of('latchkey_tenants_resources_count', 'ready="False"')]: '0x40 2x120' },
    },
  }),
]

const age = (pod?: string) => of('latchkey_settings_age_seconds', '', pod)
const waiting = of('latchkey_storage_pool_waiting_count', 'pool="postgres"')
const redis = (reason: string) => of('latchkey_storage_redis_failures_total', `reason="${reason}"`)

/** Cases of the store alerts. */
export const storeCases: readonly AlertCase[] = [
  gauge('PostgresUnreachable', age(), [90, 1], {
    when: 'Postgres answers no process',
    fires: 'critical',
    quiet: { 'Postgres answers one process': { [age('b')]: always(1) } },
  }),
  gauge('PostgresUnreachable', age(), [-1, 1], {
    when: 'Postgres has never answered',
    fires: 'critical',
  }),
  alertCase('PostgresUnreachableFromPod', {
    when: 'Postgres answers other pods',
    fires: 'warning',
    labels: { pod: 'b' },
    series: { [age()]: always(1), [age('b')]: always(120) },
    quiet: {
      'Postgres answers no pod': { [age()]: always(120) },
      'Postgres answers all pods': { [age('b')]: always(1) },
    },
  }),
  alertCase('PostgresPoolExhausted', {
    when: 'statements always wait',
    fires: 'warning',
    labels: { pod: 'a', pool: 'postgres' },
    series: { [waiting]: always(4) },
    quiet: {
      'statements wait now and then': {
        [waiting]: '0 4 4 0 4 4 0 4 4 0 4 4 0 4 4 0 4 4 0 4 4 0 4 4 0 4 4 0 4 4 0 4 4 0 4 4 0 4 4 0 4 4 0',
      },
    },
  }),
  rise(
    'PostgresConnectionsBreak',
    of('latchkey_storage_postgres_connection_errors_total', 'pool="postgres"'),
    {
      when: 'many connections broke',
      fires: 'warning',
      value: '21.43',
      by: 20,
      quiet: {
        'few connections broke': {
          [of('latchkey_storage_postgres_connection_errors_total', 'pool="postgres"')]: '7x35 9x100',
        },
      },
    },
  ),
  alertCase('RecordsPostgresFailing', {
    when: 'transactions of records keep failing',
    fires: 'warning',
    value: '1',
    series: { [of('latchkey_records_postgres_failures_total')]: perMinute(60) },
    quiet: {
      'a few failed in a moment': { [of('latchkey_records_postgres_failures_total')]: '0x30 9x100' },
    },
  }),
  alertCase('RedisUnreachable', {
    when: 'Redis does not answer',
    fires: 'critical',
    value: '1',
    series: { [redis('timeout')]: perMinute(60) },
    quiet: {
      'one call got no answer': { [redis('timeout')]: '0x30 1x100' },
      'it began a moment ago': { [redis('timeout')]: '0x39 0+60x100' },
    },
  }),
  rise('RedisFull', redis('full'), {
    when: 'Redis refuses writes for lack of memory',
    fires: 'critical',
    at: '37m',
    quiet: { 'Redis is unavailable': { [redis('full')]: always(0), [redis('timeout')]: perMinute(60) } },
  }),
  alertCase('RedisRefusing', {
    when: 'too many calls wait',
    fires: 'warning',
    labels: { reason: 'overloaded' },
    series: { [redis('overloaded')]: perMinute(60) },
    quiet: { 'it lasted a moment': { [redis('overloaded')]: '0x30 5x100' } },
  }),
]

const all = {
  [info('api')]: always(1),
  [info('forwarder', 'b')]: always(1),
  [info('backoffice', 'c')]: always(1),
}
const silence = of('latchkey_process_loop_silence_ratio', 'loop="retention"')
const loopFailed = of('latchkey_process_loop_failures_total', 'loop="retention"')
const started = of('process_start_time_seconds')

/** Cases of the process alerts. */
export const processCases: readonly AlertCase[] = [
  {
    ...alertCase('Absent', {
      when: 'Prometheus sees no process',
      fires: 'critical',
      series: { 'up{job="other"}': always(1) },
      quiet: { 'Prometheus sees processes': all, 'it began a moment ago': { [info('api')]: '1x37 _x100' } },
    }),
    labels: {},
  },
  alertCase('ProcessMissing', {
    when: 'there never was a forwarder',
    fires: 'critical',
    labels: { process: 'latchkey-forwarder' },
    series: { ...all, [info('forwarder', 'b')]: '_x180' },
    quiet: { 'there is a forwarder': all },
  }),
  alertCase('ProcessMissing', {
    when: 'the backoffice is gone',
    fires: 'critical',
    labels: { process: 'latchkey-backoffice' },
    series: { ...all, [info('backoffice', 'c')]: '1x20 stale _x100' },
    quiet: { 'this installation never had a backoffice': { [info('backoffice', 'c')]: '_x180' } },
  }),
  alertCase('TargetDown', {
    when: 'a process cannot be scraped',
    fires: 'warning',
    labels: { pod: 'a', job: 'shops/latchkey', instance: '10.0.0.1:a' },
    series: { [of('up')]: '1x20 0x100', [info('api')]: '1x20 stale _x100' },
    quiet: {
      'it can be scraped': { [of('up')]: always(1) },
      'the target is not ours': { [info('api')]: '_x180' },
    },
  }),
  alertCase('Restarting', {
    when: 'a process started three times',
    fires: 'warning',
    value: '3',
    labels: { pod: 'a', job: 'shops/latchkey', instance: '10.0.0.1:a' },
    series: { ...all, [started]: '1x15 2x5 3x5 4x100' },
    quiet: { 'it started once': { [started]: '1x15 2x100' } },
  }),
  alertCase('VersionsMixed', {
    when: 'two versions run for an hour',
    fires: 'warning',
    value: '2',
    at: '70m',
    series: { ...all, [info('api', 'd', '2')]: always(1) },
    quiet: {
      'two versions run for minutes': { [info('api', 'd', '2')]: '_x60 1x100' },
      'the other version is in another namespace': {
        [info('api', 'd', '2')]: '_x180',
        [info('api', 'd', '2').replace('shops', 'others')]: always(1),
      },
    },
  }),
  gauge('LoopStuck', silence, [1.2, 0.1], {
    when: 'a loop hangs',
    fires: 'critical',
    labels: { pod: 'a', loop: 'retention' },
  }),
  alertCase('LoopFailing', {
    when: 'every iteration fails',
    fires: 'warning',
    labels: { loop: 'retention' },
    series: { [loopFailed]: perMinute(1) },
    quiet: {
      'one iteration failed': { [loopFailed]: '0x35 1x100' },
      'it began a moment ago': { [loopFailed]: '0x34 0+1x100' },
    },
  }),
  gauge('EventLoopLag', of('latchkey_process_event_loop_lag_seconds'), [2, 0.01], {
    when: 'the event loop is blocked for two seconds',
    fires: 'warning',
    value: '2s',
    labels: { pod: 'a' },
  }),
]
