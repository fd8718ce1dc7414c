import { expect, test } from 'bun:test'
import { cleanNote, EventBook, type Occurrence, seriesBounds } from './events.ts'

const regarding = { apiVersion: 'latchkey.dev/v1alpha1', kind: 'Tenant', namespace: 'shop', name: 'acme' }
const missing: Occurrence = {
  regarding,
  type: 'Warning',
  reason: 'SecretMissing',
  action: 'ReadSecret',
  note: 'Create the Secret card.',
}
const about = (name: string): Occurrence => ({ ...missing, regarding: { ...regarding, name } })
const noted = (note: string): Occurrence => ({ ...missing, note })

function book(bounds = {}) {
  let names = 0
  return new EventBook({ ...seriesBounds, ...bounds }, () => {
    names += 1
    return `event-${names}`
  })
}

test('event series: repeated occurrences become one event with a count, which is written immediately and then every 30 s', () => {
  const events = book()
  for (const nowMs of [0, 1, 2]) events.add(missing, nowMs)
  const [series] = events.due(2, 10)
  if (!series) throw new Error('nothing is due')
  expect(series).toMatchObject({ count: 3, firstAtMs: 0, lastAtMs: 2, name: 'event-1' })
  events.sent(series, 3, 2)
  events.add(missing, 10)
  expect(events.due(30_001, 10)).toEqual([])
  expect(events.due(30_001, 10, true)).toHaveLength(1)
  expect(events.due(30_002, 10)).toMatchObject([{ count: 4, sentCount: 3 }])
})

test.each<[string, Partial<Occurrence>]>([
  ['object', { regarding: { ...regarding, name: 'other' } }],
  ['life of the object', { regarding: { ...regarding, uid: '2' } }],
  ['type', { type: 'Normal' }],
  ['reason', { reason: 'Other' }],
  ['action', { action: 'Other' }],
  ['note', { note: 'other' }],
])('event series: an occurrence with another %s becomes another event', (_what, change) => {
  const events = book()
  events.add(missing, 0)
  events.add({ ...missing, ...change }, 0)
  expect(events.due(0, 10)).toHaveLength(2)
})

test('event series: a repetition after `silentMsMax` is a new event', () => {
  const events = book()
  events.add(missing, 0)
  for (const series of events.due(0, 10)) events.sent(series, 1, 0)
  events.add(missing, 600_000)
  expect(events.due(600_000, 10)).toMatchObject([{ count: 1, name: 'event-2' }])
})

test('event series: an object with `perObjectMax` events gets no further event until its earlier events have stopped occurring', () => {
  const events = book({ perObjectMax: 2 })
  for (const note of ['a', 'b', 'c', 'a']) events.add(noted(note), 0)
  events.add(about('other'), 0)
  expect(events.due(0, 10)).toHaveLength(3)
  expect(events.dropped).toBe(1)
  for (const series of events.due(0, 10)) events.sent(series, series.count, 0)
  events.add(noted('d'), 600_000)
  expect(events.due(600_000, 10)).toHaveLength(1)
  expect(events.dropped).toBe(1)
})

test('event series: beyond the maximum the least recently seen event is evicted, and its unwritten count is dropped', () => {
  const events = book({ seriesMax: 2 })
  for (const name of ['a', 'b']) events.add(about(name), 0)
  events.add(about('a'), 1)
  events.add(about('c'), 2)
  const names = events.due(2, 10).map(({ occurrence }) => occurrence.regarding.name)
  expect(names).toEqual(['a', 'c'])
  expect(events.dropped).toBe(1)
})

test('event series: an event that the server deleted is written again under a new name', () => {
  const events = book()
  events.add(missing, 0)
  const [series] = events.due(0, 10)
  if (!series) throw new Error('nothing is due')
  events.sent(series, 1, 0)
  events.lost(series)
  expect(events.due(0, 10)).toMatchObject([{ name: 'event-2', sentCount: 0 }])
})

test('event series: `due` returns at most the given number of events, new events first', () => {
  const events = book({ countEveryMs: 0 })
  events.add(about('old'), 0)
  for (const series of events.due(0, 10)) events.sent(series, 1, 0)
  events.add(about('old'), 1)
  for (const name of ['a', 'b']) events.add(about(name), 1)
  const names = events.due(1, 2).map(({ occurrence }) => occurrence.regarding.name)
  expect(names).toEqual(['a', 'b'])
})

test.each([
  ['an API key', 'key lk_0123456789abcdef is used'],
  ['a signing secret', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
  ['a bearer token', 'Authorization: Bearer abc.def'],
  ['a JWT', 'got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln'],
  ['a private key', '-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----'],
  ['a password in an address', 'postgres://latchkey:hunter2@db/latchkey'],
])('cleanNote: masks %s', (_case, note) => {
  const clean = cleanNote(note)
  expect(clean).toContain('[secret]')
  expect(clean).not.toMatch(/0123456789|MfKQ9|abc\.def|c2ln|MHcC|hunter2/)
})

test('cleanNote: keeps plain text, and cuts long text to 1 024 bytes at a character boundary', () => {
  expect(cleanNote(missing.note)).toBe(missing.note)
  const cut = cleanNote('ä'.repeat(2000))
  expect(cut).toMatch(/^ä+…$/)
  expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(1024)
  expect(Buffer.byteLength(cut)).toBeGreaterThan(1000)
})
