export type LabelValues<Labels extends readonly string[]> = { readonly [Index in keyof Labels]: string }

export interface Sample {
  readonly metricName?: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Series of one set of label values. The caller can keep it to avoid the lookup. */
export interface Series {
  samples(name: string, labels: Readonly<Record<string, string>>): Sample[]
}

/** Maximum number of series per metric. Labels come from closed sets, so more series mean a bug, which must not exhaust memory. */
const seriesMax = 2000
const overflow = 'other'

export class MetricFamily<Labels extends readonly string[], Kind extends Series> {
  readonly #labels: Labels
  readonly #create: () => Kind
  readonly #series = new Map<string, { readonly values: readonly string[]; readonly series: Kind }>()

  constructor(labels: Labels, create: () => Kind) {
    this.#labels = labels
    this.#create = create
    if (labels.length === 0) this.#add('', [])
  }

  /** Returns the series of these label values. Above 2 000 series, new label values share one series whose labels are all `other`. */
  with(...values: LabelValues<Labels>): Kind {
    const id = values.length === 1 ? String(values[0]) : values.join('\0')
    const found = this.#series.get(id)
    if (found) return found.series
    if (this.#series.size < seriesMax) return this.#add(id, values)
    return (
      this.#series.get(overflow)?.series ??
      this.#add(
        overflow,
        this.#labels.map(() => overflow),
      )
    )
  }

  samples(name: string): Sample[] {
    const samples: Sample[] = []
    for (const { values, series } of this.#series.values()) {
      const labels = Object.fromEntries(this.#labels.map((label, index) => [label, values[index] ?? '']))
      samples.push(...series.samples(name, labels))
    }
    return samples
  }

  #add(id: string, values: readonly string[]): Kind {
    const series = this.#create()
    this.#series.set(id, { values, series })
    return series
  }
}

export class CounterSeries implements Series {
  #value = 0

  /** Ignores negative numbers and NaN, because a lower value would look like a restart. */
  inc(by = 1): void {
    if (by > 0) this.#value += by
  }

  samples(_name: string, labels: Readonly<Record<string, string>>): Sample[] {
    return [{ labels, value: this.#value }]
  }
}

export class GaugeSeries implements Series {
  #value = 0
  #isShown = true

  set(value: number): void {
    this.#value = value
    this.#isShown = true
  }

  /** Removes the sample until the next `set`, because an unknown value must not appear as 0. */
  hide(): void {
    this.#isShown = false
  }

  add(by: number): void {
    this.#value += by
  }

  samples(_name: string, labels: Readonly<Record<string, string>>): Sample[] {
    return this.#isShown ? [{ labels, value: this.#value }] : []
  }
}

export class HistogramSeries implements Series {
  readonly #bounds: readonly number[]
  readonly #counts: Float64Array
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  /** Records a value in the unit of the metric. Ignores NaN. */
  observe(value: number): void {
    if (Number.isNaN(value)) return
    let bucket = 0
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] ?? 0)) bucket += 1
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sum += value
  }

  samples(name: string, labels: Readonly<Record<string, string>>): Sample[] {
    let count = 0
    const buckets = [...this.#counts].map((inBucket, index) => {
      count += inBucket
      const bound = this.#bounds[index]
      const le = bound === undefined ? '+Inf' : String(bound)
      return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: count }
    })
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: count },
    ]
  }
}

/** Second words of the names of Latchkey's own metrics: the folder of `internal` that owns the metric. */
const modules =
  'access|backoffice|base|config|dashboard|delivery|dev|egress|events|http|intake|kube|openapi|process|providers|records|redaction|replays|settings|simulations|storage|subscriptions|telemetry|tenants|usage'
const ownNames = new RegExp(`^latchkey_(?:${modules})_[a-z0-9_]*[a-z0-9]_([a-z]+)$`)
const units = {
  counter: ['total'],
  gauge: ['seconds', 'bytes', 'ratio', 'count', 'version'],
  histogram: ['seconds', 'bytes', 'count', 'ratio'],
}
/** Metrics of controller-runtime, which its dashboards and alerts expect. */
const adoptedNames = /^(workqueue|controller_runtime|leader_election|rest_client)_[a-z0-9_]*[a-z0-9]$/
/** Target labels of Prometheus and its operator. Prometheus would rename a metric label with one of these names. */
const targetLabels = /^(?:job|instance|namespace|pod|container|service|endpoint|node)$/
/** Labels with unbounded values, or with values that could contain a secret. */
const openLabels = /^(?:tenant_id|key|scope|request_id|path|url|error|message|le)$/

/** Requires a name `latchkey_<module>_<noun>_<unit|total>` or of controller-runtime, and labels with closed value sets. @throws RangeError */
export function checkMetric(name: string, type: keyof typeof units, labels: readonly string[]): void {
  for (const label of labels) checkLabel(name, label)
  if (adoptedNames.test(name)) return
  const unit = ownNames.exec(name)?.[1]
  if (unit === undefined)
    throw new RangeError(
      `the metric name ${name} does not have the form latchkey_<module>_<noun>_<unit|total>; modules: ${modules.replaceAll('|', ', ')}`,
    )
  if (!units[type].includes(unit))
    throw new RangeError(
      `the metric name ${name} of a ${type} must end in one of _${units[type].join(', _')}`,
    )
}

function checkLabel(name: string, label: string): void {
  if (!/^[a-z][a-z0-9_]{0,31}$/.test(label) || openLabels.test(label) || targetLabels.test(label))
    throw new RangeError(`the label ${label} of the metric ${name} does not have values from a closed set`)
}
