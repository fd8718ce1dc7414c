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
const delay = 'latchkey_delivery_delay_seconds'
const ended = (ending: string) => of('latchkey_delivery_endings_total', `ending="${ending}"`)

/** Cases of the error budget alerts. */
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
      'the provider is paused': {
        [answered(slugHook, 503, 'queue_unavailable')]: perMinute(0),
        [answered(slugHook, 503, 'provider_paused')]: perMinute(2),
      },
      'callers without a secret cause the 5xx': {
        [answered(slugHook, 503, 'queue_unavailable')]: perMinute(0),
        [answered(slugHook, 503, 'certificate_unavailable')]: perMinute(200),
        [answered(slugHook, 503, 'body_dropped')]: perMinute(200),
        [answered(slugHook, 508, 'loop_detected')]: perMinute(200),
      },
      'only record calls fail': {
        [answered(slugHook, 503, 'queue_unavailable')]: perMinute(0),
        [answered('/v1/record', 503, 'store_unavailable')]: perMinute(50),
      },
      'a single call failed': {
        [answered(hook, 200, 'stored')]: perMinute(0),
        [answered(slugHook, 503, 'queue_unavailable')]: '0+1x1 1x178',
      },
    },
  }),
  alertCase('IntakeErrorBudgetBurn', {
    when: '2 % of verified calls get a 5xx amid a flood of forged calls',
    at: '70m',
    series: {
      [answered(hook, 200, 'stored')]: perMinute(98),
      [answered(slugHook, 503, 'queue_unavailable')]: perMinute(2),
      [answered(slugHook, 400, 'invalid_signature')]: perMinute(100_000),
      [answered(slugHook, 403, 'tenant_not_allowed')]: perMinute(100_000),
    },
    fires: { critical: '2%', warning: '2%' },
    quiet: { 'no verified call fails': { [answered(slugHook, 503, 'queue_unavailable')]: perMinute(0) } },
  }),
  alertCase('IntakeErrorBudgetBurn', {
    when: '0.5 % of providers’ calls get a 5xx for hours',
    at: '70m',
    series: {
      [answered(hook, 200, 'stored')]: perMinute(995),
      [answered(hook, 500, 'internal')]: perMinute(5),
    },
    fires: { warning: '0.5%' },
    quiet: { 'few calls fail': { [answered(hook, 500, 'internal')]: '0+0.05x180' } },
  }),
  alertCase('IntakeSlow', {
    when: 'every fifth call takes over a second',
    at: '70m',
    series: { [took('count')]: perMinute(100), [slow]: perMinute(80) },
    fires: { critical: '20%', warning: '20%' },
    quiet: { 'one call in two hundred is slow': { [slow]: perMinute(99.5) } },
  }),
  alertCase('IntakeSlow', {
    when: 'calls are slow and Prometheus writes the bucket as le=1',
    at: '70m',
    series: { [took('count')]: perMinute(100), [slow.replace('1.0', '1')]: perMinute(80) },
    fires: { critical: '20%', warning: '20%' },
    quiet: { 'all are fast': { [slow.replace('1.0', '1')]: perMinute(100) } },
  }),
  alertCase('RecordsErrorBudgetBurn', {
    when: '2 % of record calls get a 5xx',
    at: '70m',
    series: {
      [answered('/v1/record', 200, 'hit')]: perMinute(98),
      [answered('/v1/record/batch', 503, 'store_unavailable')]: perMinute(2),
    },
    fires: { critical: '2%', warning: '2%' },
    quiet: {
      'calls get a 4xx': {
        [answered('/v1/record/batch', 503, 'store_unavailable')]: perMinute(0),
        [answered('/v1/record', 400, 'invalid_request')]: perMinute(50),
      },
    },
  }),
  alertCase('RecordsErrorBudgetBurn', {
    when: '2 % of record calls with a valid key are dropped for lack of memory',
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
    quiet: { 'one event in two hundred waits': { [within(delay, '10.0')]: perMinute(99.5) } },
  }),
  alertCase('DeliveryErrorBudgetBurn', {
    when: 'every fifth delivery fails after its last attempt',
    at: '70m',
    series: { [ended('processed')]: perMinute(80), [ended('failed')]: perMinute(20) },
    fires: { warning: '20%', info: '20%' },
    quiet: {
      'attempts fail and are retried': {
        [ended('failed')]: perMinute(0),
        [ended('later')]: perMinute(80),
      },
    },
  }),
]

