import { expect, test } from 'bun:test'
import type { KubeFailureKind, ReflectorTrouble } from '#internal/kube/index.ts'
import { RepeatedFailure } from './view.ts'

const trouble = ([kind, failures]: readonly [KubeFailureKind, number]): ReflectorTrouble => {
  const failure = { kind, status: 0, code: undefined, message: '', fields: [], retryAfterMs: undefined }
  return { kind: 'sync', failure, failures }
}

test.each<[string, [KubeFailureKind, number][], number[]]>([
  [
    'a lasting refusal',
    [
      ['forbidden', 1],
      ['forbidden', 2],
      ['forbidden', 3],
    ],
    [1],
  ],
  [
    'a transient refusal',
    [
      ['forbidden', 1],
      ['unavailable', 1],
      ['forbidden', 1],
    ],
    [],
  ],
  [
    'a refusal by a starting server',
    [
      ['unavailable', 1],
      ['forbidden', 2],
      ['unavailable', 3],
    ],
    [],
  ],
  [
    'refusals after unavailability',
    [
      ['unavailable', 4],
      ['forbidden', 5],
      ['forbidden', 6],
    ],
    [2],
  ],
  [
    'a success in between',
    [
      ['forbidden', 1],
      ['forbidden', 1],
      ['forbidden', 2],
    ],
    [2],
  ],
  [
    'a refusal, a success, a refusal',
    [
      ['forbidden', 1],
      ['forbidden', 2],
      ['forbidden', 1],
      ['forbidden', 2],
    ],
    [1, 3],
  ],
])('repeated failure: %s', (_what, troubles, lasting) => {
  const refusals = new RepeatedFailure('forbidden', 2)
  const told = troubles.flatMap((each, index) => (refusals.note(trouble(each)) ? [index] : []))
  expect(told).toEqual(lasting)
})

test('repeated failure: a stalled watch does not count', () => {
  const refusals = new RepeatedFailure('forbidden', 2)
  refusals.note(trouble(['forbidden', 1]))
  expect(refusals.note({ kind: 'stalled' })).toBe(false)
})
