import { describe, expect, test } from 'bun:test'
import { type QueueChange, strongerChange, strongestChanges } from './queue-change.ts'

const suspend: QueueChange = { kind: 'suspend', cause: 'gone' }
const open: QueueChange = { kind: 'open_breaker' }
const close: QueueChange = { kind: 'close_breaker' }
const release: QueueChange = { kind: 'release_probe' }

describe('of two changes of a queue', () => {
  test.each([
    ['a suspension outlasts an open breaker', suspend, open],
    ['a suspension outlasts a closed breaker', suspend, close],
    ['a suspension outlasts a probe that was put off', suspend, release],
    ['an open breaker outlasts a closed one', open, close],
    ['an open breaker outlasts a probe that was put off', open, release],
    ['a closed breaker outlasts a probe that was put off', close, release],
  ])('%s, in either order', (_what, stronger, weaker) => {
    expect(strongerChange(stronger, weaker)).toBe(stronger)
    expect(strongerChange(weaker, stronger)).toBe(stronger)
  })

  test('the first of two suspensions stands', () => {
    expect(strongerChange(suspend, { kind: 'suspend', cause: 'disabled' })).toBe(suspend)
  })
})

test('each queue gets its own change, and none where nothing changes', () => {
  const changes = strongestChanges([
    { tenantId: 'ten_a', queueChange: suspend },
    { tenantId: 'ten_b', queueChange: close },
    { tenantId: 'ten_a', queueChange: open },
    { tenantId: 'ten_c', queueChange: undefined },
    { tenantId: 'ten_a', queueChange: undefined },
  ] as unknown as Parameters<typeof strongestChanges>[0])
  expect([...changes]).toEqual([
    ['ten_a', suspend],
    ['ten_b', close],
  ] as never)
})
