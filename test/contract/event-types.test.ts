import { expect, test } from 'bun:test'
import { eventTypes, type TypeRow } from '#internal/providers/catalogue.ts'
import { compareEventTypes, readEventTypes } from './event-types.ts'
import { lineOf } from './surface-diff.ts'

/** Types by raw type, in the order in which they are tried. */
type Rows = Readonly<Record<string, readonly Omit<TypeRow, 'raw'>[]>>

const tableOf = (rows: Rows) => {
  const list = Object.entries(rows).flatMap(([raw, types]) => types.map((each) => ({ raw, ...each })))
  return eventTypes('card', list, [])
}
const isPaid = { path: 'data.paid', values: [true] }
const wonBy = (...values: readonly string[]) => ({
  type: 'chargeback.won',
  when: [{ path: 'data.status', values }, isPaid],
})
const opened = { path: 'action', values: ['opened'] }
const rows: Rows = {
  paid: [{ type: 'payment.succeeded' }],
  dispute: [wonBy('won', 'closed_won'), { type: 'chargeback.updated' }],
  pull: [{ type: 'pull.opened', when: [opened] }],
}
const recorded = readEventTypes([tableOf(rows)])

test('event types: every value of a condition and every default occurs in the samples', () => {
  expect(recorded).toEqual({
    card: {
      paid: { '{}': 'payment.succeeded' },
      dispute: {
        '{"data.paid":true,"data.status":"closed_won"}': 'chargeback.won',
        '{"data.paid":true,"data.status":"won"}': 'chargeback.won',
        '{}': 'chargeback.updated',
      },
      pull: { '{"action":"opened"}': 'pull.opened' },
    },
  })
})

const won = 'types card dispute {"data.paid":true,"data.status":"won"}'
test.each<[what: string, change: Rows, expected: readonly string[]]>([
  ['a raw type is added', { charged: [{ type: 'payment.charged' }] }, []],
  [
    'a raw type has another type',
    { paid: [{ type: 'payment.paid' }] },
    ['types card paid: payment.succeeded became payment.paid'],
  ],
  [
    'an action has another type',
    { pull: [{ type: 'pull.new', when: [opened] }] },
    ['types card pull {"action":"opened"}: pull.opened became pull.new'],
  ],
  [
    'a condition is added',
    {
      paid: [
        { type: 'payment.test', when: [{ path: 'test', values: [true] }] },
        { type: 'payment.succeeded' },
      ],
    },
    [],
  ],
  [
    'a value of a condition is removed',
    {
      dispute: [
        { type: 'chargeback.won', when: [{ path: 'data.status', values: ['closed_won'] }] },
        { type: 'chargeback.updated' },
      ],
    },
    [`${won}: chargeback.won became chargeback.updated`],
  ],
])('event types comparison: if %s, the breaking differences are reported', (_what, change, expected) => {
  const found = compareEventTypes(recorded, [tableOf({ ...rows, ...change })])
  expect(found.filter(({ breaking }) => breaking).map(lineOf)).toEqual([...expected])
})

test('event types comparison: a type for an event without a type is no breaking difference, and the removal of a type is one', () => {
  const unlisted = { card: { paid: { '{}': 'card.paid' } } }
  expect(compareEventTypes(unlisted, [tableOf(rows)])).toMatchObject([{ breaking: false }])
  expect(compareEventTypes(recorded, [tableOf({ ...rows, paid: [] })]).map(lineOf)).toEqual([
    'types card paid: payment.succeeded became card.paid',
  ])
})

test('event types comparison: a provider without a table is a breaking difference', () => {
  expect(compareEventTypes(recorded, []).map(lineOf)).toEqual(['types card: removed'])
})
