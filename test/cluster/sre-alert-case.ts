/** Values of series by name, one per minute, in promtool's notation. */
export type Series = Readonly<Record<string, string>>

/** Series that make an alert fire, and variations that do not. */
export interface AlertCase {
  readonly alert: string
  readonly when: string
  /** Evaluation time. */
  readonly at: string
  readonly series: Series
  /** Labels of the alert besides the severity. */
  readonly labels: Readonly<Record<string, string>>
  /** Severities that fire, each with the value that its texts show. */
  readonly fires: Readonly<Record<string, string>>
  /** Replacements of some series, by reason, with which the alert does not fire. */
  readonly quiet: Readonly<Record<string, Series>>
  readonly value?: string
}

const shops = { namespace: 'shops' }
/** Labels of every target. */
const target = (pod = 'a') => `namespace="shops",pod="${pod}",job="shops/latchkey",instance="10.0.0.1:${pod}"`
/** Series of one of our pods. */
export const of = (metric: string, labels = '', pod?: string) =>
  `${metric}{${target(pod)}${labels === '' ? '' : `,${labels}`}}`
/** Series that reports a running process of a service. */
export const info = (service: string, pod?: string, version = '1') =>
  of('latchkey_build_info', `process="latchkey-${service}",version="${version}"`, pod)
/** Counter that rises by `count` a minute for three hours. */
export const perMinute = (count: number) => `0+${count}x180`
/** Constant value for three hours. */
export const always = (value: number) => `${value}x180`

/** Input of `alertCase`. */
type Given = Omit<AlertCase, 'labels' | 'fires' | 'at' | 'value' | 'alert'> & {
  readonly fires: string | Readonly<Record<string, string>>
  readonly value?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly at?: string
}

/** Makes a case. `fires` is the only severity, or a value for each severity. */
export const alertCase = (
  name: string,
  { fires, value = '', labels = {}, at = '40m', ...rest }: Given,
): AlertCase => ({
  ...rest,
  alert: `Latchkey${name}`,
  at,
  labels: { ...shops, ...labels },
  fires: typeof fires === 'string' ? { [fires]: value } : fires,
})

/** Makes a case of a gauge: `value` fires, `calm` does not. */
export const gauge = (
  name: string,
  metric: string,
  [value, calm]: readonly [number, number],
  given: Pick<Given, 'fires' | 'when'> & Partial<Given>,
): AlertCase =>
  alertCase(name, {
    ...given,
    series: { [metric]: always(value) },
    quiet: {
      [`it is ${calm}`]: { [metric]: always(calm) },
      'it began a moment ago': { [metric]: `${calm}x39 ${value}x120` },
      ...given.quiet,
    },
  })

/** Makes a case of a counter that rises once, by 5 unless `by` is given, shortly before the evaluation. */
export const rise = (
  name: string,
  metric: string,
  given: Pick<Given, 'fires' | 'when'> & Partial<Given> & { readonly by?: number },
): AlertCase =>
  alertCase(name, {
    value: '',
    ...given,
    series: { [metric]: `7x35 ${7 + (given.by ?? 5)}x100` },
    quiet: {
      'it rose long ago': { [metric]: '7x5 12x200' },
      'it never rose': { [metric]: '0x200' },
      ...given.quiet,
    },
  })
