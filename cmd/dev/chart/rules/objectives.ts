import { unverifiedOutcomes } from '#internal/intake/index.ts'
import { type Alert, alert, oneLine, type RecordingRule, type RuleGroup, type Severity } from './rule.ts'

/** What is promised over 30 days, and how it is told whether it holds. */
interface Objective {
  /** In names of recorded series. */
  readonly series: string
  /** Of its alert, without what all of them begin with. */
  readonly name: string
  /** Share that may be bad. */
  readonly budget: number
  /** In words, such as `99.9 % of …`. */
  readonly promise: string
  /** What is wrong with bad ones, after their share. */
  readonly trouble: string
  /** Rates of all and of bad ones over a window, by namespace. */
  readonly all: (window: string) => string
  readonly bad: (window: string) => string
  /** Of the fast and of the slow burn. */
  readonly severities: readonly [fast: Severity, slow: Severity]
}

const webhooks = 'route=~"/v1/webhooks/.*|/v1/t/.*"'
const records = 'route=~"/v1/record.*"'
const answered = 'latchkey_http_requests_total'
const took = 'latchkey_http_request_duration_seconds'
const sumOf = (selector: string) => (window: string) => `sum by (namespace) (rate(${selector}[${window}]))`
/** Prometheus 3 keeps bounds as 1.0, earlier ones as they were written. */
const slowerThan = (metric: string, labels: string, seconds: number) => (window: string) => {
  const within = [...(labels === '' ? [] : [labels]), `le=~"${seconds}|${seconds}.0"`].join(',')
  const all = labels === '' ? `${metric}_count` : `${metric}_count{${labels}}`
  return `${sumOf(all)(window)} - ${sumOf(`${metric}_bucket{${within}}`)(window)}`
}
/** Neither side of a ratio has what any caller can cause at will: it must not burn a budget, nor dilute one that burns. */
const countedWebhooks = `${answered}{${webhooks},outcome!~"${[...unverifiedOutcomes].join('|')}"}`
/** `body_dropped` counts here: the key of a caller of records is checked before its body. */
const countedRecords = `${answered}{${records},outcome!~"api_key_invalid|api_key_scope"}`
const broken = (counted: string) => counted.replace(/}$/, ',status=~"5.."}')

const objectives: readonly Objective[] = [
  {
    ...{ series: 'intake_errors', name: 'IntakeErrorBudgetBurn', budget: 0.001 },
    promise: '99.9 % of providers’ verified calls are answered without a 5xx',
    trouble: 'of providers’ verified calls get a 5xx',
    all: sumOf(countedWebhooks),
    bad: sumOf(broken(countedWebhooks)),
    severities: ['critical', 'warning'],
  },
  {
    ...{ series: 'intake_slow', name: 'IntakeSlow', budget: 0.01 },
    promise: '99 % of providers’ verified calls are answered within 1 s',
    trouble: 'of providers’ verified calls take over 1 s',
    all: sumOf(`${took}_count{${webhooks}}`),
    bad: slowerThan(took, webhooks, 1),
    severities: ['critical', 'warning'],
  },
  {
    ...{ series: 'records_errors', name: 'RecordsErrorBudgetBurn', budget: 0.001 },
    promise: '99.9 % of calls about records are answered without a 5xx',
    trouble: 'of calls about records get a 5xx',
    all: sumOf(countedRecords),
    bad: sumOf(broken(countedRecords)),
    severities: ['critical', 'warning'],
  },
  {
    ...{ series: 'delivery_late', name: 'DeliverySlow', budget: 0.01 },
    promise: '99 % of events are first sent to their callback within 10 s',
    trouble: 'of events wait over 10 s for their first attempt',
    all: sumOf('latchkey_deliveries_delay_seconds_count'),
    bad: slowerThan('latchkey_deliveries_delay_seconds', '', 10),
    severities: ['critical', 'warning'],
  },
  {
    ...{ series: 'delivery_failures', name: 'DeliveryErrorBudgetBurn', budget: 0.01 },
    promise: '99 % of events are taken by their callback before their attempts are used up',
    trouble: 'of events fail for good',
    all: sumOf('latchkey_deliveries_endings_total{ending=~"processed|failed"}'),
    bad: sumOf('latchkey_deliveries_endings_total{ending="failed"}'),
    // The callbacks are the tenants’.
    severities: ['warning', 'info'],
  },
]

/**
 * How fast a budget of 30 days may be used before somebody is told, over a long window and over a short one that says whether it
 * goes on: https://sre.google/workbook/alerting-on-slos/ (read 2026-11), the table of multiwindow, multi-burn-rate alerts.
 */
const burns = [
  { long: '1h', short: '5m', factor: 14.4, isFast: true },
  { long: '6h', short: '30m', factor: 6, isFast: true },
  { long: '1d', short: '2h', factor: 3, isFast: false },
  { long: '3d', short: '6h', factor: 1, isFast: false },
] as const
const windows = ['5m', '30m', '1h', '2h', '6h', '1d', '3d'] as const
/** Below this many a second, one that is bad says nothing. */
const leastRate = 0.01

/** The series that alerts and dashboards read, for each objective. */
export function objectiveRecordings(): RuleGroup[] {
  return objectives.map((objective) => ({
    name: `latchkey-${objective.series.replaceAll('_', '-')}`,
    interval: '30s',
    rules: windows.map((window) => recordingOf(objective, window)),
  }))
}

function recordingOf({ series, all, bad }: Objective, window: string): RecordingRule {
  const total = all(window)
  // Where nothing was ever bad there is no such series, which is 0 and not unknown.
  const expr = `((${bad(window)}) or 0 * ${total}) / (${total} > 0)`
  return { record: `namespace:latchkey_${series}:ratio_rate${window}`, expr: oneLine(expr) }
}

/** The alerts of all objectives whose series begin so. */
export function objectiveAlerts(prefix: 'intake' | 'records' | 'delivery'): Alert[] {
  return objectives
    .filter(({ series }) => series.startsWith(prefix))
    .flatMap((objective) => [burnAlert(objective, true), burnAlert(objective, false)])
}

function burnAlert(objective: Objective, fast: boolean): Alert {
  const { series, name, budget, promise, trouble, all, severities } = objective
  const ratio = (window: string) => `namespace:latchkey_${series}:ratio_rate${window}`
  const over = burns
    .filter(({ isFast }) => isFast === fast)
    .map(({ long, short, factor }) => {
      const bound = Number((factor * budget).toPrecision(4))
      return `(${ratio(long)} > ${bound} and ${ratio(short)} > ${bound})`
    })
  const window = fast ? '1h' : '1d'
  return alert({
    name,
    severity: severities[fast ? 0 : 1],
    expr: `(${over.join(' or ')}) and on (namespace) (${all(window)} > ${leastRate})`,
    for: fast ? '2m' : '15m',
    summary: `{{ $labels.namespace }}: {{ $value | humanizePercentage }} ${trouble}`,
    description: `Promised is that ${promise}. At this pace the budget of 30 days is gone in ${
      fast ? 'less than five days' : 'less than a month'
    }.`,
  })
}
