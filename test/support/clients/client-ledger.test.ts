import { expect, test } from 'bun:test'
import { type ClientOperation, countOperations, type Effect } from './client-ledger.ts'

const operation = (id: string, key: string, outcome?: string, by = id): ClientOperation => ({
  id,
  key,
  tookMs: 5,
  told: outcome === undefined ? undefined : { outcome, by },
})
const right = [operation('1', 'a', 'ran'), operation('2', 'a', 'replayed', '1'), operation('3', 'b')]
const effects: Effect[] = [
  { key: 'a', by: '1' },
  { key: 'b', by: '3' },
]
const count = (operations: readonly ClientOperation[], found: readonly Effect[] = effects) =>
  countOperations(operations, found, 10)
const clean = { twice: 0, lost: 0, different: 0, late: 0, undecided: 0 }

test('client ledger: accepts and counts a correct history', () => {
  expect(count(right)).toEqual({ operations: 3, ran: 1, replayed: 1, other: 0, died: 1, ...clean })
})

test('client ledger: ignores effects of other keys', () => {
  expect(count(right, [...effects, { key: 'c', by: '4' }])).toEqual(count(right))
})

test.each<[string, readonly ClientOperation[], readonly Effect[], Partial<typeof clean>]>([
  ['a second effect', right, [...effects, { key: 'a', by: '2' }], { twice: 1 }],
  ['an effect that is gone', right, [{ key: 'b', by: '3' }], { lost: 2, undecided: 1 }],
  [
    'a result of an operation without an effect',
    [...right, operation('4', 'a', 'ran')],
    effects,
    { different: 1 },
  ],
  [
    'a call beyond its bounds',
    [...right, { ...operation('4', 'a', 'busy'), tookMs: 11 }],
    effects,
    { late: 1 },
  ],
  ['a key that stays undecided', [...right, operation('4', 'c', 'busy')], effects, { undecided: 1 }],
])('client ledger: finds %s', (_name, operations, found, wrong) => {
  expect(count(operations, found)).toMatchObject({ ...clean, ...wrong })
})
