import { scaleBand, scaleLinear, scaleLog } from 'd3-scale'
import { area, curveMonotoneX, stack } from 'd3-shape'
import { link, type PageContext } from '../page.ts'
import { Segments } from './block.tsx'
import { LinkButton } from './form.tsx'
import { Table } from './list.tsx'
import { compactText, countText, durationText, Time } from './text.tsx'

/** Colour of a series. A colour has the same meaning in every chart. */
export type SeriesTone = 'accepted' | 'good' | 'bad' | 'warn' | 'one' | 'two' | 'three' | 'four' | 'five'

/** A line, or one layer of stacked bars. */
export interface Series {
  readonly label: string
  readonly tone: SeriesTone
  /** One value per point; undefined if the value is unknown. */
  readonly values: readonly (number | undefined)[]
}

/** Data and texts of a chart. */
export interface ChartParts {
  readonly title: string
  /** Summary of the chart in words, also for screen readers. */
  readonly summary: string
  /** Bars are stacked, lines overlap, and an area is a line with a fill. */
  readonly kind: 'bars' | 'lines' | 'area'
  readonly series: readonly Series[]
  /** Start time of each point, in ms since the epoch. */
  readonly atMs: readonly number[]
  readonly stepMs: number
  /** `count` shows whole numbers. `ms` shows durations; a line chart of durations has a logarithmic axis. */
  readonly unit: 'count' | 'ms'
  /** Text that replaces the chart if no value is above 0. */
  readonly empty: string
  /** Also shows the values as a table below the chart. */
  readonly hasValues: boolean
}

interface RangeChoiceParts extends Pick<PageContext, 'query'> {
  readonly path: string
  readonly ranges: readonly { readonly name: string; readonly label: string }[]
  /** Name of the selected range. */
  readonly current: string
}

/** Renders the choice of the time range and of value tables below charts. The query keeps both as `range` and `values`. */
export function RangeChoice({ path, ranges, current, query }: RangeChoiceParts) {
  const { values, ...others } = query
  return (
    <>
      <Segments
        label="Time"
        links={ranges.map(({ name, label }) => ({
          ...{ text: name, title: label, isCurrent: name === current },
          href: link(path, { ...query, range: name }),
        }))}
      />
      <LinkButton
        href={link(path, values === undefined ? { ...others, values: 'shown' } : others)}
        tone="plain"
      >
        {values === undefined ? 'Show values' : 'Hide values'}
      </LinkButton>
    </>
  )
}

const width = 1_000
const height = 200
const dayMs = 86_400_000
const tickLabels = 5

