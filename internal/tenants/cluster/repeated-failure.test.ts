import { expect, test } from 'bun:test'
import type { KubeFailureKind, ReflectorTrouble } from '#internal/kube/index.ts'
import { RepeatedFailure } from './view.ts'

const trouble = ([kind, failures]: readonly [KubeFailureKind, number]): ReflectorTrouble => {
  const failure = { kind, status: 0, code: undefined, message: '', fields: [], retryAfterMs: undefined }
  return { kind: 'sync', failure, failures }
}

test.each<[string, [KubeFailureKind, number][], number[]]>([
  [
    'refused for long',
    [
      ['forbidden', 1],
      ['forbidden', 2],
      ['forbidden', 3],
    ],
    [1],
  ],
  [
    'refused for a moment',
    [
      ['forbidden', 1],
      ['unavailable', 1],
      ['forbidden', 1],
    ],
    [],
  ],
  [
    'refused by a server that begins',
    [
      ['unavailable', 1],
      ['forbidden', 2],
      ['unavailable', 3],
    ],
    [],
  ],
  [
    'refused once the server is there',
    [
      ['unavailable', 4],
      ['forbidden', 5],
      ['forbidden', 6],
    ],
    [2],
  ],
  [
    'let in meanwhile',
    [
      ['forbidden', 1],
      ['forbidden', 1],
      ['forbidden', 2],
    ],
    [2],
  ],
  [
    'refused, let in, refused',
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
