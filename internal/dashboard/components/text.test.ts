import { describe, expect, test } from 'bun:test'
import { type ComponentChild, Fragment, h } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { link } from '../page.ts'
import { Card, Empty, Facts, Notice, PageHeader } from './block.tsx'
import { TimeChart } from './chart.tsx'
import { ReaderClockContext } from './clock.ts'
import { Confirm, Fields, FilterForm } from './form.tsx'
import { JsonBlock } from './json.tsx'
import { Table } from './list.tsx'
import { Ago, Badge, bytesText, Copy, durationText, StateBadge, Time } from './text.tsx'

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>'\`\${1}</textarea></title>`

describe('escaping', () => {
  test.each<[string, ComponentChild]>([
    ['a copy', h(Copy, { text: hostile, label: hostile })],
    ['a code block', h(JsonBlock, { text: hostile, label: hostile })],
    ['a badge', h(Badge, { tone: 'bad', children: hostile })],
    ['a state', h(StateBadge, { state: hostile })],
    [
      'a header',
      h(PageHeader, {
        title: hostile,
        lead: hostile,
        crumbs: [{ label: hostile, path: link('/a', { b: hostile }) }],
      }),
    ],
    ['a card', h(Card, { title: hostile, note: hostile, children: hostile })],
    ['facts', h(Facts, { facts: [[hostile, hostile]] })],
    ['a notice', h(Notice, { tone: 'warn', title: hostile, children: hostile })],
    ['an empty state', h(Empty, { title: hostile, children: hostile })],
    [
      'a table',
      h(Table<string>, {
        caption: hostile,
        rows: [hostile],
        empty: null,
        columns: [{ title: hostile, cell: (row: string) => row }],
      }),
    ],
    [
      'filters',
      h(FilterForm, {
        path: '/a',
        kept: { tenant: hostile },
        isActive: true,
        fields: [
          { kind: 'text', name: 'a', label: hostile, value: hostile, hint: hostile },
          {
            kind: 'choice',
            name: 'b',
            label: 'b',
            value: hostile,
            choices: [{ value: hostile, label: hostile }],
          },
        ],
      }),
    ],
    [
      'a question',
      h(Confirm, {
        question: hostile,
        children: hostile,
        action: '/a',
        csrfToken: 't',
        button: hostile,
        back: '/',
        hidden: { id: hostile },
      }),
    ],
    [
      'a chart',
      h(TimeChart, {
        title: hostile,
        summary: hostile,
        kind: 'bars',
        atMs: [0],
        stepMs: 1,
        empty: '',
        hasValues: true,
        series: [{ label: hostile, tone: 'one', values: [1] }],
        unit: 'count',
      }),
    ],
  ])('escaping: markup in external text is escaped in %s', (_case, node) => {
    const html = renderToString(h(Fragment, null, node))
    expect(html).not.toMatch(/<script|<img/i)
    expect(html).toContain('&lt;script>alert(1)')
    expect(html).not.toMatch(/\sstyle=|\son\w+="/)
  })
})

test('internal link: encodes parameters and omits empty parameters', () => {
  expect(link('/events', { type: 'a&b=c#"', state: undefined, after: '' })).toBe(
    '/events?type=a%26b%3Dc%23%22',
  )
})

describe('duration', () => {
  test.each([
    [0, '0 ms'],
    [480.4, '480 ms'],
    [999, '999 ms'],
    [2_449, '2.4 s'],
    [9_999, '9.9 s'],
    [59_999, '59 s'],
    [60_000, '1 min'],
    [200_000, '3 min 20 s'],
    [3_600_000, '1 h'],
    [5_400_000, '1 h 30 min'],
    [187_200_000, '2 d 4 h'],
  ])('duration text: %p ms is shown as %p', (ms, expected) => {
    expect(durationText(ms)).toBe(expected)
  })
})

test.each([
  [0, '0 B'],
  [1_023, '1023 B'],
  [12_698, '12.4 KiB'],
  [5_242_880, '5 MiB'],
])('byte text: %p bytes are shown as %p', (bytes, expected) => {
  expect(bytesText(bytes)).toBe(expected)
})

test('time element: is in the reader’s zone, names UTC on hover and is machine-readable', () => {
  const atMs = Date.UTC(2026, 10, 21, 9, 5, 7)
  const clock = { zone: 'Asia/Tokyo', nowMs: Date.UTC(2026, 10, 23) }
  const inTokyo = (child: ComponentChild) =>
    renderToString(h(ReaderClockContext.Provider, { value: clock, children: child }))
  expect(inTokyo(h(Time, { atMs }))).toBe(
    '<time datetime="2026-11-21T09:05:07.000Z" title="2026-11-21 09:05:07 UTC">21 Nov, 18:05:07</time>',
  )
  expect(renderToString(h(Time, { atMs }))).toContain('>21 Nov 2026, 09:05:07 UTC<')
  const ago = inTokyo(h(Ago, { atMs, nowMs: atMs + 200_000 }))
  expect(ago).toContain('title="21 Nov 2026, 18:05:07 (2026-11-21 09:05:07 UTC)">3 min 20 s ago<')
  expect(renderToString(h(Ago, { atMs, nowMs: atMs - 60_000 }))).toContain('>in 1 min<')
})

test('time field: shows the reader’s time with its zone, and the form names the zone', () => {
  const fields = [{ kind: 'time', name: 'from', label: 'From', value: '2026-11-26T12:09:00Z' }] as const
  const value = { zone: 'America/New_York', nowMs: 0 }
  const html = renderToString(h(ReaderClockContext.Provider, { value, children: h(Fields, { fields }) }))
  expect(html).toContain('>From (America/New_York)</label>')
  expect(html).toContain('value="2026-11-26T07:09:00"')
  expect(html).toContain('name="zone" value="America/New_York"')
})
