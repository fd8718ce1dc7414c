import { describe, expect, test } from 'bun:test'
import { readFilter as readAuditFilter } from './audit.tsx'
import { readFilter } from './executions.tsx'
import { valueText } from './settings.tsx'
import { readTyped as readSimulation } from './simulation-start.tsx'
import { moneyText } from './simulations.tsx'
import { readTyped } from './usage-override.tsx'
import { amountText, limitState } from './usage-parts.tsx'

const nowMs = Date.parse('2026-11-21T20:00:00Z')

describe('what is typed for an override', () => {
  const good = { kind: 'amount', hard: '90000', until: '2026-11-22T20:00', reason: 'A sale' }

  test('is read', () => {
    const untilMs = Date.parse('2026-11-22T20:00:00Z')
    expect(readTyped(good, nowMs)).toEqual({ kind: 'read', hard: 90_000, untilMs, reason: 'A sale' })
  })

  test('is no limit at all only where somebody chose that', () => {
    expect(readTyped({ ...good, kind: 'none', hard: '' }, nowMs)).toMatchObject({ kind: 'read', hard: null })
    expect(readTyped({ ...good, hard: '' }, nowMs)).toMatchObject({ kind: 'wrong' })
  })

  test.each([
    ['hard', { hard: '-1' }],
    ['hard', { hard: '1e3' }],
    ['hard', { hard: '1234567890123456' }],
    ['until', { until: 'tomorrow' }],
    ['until', { until: '2026-11-21T20:00' }],
    ['reason', { reason: '' }],
    ['reason', { reason: 'x'.repeat(501) }],
  ])('%s is named when it is wrong: %p', (field, wrong) => {
    const read = readTyped({ ...good, ...wrong }, nowMs)
    expect(read.kind === 'wrong' && Object.keys(read.problems)).toEqual([field])
  })
})

describe('what is typed for a simulation', () => {
  const good = { provider: 'card', amount: '4200', currency: 'eur', outcome: 'won', stepSeconds: '5' }

  test('is read as the public call has it, without fields that were left empty', () => {
    expect(readSimulation({ ...good, reference: '', csrf: 'x', tenant: 'ten_1' })).toEqual({
      kind: 'read',
      chargeback: { provider: 'card', amount: 4200, currency: 'eur', outcome: 'won', stepSeconds: 5 },
    })
  })

  test.each([
    ['amount', '0'],
    ['amount', '42.00'],
    ['currency', 'EURO'],
    ['provider', 'gateway'],
    ['outcome', 'draw'],
    ['reason', 'mood'],
    ['stepSeconds', '86401'],
    ['reference', '\u0007'],
  ])('%s is named when it is %p', (field, value) => {
    const read = readSimulation({ ...good, [field]: value })
    expect(read.kind === 'wrong' && Object.keys(read.problems)).toEqual([field])
  })

  test('a reference of digits stays text', () => {
    const read = readSimulation({ ...good, reference: '4711' })
    expect(read.kind === 'read' && read.chargeback.reference).toBe('4711')
  })
})

test.each([
  [{ scope: 'a', key: 'b', state: 'running', from: '2026-11-21', to: '2026-11-22' }, []],
  [{ key: 'b' }, ['scope']],
  [{ state: 'lost' }, ['state']],
  [{ from: 'x', to: 'y' }, ['from', 'to']],
  [{ from: '2026-11-22', to: '2026-11-21' }, ['to']],
])('filters of executions: %p has wrong %p', (query, wrong) => {
  expect(Object.keys(readFilter(query as Record<string, string>).problems)).toEqual(wrong)
})

test.each([
  [{ actor: 'ada', action: 'replays.', from: '2026-11-21T10:00' }, []],
  [{ actor: 'a'.repeat(201) }, ['actor']],
  [{ action: 'a'.repeat(201), to: 'never' }, ['action', 'to']],
])('filters of the audit log: %p has wrong %p', (query, wrong) => {
  expect(Object.keys(readAuditFilter(query as Record<string, string>).problems)).toEqual(wrong)
})

test.each([
  [{ used: null, soft: 5, hard: 10 }, 'Not known now', undefined],
  [{ used: 3, soft: null, hard: null }, 'No limit', undefined],
  [{ used: 4, soft: 5, hard: 10 }, 'Within limits', 0.4],
  [{ used: 5, soft: 5, hard: 10 }, 'Over the soft limit', 0.5],
  [{ used: 7, soft: 5, hard: null }, 'Over the soft limit', 1.4],
  [{ used: 10, soft: 5, hard: 10 }, 'At the limit', 1],
  [{ used: 0, soft: null, hard: 0 }, 'At the limit', 1],
])('a limit with %p is %s', (usage, text, share) => {
  expect(limitState(usage)).toMatchObject({ text, share })
})

test.each([
  [4200, 'EUR', 'EUR 42.00'],
  [4200, 'JPY', 'JPY 4,200'],
  [1234, 'KWD', 'KWD 1.234'],
  [1, 'XYZ', 'XYZ 0.01'],
])('%d of the smallest unit of %s is %s', (amount, currency, text) => {
  expect(moneyText(amount, currency)).toBe(text)
})

test('amounts and settings are written as people read them', () => {
  expect(amountText('recordBytes', 2_048)).toBe('2 KiB')
  expect(amountText('locksPerMinute', 60_000)).toBe('60,000')
  expect([null, true, 0.5, 'accept', 60_000].map(valueText)).toEqual([
    'none',
    'true',
    '0.5',
    'accept',
    '60,000',
  ])
})
