/** Values of a metric's labels, in the order of its label names. */
export type LabelValues<Labels extends readonly string[]> = { readonly [Index in keyof Labels]: string }

/** One line of a metric, as the renderer takes it. */
export interface Sample {
  readonly metricName?: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** One set of label values: it is found once and then counts without a look-up. */
export interface Series {
  samples(name: string, labels: Readonly<Record<string, string>>): Sample[]
}

/** Series of one metric: labels come from closed sets, so reaching this is a bug, which must not eat the memory. */
const seriesMax = 2000
const overflow = 'other'

/** One metric's series by their label values. */
export class MetricFamily<Labels extends readonly string[], Kind extends Series> {
  readonly #labels: Labels
  readonly #create: () => Kind
  readonly #series = new Map<string, { readonly values: readonly string[]; readonly series: Kind }>()

  constructor(labels: Labels, create: () => Kind) {
    this.#labels = labels
    this.#create = create
    if (labels.length === 0) this.#add('', [])
  }

  /**
   * The series of these values; keep it where the values do not change. A new one beyond 2 000 falls into the series whose
   * labels all say `other`.
   */
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

  /** Everything of this metric, for the renderer. */
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

/** A number that only grows. */
export class CounterSeries implements Series {
  #value = 0

  /** Adds `by`, default 1. A negative or broken number is left out, since it would look like a restart. */
  inc(by = 1): void {
    if (by > 0) this.#value += by
  }

  samples(_name: string, labels: Readonly<Record<string, string>>): Sample[] {
    return [{ labels, value: this.#value }]
  }
}

/** A number that is what it is now. */
export class GaugeSeries implements Series {
  #value = 0
  #isShown = true

  /** Replaces the value. */
  set(value: number): void {
    this.#value = value
    this.#isShown = true
  }

  /** Shows nothing from now on, until it is set: what nobody knows is not 0. */
  hide(): void {
    this.#isShown = false
  }

  /** Adds `by`, which may be negative. */
  add(by: number): void {
    this.#value += by
  }

  samples(_name: string, labels: Readonly<Record<string, string>>): Sample[] {
    return this.#isShown ? [{ labels, value: this.#value }] : []
  }
}

/** How values are spread over the buckets. */
export class HistogramSeries implements Series {
  readonly #bounds: readonly number[]
  readonly #counts: Float64Array
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  /** Takes one value in the metric's unit; NaN is left out. */
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

/** The rooms that may own a metric; a name's second word. */
const rooms = [
  'config',
  'telemetry',
  'process',
  'storage',
  'kube',
  'http',
  'tenants',
  'access',
  'settings',
  'usage',
  'stats',
  'records',
  'webhooks',
  'deliveries',
  'simulations',
  'backoffice',
  'dashboard',
  'dev',
]
const units = {
  counter: ['total'],
  gauge: ['seconds', 'bytes', 'ratio', 'count', 'version'],
  histogram: ['seconds', 'bytes', 'count', 'ratio'],
}
/** Labels that Prometheus gives to what it scrapes, by its operator's monitors: ours of that name would be renamed. */
const targetLabels = new Set([
  'job',
  'instance',
  'namespace',
  'pod',
  'container',
  'service',
  'endpoint',
  'node',
])
/** Names that others gave: dashboards and alerts for controller-runtime look for them as they are. */
const adoptedNames = /^(workqueue|controller_runtime|leader_election|rest_client)_[a-z0-9_]*[a-z0-9]$/
/** Labels that are never a closed set, or that a secret would hide in. */
const openLabels = new Set([
  'tenant_id',
  'key',
  'scope',
  'request_id',
  'path',
  'url',
  'error',
  'message',
  'le',
])

/** Holds names to `latchkey_<room>_<noun>_<unit>`, or controller-runtime's own, and labels to closed sets. @throws RangeError */
export function checkMetric(name: string, type: keyof typeof units, labels: readonly string[]): void {
  for (const label of labels) checkLabel(name, label)
  if (adoptedNames.test(name)) return
  const [, room = '', unit = ''] = /^latchkey_([a-z]+)_[a-z0-9_]*[a-z0-9]_([a-z]+)$/.exec(name) ?? []
  if (!rooms.includes(room)) throw new RangeError(`${name}: expected latchkey_<room>_<noun>_<unit>`)
  if (!units[type].includes(unit))
    throw new RangeError(`${name}: a ${type} ends in one of _${units[type].join(', _')}`)
}

function checkLabel(name: string, label: string): void {
  if (!/^[a-z][a-z0-9_]{0,31}$/.test(label) || openLabels.has(label) || targetLabels.has(label))
    throw new RangeError(`${name}: ${label} is no label of a closed set`)
}
