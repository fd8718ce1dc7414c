import { curve, type Dashboard, figure, of, quantiles, type Row, rate } from './panel.ts'

const hooks = 'route=~"/v1/webhooks/.*|/v1/t/.*"'

/** What somebody looks at first: whether all is well, and if not, where to look on. */
export function overviewDashboard(): Dashboard {
  return {
    name: 'overview',
    title: 'Latchkey / Overview',
    description: 'What comes in, what goes out, and whether promises hold.',
    rows: [now(), comingIn(), goingOut(), promises(), processes()],
  }
}

function now(): Row {
  return {
    title: 'Now',
    panels: [
      figure(
        'Alerts',
        'short',
        'count(ALERTS{namespace="$namespace",alertname=~"Latchkey.*",alertstate="firing"}) or vector(0)',
        {
          description: 'Alerts of this installation that fire. Each has a runbook.',
          bounds: [1, 5],
        },
      ),
      figure(
        'Calls with a 5xx, 1 h',
        'percentunit',
        'namespace:latchkey_intake_errors:ratio_rate1h{namespace="$namespace"}',
        {
          description:
            'Share of providers’ calls in the last hour that got a 5xx. Promised are at most 0.1 %.',
          bounds: [0.001, 0.0144],
        },
      ),
      figure(
        'Events failed, 1 h',
        'percentunit',
        'namespace:latchkey_delivery_failures:ratio_rate1h{namespace="$namespace"}',
        {
          description:
            'Share of events in the last hour whose attempts were used up. Mostly the callbacks’ own trouble.',
          bounds: [0.01, 0.144],
        },
      ),
      figure('Due', 'short', `max(${of('latchkey_deliveries_due_count')})`, {
        description: 'Deliveries that are due now, of callbacks that may be called.',
        bounds: [1_000, 10_000],
      }),
      figure('Oldest', 's', `max(${of('latchkey_deliveries_oldest_age_seconds')})`, {
        description: 'How long the delivery that is due longest has been so.',
        bounds: [60, 300],
      }),
      figure('In the spool', 'short', `max(${of('latchkey_webhooks_spool_entries_count')})`, {
        description:
          'Events that wait in Redis for Postgres. Anything but 0 means that Postgres is or was away.',
        bounds: [1, 1_000],
      }),
    ],
  }
}

function comingIn(): Row {
  return {
    title: 'Coming in',
    panels: [
      curve(
        'Providers’ calls',
        'reqps',
        [[rate(of('latchkey_webhooks_calls_total'), 'outcome'), '{{outcome}}']],
        'By what became of them: stored, duplicate, queued (spooled), or why they were refused.',
      ),
      curve(
        'By provider',
        'reqps',
        [[rate(of('latchkey_webhooks_calls_total'), 'provider'), '{{provider}}']],
        'Calls for known tenants.',
      ),
      curve(
        'How long they take',
        's',
        quantiles('latchkey_http_request_duration_seconds', hooks),
        'From the head of a provider’s call to our answer. Promised are 99 % within a second.',
      ),
      curve(
        'Answers',
        'reqps',
        [[rate(of('latchkey_http_requests_total', 'route=~"/v1/.*"'), 'status'), '{{status}}']],
        'All public calls by status.',
      ),
      curve(
        'Checks of records',
        'ops',
        [[rate(of('latchkey_records_checks_total'), 'outcome'), '{{outcome}}']],
        'hit: replayed; locked: the caller runs; busy: somebody else does; taken_over: somebody had not finished.',
      ),
      curve(
        'How long record calls take',
        's',
        quantiles('latchkey_http_request_duration_seconds', 'route=~"/v1/record.*"'),
        'Checks that wait for a busy key include their wait.',
      ),
    ],
  }
}

