import { type AlertCase, alertCase, always, gauge, of, perMinute, rise } from './sre-alert-case.ts'

const answered = (route: string, status: number, outcome: string) =>
  of('latchkey_http_requests_total', `method="POST",route="${route}",status="${status}",outcome="${outcome}"`)
const hook = '/v1/webhooks/:provider'
const slugHook = '/v1/t/:tenantSlug/webhooks/:provider'
const took = (part: string) =>
  of(`latchkey_http_request_duration_seconds_${part}`, `method="POST",route="${slugHook}"`)
const within = (metric: string, bound: string, labels = '') =>
  of(`${metric}_bucket`, `${labels === '' ? '' : `${labels},`}le="${bound}"`)
const slow = within('latchkey_http_request_duration_seconds', '1.0', `method="POST",route="${slugHook}"`)
const delay = 'latchkey_deliveries_delay_seconds'
const ended = (ending: string) => of('latchkey_deliveries_endings_total', `ending="${ending}"`)

/** Alerts of error budgets. */
export const objectiveCases: readonly AlertCase[] = [
  alertCase('IntakeErrorBudgetBurn', {
    when: '2 % of providers’ calls get a 5xx',
    at: '70m',
    series: {
      [answered(hook, 200, 'stored')]: perMinute(98),
      [answered(slugHook, 503, 'queue_unavailable')]: perMinute(2),
    },
    fires: { critical: '2%', warning: '2%' },
    quiet: {
      'somebody has paused the provider': {
        [answered(slugHook, 503, 'queue_unavailable')]: perMinute(0),
        [answered(slugHook, 503, 'provider_paused')]: perMinute(2),
      },
      'callers without a secret cause them': {
        [answered(slugHook, 503, 'queue_unavailable')]: perMinute(0),
        [answered(slugHook, 503, 'certificate_unavailable')]: perMinute(200),
        [answered(slugHook, 503, 'body_dropped')]: perMinute(200),
        [answered(slugHook, 508, 'loop_detected')]: perMinute(200),
      },
      'other calls fail': {
        [answered(slugHook, 503, 'queue_unavailable')]: perMinute(0),
        [answered('/v1/record', 503, 'store_unavailable')]: perMinute(50),
      },
      'it is too little to say': {
        [answered(hook, 200, 'stored')]: perMinute(0),
        [answered(slugHook, 503, 'queue_unavailable')]: '0+1x1 1x178',
      },
    },
  }),
  alertCase('IntakeErrorBudgetBurn', {
    when: '2 % of verified calls do, and a flood of forged ones must not dilute that',
    at: '70m',
    series: {
      [answered(hook, 200, 'stored')]: perMinute(98),
      [answered(slugHook, 503, 'queue_unavailable')]: perMinute(2),
      [answered(slugHook, 400, 'invalid_signature')]: perMinute(100_000),
      [answered(slugHook, 403, 'tenant_not_allowed')]: perMinute(100_000),
    },
    fires: { critical: '2%', warning: '2%' },
    quiet: { 'none does': { [answered(slugHook, 503, 'queue_unavailable')]: perMinute(0) } },
  }),
  alertCase('IntakeErrorBudgetBurn', {
    when: '0.5 % do, hour after hour',
    at: '70m',
    series: {
      [answered(hook, 200, 'stored')]: perMinute(995),
      [answered(hook, 500, 'internal')]: perMinute(5),
    },
    fires: { warning: '0.5%' },
    quiet: { 'it was over half an hour ago': { [answered(hook, 500, 'internal')]: '0+0.05x180' } },
  }),
  alertCase('IntakeSlow', {
    when: 'every fifth call takes over a second',
    at: '70m',
    series: { [took('count')]: perMinute(100), [slow]: perMinute(80) },
    fires: { critical: '20%', warning: '20%' },
    quiet: { 'one in two hundred does': { [slow]: perMinute(99.5) } },
  }),
  alertCase('IntakeSlow', {
    when: 'an older Prometheus keeps the bounds as they were written',
    at: '70m',
    series: { [took('count')]: perMinute(100), [slow.replace('1.0', '1')]: perMinute(80) },
    fires: { critical: '20%', warning: '20%' },
    quiet: { 'all are fast': { [slow.replace('1.0', '1')]: perMinute(100) } },
  }),
  alertCase('RecordsErrorBudgetBurn', {
    when: '2 % of calls about records get a 5xx',
    at: '70m',
    series: {
      [answered('/v1/record', 200, 'hit')]: perMinute(98),
      [answered('/v1/record/batch', 503, 'store_unavailable')]: perMinute(2),
    },
    fires: { critical: '2%', warning: '2%' },
    quiet: {
      'they are refused for what they are': {
        [answered('/v1/record/batch', 503, 'store_unavailable')]: perMinute(0),
        [answered('/v1/record', 400, 'invalid_request')]: perMinute(50),
      },
    },
  }),
  alertCase('RecordsErrorBudgetBurn', {
    when: 'memory for bodies is short, and 2 % of calls with a valid key are dropped',
    at: '70m',
    series: {
      [answered('/v1/record', 200, 'hit')]: perMinute(98),
      [answered('/v1/record', 503, 'body_dropped')]: perMinute(2),
    },
    fires: { critical: '2%', warning: '2%' },
    quiet: {
      'callers without a valid key are refused': {
        [answered('/v1/record', 503, 'body_dropped')]: perMinute(0),
        [answered('/v1/record', 403, 'api_key_invalid')]: perMinute(200),
      },
    },
  }),
  alertCase('DeliverySlow', {
    when: 'every fifth event waits more than 10 s for its first attempt',
    at: '70m',
    series: { [of(`${delay}_count`)]: perMinute(100), [within(delay, '10.0')]: perMinute(80) },
    fires: { critical: '20%', warning: '20%' },
    quiet: { 'one in two hundred does': { [within(delay, '10.0')]: perMinute(99.5) } },
  }),
  alertCase('DeliveryErrorBudgetBurn', {
    when: 'every fifth event fails for good',
    at: '70m',
    series: { [ended('processed')]: perMinute(80), [ended('failed')]: perMinute(20) },
    fires: { warning: '20%', info: '20%' },
    quiet: {
      'attempts fail and are made again': {
        [ended('failed')]: perMinute(0),
        [ended('later')]: perMinute(80),
      },
    },
  }),
]

