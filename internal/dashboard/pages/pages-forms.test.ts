import { expect, test } from 'bun:test'
import { createEventId, tenantIdFromBytes } from '#internal/base/index.ts'
import { refusedCauses } from '#internal/intake/index.ts'
import { refusalCauses } from '#internal/providers/index.ts'
import { parseTimeField, readFields, timeFieldText } from '../components/form.tsx'
import { auditFields } from './audit.tsx'
import { eventFields, eventFilterOf } from './events.tsx'
import { lockFields } from './lock-history.tsx'
import { refusedAdviceOf, refusedCauseAdvice } from './refused.tsx'
import { parseReplayForm, replayFields } from './replay-start.tsx'
import { replayShare } from './replays.tsx'
import { valueText } from './settings.tsx'
import { moneyText, parseStartForm } from './simulations.tsx'
import { amountText, limitBadge, parseOverrideForm } from './usage.tsx'

const nowMs = Date.parse('2026-11-21T20:00:00.500Z')
const id = createEventId(nowMs, 90)
type Query = Record<string, string>

test.each([
  ['2026-11-21T19:50', undefined, '2026-11-21T19:50:00Z'],
  ['2026-11-21T19:50:07', undefined, '2026-11-21T19:50:07Z'],
  ['2026-11-21T19:50:07.250', undefined, '2026-11-21T19:50:07Z'],
  ['2026-11-21 19:50:07Z', undefined, '2026-11-21T19:50:07Z'],
  ['2026-11-21', undefined, '2026-11-21T00:00:00Z'],
  ['2026-11-21', 'Europe/Berlin', '2026-11-20T23:00:00Z'],
  ['2026-11-21T19:50', 'America/New_York', '2026-11-22T00:50:00Z'],
  ['2026-11-21T19:50:00Z', 'America/New_York', '2026-11-21T19:50:00Z'],
])('time field: %s in the zone %s is parsed as %s', (text, zone, expected) => {
  expect(timeFieldText(parseTimeField(text, zone) ?? 0)).toBe(expected)
})

test('time field: times are parsed in the zone that the form names, and in UTC if it names none', () => {
  const { values } = readFields(lockFields, { from: '2026-11-26T07:09', zone: 'America/New_York' })
  expect(values.from).toBe(Date.parse('2026-11-26T12:09:00Z'))
  for (const zone of [undefined, 'Nowhere/Here'])
    expect(readFields(lockFields, { from: '2026-11-26T07:09', zone }).values.from).toBe(
      Date.parse('2026-11-26T07:09:00Z'),
    )
})

test.each([
  '',
  'yesterday',
  '2026-02-30',
  '2026-11-21T25:00',
  '1999-12-31',
  '2100-01-01',
  '1732218600000',
  '<b>',
])('time field: %p is refused', (text) => {
  expect(parseTimeField(text)).toBeUndefined()
})

test.each([
  ['no filter', {}, {}],
  ['a state', { state: 'delivery_failed' }, { state: 'delivery_failed' }],
  ['a Latchkey id', { find: id }, { id }],
  [
    'a vendor’s id that begins with evt_',
    { find: 'evt_1S2820b0dddc874ae4beabfc' },
    { sourceEventId: 'evt_1S2820b0dddc874ae4beabfc' },
  ],
  ['the last hour', { within: '1h' }, { fromMs: nowMs - 3_600_000 }],
  [
    'yesterday',
    { within: 'yesterday' },
    { fromMs: Date.parse('2026-11-19T23:00:00Z'), toMs: Date.parse('2026-11-20T23:00:00Z') },
  ],
  ['today', { within: 'today' }, { fromMs: Date.parse('2026-11-20T23:00:00Z') }],
  [
    'a day',
    { from: '2026-11-20', to: '2026-11-21' },
    { fromMs: Date.parse('2026-11-20T00:00:00Z'), toMs: Date.parse('2026-11-21T00:00:00Z') },
  ],
  [
    'an exact start in preference to a span',
    { within: '1h', from: '2026-11-20T10:00' },
    { fromMs: Date.parse('2026-11-20T10:00:00Z') },
  ],
  [
    'an exact end alone in preference to yesterday, whose start would contradict it',
    { within: 'yesterday', to: '2026-11-18', zone: 'Europe/Berlin' },
    { toMs: Date.parse('2026-11-17T23:00:00Z') },
  ],
  [
    'a provider and a type',
    { provider: 'stripe', type: 'payment.succeeded' },
    { provider: 'card', type: 'payment.succeeded' },
  ],
  ['an unknown parameter as no filter', { colour: 'red' }, {}],
])('event filters: parse %s', (_case, query, expected) => {
  const { values, problems } = readFields(eventFields, query as Query)
  expect(JSON.parse(JSON.stringify(eventFilterOf(values, { nowMs, zone: 'Europe/Berlin' })))).toEqual(
    expected,
  )
  expect(problems).toEqual({})
})

