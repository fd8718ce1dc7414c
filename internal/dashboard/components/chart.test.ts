import { describe, expect, test } from 'bun:test'
import { h } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { type ChartParts, TimeChart } from './chart.tsx'

const minuteMs = 60_000

function drawn(parts: Partial<ChartParts>): string {
  const values = parts.series?.[0]?.values ?? []
  return renderToString(
    h(TimeChart, {
      ...{ title: 'Events', summary: 'six events', kind: 'bars', unit: 'count', hasValues: false },
      ...{ series: [], atMs: values.map((_value, nth) => nth * minuteMs), stepMs: minuteMs },
      empty: 'Nothing came.',
      ...parts,
    }),
  )
}

const one = (values: readonly (number | undefined)[]) => [{ label: 'Events', tone: 'one', values }] as const
const axisOf = (html: string) =>
  [...(/class="axis-y".*?<\/div>/.exec(html)?.[0] ?? '').matchAll(/<span>(.*?)<\/span>/g)].map(
    ([, text]) => text,
  )

describe('chart axis', () => {
  test.each<[string, Partial<ChartParts>, string[]]>([
    ['few events', { series: one([1, 5]) }, ['6', '3', '0']],
    ['one event', { series: one([0, 1]) }, ['2', '1', '0']],
    ['many events', { series: one([4_200, 9_700]) }, ['10K', '5K', '0']],
    ['durations', { kind: 'area', unit: 'ms', series: one([12_000, 170_000]) }, ['4 min', '2 min', '0']],
    [
      'latencies, logarithmic',
      { kind: 'lines', unit: 'ms', series: one([42, 7_000]) },
      ['10 s', '100 ms', '1 ms'],
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
      ['50', '25', '0'],
    ],
  ])('chart axis: uses round values for %s', (_case, parts, expected) => {
    expect(axisOf(drawn(parts))).toEqual(expected)
  })
})

test('chart: a text replaces a chart whose values are all 0', () => {
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
