import { hopsHeader, shownAttemptsMax } from '#internal/events/index.ts'
import { shownCharsMax } from '#internal/redaction/index.ts'
import { EventSummary } from './http-event-answers.ts'
import {
  answer,
  described,
  flag,
  headers,
  listOf,
  objectOf,
  orNull,
  text,
  time,
  unshown,
  type ValueOf,
  whole,
  wordOf,
} from './http-schemas.ts'

const header = objectOf({ name: text('content-type'), value: text('application/json') })

const request = objectOf({
  method: text('POST'),
  url: text('https://shop.example.com/hooks'),
  headerLines: described('In the order in which they were sent; signatures are redacted.', listOf(header)),
  bodyBytes: described('Length of the body, which is the event as its callback receives it.', whole(1_530)),
})

const response = objectOf({
  headerLines: described(
    'In the order in which they came, repeated ones too: at most 32 with 4 096 characters together.',
    listOf(objectOf({ name: text('server'), value: text('nginx') })),
  ),
  headersOmitted: described('Number of further headers, which were not recorded.', whole(0)),
  isBodyCut: described('Whether the body is longer than `answer`.', flag(false)),
})

const trace = {
  dnsMs: described(
    'Resolving the name; near 0 if it was cached. Absent for a URL with an address.',
    whole(0),
  ),
  connectMs: described('Opening the connection, with the addresses tried before.', whole(1)),
  tlsMs: described('TLS handshake.', whole(6)),
  firstByteMs: described('From sending the request to the first byte of the response.', whole(23)),
}

/** Present in the internal API only: tenants could resolve internal names through Latchkey. */
const address = described('IP address that was called. Absent for API keys.', text('203.0.113.17'))

function attemptAnswer(isForOperators: boolean) {
  return objectOf(
    {
      cycle: whole(1),
      attempt: whole(1),
      startedAt: time('2026-11-21T08:40:01.000Z'),
      durationMs: whole(31),
      outcome: wordOf(['delivered', 'refused', 'failed'], 'failed'),
      status: orNull(whole(500)),
      cause: orNull(text(null)),
      answer: described('First 4 096 characters, redacted.', orNull(text('out of stock'))),
    },
    {
      exchange: described(
        'Request, response and timing, redacted. Absent if no call was made, and for attempts of versions that did not record it. A step that did not happen, or did not end, is absent.',
        objectOf(
          {
            request,
            response,
            isReused: described('Whether the connection was opened by an earlier call.', flag(false)),
          },
          {
            ...trace,
            problem: described('Why there is no response.', unshown(text())),
            ...(isForOperators && { address }),
          },
        ),
      ),
    },
  )
}

const redacted = { text: text('{"id":"evt_1Pq0","email":"[redacted: e-mail]"}'), isCut: flag(false) }

function eventDetail(isForOperators: boolean) {
  const attempts = listOf(attemptAnswer(isForOperators))
  return answer(
    'EventDetail',
    objectOf(
      {
        event: EventSummary,
        hasEarlierAttempts: flag(false),
        headers: headers({ 'content-type': 'application/json', [hopsHeader]: '1' }),
        attempts: described(`Latest ${shownAttemptsMax} attempts, oldest first.`, attempts),
      },
      {
        redactedPayload: described(
          `The first ${shownCharsMax.toLocaleString('en')} characters of the payload, redacted. Absent after the payload has expired.`,
          objectOf(redacted),
        ),
        delivery: described(
          'Place in the queue while a delivery cycle is in progress.',
          unshown(objectOf({ dueAt: time(), isClaimed: flag(), attemptCount: whole() })),
        ),
      },
    ),
  )
}
/** Event with its attempts, by API. */
export const EventDetail = { backoffice: eventDetail(true), public: eventDetail(false) }
/** Event with its attempts for operators. Secrets are redacted. */
export type EventDetail = ValueOf<typeof EventDetail.backoffice>
/** Attempt with its request and response. Secrets are redacted. */
export type AttemptDetail = EventDetail['attempts'][number]
/** Request, response and timing of an attempt without the bodies. Secrets are redacted. */
export type ShownExchange = NonNullable<AttemptDetail['exchange']>
