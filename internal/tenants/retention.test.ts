import { expect, test } from 'bun:test'
import { retentionOf } from './model.ts'

const defaults = { payloadDays: 30, eventDays: 60 }

test.each([
  ['without own values the defaults', {}, { payloadDays: 30, eventDays: 60 }],
  ['both own values', { payloadDays: 5, eventDays: 9 }, { payloadDays: 5, eventDays: 9 }],
  ['own payloadDays with the default of events', { payloadDays: 5 }, { payloadDays: 5, eventDays: 60 }],
  [
    'own payloadDays over the default of events extend the events',
    { payloadDays: 80 },
    { payloadDays: 80, eventDays: 80 },
  ],
  [
    'own eventDays under the default of payloads shorten the payloads',
    { eventDays: 7 },
    { payloadDays: 7, eventDays: 7 },
  ],
])('retentionOf: %s', (_what, own, expected) => {
  expect(retentionOf(own, defaults)).toEqual(expected)
})
