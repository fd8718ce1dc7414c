/** A query with what its series are called. */
export type Query = readonly [expr: string, legend: string]

/** A panel before it has a place. */
export interface Panel {
  readonly title: string
  /** What is seen, and what is to be thought of it. */
  readonly description: string
  /** Grafana's name of it, such as `reqps` or `s`. */
  readonly unit: string
  readonly queries: readonly Query[]
  /** One number in place of a curve. */
  readonly isNumber?: true
  /** From where on a number is yellow, and red. */
  readonly bounds?: readonly [yellow: number, red: number]
  /** In place of `bounds`: the one number that is green; any other is red. */
  readonly exactly?: number
}

/** Panels under a heading. */
export interface Row {
  readonly title: string
  readonly panels: readonly Panel[]
}

/** A dashboard before it is Grafana's. */
export interface Dashboard {
  /** Of its file and its address. */
  readonly name: string
  readonly title: string
  readonly description: string
  /** Whether a tenant is chosen. */
  readonly hasTenant?: true
  readonly rows: readonly Row[]
}

/** A metric's series of the chosen namespace, and with further labels. */
export function of(metric: string, labels = ''): string {
  return `${metric}{namespace="$namespace"${labels === '' ? '' : `,${labels}`}}`
}

/** How often a second, in sum or by labels. */
export function rate(series: string, by = ''): string {
  return `sum${by === '' ? '' : ` by (${by})`} (rate(${series}[$__rate_interval]))`
}

/** Quantiles of a histogram, as queries. `le` is kept beside `by`. */
export function quantiles(metric: string, labels = ''): Query[] {
  return [0.5, 0.95, 0.99].map((quantile) => [
    `histogram_quantile(${quantile}, ${rate(of(`${metric}_bucket`, labels), 'le')})`,
    `p${quantile * 100}`,
  ])
}

/** Series of our processes of a service, where names are shared with other programs. */
export function ofService(expr: string, service: string): string {
  return `${expr} and on (job, instance) ${of('latchkey_build_info', `process="${service}"`)}`
}

/** A curve. */
export function curve(title: string, unit: string, queries: readonly Query[], description: string): Panel {
  return { title, unit, queries, description }
}

/** A number, and which values of it are good. */
export function figure(
  title: string,
  unit: string,
  expr: string,
  judged: Pick<Panel, 'description' | 'bounds' | 'exactly'>,
): Panel {
  return { title, unit, queries: [[expr, '']], isNumber: true, ...judged }
}
