import type { FailedCause, NotSentCause } from '#internal/delivery/index.ts'
import type { CallFailureCause } from '#internal/egress/index.ts'
import type { RefusedCause } from '#internal/intake/index.ts'

/** Explains a cause: what happened, and what the user can do. */
export interface Advice {
  readonly title: string
  readonly means: string
  readonly todo: string
}

/** Explanations of delivery attempts that got no HTTP response, by cause. */
export const attemptCauses: Readonly<Record<CallFailureCause | NotSentCause | 'payload_expired', Advice>> = {
  url_refused: {
    title: 'URL not allowed',
    means: 'The callback’s URL has a scheme, port or form that is not allowed.',
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
    means: 'The callback did not accept the connection in time. Nothing was sent.',
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
    means:
      'The connection ended before the response was complete. The callback may have processed the event.',
    todo: 'Look for restarts of the callback and for timeouts of a proxy in front of it.',
  },
  protocol_error: {
    title: 'Not HTTP/1.1',
    means: 'The response is not HTTP/1.1, or its headers exceed 16 KiB.',
    todo: 'Check that the URL’s scheme and port lead to an HTTP server.',
  },
  proxy_failed: {
    title: 'Egress proxy failed',
    means: 'The platform’s egress proxy could not be reached or refused to connect.',
    todo: 'The platform team has to check the proxy. The delivery is retried.',
  },
  aborted: {
    title: 'Aborted by the platform',
    means: 'The forwarder was shut down during the call.',
    todo: 'Nothing: the delivery is retried.',
  },
  worker_lost: {
    title: 'Forwarder lost',
    means: 'Several forwarders took the delivery and ended before they could record the result.',
    todo: 'The platform team should check why forwarders end.',
  },
  signing_unavailable: {
    title: 'No signing secret',
    means: 'The callback has no usable signing secret, and nothing is sent unsigned.',
    todo: 'Check the tenant’s conditions.',
  },
  internal_error: {
    title: 'Internal error',
    means: 'A bug in Latchkey prevented the delivery. Nothing was sent.',
    todo: 'Report it with the event’s id. The delivery is retried.',
  },
  payload_expired: {
    title: 'Payload expired',
    means: 'The payload’s retention ended before it could be delivered.',
    todo: 'Raise the payload retention above the length of the retry schedule: spec.retention.',
  },
}

/** Explains a response status. Returns undefined for a success status. Pure. */
export function statusAdvice(status: number): Omit<Advice, 'title'> | undefined {
  if (status >= 200 && status < 300) return undefined
  return ownAdvice[status] ?? classAdvice[Math.floor(status / 100)] ?? classAdvice[4]
}

const ownAdvice: Readonly<Record<number, Omit<Advice, 'title'>>> = {
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
  405: { means: 'The callback’s path does not accept POST.', todo: 'Have it accept POST.' },
  410: {
    means: 'The callback asks for no more deliveries: it is suspended, and the event has ended.',
    todo: 'Resume the callback on the tenant’s page, then replay the event.',
  },
  413: {
    means: 'The callback does not accept a body of this size.',
    todo: 'Raise the size limit of the callback and of its proxy.',
  },
  429: {
    means: 'The callback limits the request rate. Its Retry-After header is followed.',
    todo: 'Nothing, unless it persists: then raise the callback’s capacity.',
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
    todo: 'Read its response, and its log for the same webhook-id.',
  },
  5: {
    means: 'The callback failed.',
    todo: 'Look for an error in its log by webhook-id, which is the event’s id.',
  },
}

const endCauses: Readonly<Record<FailedCause, string>> = {
  attempts_exhausted: 'All attempts of the retry schedule were made.',
  gone: 'The callback answered 410 Gone and is suspended until it is resumed.',
  disabled: 'The callback answered webhook-delivery: disable and is suspended until it is resumed.',
  aborted: 'The callback asked not to receive this event again (webhook-delivery: abort-message).',
  payload_expired: 'The payload’s retention ended.',
}

