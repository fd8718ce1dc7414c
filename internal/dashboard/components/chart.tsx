import { scaleBand, scaleLinear, scaleLog } from 'd3-scale'
import { area, curveMonotoneX, stack } from 'd3-shape'
import type { ComponentChildren } from 'preact'
import { useContext } from 'preact/hooks'
import { link, type PageContext } from '../page.ts'
import { linearTicks, logTicks, type Tick, timeTicks } from './axis.ts'
import { Segments } from './block.tsx'
import { ReaderClockContext } from './clock.ts'
import { LinkButton } from './form.tsx'
import { Table } from './list.tsx'
import { countText, durationText, Time } from './text.tsx'

/** Colour of a series, with the same meaning in every chart. */
export type SeriesTone = 'accepted' | 'good' | 'bad' | 'warn' | 'one' | 'two' | 'three' | 'four' | 'five'

export interface Series {
  readonly label: string
  readonly tone: SeriesTone
  /** One value per point; undefined if unknown. */
  readonly values: readonly (number | undefined)[]
  /** Returns the address of a list with what the series counts. Omit if there is no such list. */
  href?(span: Span): string
}

/** Inclusive start and exclusive end, in ms since the epoch. */
export interface Span {
  readonly fromMs: number
  readonly toMs: number
}

export interface ChartParts {
  readonly title: string
  readonly summary: string
  /** Bars are stacked, lines overlap, and an area is a line with a fill. */
  readonly kind: 'bars' | 'lines' | 'area'
  readonly series: readonly Series[]
  /** Start of each point, in ms since the epoch. */
  readonly atMs: readonly number[]
  readonly stepMs: number
  /** `count` shows whole numbers. `ms` shows durations; a line chart of durations has a logarithmic axis. */
  readonly unit: 'count' | 'ms'
  readonly empty: string
  readonly hasValues: boolean
  /** Returns the address that a click on the point opens. Its query has `from` and `to`. */
  href?(span: Span): string
}