test.each<[string, object, string[]]>([
  ['events', { state: 'lost' }, ['state']],
  ['events', { within: '2y' }, ['within']],
  ['events', { from: 'yesterday' }, ['from']],
  ['events', { to: '2026-02-30' }, ['to']],
  ['events', { from: '2026-11-21', to: '2026-11-21' }, ['to']],
  ['events', { find: 'x'.repeat(256) }, ['find']],
  ['events', { provider: 'No body' }, ['provider']],
  ['locks', { scope: 'a', key: 'b', state: 'running', from: '2026-11-21', to: '2026-11-22' }, []],
  ['locks', { state: 'lost' }, ['state']],
  ['locks', { from: 'x', to: 'y' }, ['from', 'to']],
  ['locks', { from: '2026-11-22', to: '2026-11-21' }, ['to']],
  ['audit', { actor: 'ada', action: 'replays.', from: '2026-11-21T10:00' }, []],
  ['audit', { actor: 'a'.repeat(201) }, ['actor']],
  ['audit', { action: 'a'.repeat(201), to: 'never' }, ['action', 'to']],
])('filters of %s: %j has errors in the fields %j', (list, query, wrong) => {
  const fields = { events: eventFields, locks: lockFields, audit: auditFields }[list] ?? []
  expect(Object.keys(readFields(fields, query as Query).problems)).toEqual(wrong)
})

const tenantId = tenantIdFromBytes(new Uint8Array(16))
const replay = { from: '2026-11-20T10:00', state: 'delivery_failed', provider: 'shopify', rate: '200' }

test('replay form: a missing end becomes the current second, and submitting the resulting fields again gives the same values', () => {
  const asked = parseReplayForm(replay, { tenantId, nowMs })
  const filter = {
    tenantId,
    state: 'delivery_failed',
    provider: 'storefront',
    fromMs: Date.parse('2026-11-20T10:00:00Z'),
    toMs: Date.parse('2026-11-21T20:00:01Z'),
  }
  expect(asked).toEqual({ kind: 'asked', ratePerSecond: 200, filter } as typeof asked)
  if (asked.kind !== 'asked') throw new Error(asked.kind)
  const again = JSON.parse(JSON.stringify(replayFields(asked))) as Query
  expect(parseReplayForm(again, { tenantId, nowMs: nowMs + 60_000 })).toEqual(asked)
})

const override = { kind: 'amount', hard: '90000', expiresAt: '2026-11-22T20:00', reason: 'A sale' }
const start = { provider: 'card', amount: '4200', currency: 'eur', outcome: 'won', stepSeconds: '5' }
type Parsed = { readonly kind: string; readonly problems?: object }
const parsers: Readonly<Record<string, (wrong: object) => Parsed>> = {
  replay: (wrong) => parseReplayForm({ ...replay, ...wrong }, { tenantId: undefined, nowMs }),
  override: (wrong) => parseOverrideForm('recordBytes', { ...override, ...wrong }, nowMs),
  simulation: (wrong) => parseStartForm({ ...start, ...wrong }),
}

test.each([
  ['replay', 'from', ''],
  ['replay', 'to', '2026-11-20T09:00'],
  ['replay', 'state', 'accepted'],
  ['replay', 'provider', 'No body'],
  ['replay', 'rate', '0'],
  ['replay', 'rate', '1001'],
  ['replay', 'rate', 'many'],
  ['override', 'hard', '-1'],
  ['override', 'hard', '1e3'],
  ['override', 'hard', '1234567890123456'],
  ['override', 'hard', ''],
  ['override', 'expiresAt', 'tomorrow'],
  ['override', 'expiresAt', '2026-11-21T20:00'],
  ['override', 'reason', ''],
  ['override', 'reason', 'x'.repeat(501)],
  ['simulation', 'amount', '0'],
  ['simulation', 'amount', '42.00'],
  ['simulation', 'currency', 'EURO'],
  ['simulation', 'provider', 'gateway'],
  ['simulation', 'outcome', 'draw'],
  ['simulation', 'reason', 'mood'],
  ['simulation', 'stepSeconds', '86401'],
  ['simulation', 'reference', '\u0007'],
])('%s form: reports field %s as the only invalid field for %p', (form, field, value) => {
  const { kind, problems } = parsers[form]?.({ [field]: value }) ?? { kind: 'no parser' }
  expect([kind, Object.keys(problems ?? {})]).toEqual(['wrong', [field]])
})

test('override form: parses an amount, or no limit if the user chose “no limit”', () => {
  const expiresAtMs = Date.parse('2026-11-22T20:00:00Z')
  const expected = { kind: 'read', hard: 90_000, expiresAtMs, reason: 'A sale' } as const
  expect(parseOverrideForm('recordBytes', override, nowMs)).toEqual(expected)
  expect(parseOverrideForm('recordBytes', { ...override, kind: 'none', hard: '' }, nowMs)).toEqual({
    ...expected,
    hard: null,
  })
})

