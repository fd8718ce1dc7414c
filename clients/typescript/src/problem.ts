import { encodeText } from './bytes.ts'
import type { CapturedResponse } from './stored-response.ts'

/** Error of the middleware. */
export type ProblemCode = keyof typeof problems

const problems = {
  idempotency_key_missing: [400, 'Idempotency-Key is missing', 'Send a new key for each operation.'],
  idempotency_key_malformed: [
    400,
    'Idempotency-Key is malformed',
    'Send one structured-field string (RFC 9651) of 1 to 200 characters, such as "8e03978e-40d5-43e8-bc93-6894a57f9324" with its quotation marks.',
  ],
  idempotency_request_too_large: [413, 'Request is too large', 'The body is too large for this operation.'],
  idempotency_key_reused: [
    422,
    'Idempotency-Key was used for another request',
    'Send a new key for a new request, or repeat the first request unchanged.',
  ],
  idempotency_key_in_use: [
    409,
    'A request with this Idempotency-Key is being processed',
    'Repeat the request later to get its response.',
  ],
  idempotency_outcome_unknown: [
    409,
    'The outcome of an earlier request with this Idempotency-Key is unknown',
    'An earlier attempt ended without a response, and may have taken effect. Find out whether it did before you send a new key.',
  ],
  idempotency_response_not_kept: [
    409,
    'The response to this Idempotency-Key was not kept',
    'The request was processed, but its response was too large to keep. It is not processed again.',
  ],
  idempotency_unavailable: [
    503,
    'Idempotency cannot be guaranteed now',
    'The request was not processed. Repeat it later with the same key.',
  ],
} as const

/** Returns the error as `application/problem+json` (RFC 9457). */
export function problemResponse(
  code: ProblemCode,
  { detail = '', retryAfterMs }: { readonly detail?: string; readonly retryAfterMs?: number } = {},
): CapturedResponse & { readonly body: Uint8Array } {
  const [status, title, advice] = problems[code]
  const type = `https://latchkey.dev/problems/${code.replaceAll('_', '-')}`
  const problem = { type, title, status, detail: detail === '' ? advice : `${advice} ${detail}`, code }
  const retryAfter = retryAfterMs === undefined ? undefined : Math.max(1, Math.ceil(retryAfterMs / 1000))
  return {
    status,
    headers: {
      'content-type': 'application/problem+json',
      ...(retryAfter !== undefined && { 'retry-after': String(retryAfter) }),
    },
    body: encodeText(JSON.stringify(problem)),
  }
}
