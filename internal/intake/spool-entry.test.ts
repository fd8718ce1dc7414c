import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { EventOrigin, ReceivedEvent } from '#internal/events/index.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { decodeEntry, encodeEvent } from './spool.ts'

/** An entry as Redis gives it back. */
function entryOf(values: readonly [string, string, string, string]): unknown {
  const [id, facts, payload, tenant] = values
  return ['1-0', ['id', id, 'facts', facts, 'payload', payload, 'tenant', tenant]]
}

const encodedWith = (fields: Record<string, unknown>) => {
  const [id, facts, payload, tenant] = encodeEvent(receivedEvent())
  return entryOf([id, JSON.stringify({ ...JSON.parse(facts), ...fields }), payload, tenant])
}

describe('spool encoding', () => {
  test('spool entry: encoding and decoding restores an event with any text', () => {
    const text = fc.string({ unit: 'grapheme' })
    fc.assert(
      fc.property(text, text, text, (payload, headers, sourceEventId) => {
        const event = receivedEvent({ payload, headers, sourceEventId, state: 'verified' })
        expect(decodeEntry(entryOf(encodeEvent(event)))).toEqual({
          entryId: '1-0',
          eventId: event.id,
          event,
        })
      }),
    )
  })

  test.each<EventOrigin>([
    { kind: 'provider' },
    { kind: 'service', actor: 'user:ada' },
    { kind: 'simulation', simulationId: 'sim_06gzx3byyxdccqxb8v47jbp37g' },
    { kind: 'test', actor: 'user:ada' },
  ])('spool entry: an event with origin $kind keeps its origin', (origin) => {
    const event = receivedEvent({ origin })
    expect(decodeEntry(entryOf(encodeEvent(event))).event).toEqual(event)
  })

  test('spool entry: the origin of an event is omitted if the event is a provider’s call', () => {
    const facts = JSON.parse(encodeEvent(receivedEvent())[1]) as object
    expect(Object.keys(facts)).not.toContain('origin')
    expect(decodeEntry(encodedWith({})).event?.origin).toEqual({ kind: 'provider' })
  })

  test('spool entry: contains the payload without escaping', () => {
    const event = receivedEvent({ payload: '{"a": 820982911946154508, "b":"ä\\u0000"}' })
    expect(encodeEvent(event)[2]).toBe(event.payload)
  })
})

describe('unreadable spool entries', () => {
  test.each<readonly [string, Partial<Record<keyof ReceivedEvent, unknown>>]>([
    ['without a dedupe key', { dedupeKey: undefined }],
    ['with a malformed dedupe key', { dedupeKey: 'x'.repeat(32) }],
    ['with a malformed tenant id', { tenantId: 'ten_1' }],
    ['with a name that no provider can have', { provider: 'Letters' }],
    ['with a time that is text', { receivedAtMs: '1' }],
    ['with a time outside the range of dates', { occurredAtMs: 8.64e15 }],
    ['with a fractional time', { occurredAtMs: 0.5 }],
    ['with an invalid day', { expiresOn: '2026-13-01' }],
    ['with an unknown state', { state: 'processed' }],
    ['without headers', { headers: null }],
    ['with an unknown origin', { origin: { kind: 'letter', actor: 'user:ada' } }],
    ['with an origin without its actor', { origin: { kind: 'service' } }],
    ['with an origin that is text', { origin: 'service' }],
  ])('spool entry: an entry %s is unreadable', (_name, fields) => {
    expect(decodeEntry(encodedWith(fields)).event).toBeUndefined()
    expect(decodeEntry(encodedWith({})).event).toBeDefined()
  })

  test.each([
    ['without fields', []],
    ['with facts that are not JSON', ['id', receivedEvent().id, 'facts', '{', 'payload', '{}']],
    ['with facts that are null', ['id', receivedEvent().id, 'facts', 'null', 'payload', '{}']],
    ['with a malformed id', ['id', 'evt_1', ...encodeEntryTail()]],
    ['without a payload', ['id', receivedEvent().id, ...encodeEntryTail().slice(0, 2)]],
    ['with a value that looks like a name', ['x', 'id', 'y', 'facts', 'z', 'payload']],
  ])('spool entry: an entry %s is unreadable', (_name, fields) => {
    expect(decodeEntry(['1-0', fields])).toMatchObject({ entryId: '1-0', event: undefined })
  })
})

function encodeEntryTail(): string[] {
  const [, facts, payload] = encodeEvent(receivedEvent())
  return ['facts', facts, 'payload', payload]
}
