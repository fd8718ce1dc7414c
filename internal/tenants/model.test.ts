import { expect, test } from 'bun:test'
import { retentionOf } from './model.ts'

const defaults = { payloadDays: 30, eventDays: 60 }

test.each([
  ['a tenant without own values', {}, { payloadDays: 30, eventDays: 60 }],
  ['both own values', { payloadDays: 5, eventDays: 9 }, { payloadDays: 5, eventDays: 9 }],
  ['own payloadDays and the default eventDays', { payloadDays: 5 }, { payloadDays: 5, eventDays: 60 }],
  ['own payloadDays above the default eventDays', { payloadDays: 80 }, { payloadDays: 80, eventDays: 80 }],
  ['own eventDays below the default payloadDays', { eventDays: 7 }, { payloadDays: 7, eventDays: 7 }],
])('retentionOf: returns the expected days for %s', (_what, own, expected) => {
  expect(retentionOf(own, defaults)).toEqual(expected)
})
