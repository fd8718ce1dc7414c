/** A recording rule of Prometheus. */
export interface RecordingRule {
  readonly record: string
  readonly expr: string
}

/** An alerting rule. */
export interface Alert {
  readonly alert: string
  readonly expr: string
  readonly for?: string
  readonly keep_firing_for?: string
  readonly labels: { readonly severity: Severity }
  readonly annotations: {
    readonly summary: string
    readonly description: string
    readonly runbook_url: string
  }
}

/** critical: somebody gets up; warning: somebody looks within the day; info: shown beside the others. */
export type Severity = 'critical' | 'warning' | 'info'

/** Rules that are evaluated together, in order. */
export interface RuleGroup {
  readonly name: string
  readonly interval?: string
  readonly rules: readonly (RecordingRule | Alert)[]
}

/** What an alert is made of. Its texts may hold Prometheus' templates. */
export interface AlertParts {
  /** Without what all of them begin with. */
  readonly name: string
  readonly severity: Severity
  readonly expr: string
  /** How long it has to hold, default at once. */
  readonly for?: string
  readonly summary: string
  readonly description: string
}

/** Where runbooks are, unless values of the chart say otherwise: its template puts theirs in place of all before the page. */
export const runbookBase = 'https://latchkey.dev/runbooks'

/** Makes an alert; its page is named as it is. */
export function alert({ name, severity, expr, for: lasting, summary, description }: AlertParts): Alert {
  return {
    alert: `Latchkey${name}`,
    expr: oneLine(expr),
    ...(lasting !== undefined && { for: lasting }),
    labels: { severity },
    annotations: {
      summary,
      description: oneLine(description),
      runbook_url: `${runbookBase}/${pageOf(`Latchkey${name}`)}`,
    },
  }
}

/** The page of an alert in docs/runbooks, such as `redis-full.md`. */
export function pageOf(name: string): string {
  const words = name.replace(/^Latchkey/, '').replaceAll(/(?<=[a-z])(?=[A-Z])/g, '-')
  return `${words.toLowerCase()}.md`
}

/** Text written over several lines, as one. */
export function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim()
}

/** Keeps the series of our processes of this service, where names are shared with other programs: a target is known by both labels. */
export function ofService(expr: string, service: string): string {
  return `(${expr}) and on (job, instance) latchkey_build_info{process="${service}"}`
}