const spoolRefused = of('latchkey_webhooks_spool_refused_total', 'reason="full"')
const fetched = (outcome: string) => of('latchkey_webhooks_certificate_fetches_total', `outcome="${outcome}"`)
const called = (outcome: string) =>
  of('latchkey_webhooks_calls_total', `provider="card",outcome="${outcome}"`)

/** Alerts of what comes in. */
export const intakeCases: readonly AlertCase[] = [
  gauge('SpoolInUse', of('latchkey_webhooks_spool_entries_count'), [12, 0], {
    ...{ when: 'events wait in Redis', fires: 'warning', value: '12' },
  }),
  gauge('SpoolNotDraining', of('latchkey_webhooks_spool_oldest_age_seconds'), [1200, 600], {
    ...{ when: 'one has waited for 20 minutes', fires: 'critical', value: '20m 0s' },
  }),
  rise('SpoolRefusing', spoolRefused, {
    ...{ when: 'the spool is full', fires: 'critical', labels: { reason: 'full' }, at: '37m' },
  }),
  alertCase('SpoolDeadEntries', {
    ...{ when: 'one was set aside', fires: 'warning', value: '1' },
    series: { [of('latchkey_webhooks_spool_dead_count')]: always(1) },
    quiet: { 'there is none': { [of('latchkey_webhooks_spool_dead_count')]: always(0) } },
  }),
  rise('RecordsLost', of('latchkey_records_epochs_lost_total'), {
    ...{ when: 'Redis lost tenants’ records', fires: 'critical', value: '5.357', at: '40m' },
  }),
  rise('EventsUnstorable', of('latchkey_webhooks_store_failures_total', 'kind="refused"'), {
    ...{ when: 'Postgres refuses an event', fires: 'critical', value: '5.357' },
    quiet: {
      'it is away': {
        [of('latchkey_webhooks_store_failures_total', 'kind="refused"')]: always(0),
        [of('latchkey_webhooks_store_failures_total', 'kind="unavailable"')]: perMinute(60),
      },
    },
  }),
  rise('ExecutionsDropped', of('latchkey_executions_dropped_total', 'reason="full"'), {
    ...{ when: 'the buffer was full', fires: 'warning', value: '5.357' },
  }),
  alertCase('UsageNotRolledUp', {
    ...{ when: 'every turn fails', fires: 'warning' },
    series: { [of('latchkey_usage_flush_failures_total')]: perMinute(6) },
    quiet: {
      'one turn in ten minutes fails': { [of('latchkey_usage_flush_failures_total')]: perMinute(0.1) },
      'it has only begun': { [of('latchkey_usage_flush_failures_total')]: '0x36 0+6x100' },
    },
  }),
  alertCase('EventsUncounted', {
    ...{ when: 'there was no room', fires: 'warning', value: '15' },
    series: { [of('latchkey_usage_uncounted_events_count')]: perMinute(1) },
    quiet: { 'that was long ago': { [of('latchkey_usage_uncounted_events_count')]: always(90) } },
  }),
  gauge('TenantSecretsUnreadable', of('latchkey_tenants_unreadable_count'), [3, 0], {
    ...{ when: 'a process cannot open the secrets of three tenants', fires: 'critical' },
  }),
  gauge('TenantSecretsUnreadable', of('latchkey_tenants_key_ring_unfit_count'), [1, 0], {
    ...{ when: 'the key ring of a pod opens no secret at all', fires: 'critical' },
  }),
  rise('TenantSecretsUnreadable', of('latchkey_deliveries_unsigned_total'), {
    ...{ when: 'a tenant has no usable signing secret', fires: 'critical' },
  }),
  alertCase('BodiesDropped', {
    ...{ when: 'memory for bodies stays full', fires: 'warning', value: '3.333' },
    series: { [answered(slugHook, 503, 'body_dropped')]: perMinute(200) },
    quiet: {
      'a few slow callers are dropped': { [answered(slugHook, 503, 'body_dropped')]: perMinute(20) },
    },
  }),
  alertCase('SignaturesRefused', {
    ...{
      when: 'most signatures of a provider are wrong',
      fires: 'warning',
      value: '80%',
      labels: { provider: 'card' },
    },
    series: { [called('stored')]: perMinute(2), [called('signature_mismatch')]: perMinute(8) },
    quiet: {
      'few are': { [called('stored')]: perMinute(100) },
      'hardly anybody calls': {
        [called('stored')]: perMinute(0),
        [called('signature_mismatch')]: perMinute(0.1),
      },
    },
  }),
  alertCase('WalletCertificateFetchFailing', {
    ...{ when: 'none can be had', fires: 'warning', at: '50m' },
    series: { [fetched('failed')]: perMinute(1), [fetched('trusted')]: always(3) },
    quiet: {
      'one could be had': { [fetched('trusted')]: '3x40 4x200' },
      'callers make addresses up': { [fetched('failed')]: always(0), [fetched('absent')]: perMinute(30) },
    },
  }),
  alertCase('WalletCertificateExpiring', {
    ...{ when: 'one that is used ends in two days', fires: 'warning', value: '2d 0h 0m 0s', at: '2h' },
    series: { [of('latchkey_webhooks_certificate_expiry_seconds')]: always(172_800) },
    quiet: {
      'it is good for a month': { [of('latchkey_webhooks_certificate_expiry_seconds')]: always(2_592_000) },
      'none is used': {
        [of('latchkey_webhooks_certificate_expiry_seconds')]: Array(180).fill('Inf').join(' '),
      },
    },
  }),
  gauge('TenantDirectoryStale', of('latchkey_tenants_directory_age_seconds'), [300, 1], {
    ...{ when: 'they were compared five minutes ago', fires: 'warning', labels: { pod: 'a' } },
  }),
  gauge('TenantDirectoryStale', of('latchkey_tenants_directory_age_seconds'), [-1, 1], {
    ...{ when: 'they were never read', fires: 'warning', labels: { pod: 'a' } },
  }),
  alertCase('TenantDirectoryOverfull', {
    ...{ when: 'there are too many', fires: 'critical' },
    series: { [of('latchkey_tenants_directory_overfull_count')]: always(1) },
    quiet: { 'all have room': { [of('latchkey_tenants_directory_overfull_count')]: always(0) } },
  }),
]
