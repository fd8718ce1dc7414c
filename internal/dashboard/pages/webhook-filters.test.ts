import { describe, expect, test } from 'bun:test'
import { createEventId, tenantIdFromBytes } from '#internal/base/index.ts'
import { type EventSearch, parseEventSearch } from './event-search.ts'
import { parseReplayForm, replayFields } from './replay-filter.ts'
import { replayShare } from './replay-progress.tsx'

const nowMs = Date.parse('2026-11-21T20:00:00.500Z')
const id = createEventId(nowMs, 90)

describe('the filters of events', () => {
  test.each([
    ['nothing', {}, {}],
    ['a state', { state: 'delivery_failed' }, { state: 'delivery_failed' }],
    ['an id of ours', { find: id }, { id }],
    [
      'a vendor’s id',
      { find: 'evt_1S2820b0dddc874ae4beabfc' },
      { sourceEventId: 'evt_1S2820b0dddc874ae4beabfc' },
    ],
    ['the last hour', { within: '1h' }, { fromMs: nowMs - 3_600_000 }],
    [
      'a day',
      { from: '2026-11-20', to: '2026-11-21' },
      { fromMs: Date.parse('2026-11-20T00:00:00Z'), toMs: Date.parse('2026-11-21T00:00:00Z') },
    ],
    [
      'a time before a length of time',
      { within: '1h', from: '2026-11-20T10:00' },
      { fromMs: Date.parse('2026-11-20T10:00:00Z') },
    ],
    [
      'a provider and a type',
      { provider: 'stripe', type: 'payment.succeeded' },
      { provider: 'stripe', type: 'payment.succeeded' },
    ],
    ['what is none of them', { colour: 'red' }, {}],
  ])('read %s', (_what, query, request) => {
    const expected = { request, problems: {} } as EventSearch
    expect(parseEventSearch(query as Record<string, string>, nowMs)).toEqual(expected)
  })

  test.each([
    ['state', { state: 'lost' }],
    ['within', { within: '2y' }],
    ['from', { from: 'yesterday' }],
    ['to', { to: '2026-02-30' }],
    ['to', { from: '2026-11-21', to: '2026-11-21' }],
    ['find', { find: 'x'.repeat(256) }],
  ])('say what is wrong with %s: %p', (field, query) => {
    expect(Object.keys(parseEventSearch(query as Record<string, string>, nowMs).problems)).toEqual([field])
  })
})

describe('the form of a replay', () => {
  const tenantId = tenantIdFromBytes(new Uint8Array(16))
  const given = { from: '2026-11-20T10:00', state: 'delivery_failed', provider: 'shopify', rate: '200' }

  test('ends with this second where no end is given, and asks for the same when it is sent once more', () => {
    const asked = parseReplayForm(given, { tenantId, nowMs })
    const filter = {
      ...{ tenantId, state: 'delivery_failed', provider: 'storefront' },
      ...{ fromMs: Date.parse('2026-11-20T10:00:00Z'), toMs: Date.parse('2026-11-21T20:00:01Z') },
    }
    expect(asked).toEqual({ kind: 'asked', ratePerSecond: 200, filter } as typeof asked)
    if (asked.kind !== 'asked') throw new Error(asked.kind)
    const again = Object.entries(replayFields(asked)).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    )
    expect(parseReplayForm(Object.fromEntries(again), { tenantId, nowMs: nowMs + 60_000 })).toEqual(asked)
  })

  test.each([
    ['from', { from: '' }],
    ['to', { to: '2026-11-20T09:00' }],
    ['state', { state: 'accepted' }],
    ['provider', { provider: 'nobody' }],
    ['rate', { rate: '0' }],
    ['rate', { rate: '1001' }],
    ['rate', { rate: 'many' }],
  ])('says what is wrong with %s: %p', (field, wrong) => {
    const asked = parseReplayForm({ ...given, ...wrong }, { tenantId: undefined, nowMs })
    expect(asked.kind === 'wrong' && Object.keys(asked.problems)).toEqual([field])
  })
})

describe('how far a replay is', () => {
  const job = {
    ...{ id: 'rpl_1', ratePerSecond: 1, requestedBy: 'ada', state: 'running', skipped: {}, queuedCount: 0 },
    ...{ examinedTo: null, isWaiting: false, failedCause: null, startedAtMs: null, endedAtMs: null },
    filter: { fromMs: nowMs - 1_000, toMs: nowMs },
    total: { count: 10, isExact: true },
    createdAtMs: nowMs,
  } as unknown as Parameters<typeof replayShare>[0]

  test.each([
    ['nothing yet', {}, 0],
    ['by events that were queued or left out', { queuedCount: 3, skipped: { changed: 2 } }, 0.5],
    ['never more than all', { queuedCount: 30 }, 1],
    ['of nothing', { total: { count: 0, isExact: true } }, 0],
    ['at its end', { state: 'completed', total: { count: 0, isExact: true } }, 1],
    [
      'by time where nobody counted',
      { total: { count: 10_000, isExact: false }, examinedTo: createEventId(nowMs - 500, 90) },
      0.5,
    ],
    ['nothing of what nobody counted', { total: { count: 10_000, isExact: false } }, 0],
  ] as const)('%s', (_what, fields, share) => {
    expect(replayShare({ ...job, ...fields })).toBe(share)
  })
})
