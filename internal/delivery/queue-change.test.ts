import { describe, expect, test } from 'bun:test'
import { type LaneChange, strongerChange, strongestChanges } from './queue-change.ts'

const suspend: LaneChange = { kind: 'suspend', cause: 'gone' }
const open: LaneChange = { kind: 'open_breaker' }
const close: LaneChange = { kind: 'close_breaker' }
const release: LaneChange = { kind: 'release_probe' }

describe('of two changes of a lane', () => {
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

test('each lane gets its own change, and none where nothing changes', () => {
  const changes = strongestChanges([
    { tenantId: 'ten_a', laneChange: suspend },
    { tenantId: 'ten_b', laneChange: close },
    { tenantId: 'ten_a', laneChange: open },
    { tenantId: 'ten_c', laneChange: undefined },
    { tenantId: 'ten_a', laneChange: undefined },
  ] as unknown as Parameters<typeof strongestChanges>[0])
  expect([...changes]).toEqual([
    ['ten_a', suspend],
    ['ten_b', close],
  ] as never)
})
