import { scaleLinear, scaleLog } from 'd3-scale'
import { area, curveMonotoneX, line, stack } from 'd3-shape'
import { compactText, countText, durationText, Time } from './text.tsx'

/** The colours of series, which mean the same in every chart. */
export type SeriesTone = 'accepted' | 'good' | 'bad' | 'warn' | 'one' | 'two' | 'three' | 'four' | 'five'

/** One line, or one layer of the bars. */
export interface Series {
  readonly label: string
  readonly tone: SeriesTone
  /** One for each point; undefined where nothing is known. */
  readonly values: readonly (number | undefined)[]
}

/** What a chart shows. */
export interface ChartParts {
  readonly title: string
  /** What was found, in words: for whoever does not see the chart. */
  readonly summary: string
  /** Bars stand on each other; lines each for themselves; an area is a line that is filled. */
  readonly kind: 'bars' | 'lines' | 'area'
  readonly series: readonly Series[]
  /** When each point begins, ms since the epoch. */
  readonly atMs: readonly number[]
  readonly stepMs: number
  /** `count`: whole numbers of something; `ms`: lengths of time. */
  readonly unit: 'count' | 'ms'
  /** What stands in the place of a chart without any value but 0. */
  readonly empty: string
  /** Whether the values stand below as a table. */
  readonly hasValues: boolean
}

const width = 1_000
const height = 200
const dayMs = 86_400_000
const tickLabels = 5

/**
 * A chart over time, drawn here: the page holds its lines and bars, and nothing has to be run to see them. Its labels are text beside
 * the drawing, so that they keep their size on a phone. Whoever asks gets the values as a table below.
 */
export function TimeChart(parts: ChartParts) {
  const { title, summary, series, unit, empty } = parts
  const top = topOf(parts)
  const format = formats[unit]
  const { middle, bottom } = scaleOf(parts, top)
  return (
    <figure class="chart">
      <figcaption>
        <h3>{title}</h3>
        <ul class="legend">
          {series.map(({ label, tone }) => (
            <li key={label} class={`series is-${tone}`}>
              <span class="swatch" aria-hidden="true" />
              {label}
            </li>
          ))}
        </ul>
      </figcaption>
      {top === 0 ? (
        <p class="chart-empty">{empty}</p>
      ) : (
        <>
          <div class="plot">
            <div class="axis-y" aria-hidden="true">
              <span>{format(top)}</span>
              <span>{format(middle)}</span>
              <span>{bottom === 0 ? '0' : format(bottom)}</span>
            </div>
            <Drawing parts={parts} top={top} />
            <AxisX {...parts} />
          </div>
          <p class="readout" data-readout>
            {summary}
          </p>
          {parts.hasValues && <Values {...parts} />}
        </>
      )}
    </figure>
  )
}

const formats = { count: compactText, ms: durationText }
/** Upper edges of lengths of time whose halves are round too. */
const topsMs = [10, 20, 40, 100, 200, 400, 1_000, 2_000, 4_000, 10_000, 20_000, 30_000, 60_000, 120_000]
const topsMinutes = [4, 10, 20, 30, 60, 120, 240, 720, 1_440, 2_880, 5_760, 14_400, 43_200]
const allTopsMs = [...topsMs, ...topsMinutes.map((minutes) => minutes * 60_000)]

/** Upper edges of logarithms, which begin at 1 ms: one that waits for a retry would make a line of all others. */
const logTopsMs = [100, 10_000, 1_000_000, 100_000_000]

/** How high a value stands, and which one stands in the middle and at the bottom. */
function scaleOf({ kind, unit }: Pick<ChartParts, 'kind' | 'unit'>, top: number) {
  const range = [height, 2]
  if (kind !== 'lines' || unit !== 'ms')
    return { y: scaleLinear([0, top], range), middle: top / 2, bottom: 0 }
  return { y: scaleLog([1, top], range).clamp(true), middle: Math.sqrt(top), bottom: 1 }
}

/** The value of the upper edge: a round one, so that its half is round too. 0 where there is nothing to show. */
function topOf({ kind, unit, series, atMs }: ChartParts): number {
  const heights = atMs.map((_at, nth) => {
    const values = series.map(({ values: own }) => own[nth] ?? 0)
    return kind === 'bars' ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values)
  })
  const most = Math.max(0, ...heights)
  if (most === 0) return 0
  if (kind === 'lines' && unit === 'ms') return logTopsMs.find((top) => top >= most) ?? most
  if (unit === 'ms') return allTopsMs.find((top) => top >= most) ?? most
  return most <= 10 ? 2 * Math.ceil(most / 2) : (scaleLinear([0, most], [0, 1]).nice(4).domain()[1] ?? most)
}

