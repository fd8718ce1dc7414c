/** Values of series by their name, one a minute, as promtool writes them. */
export type Series = Readonly<Record<string, string>>

/** What makes an alert fire, and what does not. */
export interface AlertCase {
  readonly alert: string
  readonly when: string
  /** When it is looked at. */
  readonly at: string
  readonly series: Series
  /** Its labels beside the severity. */
  readonly labels: Readonly<Record<string, string>>
  /** The severities that fire, each with its value as texts show it. */
  readonly fires: Readonly<Record<string, string>>
  /** In place of some of the series: then it stays quiet. */
  readonly quiet: Readonly<Record<string, Series>>
  readonly value?: string
}

const shops = { namespace: 'shops' }
/** Labels that every target has. */
const target = (pod = 'a') => `namespace="shops",pod="${pod}",job="shops/latchkey",instance="10.0.0.1:${pod}"`
/** A series of a pod of ours. */
export const of = (metric: string, labels = '', pod?: string) =>
  `${metric}{${target(pod)}${labels === '' ? '' : `,${labels}`}}`
/** What says that a process of this service is there. */
export const info = (service: string, pod?: string, version = '1') =>
  of('latchkey_build_info', `process="latchkey-${service}",version="${version}"`, pod)
/** So many a minute, for three hours. */
export const perMinute = (count: number) => `0+${count}x180`
/** The same value, for three hours. */
export const always = (value: number) => `${value}x180`

/** What a case is made of. */
type Given = Omit<AlertCase, 'labels' | 'fires' | 'at' | 'value' | 'alert'> & {
  readonly fires: string | Readonly<Record<string, string>>
  readonly value?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly at?: string
}

/** `fires` is its one severity, or each with its value. */
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

/** Of a gauge: `value` fires, `calm` does not. */
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
      'it has only begun': { [metric]: `${calm}x39 ${value}x120` },
      ...given.quiet,
    },
  })

/** Of a counter: it rises by 5 once a quarter of an hour is not over, or stands still. */
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
      'it was long ago': { [metric]: '7x5 12x200' },
      'there was none': { [metric]: '0x200' },
      ...given.quiet,
    },
  })
