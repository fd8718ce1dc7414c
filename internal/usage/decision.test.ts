import { expect, test } from 'bun:test'
import { decideUsage } from './decision.ts'
import { limitState } from './limits.ts'

type Demand = Parameters<typeof decideUsage>[0][number]

const demand = (more: Partial<Demand> = {}): Demand => ({
  limit: 'exports.rowsPerMonth',
  used: 5,
  added: 2,
  soft: null,
  hard: null,
  ...more,
})

test.each<[string, Demand[], string, string, string | null]>([
  ['usage without limits is allowed', [demand()], 'allow', 'no_limit', null],
  ['usage below its soft limit is allowed', [demand({ soft: 8, hard: 8 })], 'allow', 'within_limits', null],
  [
    'usage that reaches the hard limit exactly is allowed, with a warning by the soft limit',
    [demand({ soft: 7, hard: 7 })],
    ...(['warn', 'soft_limit', 'exports.rowsPerMonth'] as const),
  ],
  [
    'usage over the hard limit is denied',
    [demand({ soft: 1, hard: 6 })],
    ...(['deny', 'hard_limit', 'exports.rowsPerMonth'] as const),
  ],
  [
    'a hard limit of 0 denies everything',
    [demand({ used: 0, hard: 0 })],
    'deny',
    'hard_limit',
    'exports.rowsPerMonth',
  ],
  [
    'a limit that denies takes precedence over an earlier limit that warns',
    [demand({ limit: 'locksPerMinute', soft: 1 }), demand({ limit: 'recordBytes', hard: 6 })],
    ...(['deny', 'hard_limit', 'recordBytes'] as const),
  ],
  [
    'usage over a limit that accepts more is allowed with a warning',
    [demand({ limit: 'eventsPerMonth', hard: 6, isOverAccepted: true })],
    ...(['warn', 'hard_limit', 'eventsPerMonth'] as const),
  ],
  [
    'a limit that accepts usage over it does not hide another limit that denies',
    [
      demand({ limit: 'eventsPerMonth', hard: 6, isOverAccepted: true }),
      demand({ limit: 'eventsPerMinute', hard: 6 }),
    ],
    ...(['deny', 'hard_limit', 'eventsPerMinute'] as const),
  ],
])('decideUsage: %s', (_case, demands, decision, reason, limit) => {
  expect(decideUsage(demands)).toEqual({ decision, reason, limit } as ReturnType<typeof decideUsage>)
})

test.each<[string, Partial<Parameters<typeof limitState>[0]>, ReturnType<typeof limitState>]>([
  ['below the soft limit', { used: 4 }, 'ok'],
  ['at the soft limit', { used: 5 }, 'soft'],
  ['at the hard limit', { used: 10 }, 'hard'],
  ['over the hard limit', { used: 11 }, 'hard'],
  ['without limits', { used: 99, soft: null, hard: null }, 'ok'],
  ['unknown usage', { used: null }, null],
  ['an override in force', { used: 4, override: {} }, 'overridden'],
  ['an override in force, over the soft limit', { used: 7, override: {} }, 'overridden'],
  ['an override in force that is exhausted', { used: 10, override: {} }, 'hard'],
  ['an override in force that lifts the limit', { used: 99, hard: null, override: {} }, 'overridden'],
  ['an override in force, with unknown usage', { used: null, override: {} }, 'overridden'],
])('limitState: %s is %p', (_case, facts, state) => {
  expect(limitState({ used: 0, soft: 5, hard: 10, override: undefined, ...facts })).toBe(state)
})