const spoolRefused = of('latchkey_intake_spool_refused_total', 'reason="full"')
const fetched = (outcome: string) => of('latchkey_intake_certificate_fetches_total', `outcome="${outcome}"`)
const keysFetched = (source: string, outcome: string) =>
  of('latchkey_intake_key_fetches_total', `outcome="${outcome}",source="${source}"`)
const called = (outcome: string) => of('latchkey_intake_calls_total', `provider="card",outcome="${outcome}"`)

/** Cases of the intake alerts. */
export const intakeCases: readonly AlertCase[] = [
  gauge('SpoolInUse', of('latchkey_intake_spool_entries_count'), [12, 0], {
    when: 'events wait in Redis',
    fires: 'warning',
    value: '12',
  }),
  gauge('SpoolNotDraining', of('latchkey_intake_spool_oldest_age_seconds'), [1200, 600], {
    when: 'an event has been spooled for 20 minutes',
    fires: 'critical',
    value: '20m 0s',
  }),
  rise('SpoolRefusing', spoolRefused, {
    when: 'the spool is full',
    fires: 'critical',
    labels: { reason: 'full' },
    at: '37m',
  }),
  alertCase('SpoolDeadEntries', {
    when: 'there is a dead letter',
    fires: 'warning',
    value: '1',
    series: { [of('latchkey_intake_spool_dead_count')]: always(1) },
    quiet: { 'there is no dead letter': { [of('latchkey_intake_spool_dead_count')]: always(0) } },
  }),
  rise('RecordsLost', of('latchkey_records_epochs_lost_total'), {
    when: 'Redis lost the records of tenants',
    fires: 'critical',
    value: '5.357',
    at: '40m',
  }),
  rise('EventsUnstorable', of('latchkey_intake_store_failures_total', 'kind="refused"'), {
    when: 'Postgres refuses an event',
    fires: 'critical',
    value: '5.357',
    quiet: {
      'Postgres is unavailable': {
        [of('latchkey_intake_store_failures_total', 'kind="refused"')]: always(0),
        [of('latchkey_intake_store_failures_total', 'kind="unavailable"')]: perMinute(60),
      },
    },
  }),
  rise('LockHistoryDropped', of('latchkey_records_history_dropped_total', 'reason="full"'), {
    when: 'the buffer was full',
    fires: 'warning',
    value: '5.357',
  }),
  alertCase('UsageNotRolledUp', {
    when: 'every roll-up fails',
    fires: 'warning',
    series: { [of('latchkey_usage_flush_failures_total')]: perMinute(6) },
    quiet: {
      'one roll-up in ten minutes fails': { [of('latchkey_usage_flush_failures_total')]: perMinute(0.1) },
      'it began a moment ago': { [of('latchkey_usage_flush_failures_total')]: '0x36 0+6x100' },
    },
  }),
  alertCase('EventsUncounted', {
    when: 'the buffer of counts is full',
    fires: 'warning',
    value: '15',
    series: { [of('latchkey_usage_uncounted_events_count')]: perMinute(1) },
    quiet: { 'the count does not rise': { [of('latchkey_usage_uncounted_events_count')]: always(90) } },
  }),
  gauge('TenantSecretsUnreadable', of('latchkey_tenants_unreadable_count'), [3, 0], {
    when: 'a process cannot open the secrets of three tenants',
    fires: 'critical',
  }),
  gauge('TenantSecretsUnreadable', of('latchkey_tenants_key_ring_unfit_count'), [1, 0], {
    when: 'the key ring of a pod opens no secret at all',
    fires: 'critical',
  }),
  rise('TenantSecretsUnreadable', of('latchkey_delivery_unsigned_total'), {
    when: 'a tenant has no usable signing secret',
    fires: 'critical',
  }),
  alertCase('BodiesDropped', {
    when: 'memory for bodies stays full',
    fires: 'warning',
    value: '3.333',
    series: { [answered(slugHook, 503, 'body_dropped')]: perMinute(200) },
    quiet: {
      'a few slow callers are dropped': { [answered(slugHook, 503, 'body_dropped')]: perMinute(20) },
    },
  }),
  alertCase('SignaturesRefused', {
    when: 'most signatures of a provider are invalid',
    fires: 'warning',
    value: '80%',
    labels: { provider: 'card' },
    series: { [called('stored')]: perMinute(2), [called('signature_mismatch')]: perMinute(8) },
    quiet: {
      'few signatures are invalid': { [called('stored')]: perMinute(100) },
      'there are hardly any calls': {
        [called('stored')]: perMinute(0),
        [called('signature_mismatch')]: perMinute(0.1),
      },
    },
  }),
  alertCase('WalletCertificateFetchFailing', {
    when: 'no certificate can be fetched',
    fires: 'warning',
    at: '50m',
    series: { [fetched('failed')]: perMinute(1), [fetched('trusted')]: always(3) },
    quiet: {
      'a certificate was fetched': { [fetched('trusted')]: '3x40 4x200' },
      'callers name certificates that do not exist': {
        [fetched('failed')]: always(0),
        [fetched('absent')]: perMinute(30),
      },
    },
  }),
  alertCase('ProviderKeyFetchFailing', {
    when: 'no key set can be fetched',
    fires: 'warning',
    at: '50m',
    labels: { source: 'jwks' },
    series: {
      [keysFetched('jwks', 'failed')]: perMinute(1),
      [keysFetched('jwks', 'trusted')]: always(3),
      [keysFetched('sns', 'trusted')]: perMinute(1),
    },
    quiet: {
      'a key set was fetched': { [keysFetched('jwks', 'trusted')]: '3x40 4x200' },
      'fetches are only held back': {
        [keysFetched('jwks', 'failed')]: always(0),
        [keysFetched('jwks', 'held_back')]: perMinute(30),
      },
    },
  }),
  alertCase('WalletCertificateExpiring', {
    when: 'a used certificate expires in two days',
    fires: 'warning',
    value: '2d 0h 0m 0s',
    at: '2h',
    series: { [of('latchkey_intake_certificate_expiry_seconds')]: always(172_800) },
    quiet: {
      'it is good for a month': { [of('latchkey_intake_certificate_expiry_seconds')]: always(2_592_000) },
      'no certificate is used': {
        [of('latchkey_intake_certificate_expiry_seconds')]: Array(180).fill('Inf').join(' '),
      },
    },
  }),
  gauge('TenantDirectoryStale', of('latchkey_tenants_directory_age_seconds'), [300, 1], {
    when: 'the tenants were last compared five minutes ago',
    fires: 'warning',
    labels: { pod: 'a' },
  }),
  gauge('TenantDirectoryStale', of('latchkey_tenants_directory_age_seconds'), [-1, 1], {
    when: 'the tenants were never read',
    fires: 'warning',
    labels: { pod: 'a' },
  }),
  alertCase('TenantDirectoryOverfull', {
    when: 'there are too many tenants',
    fires: 'critical',
    series: { [of('latchkey_tenants_directory_overfull_count')]: always(1) },
    quiet: { 'all tenants fit': { [of('latchkey_tenants_directory_overfull_count')]: always(0) } },
  }),
]
