import { expect, test } from 'bun:test'
import { byAction, eventTypes, type TypeRows } from '#internal/providers/catalogue.ts'
import { compareEventTypes, readEventTypes } from './event-types.ts'
import { lineOf } from './surface-diff.ts'

const tableOf = (rows: TypeRows) => eventTypes('card', rows, () => ({}))
const rows: TypeRows = {
  paid: 'payment.succeeded',
  dispute: [
    { type: 'chargeback.won', when: { 'data.status': ['won', 'closed_won'], 'data.paid': true } },
    'chargeback.updated',
  ],
  pull: byAction({ opened: 'pull.opened' }),
}
const recorded = readEventTypes([tableOf(rows)])

test('event types: every value of a condition and every default is a sample', () => {
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
test.each<[what: string, change: TypeRows, expected: readonly string[]]>([
  ['a raw type is added', { charged: 'payment.charged' }, []],
  [
    'a raw type has another type',
    { paid: 'payment.paid' },
    ['types card paid: payment.succeeded became payment.paid'],
  ],
  [
    'an action has another type',
    { pull: byAction({ opened: 'pull.new' }) },
    ['types card pull {"action":"opened"}: pull.opened became pull.new'],
  ],
  [
    'a condition is added',
    { paid: [{ type: 'payment.test', when: { test: true } }, 'payment.succeeded'] },
    [],
  ],
  [
    'a value of a condition is removed',
    { dispute: [{ type: 'chargeback.won', when: { 'data.status': 'closed_won' } }, 'chargeback.updated'] },
    [`${won}: chargeback.won became chargeback.updated`],
  ],
])('event types comparison: where %s, the breaking differences are reported', (_what, change, expected) => {
  const found = compareEventTypes(recorded, [tableOf({ ...rows, ...change })])
  expect(found.filter(({ breaking }) => breaking).map(lineOf)).toEqual([...expected])
})

test('event types comparison: a type for what had none is no breaking difference, the loss of a type is one', () => {
  const unlisted = { card: { paid: { '{}': 'card.paid' } } }
  expect(compareEventTypes(unlisted, [tableOf(rows)])).toMatchObject([{ breaking: false }])
  expect(compareEventTypes(recorded, [tableOf({ ...rows, paid: [] })]).map(lineOf)).toEqual([
    'types card paid: payment.succeeded became card.paid',
  ])
})

test('event types comparison: a provider without a table is a breaking difference', () => {
  expect(compareEventTypes(recorded, []).map(lineOf)).toEqual(['types card: removed'])
})