/** Renders a chart over time on the server. The labels are HTML outside the SVG, so that they keep their size on a phone. */
export function TimeChart(parts: ChartParts) {
  const { title, summary, series, unit, empty } = parts
  const top = topOf(parts)
  const format = formats[unit]
  const { middle, bottom } = yOf(parts, top)
  return (
    <figure class="chart">
      <figcaption>
        <h3>{title}</h3>
        <ul class="legend">
          {series.map(({ label, tone }) => (
            <li class={`series is-${tone}`}>
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
const isLog = ({ kind, unit }: Pick<ChartParts, 'kind' | 'unit'>) => kind === 'lines' && unit === 'ms'

/** Possible maximum values of linear duration axes. Half of each value is also round, because the middle label shows it. */
const topsMs = [10, 20, 40, 100, 200, 400, 1_000, 2_000, 4_000, 10_000, 20_000, 30_000, 60_000, 120_000]
const topsMinutes = [4, 10, 20, 30, 60, 120, 240, 720, 1_440, 2_880, 5_760, 14_400, 43_200]
const allTopsMs = [...topsMs, ...topsMinutes.map((minutes) => minutes * 60_000)]
/** Possible maximum values of logarithmic duration axes in ms. These axes begin at 1 ms. */
const logTopsMs = [100, 10_000, 1_000_000, 100_000_000]

/** Returns a round maximum for the y axis, or 0 if the chart has no value to show. */
function topOf(parts: ChartParts): number {
  const { kind, unit, series, atMs } = parts
  const heights = atMs.map((_at, nth) => {
    const values = series.map(({ values: own }) => own[nth] ?? 0)
    return kind === 'bars' ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values)
  })
  const most = Math.max(0, ...heights)
  if (most === 0) return 0
  if (unit === 'ms') return (isLog(parts) ? logTopsMs : allTopsMs).find((top) => top >= most) ?? most
  return most <= 10 ? 2 * Math.ceil(most / 2) : (scaleLinear([0, most], [0, 1]).nice(4).domain()[1] ?? most)
}

/** Returns the y scale, and the values of its middle and bottom labels. */
function yOf(parts: Pick<ChartParts, 'kind' | 'unit'>, top: number) {
  const range = [height, 2]
  return isLog(parts)
    ? { y: scaleLog([1, top], range).clamp(true), middle: Math.sqrt(top), bottom: 1 }
    : { y: scaleLinear([0, top], range), middle: top / 2, bottom: 0 }
}

function Drawing({ parts, top }: { readonly parts: ChartParts; readonly top: number }) {
  const { kind, series, atMs, stepMs, summary, title } = parts
  const { y, middle } = yOf(parts, top)
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
        <Bars series={series} count={atMs.length} y={y} />
      ) : (
        series.map((each) => <Line {...each} isFilled={kind === 'area'} y={y} />)
      )}
      <path class="baseline" d={`M0 ${height}H${width}`} />
      <rect class="band" height={height} width="0" data-band />
    </svg>
  )
}

type Scale = (value: number) => number

function bandsOf(count: number) {
  const points = Array.from({ length: count }, (_none, nth) => nth)
  // The gap between two bars is at most 2 SVG units. The first bar has half a gap before it, and the last bar half a gap after it.
  const padding = Math.min(0.2, (2 * count) / width)
  return scaleBand(points, [0, width])
    .paddingInner(padding)
    .paddingOuter(padding / 2)
}

interface BarsParts {
  readonly series: readonly Series[]
  readonly count: number
  readonly y: Scale
}

function Bars({ series, count, y }: BarsParts) {
  const x = bandsOf(count)
  const layers = stack<number, number>()
    .keys(series.keys())
    .value((point, layer) => series[layer]?.values[point] ?? 0)(x.domain())
  return (
    <>
      {layers.map((layer) => {
        const bars = layer
          .filter(([low, high]) => high > low)
          .map(({ 0: low, 1: high, data: point }) => {
            const [left, bottom, top] = [rounded(x(point) ?? 0), rounded(y(low)), rounded(y(high))]
            return `M${left} ${bottom}V${top}h${rounded(x.bandwidth())}V${bottom}z`
          })
        const tone = series[layer.key]?.tone
        return <path class={`series-fill is-${tone}`} d={bars.join('')} />
      })}
    </>
  )
}

function Line({ values, tone, isFilled, y }: Series & { readonly y: Scale; readonly isFilled: boolean }) {
  const x = bandsOf(values.length)
  const shape = area<number | undefined>()
    .defined((value) => value !== undefined)
    .curve(curveMonotoneX)
    .x((_value, nth) => (x(nth) ?? 0) + x.bandwidth() / 2)
    .y0(height)
    .y1((value) => y(value ?? 0))
    .digits(1)
  return (
    <>
      {isFilled && <path class={`series-area is-${tone}`} d={shape(values) ?? ''} />}
      <path class={`series-line is-${tone}`} d={shape.lineY1().digits(1)(values) ?? ''} />
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
        <Time atMs={at} format={format} />
      ))}
    </div>
  )
}

function Values({ title, series, atMs, unit }: ChartParts) {
  const format = formats[unit]
  const rows = [...atMs.keys()].filter((nth) => series.some(({ values }) => (values[nth] ?? 0) !== 0))
  const columns = series.map(({ label, values }) => ({
    ...{ title: label, isNumber: true },
    cell: (nth: number) => valueText(values[nth], format),
  }))
  const from = { title: 'From', cell: (nth: number) => <Time atMs={atMs[nth] ?? 0} /> }
  return (
    <div class="values">
      <Table caption={`${title}: values`} rows={rows} columns={[from, ...columns]} />
    </div>
  )
}

function pointText({ series, unit }: ChartParts, nth: number): string {
  const format = unit === 'count' ? countText : durationText
  return series.map(({ label, values }) => `${label} ${valueText(values[nth], format)}`).join('  ·  ')
}

function valueText(value: number | undefined, format: (value: number) => string): string {
  return value === undefined ? '–' : format(value)
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10
}