test('simulation form: parses the fields of the public API and omits empty fields', () => {
  const chargeback = { ...start, amount: 4200, stepSeconds: 5 }
  expect(parsers['simulation']?.({ reference: '', csrf: 'x', tenant: 'ten_1' })).toEqual({
    kind: 'read',
    chargeback,
  } as Parsed)
  expect(parsers['simulation']?.({ reference: '4711' })).toMatchObject({ chargeback: { reference: '4711' } })
})

const job = {
  id: 'rpl_1',
  ratePerSecond: 1,
  requestedBy: 'ada',
  state: 'running',
  skipped: {},
  queuedCount: 0,
  examinedTo: null,
  isWaiting: false,
  cause: null,
  startedAtMs: null,
  endedAtMs: null,
  filter: { fromMs: nowMs - 1_000, toMs: nowMs },
  total: { count: 10, isExact: true },
  createdAtMs: nowMs,
} as unknown as Parameters<typeof replayShare>[0]
const inexact = { count: 10_000, isExact: false }

test.each([
  ['nothing queued', {}, 0],
  ['events queued and skipped', { queuedCount: 3, skipped: { changed: 2 } }, 0.5],
  ['more events queued than counted', { queuedCount: 30 }, 1],
  ['an empty replay', { total: { count: 0, isExact: true } }, 0],
  ['a completed replay', { state: 'completed', total: { count: 0, isExact: true } }, 1],
  ['an inexact total, by time', { total: inexact, examinedTo: createEventId(nowMs - 500, 90) }, 0.5],
  ['an inexact total before the start', { total: inexact }, 0],
] as const)('replay progress: has the expected value for %s', (_case, fields, share) => {
  expect(replayShare({ ...job, ...fields })).toBe(share)
})

test.each([
  [{ used: null, soft: 5, hard: 10, state: null }, 'Unknown', undefined],
  [{ used: 3, soft: null, hard: null, state: 'ok' }, 'No limit', undefined],
  [{ used: 4, soft: 5, hard: 10, state: 'ok' }, 'Within limits', 0.4],
  [{ used: 5, soft: 5, hard: 10, state: 'soft' }, 'Over the soft limit', 0.5],
  [{ used: 7, soft: 5, hard: null, state: 'soft' }, 'Over the soft limit', 1.4],
  [{ used: 10, soft: 5, hard: 10, state: 'hard' }, 'At the limit', 1],
  [{ used: 0, soft: null, hard: 0, state: 'hard' }, 'At the limit', 1],
  [{ used: 3, soft: null, hard: null, state: 'overridden' }, 'Overridden', undefined],
  [{ used: 6, soft: 5, hard: 10, state: 'overridden' }, 'Overridden', 0.6],
] as const)('limit usage: %j is shown as: %s', (usage, text, share) => {
  expect(limitBadge(usage)).toMatchObject({ text, share })
})

test.each([
  [4200, 'EUR', 'EUR 42.00'],
  [4200, 'JPY', 'JPY 4,200'],
  [1234, 'KWD', 'KWD 1.234'],
  [1, 'XYZ', 'XYZ 0.01'],
])('money text: %d of the smallest unit of %s is shown as %s', (amount, currency, text) => {
  expect(moneyText(amount, currency)).toBe(text)
})

test('display text: byte amounts, counts and setting values are formatted for users', () => {
  expect(amountText('recordBytes', 2_048)).toBe('2 KiB')
  expect(amountText('locksPerMinute', 60_000)).toBe('60,000')
  const values = [null, true, 0.5, 'accept', 60_000].map(valueText)
  expect(values).toEqual(['none', 'true', '0.5', 'accept', '60,000'])
})

test('refused calls: every cause has an explanation with its own title', () => {
  const causes = [...refusalCauses, ...refusedCauses]
  expect(Object.keys(refusedCauseAdvice).toSorted()).toEqual([...causes].toSorted())
  const titles = causes.map((cause) => refusedAdviceOf(cause).title)
  expect(new Set(titles).size).toBe(causes.length)
})

test.each(Object.entries(refusedCauseAdvice))(
  'cause %s: its meaning and the next step are explained in full sentences',
  (cause, { title, means, todo }) => {
    expect(title).not.toContain('_')
    for (const text of [means, todo]) expect(text).toMatch(/^[A-Z].{10,}\.$/)
    expect(means).not.toContain(cause)
  },
)

test.each(['constructor', '__proto__', 'a_new_one'])(
  'unknown cause: %s is shown as its own name',
  (cause) => {
    const advice = refusedAdviceOf(cause)
    expect(advice.title).toBe(cause.replaceAll('_', ' '))
    expect(advice.todo).not.toBe('')
  },
)
