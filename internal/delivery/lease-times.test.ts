import { expect, test } from 'bun:test'
import { LeaseTimes, leasesToRenew } from './lease-times.ts'

test.each([
  ['is 3.5 s while statements take at most 0.7 s', [5, 20, 600], 3_500],
  ['is five times a statement of 2 s', [5, 2_000], 10_000],
  ['is at most 30 s', [9_000], 30_000],
  ['falls by half per statement of 5 ms', [4_000, 5], 10_000],
  ['falls to 3.5 s again', [4_000, 5, 5, 5], 3_500],
])('LeaseTimes: a lease %s', (_case, statementsMs, expected) => {
  const leases = new LeaseTimes()
  for (const tookMs of statementsMs) leases.succeeded(0, tookMs)
  expect(leases.lengthMs).toBe(expected)
})

test('LeaseTimes: a statement that fails after a time-out makes the next lease longer', () => {
  const leases = new LeaseTimes()
  leases.failed(0, 5_000)
  expect(leases.lengthMs).toBe(25_000)
})

test.each<[string, (leases: LeaseTimes) => void]>([
  ['a statement that fails immediately', (leases) => leases.failed(6_000, 6_001)],
  ['other statements that fail', (leases) => leases.troubled(6_000)],
])(
  'LeaseTimes: %s does not shorten the next lease, and expired leases are left to their owners',
  (_case, fail) => {
    const leases = new LeaseTimes()
    leases.succeeded(0, 5_000)
    for (let times = 0; times < 3; times += 1) fail(leases)
    expect(leases.lengthMs).toBe(25_000)
    expect(leases.graceMs(6_000)).toBe(6_000)
  },
)

test('LeaseTimes: the current time of Postgres is the time in its last reply plus the time since that reply', () => {
  const leases = new LeaseTimes()
  expect(leases.postgresMs(0)).toBeUndefined()
  leases.seen(900_000, 1_000)
  leases.seen(800_000, 2_000)
  expect(leases.postgresMs(2_500)).toBe(800_500)
})

test('LeaseTimes: while statements fail, and for 6 s afterwards, expired leases are left to their owners', () => {
  const leases = new LeaseTimes(1_000)
  expect(leases.graceMs(0)).toBe(0)
  leases.failed(10_000, 10_100)
  leases.failed(14_000, 14_000)
  expect(leases.graceMs(15_000)).toBe(11_000)
  leases.succeeded(15_000, 15_010)
  leases.succeeded(15_500, 15_510)
  expect(leases.graceMs(16_000)).toBe(12_000)
  expect(leases.graceMs(21_010)).toBe(0)
  leases.failed(25_000, 25_000)
  expect(leases.graceMs(25_000)).toBe(6_000)
  expect(leases.graceMs(999_000)).toBe(60_000)
})

test.each([
  ['none before the oldest reaches half of its duration', [600, 700, 900], []],
  ['all that have reached a fifth once one has reached half', [450, 700, 850], [450, 700]],
  ['also expired leases, which their process may still own', [-100, 900], [-100]],
])('leasesToRenew: returns %s', (_case, leftMs, expected) => {
  const leases = leftMs.map((left) => ({ leaseEndsMs: 5_000 + left }))
  const renewed = leasesToRenew(leases, { nowMs: 5_000, lengthMs: 1_000 })
  expect(renewed.map(({ leaseEndsMs }) => leaseEndsMs - 5_000)).toEqual(expected)
})
