import { describe, expect, test } from 'bun:test'
import { h } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { type ChartParts, type Span, TimeChart } from './chart.tsx'

const minuteMs = 60_000

function drawn(parts: Partial<ChartParts>): string {
  const values = parts.series?.[0]?.values ?? []
  return renderToString(
    h(TimeChart, {
      title: 'Events',
      summary: 'six events',
      kind: 'bars',
      unit: 'count',
      hasValues: false,
      series: [],
      atMs: values.map((_value, nth) => nth * minuteMs),
      stepMs: minuteMs,
      empty: 'Nothing came.',
      ...parts,
    }),
  )
}

const one = (values: readonly (number | undefined)[]) => [{ label: 'Events', tone: 'one', values }] as const
const axisOf = (html: string) =>
  [...(/class="axis-y".*?<\/svg>/.exec(html)?.[0] ?? '').matchAll(/<text [^>]*>(.*?)<\/text>/g)].map(
    ([, text]) => text,
  )

describe('chart axis', () => {
  test.each<[string, Partial<ChartParts>, string[]]>([
    ['few events', { series: one([1, 5]) }, ['0', '2', '4', '6']],
    ['durations', { kind: 'area', unit: 'ms', series: one([862]) }, ['0', '500 ms', '1 s']],
    [
      'latencies, logarithmic',
      { kind: 'lines', unit: 'ms', series: one([42, 7_000]) },
      ['1 ms', '10 ms', '100 ms', '1 s', '10 s'],
    ],
    [
      'stacked layers',
      {
        series: [
          { label: 'a', tone: 'one', values: [30] },
          { label: 'b', tone: 'two', values: [20] },
        ],
        atMs: [0],
      },
      ['0', '20', '40', '60'],
    ],
  ])('chart axis: begins at the bottom and uses round values for %s', (_case, parts, expected) => {
    expect(axisOf(drawn(parts))).toEqual(expected)
  })
})

test('chart: points, series and values link to the event list for their time span', () => {
  const href = (list: string) => (span: Span) => `/${list}?from=${span.fromMs}&to=${span.toMs}`
  const html = drawn({
    hasValues: true,
    href: href('all'),
    series: [{ label: 'Failed', tone: 'bad', values: [1, 0, 2], href: href('failed') }],
  })
  const links = [...html.matchAll(/(data-drill|href)="([^"]*)"/g)].map(([, , to]) =>
    to?.replaceAll('&amp;', '&'),
  )
  expect(links).toEqual([
    '/failed?from=0&to=180000',
    '/all?from=0&to=180000',
    '/all?from=0&to=60000',
    '/failed?from=0&to=60000',
    '/all?from=120000&to=180000',
    '/failed?from=120000&to=180000',
  ])
})

test('chart: if all values are 0, a text is shown instead of the chart', () => {
  expect(drawn({ series: one([0, undefined, 0]) })).toContain('Nothing came.')
  expect(drawn({ series: one([]) })).not.toContain('<svg')
})

test('chart: a line has a gap where values are unknown', () => {
  const html = drawn({ kind: 'lines', series: one([1, 2, undefined, 3, 4]) })
  const path = /class="series-line is-one" d="([^"]*)"/.exec(html)?.[1] ?? ''
  expect(path.match(/M/g)).toHaveLength(2)
  expect(path).not.toMatch(/NaN|undefined/)
})

test('chart: contains a summary for screen readers and a text for each point', () => {
  const html = drawn({ series: one([1, undefined]) })
  expect(html).toContain('role="img" aria-label="Events: six events"')
  expect(html).toContain('data-points="Events 1\nEvents –"')
})

test('chart: the table of values omits rows that contain only 0', () => {
  const html = drawn({ series: one([0, 7, undefined]), hasValues: true })
  expect(html.match(/<tr>/g)).toHaveLength(2)
  expect(html).toMatch(/<td class="is-number"[^>]*>7<\/td>/)
})