function Drawing({ parts, top }: { readonly parts: ChartParts; readonly top: number }) {
  const { kind, series, atMs, stepMs, summary, title } = parts
  const x = scaleLinear([0, atMs.length], [0, width])
  const { y, middle } = scaleOf(parts, top)
  return (
    <svg
      class="drawing"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${title}: ${summary}`}
      data-from={atMs[0]}
      data-step={stepMs}
      data-points={atMs.map((_at, nth) => pointText(parts, nth)).join('\n')}
    >
      <path class="gridline" d={`M0 ${y(top)}H${width}M0 ${y(middle)}H${width}`} />
      {kind === 'bars' ? (
        <Bars series={series} count={atMs.length} x={x} y={y} />
      ) : (
        series.map((each) => <Line key={each.label} {...each} isFilled={kind === 'area'} x={x} y={y} />)
      )}
      <path class="baseline" d={`M0 ${height}H${width}`} />
      <rect class="band" height={height} width="0" data-band />
    </svg>
  )
}

interface Scaled {
  x(value: number): number
  y(value: number): number
}

function Bars({
  series,
  count,
  x,
  y,
}: { readonly series: readonly Series[]; readonly count: number } & Scaled) {
  const layers = stack<number, number>()
    .keys(series.map((_series, nth) => nth))
    .value((point, of) => series[of]?.values[point] ?? 0)(Array.from({ length: count }, (_none, nth) => nth))
  const gap = Math.min(2, x(1) * 0.2)
  return (
    <>
      {layers.map((layer, of) => {
        const bars = layer.flatMap(([low, high], nth) =>
          high > low
            ? [
                `M${rounded(x(nth) + gap / 2)} ${rounded(y(low))}V${rounded(y(high))}h${rounded(x(1) - gap)}V${rounded(y(low))}z`,
              ]
            : [],
        )
        const each = series[of]
        return each && <path key={each.label} class={`series-fill is-${each.tone}`} d={bars.join('')} />
      })}
    </>
  )
}

function Line({ values, tone, isFilled, x, y }: Series & Scaled & { readonly isFilled: boolean }) {
  const at = (_value: number | undefined, nth: number) => rounded(x(nth + 0.5))
  const isKnown = (value: number | undefined) => value !== undefined
  const drawn = line<number | undefined>()
    .defined(isKnown)
    .curve(curveMonotoneX)
    .digits(1)
    .x(at)
    .y((value) => y(value ?? 0))
  const filled = area<number | undefined>()
    .defined(isKnown)
    .curve(curveMonotoneX)
    .digits(1)
    .x(at)
    .y0(height)
    .y1((value) => y(value ?? 0))
  return (
    <>
      {isFilled && <path class={`series-area is-${tone}`} d={filled(values) ?? ''} />}
      <path class={`series-line is-${tone}`} d={drawn(values) ?? ''} />
    </>
  )
}

function AxisX({ atMs, stepMs }: ChartParts) {
  const fromMs = atMs[0] ?? 0
  const spanMs = atMs.length * stepMs
  const format = spanMs > 2 * dayMs ? 'day' : 'minute'
  const labels = Array.from(
    { length: tickLabels },
    (_none, nth) => fromMs + (spanMs * nth) / (tickLabels - 1),
  )
  return (
    <div class="axis-x" aria-hidden="true">
      {labels.map((at) => (
        <Time key={at} atMs={at} format={format} />
      ))}
    </div>
  )
}

function Values(parts: ChartParts) {
  const { title, series, atMs, unit } = parts
  const format = formats[unit]
  const rows = atMs
    .map((at, nth) => ({ at, nth }))
    .filter(({ nth }) => series.some(({ values }) => (values[nth] ?? 0) !== 0))
  return (
    <div class="values">
      <div class="table-wrap" role="region" aria-label={`${title}: values`} tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">From</th>
              {series.map(({ label }) => (
                <th key={label} scope="col" class="is-number">
                  {label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ at, nth }) => (
              <tr key={at}>
                <th scope="row">
                  <Time atMs={at} />
                </th>
                {series.map(({ label, values }) => {
                  const value = values[nth]
                  return (
                    <td key={label} class="is-number">
                      {value === undefined ? '–' : format(value)}
                    </td>
                  )
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  )
}

function pointText({ series, unit }: ChartParts, nth: number): string {
  const format = unit === 'count' ? countText : durationText
  return series
    .map(({ label, values }) => {
      const value = values[nth]
      return `${label} ${value === undefined ? '–' : format(value)}`
    })
    .join('  ·  ')
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10
}