/** Renders links that choose the time range (`range` in the query) and show or hide the tables of values (`values`). */
export function RangeChoice(props: {
  readonly query: PageContext['query']
  readonly path: string
  readonly ranges: readonly { readonly name: string; readonly label: string }[]
  readonly current: string
}) {
  const { path, ranges, current, query } = props
  const { values, ...others } = query
  return (
    <>
      <Segments
        label="Time"
        links={ranges.map(({ name, label }) => ({
          text: name,
          title: label,
          isCurrent: name === current,
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
/** Width of a character in a label, in CSS pixels. `labelGap` is the space beside a label. */
const charWidth = 6.6
const labelGap = 2

/** Renders a chart on the server. The labels are outside the stretched drawing, so that they keep their size on a phone. */
export function TimeChart(parts: ChartParts) {
  const { title, summary, series, empty, atMs, stepMs } = parts
  const most = mostOf(parts)
  const span = { fromMs: atMs[0] ?? 0, toMs: (atMs[0] ?? 0) + atMs.length * stepMs }
  const times = timeTicks(span.fromMs, span.toMs, useContext(ReaderClockContext))
  const axes = { span, times, ...yOf(parts, most) }
  return (
    <figure class="chart">
      <figcaption>
        <h3>{title}</h3>
        <ul class="legend">
          {series.map(({ label, tone, href }) => (
            <li class={`series is-${tone}`}>
              <span class="swatch" aria-hidden="true" />
              {href && most > 0 ? <a href={href(span)}>{label}</a> : label}
            </li>
          ))}
        </ul>
      </figcaption>
      {most === 0 ? (
        <p class="chart-empty">{empty}</p>
      ) : (
        <>
          <div class="plot">
            <AxisY {...axes} />
            <Drawing parts={parts} axes={axes} />
            <AxisX {...axes} />
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

const formats = { count: countText, ms: durationText }

/** Returns the highest value, or for bars the highest stack; 0 for a chart without values. */
function mostOf({ kind, series, atMs }: ChartParts): number {
  const heights = atMs.map((_at, nth) => {
    const values = series.map(({ values: own }) => own[nth] ?? 0)
    return kind === 'bars' ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values)
  })
  return Math.max(0, ...heights)
}

interface Axes {
  readonly span: Span
  readonly times: readonly Tick[]
  readonly values: readonly Tick[]
  readonly y: (value: number) => number
}

function yOf({ kind, unit }: Pick<ChartParts, 'kind' | 'unit'>, most: number): Pick<Axes, 'values' | 'y'> {
  const isLog = kind === 'lines' && unit === 'ms'
  const values = isLog ? logTicks(most) : linearTicks(most, unit)
  const top = values.at(-1)?.value ?? most
  const range = [height, 2]
  return { values, y: isLog ? scaleLog([1, top], range).clamp(true) : scaleLinear([0, top], range) }
}

const xOf = ({ fromMs, toMs }: Span, atMs: number) => (width * (atMs - fromMs)) / (toMs - fromMs)
const percent = (part: number, whole: number) => `${rounded((100 * part) / whole)}%`

function Drawing({ parts, axes }: { readonly parts: ChartParts; readonly axes: Axes }) {
  const { kind, series, atMs, stepMs, summary, title, href } = parts
  const { y, values, times, span } = axes
  const lines = [
    ...values.map(({ value }) => `M0 ${rounded(y(value))}H${width}`),
    ...times.map(({ value }) => `M${rounded(xOf(span, value))} 0V${height}`),
  ]
  const band = <rect class="band" height={height} width="0" data-band />
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
      <path class="gridline" d={lines.join('')} />
      {kind === 'bars' ? (
        <Bars series={series} count={atMs.length} y={y} />
      ) : (
        series.map((each) => <Line {...each} isFilled={kind === 'area'} y={y} />)
      )}
      <path class="baseline" d={`M0 ${height}H${width}`} />
      {/* The script makes it a link to the point under the pointer. Legend and table have links for the keyboard. */}
      {href ? <a data-drill={href(span)}>{band}</a> : band}
    </svg>
  )
}

function bandsOf(count: number) {
  const points = Array.from({ length: count }, (_none, nth) => nth)
  // The gap between two bars is at most 2 SVG units. The first bar has half a gap before it, and the last bar half a gap after it.
  const padding = Math.min(0.2, (2 * count) / width)
  return scaleBand(points, [0, width])
    .paddingInner(padding)
    .paddingOuter(padding / 2)
}

function Bars(props: { readonly series: readonly Series[]; readonly count: number; readonly y: Axes['y'] }) {
  const { series, count, y } = props
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

function Line({ values, tone, isFilled, y }: Series & { readonly y: Axes['y']; readonly isFilled: boolean }) {
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

/** Renders the labels of the vertical axis, at positions in percent of an SVG without a view box, so that text is never stretched. */
function AxisY({ values, y }: Axes) {
  const chars = Math.max(...values.map(({ label }) => label.length))
  return (
    <svg class="axis-y" width={Math.ceil(chars * charWidth) + labelGap} aria-hidden="true">
      {values.map(({ value, label }) => (
        <text x="100%" y={percent(y(value), height)} dy="4" text-anchor="end">
          {label}
        </text>
      ))}
    </svg>
  )
}

/** Fraction of the axis at each end in which labels are aligned with the end, so that they do not overflow. */
const edge = 0.06

function AxisX({ times, span }: Axes) {
  const anchorOf = (x: number) => (x < edge * width ? 'start' : x > (1 - edge) * width ? 'end' : 'middle')
  return (
    <svg class="axis-x" aria-hidden="true">
      {times.map(({ value, label }) => {
        const x = xOf(span, value)
        return (
          <text x={percent(x, width)} y="11" text-anchor={anchorOf(x)}>
            {label}
          </text>
        )
      })}
    </svg>
  )
}

function Values({ title, series, atMs, stepMs, unit, href }: ChartParts) {
  const format = formats[unit]
  const rows = [...atMs.keys()].filter((nth) => series.some(({ values }) => (values[nth] ?? 0) !== 0))
  const linked = (to: ChartParts['href'], nth: number, text: ComponentChildren) => {
    const fromMs = atMs[nth] ?? 0
    return to ? <a href={to({ fromMs, toMs: fromMs + stepMs })}>{text}</a> : text
  }
  const columns = series.map(({ label, values, href: to }) => ({
    title: label,
    isNumber: true,
    cell: (nth: number) => linked(values[nth] ? to : undefined, nth, valueText(values[nth], format)),
  }))
  const from = { title: 'From', cell: (nth: number) => linked(href, nth, <Time atMs={atMs[nth] ?? 0} />) }
  return (
    <div class="values">
      <Table caption={`${title}: values`} rows={rows} columns={[from, ...columns]} />
    </div>
  )
}

function pointText({ series, unit }: ChartParts, nth: number): string {
  return series.map(({ label, values }) => `${label} ${valueText(values[nth], formats[unit])}`).join('  ·  ')
}

function valueText(value: number | undefined, format: (value: number) => string): string {
  return value === undefined ? '–' : format(value)
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10
}
