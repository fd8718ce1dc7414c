import type { RefusedCause } from '#internal/intake/index.ts'
import type { Advice } from './attempt-causes.ts'

/** Why calls of providers are refused, what that means and what to do: one entry for each cause that there is. */
export const refusedCauseAdvice: Readonly<Record<RefusedCause, Advice>> = {
  signature_missing: {
    title: 'No signature',
    means: 'The call carried no signature header, so that nobody knows whom it is from.',
    todo: 'Check that the webhook at the provider has a signing secret. Calls of scanners look like this too: they can be ignored.',
  },
  signature_malformed: {
    title: 'Signature unreadable',
    means: 'There is a signature header, but not in the form that the provider writes.',
    todo: 'Check that the provider is entered under its own URL, and that no proxy rewrites headers.',
  },
  signature_mismatch: {
    title: 'Signature wrong',
    means: 'The signature does not fit the body under any secret that is in force.',
    todo: 'Copy the signing secret from the provider into the tenant’s Secret once more. After a rotation keep the old one beside it for a while.',
  },
  timestamp_outside_window: {
    title: 'Too old or too new',
    means: 'The signed time is too far from now: an old call that was sent again, or a clock that is wrong.',
    todo: 'Have the provider send it anew. If all calls are refused so, check clocks.',
  },
  scheme_unknown: {
    title: 'Signature scheme unknown',
    means: 'The call is signed by an algorithm or version that is not served.',
    todo: 'Set the webhook at the provider to the version that the tenant’s page names.',
  },
  headers_conflict: {
    title: 'Headers contradict each other',
    means:
      'The same thing stands in two headers with two values, or an unsigned header names another event id than the signed body.',
    todo: 'Look for a proxy that adds headers. An own sender has to use one id in header and body. Otherwise treat it as forged.',
  },
  shop_mismatch: {
    title: 'Another shop',
    means: 'The call is signed, but for another shop than the tenant’s.',
    todo: 'Correct storefront.shopDomain in the tenant’s spec, or remove the webhook from the other shop.',
  },
  certificate_url_refused: {
    title: 'Certificate from elsewhere',
    means: 'The call names a certificate at an address that is not the provider’s. It was not fetched.',
    todo: 'Treat it as forged. If the provider has moved its certificates, tell the platform team.',
  },
  certificate_not_found: {
    title: 'Certificate does not exist',
    means: 'The call names a certificate that the provider’s server does not have (404 or 410).',
    todo: 'Treat it as forged, unless all calls of the provider are refused so: then tell the platform team.',
  },
  certificate_untrusted: {
    title: 'Certificate not trusted',
    means: 'No authority that is trusted has signed the certificate.',
    todo: 'Treat it as forged, unless all calls of the provider are refused so: then tell the platform team.',
  },
  certificate_weak: {
    title: 'Certificate too weak',
    means: 'The certificate’s key or algorithm is weaker than is accepted.',
    todo: 'Tell the provider; the platform team decides.',
  },
  certificate_subject_mismatch: {
    title: 'Certificate of somebody else',
    means: 'The certificate is valid, but it is not that of the provider’s webhooks.',
    todo: 'Check whether the tenant’s environment, live or sandbox, is that of the webhook. Otherwise treat it as forged.',
  },
  certificate_outside_dates: {
    title: 'Certificate ended',
    means: 'The call was signed with a certificate that is not valid yet, or no more.',
    todo: 'The provider has to renew it; check the cluster’s clocks, too.',
  },
  body_not_json: {
    title: 'Body is no JSON',
    means: 'The signature is good, but the body is not a JSON object.',
    todo: 'Set the webhook at the provider to send JSON.',
  },
  body_too_deep: {
    title: 'Body nested too deeply',
    means: 'The signature is good, but the JSON nests arrays and objects more than 256 levels deep.',
    todo: 'Have the sender flatten the payload, or send the nested part as text.',
  },
  body_ambiguous: {
    title: 'Body has a name twice',
    means: 'A name stands twice at the top of the JSON, and readers do not agree which of the two counts.',
    todo: 'Have the sender write each name once.',
  },
  event_id_missing: {
    title: 'No event id',
    means: 'The call says no id by which repeats could be told from new events.',
    todo: 'Have the sender give each event an id, in the header or member that the tenant’s page names.',
  },
  event_id_malformed: {
    title: 'Event id unusable',
    means: 'The event’s id is longer than 255 characters, or has control characters.',
    todo: 'Have the sender use a plain, shorter id.',
  },
  event_type_malformed: {
    title: 'Event type unusable',
    means: 'The event’s type is longer than 255 characters, or has control characters.',
    todo: 'Have the sender use a plain, shorter type.',
  },
  tenant_suspended: {
    title: 'Tenant suspended',
    means: 'The tenant is suspended, so that none of its calls are taken.',
    todo: 'Set spec.suspended back when it may go on. Providers send what was refused again for a time.',
  },
  provider_not_configured: {
    title: 'Provider not set up',
    means: 'The tenant has no such provider in its spec.',
    todo: 'Add it to spec.providers with its secret, or remove the webhook at the provider.',
  },
  provider_not_enabled: {
    title: 'Provider not enabled',
    means: 'The provider is in the tenant’s spec, but its calls are not to be taken yet.',
    todo: 'Enable it in the tenant’s spec (a wallet by its stage), or remove the webhook at the provider.',
  },
  secrets_missing: {
    title: 'Secret missing',
    means: 'No signing secret of this provider is in force, so that nothing can be checked.',
    todo: 'See the tenant’s conditions: the Secret may be missing, or lack the key that is named.',
  },
  secrets_unreadable: {
    title: 'Secrets unreadable',
    means:
      'The provider’s signing secrets are stored, but the platform’s key ring cannot open them. The call was answered with “later”.',
    todo: 'Nothing for the tenant: the platform team has to correct the key ring. Providers send again.',
  },
  loop_detected: {
    title: 'Going in circles',
    means: 'The event was forwarded five times already: the callback sends events back to us.',
    todo: 'Correct the callback’s URL, or what it does with events.',
  },
  provider_paused: {
    title: 'Provider paused',
    means: 'The platform has paused this provider. Its calls were answered with “later”.',
    todo: 'Nothing: the provider sends them again. The pause is among the settings.',
  },
  certificate_unavailable: {
    title: 'Certificate not to be had',
    means: 'The provider’s certificate could not be fetched. The call was answered with “later”.',
    todo: 'Nothing for a single one. If it goes on, the platform team should look at egress to the provider.',
  },
  events_per_minute: {
    title: 'Too many a minute',
    means: 'The tenant’s limit of events a minute was reached. The call was answered with “later”.',
    todo: 'Nothing for a short peak: providers send again. Else raise the limit, or override it for a time.',
  },
  events_per_month: {
    title: 'Month’s limit reached',
    means: 'The tenant’s limit of events a month is used up.',
    todo: 'Raise the limit, or override it for a time: see its usage.',
  },
}

/** What is known about a cause; one that an older version wrote is shown by its word. Pure. */
export function refusedAdviceOf(cause: string): Advice {
  const known: Readonly<Record<string, Advice>> = refusedCauseAdvice
  return Object.hasOwn(known, cause) && known[cause]
    ? known[cause]
    : {
        title: cause.replaceAll('_', ' '),
        means: 'The call was refused.',
        todo: 'Ask the platform team.',
      }
}
