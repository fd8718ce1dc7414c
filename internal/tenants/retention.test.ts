import { expect, test } from 'bun:test'
import { retentionOf } from './retention.ts'

const defaults = { payloadDays: 30, eventDays: 60 }

test.each([
  ['nothing said has the defaults', {}, { payloadDays: 30, eventDays: 60 }],
  ['both said are as they were said', { payloadDays: 5, eventDays: 9 }, { payloadDays: 5, eventDays: 9 }],
  ['payloads alone keep the default of events', { payloadDays: 5 }, { payloadDays: 5, eventDays: 60 }],
  [
    'payloads longer than events by default keep events as long',
    { payloadDays: 80 },
    { payloadDays: 80, eventDays: 80 },
  ],
  [
    'events shorter than payloads by default end payloads with them',
    { eventDays: 7 },
    { payloadDays: 7, eventDays: 7 },
  ],
])('%s', (_what, own, expected) => {
  expect(retentionOf(own, defaults)).toEqual(expected)
})