/** Explains why an event ended without delivery. Returns undefined for a cause that describes only the last attempt. Pure. */
export function endCauseOf(cause: string | null): string | undefined {
  return cause === null ? undefined : valueOf(endCauses, cause)
}

/** Explanations of refused provider calls, by cause. */
export const refusedCauseAdvice: Readonly<Record<RefusedCause, Advice>> = {
  signature_missing: {
    title: 'No signature',
    means: 'The call has no signature header, so that its sender is unknown.',
    todo: 'Check that the webhook at the provider has a signing secret. Calls of scanners look like this, too, and can be ignored.',
  },
  signature_malformed: {
    title: 'Signature malformed',
    means: 'The signature header does not have the provider’s format.',
    todo: 'Check that the provider is configured with its own URL, and that no proxy rewrites headers.',
  },
  signature_mismatch: {
    title: 'Signature wrong',
    means: 'The signature does not match the body under any current secret.',
    todo: 'Copy the signing secret from the provider into the tenant’s Secret again. After a rotation keep the old secret beside it for a while.',
  },
  timestamp_outside_window: {
    title: 'Timestamp out of range',
    means: 'The signed time is too far from now: an old call was replayed, or a clock is wrong.',
    todo: 'Have the provider send the event again. If all calls are refused like this, check clocks.',
  },
  scheme_unknown: {
    title: 'Signature scheme unknown',
    means: 'The call is signed with an unsupported algorithm or version.',
    todo: 'Set the webhook at the provider to the version that the tenant’s page names.',
  },
  headers_conflict: {
    title: 'Headers contradict each other',
    means:
      'Two headers give different values for the same thing, or an unsigned header names another event id than the signed body.',
    todo: 'Look for a proxy that adds headers. A custom sender has to use one id in header and body. Otherwise treat the call as forged.',
  },
  shop_mismatch: {
    title: 'Another shop',
    means: 'The call is signed, but for another shop than the tenant’s.',
    todo: 'Correct storefront.shopDomain in the tenant’s spec, or remove the webhook from the other shop.',
  },
  certificate_url_refused: {
    title: 'Certificate URL not allowed',
    means: 'The call names a certificate at an address that is not the provider’s. It was not fetched.',
    todo: 'Treat the call as forged. If the provider has moved its certificates, notify the platform team.',
  },
  certificate_not_found: {
    title: 'Certificate does not exist',
    means: 'The call names a certificate that the provider’s server does not have (404 or 410).',
    todo: 'Treat the call as forged, unless all calls of the provider are refused like this: then notify the platform team.',
  },
  certificate_untrusted: {
    title: 'Certificate not trusted',
    means: 'The certificate is not signed by a trusted authority.',
    todo: 'Treat the call as forged, unless all calls of the provider are refused like this: then notify the platform team.',
  },
  certificate_weak: {
    title: 'Certificate too weak',
    means: 'The certificate’s key or algorithm is weaker than the accepted minimum.',
    todo: 'Notify the provider; the platform team decides.',
  },
  certificate_subject_mismatch: {
    title: 'Certificate of another subject',
    means: 'The certificate is valid, but not that of the provider’s webhooks.',
    todo: 'Check that the tenant’s environment, live or sandbox, is that of the webhook. Otherwise treat the call as forged.',
  },
  certificate_outside_dates: {
    title: 'Certificate expired',
    means: 'The certificate is not valid yet, or has expired.',
    todo: 'The provider has to renew it; check the cluster’s clocks, too.',
  },
  body_not_json: {
    title: 'Body is not JSON',
    means: 'The signature is valid, but the body is not a JSON object.',
    todo: 'Set the webhook at the provider to send JSON.',
  },
  body_too_deep: {
    title: 'Body nested too deeply',
    means: 'The signature is valid, but the JSON nests more than 256 levels deep.',
    todo: 'Have the sender flatten the payload, or send the nested part as text.',
  },
  body_ambiguous: {
    title: 'Body repeats a name',
    means: 'A name occurs twice at the top level of the JSON, and parsers disagree about which value counts.',
    todo: 'Have the sender write each name once.',
  },
  event_id_missing: {
    title: 'No event id',
    means: 'The call has no event id, so that repeats cannot be recognised.',
    todo: 'Have the sender give each event an id, in the header or member that the tenant’s page names.',
  },
  event_id_malformed: {
    title: 'Event id malformed',
    means: 'The event’s id is longer than 255 characters, or has control characters.',
    todo: 'Have the sender use a plain, shorter id.',
  },
  event_type_malformed: {
    title: 'Event type malformed',
    means: 'The event’s type is longer than 255 characters, or has control characters.',
    todo: 'Have the sender use a plain, shorter type.',
  },
  tenant_suspended: {
    title: 'Tenant suspended',
    means: 'The tenant is suspended and accepts no calls.',
    todo: 'Set spec.suspended to false to resume. Providers retry refused calls for a time.',
  },
  provider_not_configured: {
    title: 'Provider not configured',
    means: 'The tenant’s spec does not name this provider.',
    todo: 'Add it to spec.providers with its secret, or remove the webhook at the provider.',
  },
  provider_not_enabled: {
    title: 'Provider not enabled',
    means: 'The provider is in the tenant’s spec, but not enabled.',
    todo: 'Enable it in the tenant’s spec (a wallet by its stage), or remove the webhook at the provider.',
  },
  secrets_missing: {
    title: 'Secret missing',
    means: 'The provider has no current signing secret, so that no call can be verified.',
    todo: 'See the tenant’s conditions: the Secret may be missing, or lack the named key.',
  },
  secrets_unreadable: {
    title: 'Secrets unreadable',
    means:
      'The platform’s key ring cannot decrypt the provider’s signing secrets. The provider was asked to retry.',
    todo: 'Nothing for the tenant: the platform team has to correct the key ring. Providers retry.',
  },
  loop_detected: {
    title: 'Forwarding loop',
    means: 'The event was forwarded five times already: the callback sends events back to Latchkey.',
    todo: 'Correct the callback’s URL, or its handling of events.',
  },
  provider_paused: {
    title: 'Provider paused',
    means: 'The platform has paused this provider. The provider was asked to retry.',
    todo: 'Nothing: the provider retries. The pause is a runtime setting.',
  },
  certificate_unavailable: {
    title: 'Certificate unavailable',
    means: 'The provider’s certificate could not be fetched. The provider was asked to retry.',
    todo: 'Nothing for a single call. If it persists, the platform team should check egress to the provider.',
  },
  events_per_minute: {
    title: 'Events per minute exceeded',
    means: 'The tenant’s limit of events per minute was reached. The provider was asked to retry.',
    todo: 'Nothing for a short peak: providers retry. Otherwise raise the limit, or override it for a time.',
  },
  events_per_month: {
    title: 'Events per month exceeded',
    means: 'The tenant’s limit of events per month is used up.',
    todo: 'Raise the limit, or override it for a time: see its usage.',
  },
}

/** Explains the cause of an attempt. An unknown cause is shown as its own name. Pure. */
export function adviceOf(cause: string): Advice {
  return valueOf(attemptCauses, cause) ?? unknownCause(cause, 'The callback did not respond.')
}

/** Explains the cause of a refused call. An unknown cause is shown as its own name. Pure. */
export function refusedAdviceOf(cause: string): Advice {
  return valueOf(refusedCauseAdvice, cause) ?? unknownCause(cause, 'The call was refused.')
}

function unknownCause(cause: string, means: string): Advice {
  return { title: cause.replaceAll('_', ' '), means, todo: 'Ask the platform team.' }
}

/** Reads only the table's own properties, because causes are external input and can be names such as `constructor`. */
function valueOf<Value>(table: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}