function goingOut(): Row {
  return {
    title: 'Going out',
    panels: [
      curve(
        'Attempts',
        'ops',
        [[rate(of('latchkey_deliveries_endings_total'), 'ending'), '{{ending}}']],
        'processed: the callback took it; later: it is tried again; failed: no attempt is left.',
      ),
      curve(
        'Until the first attempt',
        's',
        quantiles('latchkey_deliveries_delay_seconds'),
        'From a provider’s call to the first call of the callback. Promised are 99 % within 10 s.',
      ),
      curve(
        'How long callbacks take',
        's',
        quantiles('latchkey_deliveries_attempt_duration_seconds'),
        'The tenants’ own time, bounded by their time-out.',
      ),
      curve(
        'Queue',
        'short',
        [
          [`max(${of('latchkey_deliveries_due_count')})`, 'due'],
          [`max(${of('latchkey_webhooks_spool_entries_count')})`, 'spooled'],
        ],
        'What is due, exact to 10 000; what waits for Postgres. Forwarders are scaled by these.',
      ),
      curve(
        'Age',
        's',
        [
          [`max(${of('latchkey_deliveries_oldest_age_seconds')})`, 'due'],
          [`max(${of('latchkey_webhooks_spool_oldest_age_seconds')})`, 'spooled'],
        ],
        'Of what has been waiting longest.',
      ),
      curve(
        'Callbacks in trouble',
        'short',
        [
          [`max(${of('latchkey_deliveries_breakers_open_count')})`, 'breaker open'],
          [`max(${of('latchkey_deliveries_suspended_count')})`, 'suspended'],
          [`max(${of('latchkey_settings_pauses_count')})`, 'pauses'],
        ],
        'Callbacks that fail or asked to be left alone, and pauses that somebody set.',
      ),
    ],
  }
}

function promises(): Row {
  const ratio = (series: string, window: string) =>
    `namespace:latchkey_${series}:ratio_rate${window}{namespace="$namespace"}`
  const over = (series: string) =>
    ['5m', '1h', '6h', '3d'].map((window) => [ratio(series, window), window] as const)
  return {
    title: 'Promises',
    panels: [
      curve(
        'Calls with a 5xx',
        'percentunit',
        over('intake_errors'),
        'Budget 0.1 %, by window. Alerts compare a long and a short one.',
      ),
      curve('Calls over 1 s', 'percentunit', over('intake_slow'), 'Budget 1 %.'),
      curve('Record calls with a 5xx', 'percentunit', over('records_errors'), 'Budget 0.1 %.'),
      curve('First attempts after 10 s', 'percentunit', over('delivery_late'), 'Budget 1 %.'),
      curve('Events that failed for good', 'percentunit', over('delivery_failures'), 'Budget 1 %.'),
    ],
  }
}

function processes(): Row {
  const ours = `and on (job, instance) ${of('latchkey_build_info')}`
  return {
    title: 'Processes',
    panels: [
      curve(
        'Pods',
        'short',
        [[`count by (process, version) (${of('latchkey_build_info')})`, '{{process}} {{version}}']],
        'By service and version.',
      ),
      curve(
        'Processor',
        'short',
        [[`rate(${of('process_cpu_seconds_total')}[$__rate_interval]) ${ours}`, '{{pod}}']],
        'Cores in use. One process uses little more than one.',
      ),
      curve(
        'Memory',
        'bytes',
        [[`${of('process_resident_memory_bytes')} ${ours}`, '{{pod}}']],
        'Resident memory, to be compared with the pods’ bound.',
      ),
      curve(
        'Event loop',
        's',
        [[`max by (pod) (${of('latchkey_process_event_loop_lag_seconds')})`, '{{pod}}']],
        'Longest wait of anything for the processor since the last look.',
      ),
      curve(
        'Loops that fail',
        'ops',
        [[rate(of('latchkey_process_loop_failures_total'), 'loop'), '{{loop}}']],
        'Turns of background loops that failed. Each is followed by another.',
      ),
      curve(
        'Loops that are silent',
        'percentunit',
        [[`max by (loop) (${of('latchkey_process_loop_silence_ratio')})`, '{{loop}}']],
        'Time since the last turn, as a share of the longest allowed. Over 100 % the pod is restarted.',
      ),
    ],
  }
}
