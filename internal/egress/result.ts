/**
 * Why a call brought no answer; a closed set, fit for a metric's label.
 * - `url_refused`: the URL's form is not served (scheme, credentials, port, length).
 * - `dns_failed`: the name has no address, or the resolver gave none in time.
 * - `address_refused`: the name, or the URL itself, leads to an address that this tenant may not call.
 * - `connect_failed`, `connect_timeout`: nobody accepted the connection; nothing was sent.
 * - `tls_failed`: the certificate is not valid for the name, or TLS was not agreed on; nothing was sent.
 * - `timeout`: the time given ran out before the answer was whole, or before its first 16 KiB were.
 * - `reset`: the connection ended before the answer did.
 * - `protocol_error`: what came is not HTTP/1.1, or its head is over 16 KiB.
 * - `proxy_failed`: the egress proxy could not be reached or would not connect.
 * - `aborted`: the caller's signal ended it.
 */
export type CallFailureCause =
  | 'url_refused'
  | 'dns_failed'
  | 'address_refused'
  | 'connect_failed'
  | 'connect_timeout'
  | 'tls_failed'
  | 'timeout'
  | 'reset'
  | 'protocol_error'
  | 'proxy_failed'
  | 'aborted'

/** The headers of an answer that mean something to a sender; everything else is dropped unread. */
export interface AnswerHeaders {
  /** As received: seconds or an HTTP date. */
  readonly retryAfter?: string
  /** The header `webhook-delivery`, as received. */
  readonly webhookDelivery?: string
  readonly contentType?: string
}

/** The callback answered, with any status; a redirect is an answer as well and is never followed. */
export interface CallAnswered {
  readonly kind: 'answered'
  readonly status: number
  readonly headers: AnswerHeaders
  /** The body's beginning, 16 KiB unless the call asked for more, as text; bytes that are not UTF-8 read as U+FFFD. */
  readonly answer: string
  /** The body went on beyond what `answer` holds. */
  readonly answerCut: boolean
  readonly durationMs: number
}

/** No answer came. */
export interface CallFailed {
  readonly kind: 'failed'
  readonly cause: CallFailureCause
  readonly durationMs: number
  /** A short sentence for the tenant; holds no header, no body and nothing the far side sent. */
  readonly detail: string
}

/** What came of one call. */
export type CallResult = CallAnswered | CallFailed
