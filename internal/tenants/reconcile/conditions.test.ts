import { expect, test } from 'bun:test'
import { mergeConditions, type WantedCondition } from './conditions.ts'

const nowMs = Date.UTC(2026, 10, 21, 12, 0, 0, 789)
const before = {
  type: 'Ready',
  status: 'False',
  reason: 'SecretMissing',
  message: 'Create the Secret.',
  lastTransitionTime: '2026-11-01T00:00:00Z',
} as const
const ready: WantedCondition = { type: 'Ready', status: 'True', reason: 'Reconciled', message: '' }

test('mergeConditions: a condition whose status changes gets the current time in whole seconds', () => {
  expect(mergeConditions([before], [ready], nowMs)).toEqual([
    { ...ready, lastTransitionTime: '2026-11-21T12:00:00Z' },
  ])
})

test('mergeConditions: a condition keeps its time if only reason and message change', () => {
  const wanted: WantedCondition = { type: 'Ready', status: 'False', reason: 'KeyMissing', message: 'Add it.' }
  const { lastTransitionTime } = before
  expect(mergeConditions([before], [wanted], nowMs)).toEqual([{ ...wanted, lastTransitionTime }])
})

test('mergeConditions: returns only the wanted condition types, in the given order', () => {
  const synced = { ...ready, type: 'SecretsSynced' }
  const types = mergeConditions([before, { ...before, type: 'Foreign' }], [synced, ready], nowMs)
  expect(types.map(({ type }) => type)).toEqual(['SecretsSynced', 'Ready'])
})

test.each([
  ['an empty reason', [{ ...ready, reason: '' }]],
  ['a sentence as reason', [{ ...ready, reason: 'Not ready' }]],
  ['a repeated type', [ready, ready]],
])('mergeConditions: throws for %s', (_case, wanted) => {
  expect(() => mergeConditions([], wanted, nowMs)).toThrow(RangeError)
})
