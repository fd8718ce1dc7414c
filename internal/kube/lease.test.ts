import { expect, test } from 'bun:test'
import {
  acquired,
  fenceOf,
  formatMicroTime,
  freeInMs,
  type Lease,
  observe,
  released,
  renewed,
} from './lease.ts'

const wallMs = Date.UTC(2026, 10, 21, 12, 0, 0, 7)
const time = '2026-11-21T12:00:00.007000Z'
const lease: Lease = {
  metadata: { name: 'latchkey', namespace: 'default', uid: 'u', resourceVersion: '5' },
  spec: { holderIdentity: 'a', leaseDurationSeconds: 15, renewTime: 'then', leaseTransitions: 4 },
}

test('formatMicroTime: writes exactly six decimal places of a second', () => {
  expect([formatMicroTime(wallMs), formatMicroTime(wallMs - 7)]).toEqual([
    time,
    '2026-11-21T12:00:00.000000Z',
  ])
})

test.each<[string, Lease, number]>([
  ['unchanged', lease, 1000],
  [
    'with another label',
    { ...lease, metadata: { ...lease.metadata, labels: {}, resourceVersion: '6' } },
    1000,
  ],
  ['renewed', { ...lease, spec: { ...lease.spec, renewTime: 'now' } }, 2000],
  ['of another holder', { ...lease, spec: { ...lease.spec, holderIdentity: 'b' } }, 2000],
  ['acquired again', { ...lease, spec: { ...lease.spec, leaseTransitions: 5 } }, 2000],
  ['recreated', { ...lease, metadata: { ...lease.metadata, uid: 'v' } }, 2000],
])('observe: the age of a lease that is %s counts from its holder’s last change', (_case, next, sinceMs) => {
  const before = observe(undefined, lease, 1000)
  expect(observe(before, next, 2000).sinceMs).toBe(sinceMs)
})

test.each<[string, Lease['spec'], number, number]>([
  ['held', lease.spec, 15_999, 1],
  ['not renewed for its duration', lease.spec, 16_000, 0],
  ['not renewed for longer', lease.spec, 99_000, 0],
  ['released', { ...lease.spec, holderIdentity: '' }, 1000, 0],
  ['without a holder', {}, 1000, 0],
  ['without a duration, within the default', { holderIdentity: 'a' }, 10_999, 1],
  ['without a duration, beyond the default', { holderIdentity: 'a' }, 11_000, 0],
  [
    'held with a duration above the maximum',
    { ...lease.spec, leaseDurationSeconds: 2 ** 31 - 1 },
    1000,
    3_600_000,
  ],
])('freeInMs: returns the remaining time of a lease that is %s', (_case, spec, nowMs, freeMs) => {
  expect(freeInMs({ lease: { ...lease, spec: spec ?? {} }, sinceMs: 1000 }, nowMs, 10_000)).toBe(freeMs)
})

test('acquired: each acquisition has a greater fence, regardless of the candidate', () => {
  const holding = { holder: 'b', leaseMs: 14_500, wallMs }
  expect(acquired(lease, holding, 0).spec).toEqual({
    holderIdentity: 'b',
    leaseDurationSeconds: 15,
    acquireTime: time,
    renewTime: time,
    leaseTransitions: 5,
  })
  expect(fenceOf(acquired(lease, { ...holding, holder: 'a' }, 0))).toBe(5)
  expect(fenceOf(acquired({ metadata: lease.metadata }, holding, 0))).toBe(1)
  expect(fenceOf(acquired({ metadata: lease.metadata }, holding, 41))).toBe(42)
})

test('renewed, released: keep the fence and the resourceVersion', () => {
  for (const next of [renewed(lease, wallMs), released(lease, wallMs)]) {
    expect(fenceOf(next)).toBe(4)
    expect(next.metadata).toEqual(lease.metadata)
    expect(next.spec?.renewTime).toBe(time)
  }
  expect(released(lease, wallMs).spec?.holderIdentity).toBe('')
  expect(renewed(lease, wallMs).spec?.holderIdentity).toBe('a')
})
