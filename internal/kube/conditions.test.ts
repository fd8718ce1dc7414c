import { expect, test } from 'bun:test'
import { type Condition, mergeConditions } from './conditions.ts'

const nowMs = Date.UTC(2026, 10, 21, 12, 0, 0, 789)
const moment = { nowMs, observedGeneration: 3 }
const before: Condition = {
  type: 'Ready',
  status: 'False',
  reason: 'SecretMissing',
  message: 'Create the Secret card-secrets.',
  lastTransitionTime: '2026-11-01T00:00:00Z',
  observedGeneration: 2,
}
const ready = { type: 'Ready', status: 'True', reason: 'Reconciled', message: '' } as const

test('mergeConditions: a changed status gets the present time, in whole seconds', () => {
  expect(mergeConditions([before], [ready], moment)).toEqual([
    { ...ready, lastTransitionTime: '2026-11-21T12:00:00Z', observedGeneration: 3 },
  ])
})

test('mergeConditions: the same status keeps its time when reason and message change', () => {
  const wanted = { ...before, reason: 'SecretKeyMissing', message: 'Add the key.' }
  const [merged] = mergeConditions([before], [wanted], moment)
  expect(merged).toEqual({ ...wanted, lastTransitionTime: before.lastTransitionTime, observedGeneration: 3 })
})

test('mergeConditions: returns the wanted types only, in their order', () => {
  const synced = { ...ready, type: 'SecretsSynced' }
  const types = mergeConditions([before, { ...before, type: 'Foreign' }], [synced, ready], moment)
  expect(types.map(({ type }) => type)).toEqual(['SecretsSynced', 'Ready'])
})

test.each([
  ['an empty reason', [{ ...ready, reason: '' }]],
  ['a sentence as reason', [{ ...ready, reason: 'Not ready' }]],
  ['a repeated type', [ready, ready]],
  ['an empty type', [{ ...ready, type: '' }]],
])('mergeConditions: throws for %s', (_case, wanted) => {
  expect(() => mergeConditions([], wanted, moment)).toThrow(RangeError)
})
