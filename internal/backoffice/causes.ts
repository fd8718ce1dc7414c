import type { FailedCause, NotSentCause } from '#internal/delivery/index.ts'
import { type CallFailureCause, callFailures } from '#internal/egress/index.ts'
import type { SuspendedCause } from '#internal/events/index.ts'

/** Meaning of a cause, and what the user can do. */
export interface Advice {
  readonly title: string
  readonly means: string
  readonly todo: string
}

/** Explanations of attempts without an HTTP response, by cause. */
export const attemptCauses: Readonly<Record<CallFailureCause | NotSentCause | 'payload_expired', Advice>> = {
  url_refused: {
    title: 'URL not allowed',
    means: callFailures.url_refused,
    todo: 'Change spec.callback.url of the tenant.',
  },
  dns_failed: {
    title: 'DNS lookup failed',
    means: 'The callback’s host name has no address, or the resolver did not answer in time.',
    todo: 'Check the DNS records of the host name.',
  },
  address_refused: {
    title: 'Address not allowed',
    means:
      'The callback’s host name resolves to an address that this tenant may not call, such as a private one.',
    todo: 'Use a public address, or have the platform team allow its range for this tenant.',
  },
  connect_failed: {
    title: 'Connection refused',
    means: 'The callback’s address and port refused the connection. Nothing was sent.',
    todo: 'Check that the callback runs and that its port is open.',
  },
  connect_timeout: {
    title: 'Connection timed out',
    means: `${callFailures.connect_timeout} Nothing was sent.`,
    todo: 'Check firewalls and network policies on the way, and whether the callback is overloaded.',
  },
  tls_failed: {
    title: 'TLS failed',
    means:
      'The callback’s certificate has expired, is for another name, or is signed by an untrusted authority.',
    todo: 'Renew the certificate, and serve it with its whole chain.',
  },
  timeout: {
    title: 'Response timed out',
    means: 'The callback received the request and did not respond in the allowed time.',
    todo: 'Respond first and process afterwards, or raise spec.callback.timeoutSeconds.',
  },
  reset: {
    title: 'Connection lost',
    means: `${callFailures.reset} The callback may have processed the event.`,
    todo: 'Look for restarts of the callback and for timeouts of a proxy in front of it.',
  },
  protocol_error: {
    title: 'Not HTTP/1.1',
    means: 'The response is not HTTP/1.1, or its headers exceed 16 KiB.',
    todo: 'Check that the URL’s scheme and port lead to an HTTP server.',
  },
  proxy_failed: {
    title: 'Egress proxy failed',
    means: callFailures.proxy_failed,
    todo: 'Ask the platform team to check the proxy.',
  },
  aborted: {
    title: 'Aborted by the platform',
    means: 'The forwarder was shut down during the call.',
    todo: 'No action needed unless it happens again.',
  },
  worker_lost: {
    title: 'Forwarder lost',
    means: 'Several forwarders claimed the delivery and stopped before they could record the result.',
    todo: 'Ask the platform team why forwarders stop.',
  },
  signing_unavailable: {
    title: 'No signing secret',
    means:
      'The destination has no usable signing secret, and nothing is sent unsigned; or the Secret with the URL of notifications is missing.',
    todo: 'Check the tenant’s conditions.',
  },
  internal_error: {
    title: 'Internal error',
    means: 'A bug in Latchkey prevented the delivery. Nothing was sent.',
    todo: 'Report it with the event’s id.',
  },
  payload_expired: {
    title: 'Payload expired',
    means: 'The payload’s retention ended before it could be delivered.',
    todo: 'Raise the payload retention above the length of the retry schedule: spec.retention.',
  },
}

/** Explains a response status. Returns undefined for a success status. */
export function statusAdvice(status: number): Omit<Advice, 'title'> | undefined {
  if (status >= 200 && status < 300) return undefined
  return ownAdvice[status] ?? classAdvice[Math.floor(status / 100)] ?? classAdvice[4]
}

