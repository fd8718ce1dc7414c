import type { FailedCause, NotSentCause } from '#internal/delivery/index.ts'
import type { CallFailureCause } from '#internal/egress/index.ts'

/** What a cause means, and what to do about it. */
export interface Advice {
  readonly title: string
  /** What happened, for whoever does not know the word. */
  readonly means: string
  readonly todo: string
}

/** Why an attempt brought no answer. */
export const attemptCauses: Readonly<Record<CallFailureCause | NotSentCause | 'payload_expired', Advice>> = {
  url_refused: {
    title: 'URL not served',
    means: 'The callback’s URL has a scheme, port or form that is not called.',
    todo: 'Change spec.callback.url of the tenant.',
  },
  dns_failed: {
    title: 'Name not found',
    means: 'The callback’s host name has no address, or the resolver did not answer in time.',
    todo: 'Check the name’s DNS records.',
  },
  address_refused: {
    title: 'Address not allowed',
    means: 'The callback’s name leads to an address that this tenant may not call, such as a private one.',
    todo: 'Use a public address, or have the platform team allow its range for this tenant.',
  },
  connect_failed: {
    title: 'Connection refused',
    means: 'Nobody listens at the callback’s address and port. Nothing was sent.',
    todo: 'Check that the callback runs and that its port is open.',
  },
  connect_timeout: {
    title: 'No connection in time',
    means: 'The callback did not accept the connection in time. Nothing was sent.',
    todo: 'Check firewalls and network policies on the way, and whether the callback is overloaded.',
  },
  tls_failed: {
    title: 'TLS failed',
    means:
      'The callback’s certificate has ended, is for another name, or is signed by nobody who is trusted.',
    todo: 'Renew the certificate, and serve it with its whole chain.',
  },
  timeout: {
    title: 'No answer in time',
    means: 'The callback took the call and did not answer within its time-out.',
    todo: 'Answer first and work afterwards, or raise spec.callback.timeoutSeconds.',
  },
  reset: {
    title: 'Connection lost',
    means: 'The connection ended before the answer was whole. The callback may have done its work.',
    todo: 'Look for restarts and for time-outs of a proxy before the callback.',
  },
  protocol_error: {
    title: 'Not HTTP/1.1',
    means: 'What came back is not HTTP/1.1, or its head is over 16 KiB.',
    todo: 'Check that the URL’s scheme and port lead to an HTTP server.',
  },
  proxy_failed: {
    title: 'Egress proxy failed',
    means: 'The platform’s own proxy could not be reached or would not connect.',
    todo: 'The platform team has to look at the proxy; the schedule goes on.',
  },
  aborted: {
    title: 'Ended by the platform',
    means: 'The process that was calling was shut down.',
    todo: 'Nothing: it is tried again.',
  },
  worker_lost: {
    title: 'No process came back',
    means: 'Several processes took the delivery and ended before they could say how it went.',
    todo: 'The platform team should look at why forwarders end.',
  },
  signing_unavailable: {
    title: 'Could not be signed',
    means: 'The callback has no usable signing secret, and nothing is sent unsigned.',
    todo: 'Check the tenant’s conditions.',
  },
  internal_error: {
    title: 'Broke on our side',
    means: 'The delivery could not be made because of a mistake of ours. Nothing was sent.',
    todo: 'Report it with the event’s id; the schedule goes on.',
  },
  payload_expired: {
    title: 'Payload gone',
    means: 'The payload’s days were over before it could be delivered.',
    todo: 'Keep payloads for longer than the schedule takes: spec.retention.',
  },
}

/** What an answer's status says about the callback; undefined for success. Pure. */
export function statusAdvice(status: number): Pick<Advice, 'means' | 'todo'> | undefined {
  if (status >= 200 && status < 300) return undefined
  return ownAdvice[status] ?? kindAdvice[Math.floor(status / 100)] ?? kindAdvice[4]
}

const ownAdvice: Readonly<Record<number, Pick<Advice, 'means' | 'todo'>>> = {
  401: {
    means: 'The callback did not accept the signature, or asks for a login.',
    todo: 'Check that it verifies with the signing secret that is in force, and leaves this path without a login.',
  },
  403: {
    means: 'The callback, or something before it, does not let the call in.',
    todo: 'Check its signature check, and firewalls before it.',
  },
  404: {
    means: 'The callback has nothing at this path.',
    todo: 'Check the path in spec.callback.url.',
  },
  405: { means: 'The callback’s path takes no POST.', todo: 'Have it accept POST.' },
  410: {
    means: 'The callback asks not to be called any more: it is suspended, and the event ends.',
    todo: 'Resume the callback on the tenant’s page, then replay.',
  },
  413: {
    means: 'The callback takes no body of this size.',
    todo: 'Raise the size that it and its proxy accept.',
  },
  429: {
    means: 'The callback is asked too much at a time. What it says in Retry-After is kept to.',
    todo: 'Nothing, unless it goes on: then raise what it can take.',
  },
  503: {
    means: 'The callback, or the balancer before it, is not ready. What it says in Retry-After is kept to.',
    todo: 'Check that it runs.',
  },
}

const kindAdvice: Readonly<Record<number, Pick<Advice, 'means' | 'todo'>>> = {
  3: { means: 'Redirects are not followed.', todo: 'Enter the URL that it leads to as spec.callback.url.' },
  4: {
    means: 'The callback refused the call.',
    todo: 'Read its answer, and its log for the same webhook-id.',
  },
  5: {
    means: 'The callback failed on its side.',
    todo: 'Look for an error in its log, by webhook-id: it is the event’s id.',
  },
}

/** Why an event ended undelivered, where its last attempt says it. */
export const endCauses: Readonly<Record<FailedCause, string>> = {
  attempts_exhausted: 'All attempts of the schedule were made.',
  gone: 'The callback answered 410 Gone: it is suspended until it is resumed.',
  disabled:
    'The callback asked to be left alone (webhook-delivery: disable): it is suspended until it is resumed.',
  aborted: 'The callback asked not to be sent this event any more (webhook-delivery: abort-message).',
  payload_expired: 'The payload’s days were over.',
}

/** Why an event ended, by the cause of its last attempt; undefined where that says only how the attempt went. Pure. */
export function endCauseOf(cause: string | null): string | undefined {
  const known: Readonly<Record<string, string>> = endCauses
  return cause !== null && Object.hasOwn(known, cause) ? known[cause] : undefined
}

/** What is known about a cause; one that is new is shown by its word. Pure. */
export function adviceOf(cause: string): Advice {
  const known: Readonly<Record<string, Advice>> = attemptCauses
  return Object.hasOwn(known, cause) && known[cause]
    ? known[cause]
    : { title: cause.replaceAll('_', ' '), means: 'No answer came.', todo: 'Ask the platform team.' }
}
