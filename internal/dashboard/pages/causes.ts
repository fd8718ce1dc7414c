import { type Advice, unknownCause, valueOf } from '#internal/backoffice/index.ts'
import type { RefusedCause } from '#internal/intake/index.ts'

/** Explanations of refused provider calls, by cause. */
export const refusedCauseAdvice: Readonly<Record<RefusedCause, Advice>> = {
  signature_missing: {
    title: 'No signature',
    means: 'The call has no signature header, so its sender is unknown.',
    todo: 'Check that the webhook has a signing secret at the provider. Scanners also send such calls; ignore those.',
  },
  signature_malformed: {
    title: 'Signature malformed',
    means: 'The signature header does not have the provider’s format.',
    todo: 'Check that the provider is configured with its own URL, and that no proxy rewrites headers. For a declaration of your own, verify a captured call: the reason is shown.',
  },
  signature_mismatch: {
    title: 'Invalid signature',
    means: 'The signature does not match the body with any current secret.',
    todo: 'Copy the signing secret from the provider into the tenant’s Secret again. After a rotation, keep the old secret beside it for a while. For a declaration of your own, verify a captured call and compare the signed text.',
  },
  timestamp_outside_window: {
    title: 'Timestamp out of range',
    means: 'The signed time is too far from now: an old call was replayed, or a clock is wrong.',
    todo: 'Ask the provider to resend the event. If all calls are refused like this, check the clocks.',
  },
  scheme_unknown: {
    title: 'Signature scheme unknown',
    means: 'The call is signed with an unsupported algorithm or version.',
    todo: 'Set the webhook at the provider to the version that the tenant’s page names.',
  },
  headers_conflict: {
    title: 'Headers contradict each other',
    means:
      'Two headers give different values for the same thing, or an unsigned header names an event id other than the signed body’s.',
    todo: 'Look for a proxy that adds headers. A custom sender must use the same id in header and body. Otherwise treat the call as forged.',
  },
  shop_mismatch: {
    title: 'Wrong shop',
    means: 'The signature is valid, but the call is for a shop other than the tenant’s.',
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
    title: 'Wrong certificate subject',
    means: 'The certificate is valid, but does not belong to the provider’s webhooks.',
    todo: 'Check that the tenant and the webhook use the same environment, live or sandbox. Otherwise treat the call as forged.',
  },
  certificate_outside_dates: {
    title: 'Certificate expired',
    means: 'The certificate is not valid yet, or has expired.',
    todo: 'The provider must renew it. Also check the cluster’s clocks.',
  },
  body_not_json: {
    title: 'Body is not valid JSON',
    means: 'The signature is valid, but the body is not a JSON object.',
    todo: 'Set the webhook at the provider to send JSON.',
  },
  body_too_deep: {
    title: 'Body nested too deeply',
    means: 'The signature is valid, but the JSON nests more than 256 levels deep.',
    todo: 'Have the sender flatten the payload, or send the nested part as text.',
  },
  body_ambiguous: {
    title: 'Duplicate JSON key',
    means: 'A key occurs twice at the top level of the JSON, and parsers disagree about which value counts.',
    todo: 'Have the sender use each key once.',
  },
  event_id_missing: {
    title: 'No event id',
    means: 'The call has no event id, so duplicates cannot be detected.',
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
    todo: 'Set spec.suspended to false to resume. Providers retry refused calls for some time.',
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
  provider_unverified: {
    title: 'Provider not verified',
    means:
      'The declaration of this provider was not compared with a call of the vendor, and the tenant does not accept that.',
    todo: 'Compare a call of the vendor with the declaration, then set acceptUnverified: true beside the provider in spec.providers.',
  },
  secrets_missing: {
    title: 'Secret missing',
    means: 'The provider has no current signing secret, so no call can be verified.',
    todo: 'See the tenant’s conditions: the Secret may be missing, or lack the named key.',
  },
  secrets_unreadable: {
    title: 'Secrets unreadable',
    means:
      'The platform’s key ring cannot decrypt the provider’s signing secrets. The provider was asked to retry.',
    todo: 'No action needed by the tenant: the platform team must correct the key ring. Providers retry.',
  },
  loop_detected: {
    title: 'Forwarding loop',
    means: 'The event has already been forwarded five times: the callback sends events back to Latchkey.',
    todo: 'Correct the callback’s URL, or its handling of events.',
  },
  provider_paused: {
    title: 'Provider paused',
    means:
      'A runtime setting pauses this provider (providers.<name>.paused). The provider was asked to retry.',
    todo: 'No action needed: the provider retries until the setting is cleared. The settings page shows who set it.',
  },
  certificate_unavailable: {
    title: 'Certificate or key set could not be fetched',
    means:
      'The provider’s certificate or key set could not be fetched, or a subscription of Amazon SNS could not be confirmed. The provider was asked to retry.',
    todo: 'No action needed for a single call. If it persists, ask the platform team to check egress to the provider.',
  },
  events_per_minute: {
    title: 'Events per minute exceeded',
    means: 'The tenant’s limit of events per minute was reached. The provider was asked to retry.',
    todo: 'No action needed for a short peak: providers retry. Otherwise raise the limit, or override it temporarily.',
  },
  events_per_month: {
    title: 'Events per month exceeded',
    means: 'The tenant’s limit of events per month is used up.',
    todo: 'Raise the limit, or override it temporarily on the usage page.',
  },
}

/** Explains the cause of a refused call. An unknown cause is shown as its own name. Pure. */
export function refusedAdviceOf(cause: string): Advice {
  return valueOf(refusedCauseAdvice, cause) ?? unknownCause(cause, 'The call was refused.')
}