const resumeTodo =
  'Resume the callback on the tenant’s page or with latchkey tenants resume, then replay the event.'

const ownAdvice: Readonly<Record<number, Omit<Advice, 'title'>>> = {
  400: {
    means: 'The callback rejected the request, as a receiver does if the signature is not valid.',
    todo: 'Compare the signing secret of its receiver with the Secret in spec.callback.signingSecretRef, and look in its log for the same webhook-id.',
  },
  401: {
    means: 'The callback did not accept the signature, or requires a login.',
    todo: 'Check that it verifies with the current signing secret, and that this path needs no login.',
  },
  403: {
    means: 'The callback, or a proxy in front of it, denies the request.',
    todo: 'Check its signature verification, and firewalls in front of it.',
  },
  404: {
    means: 'The callback serves nothing at this path.',
    todo: 'Check the path in spec.callback.url.',
  },
  405: {
    means: 'The callback’s path does not accept POST requests.',
    todo: 'Change the path in spec.callback.url, or let the path accept POST.',
  },
  410: {
    means: 'The callback asked for no more deliveries, so it is suspended, and the event is not retried.',
    todo: resumeTodo,
  },
  413: {
    means: 'The callback does not accept a body of this size.',
    todo: 'Raise the size limit of the callback and of its proxy.',
  },
  429: {
    means: 'The callback limits the request rate. Its Retry-After header is followed.',
    todo: 'No action needed unless it persists; then increase the callback’s capacity.',
  },
  503: {
    means: 'The callback, or its load balancer, is not ready. Its Retry-After header is followed.',
    todo: 'Check that it runs.',
  },
}

const classAdvice: Readonly<Record<number, Omit<Advice, 'title'>>> = {
  3: { means: 'Redirects are not followed.', todo: 'Set spec.callback.url to the redirect’s target.' },
  4: {
    means: 'The callback rejected the request.',
    todo: 'Look in its log for the same webhook-id, which is the event’s id.',
  },
  5: {
    means: 'The callback failed.',
    todo: 'Look for an error in its log by webhook-id, which is the event’s id.',
  },
}

/** What the callback responded before its deliveries were suspended, by the cause of the suspension. */
export const suspensionCauses: Readonly<Record<SuspendedCause, string>> = {
  gone: 'answered 410 Gone',
  disabled: 'answered webhook-delivery: disable',
}

const endCauses: Readonly<
  Record<Exclude<FailedCause, 'attempts_exhausted'>, { readonly text: string; readonly todo: string }>
> = {
  gone: {
    text: `the callback ${suspensionCauses.gone} and is suspended until it is resumed`,
    todo: resumeTodo,
  },
  disabled: {
    text: `the callback ${suspensionCauses.disabled} and is suspended until it is resumed`,
    todo: resumeTodo,
  },
  aborted: {
    text: 'the callback asked not to receive this event again (webhook-delivery: abort-message)',
    todo: 'The callback refused this event for good (webhook-delivery: abort-message). If that was wrong, repair the callback and replay the event.',
  },
  payload_expired: {
    text: 'the payload’s retention ended',
    todo: `The event cannot be delivered any more. ${attemptCauses.payload_expired.todo}`,
  },
}

/** Returns, as part of a sentence, why the delivery of an event ended before its last scheduled attempt. Undefined for any other cause. */
export function endCauseOf(cause: string): { readonly text: string; readonly todo: string } | undefined {
  return valueOf(endCauses, cause)
}

/** Explains the cause of an attempt. An unknown cause is shown as its own name. */
export function adviceOf(cause: string): Advice {
  return valueOf(attemptCauses, cause) ?? unknownCause(cause, 'The callback did not respond.')
}

/** Explains a cause that is unknown to this version. */
export function unknownCause(cause: string, means: string): Advice {
  return { title: cause.replaceAll('_', ' '), means, todo: 'Ask the platform team.' }
}

/** Reads only the table's own properties, because causes are external input and can be names such as `constructor`. */
export function valueOf<Value>(table: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}
