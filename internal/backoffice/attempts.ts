import type { Actor } from '#internal/access/index.ts'
import { forwardedOf, type PastRequest, pastRequestsOf } from '#internal/delivery/index.ts'
import type { CallTrace, HeaderLine } from '#internal/egress/index.ts'
import type { EventView } from '#internal/events/index.ts'
import type { Redactor } from '#internal/redaction/index.ts'
import type { AttemptDetail } from './http-attempt-answers.ts'

const answerCharsMax = 4_096
const signatureHeader = 'webhook-signature'

export function attemptDetails(
  redactor: Redactor,
  actor: Actor,
  view: Pick<EventView, 'event' | 'headers' | 'attempts'>,
): AttemptDetail[] {
  const requestOf = pastRequestsOf(forwardedOf(view))
  return view.attempts.map(({ exchange, ...attempt }) => ({
    ...attempt,
    answer: attempt.answer === null ? null : redactor.payload(attempt.answer, answerCharsMax).text,
    exchange: exchange && {
      ...traceOf(exchange),
      request: shownRequest(redactor, requestOf({ startedAtMs: attempt.startedAtMs, exchange })),
      response: {
        headerLines: exchange.headers.map((line) => shownHeader(redactor, line)),
        headersOmitted: exchange.headersOmitted,
        isBodyCut: exchange.isAnswerCut || (attempt.answer?.length ?? 0) > answerCharsMax,
      },
      problem: exchange.problem,
      address: actor.kind === 'tenantKey' ? undefined : exchange.address,
    },
  }))
}

function traceOf({ isReused, dnsMs, connectMs, tlsMs, firstByteMs }: CallTrace) {
  return { isReused, dnsMs, connectMs, tlsMs, firstByteMs }
}

function shownRequest(redactor: Redactor, { headers, url, ...request }: PastRequest) {
  return {
    ...request,
    url: redactor.text(url),
    headerLines: headers.map((line) => {
      const [name, value] = line
      // Not redacted: signatures are not recorded, and the value only has a placeholder for each one.
      return name === signatureHeader ? { name, value } : shownHeader(redactor, line)
    }),
  }
}

function shownHeader(redactor: Redactor, [name, value]: HeaderLine) {
  const [[shownName = '', shownValue = ''] = []] = Object.entries(redactor.headers({ [name]: value }))
  return { name: shownName, value: shownValue }
}
