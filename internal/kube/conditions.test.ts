import { expect, test } from 'bun:test'
import { type Condition, findCondition, mergeConditions, sameConditions } from './conditions.ts'

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

test('a changed status begins now, in whole seconds', () => {
  expect(mergeConditions([before], [ready], moment)).toEqual([
    { ...ready, lastTransitionTime: '2026-11-21T12:00:00Z', observedGeneration: 3 },
  ])
})

test('with the same status the time stays, whatever else is said', () => {
  const wanted = { ...before, reason: 'SecretKeyMissing', message: 'Add the key.' }
  const [merged] = mergeConditions([before], [wanted], moment)
  expect(merged).toEqual({ ...wanted, lastTransitionTime: before.lastTransitionTime, observedGeneration: 3 })
})

test('only wanted types come out, in the order wanted', () => {
  const synced = { ...ready, type: 'SecretsSynced' }
  const types = mergeConditions([before, { ...before, type: 'Foreign' }], [synced, ready], moment)
  expect(types.map(({ type }) => type)).toEqual(['SecretsSynced', 'Ready'])
})

test('what is the same needs no write; foreign types do not matter', () => {
  const merged = mergeConditions([before], [before], { ...moment, observedGeneration: 2 })
  expect(sameConditions([{ ...before, type: 'Foreign' }, before], merged)).toBe(true)
})

test.each<[string, Partial<Condition>]>([
  ['status', { status: 'Unknown' }],
  ['reason', { reason: 'Other' }],
  ['message', { message: 'other' }],
  ['observedGeneration', { observedGeneration: 9 }],
  ['lastTransitionTime', { lastTransitionTime: '2026-11-02T00:00:00Z' }],
  ['type', { type: 'Other' }],
])('another %s needs a write', (_field, change) => {
  expect(sameConditions([before], [{ ...before, ...change }])).toBe(false)
})

test.each([
  ['no word', [{ ...ready, reason: '' }]],
  ['a sentence', [{ ...ready, reason: 'Not ready' }]],
  ['one type twice', [ready, ready]],
  ['no type', [{ ...ready, type: '' }]],
])('%s is refused before the API would', (_case, wanted) => {
  expect(() => mergeConditions([], wanted, moment)).toThrow(RangeError)
})

test('a condition is found by its type', () => {
  expect(findCondition([before], 'Ready')).toBe(before)
  expect(findCondition([before], 'Other')).toBeUndefined()
  expect(findCondition(undefined, 'Ready')).toBeUndefined()
})
