import { type ApiError, apiError, type TenantId } from '#internal/base/index.ts'
import type { Acceptance } from '#internal/events/index.ts'
import {
  type Admission,
  type AdmittingRoute,
  type Answer,
  type Call,
  type Head,
  type LogFields,
  networkOf,
  type Operation,
  type RoomRoute,
} from '#internal/http/index.ts'
import type { CallRequest, HandshakeAnswer, RefusalCause } from '#internal/providers/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import { limitHeaders } from '#internal/usage/index.ts'
import type { Caller, Callers, FoundCaller, RefusedCaller } from './caller.ts'
import { answerHandshake, invalidityOf, receiveWebhook, receiveWebhookBySlug } from './documentation.ts'
import { type AcceptContext, acceptWebhook, keptHeaders, type LimitedEvent } from './intake.ts'
import { largeBodyBytes } from './large-bodies.ts'
import { type RefusedCalls, type RefusedCause, sampleOf } from './refused-calls.ts'

/** Dependencies of the webhook routes. */
export interface Intake extends AcceptContext {
  readonly callers: Callers
  readonly refusedCalls: RefusedCalls
  /** Client's address behind trusted proxies. */
  sourceAddressOf(head: Head): string | null
  /** Base URL that providers call, without a trailing slash. Default: the address that the provider called. */
  readonly publicUrl?: string | undefined
  /** Called once per call for a known tenant and provider. */
  onCall(provider: ProviderName, outcome: CallOutcome, tenantId: TenantId): void
  /** Called for each refused call of a known tenant. Must not throw. */
  readonly onRefused?: ((refused: RefusedNote) => void) | undefined
}

/** Refused call, as passed to `onRefused`. */
export interface RefusedNote {
  readonly tenantId: TenantId
  readonly provider: ProviderName
  readonly cause: RefusedCause
  readonly headers: Headers
}

/** Outcome of a call; value of a metric label. `handshake`: the vendor checked the URL and got its answer. */
export type CallOutcome = Acceptance | RefusedCause | 'handshake'

/**
 * Outcomes that do not count towards the error budget of webhooks and whose log lines are limited. Any caller that knows a slug can cause
 * them; a loop is caused by its tenant. `certificate_unavailable` is included, since a forged call can name any certificate at the vendor's
 * host; a separate alert reports a real outage.
 */
export const unverifiedOutcomes: ReadonlySet<string> = new Set([
  'route_unknown',
  'provider_unknown',
  'api_key_invalid',
  'api_key_scope',
  'tenant_not_allowed',
  'provider_paused',
  'invalid_request',
  'body_too_large',
  'body_dropped',
  'invalid_signature',
  'conflicting_headers',
  'missing_event_id',
  'certificate_unavailable',
  'loop_detected',
  'handshake',
  'method_not_allowed',
])

/**
 * Outcomes whose log lines are limited. `secrets_unreadable` still counts towards the error budget: any caller can cause it, but only while
 * the key ring of this service is wrong.
 */
const limitedOutcomes: ReadonlySet<string> = new Set([...unverifiedOutcomes, 'secrets_unreadable'])

const slugPath = '/v1/t/:tenantSlug/webhooks/:provider'

/** Webhook routes for providers: by API key, and by the tenant's slug. Vendors check a URL by GET or HEAD without an API key. */
export const webhookRoutes: readonly RoomRoute<Intake, AdmittingRoute<Caller>>[] = [
  webhookRoute('/v1/webhooks/:provider', receiveWebhook, (intake) => ({
    admit(head) {
      const authorization = head.request.headers.get('authorization')
      return admit(intake, head, intake.callers.byApiKey(authorization, head.params.provider ?? ''))
    },
  })),
  webhookRoute(
    slugPath,
    receiveWebhookBySlug,
    (intake) => ({
      admit: (head) => admitBySlug(intake, head),
      // Slugs are public, so if bodies must be evicted, they are chosen by the client's network and not by the tenant.
      sourceOf: (head) => networkOf(intake.sourceAddressOf(head)),
    }),
    // Malformed slugs get the same response as unknown slugs.
    { admitsMalformedParams: true },
  ),
  {
    method: 'GET',
    path: slugPath,
    operation: answerHandshake,
    bind: (intake) => ({
      method: 'GET',
      path: slugPath,
      unverifiedOutcomes: limitedOutcomes,
      admitsMalformedParams: true,
      access: {
        admit(head) {
          const admission = admitBySlug(intake, head)
          return admission.kind === 'admitted' ? { ...admission, bodyBytesMax: 0 } : admission
        },
      },
      handle: (call, caller) => handshakeOf(intake, call, caller) ?? methodNotAllowed,
    }),
  },
]

function admitBySlug(intake: Intake, head: Head): Admission<Caller> | Answer | ApiError {
  const { tenantSlug = '', provider = '' } = head.params
  return admit(intake, head, intake.callers.bySlug(tenantSlug, provider))
}

function webhookRoute(
  path: string,
  operation: Operation,
  accessOf: (intake: Intake) => AdmittingRoute<Caller>['access'],
  more: Pick<AdmittingRoute<Caller>, 'admitsMalformedParams'> = {},
): RoomRoute<Intake, AdmittingRoute<Caller>> {
  return {
    method: 'POST',
    path,
    operation,
    bind: (intake) => ({
      method: 'POST',
      path,
      access: accessOf(intake),
      unverifiedOutcomes: limitedOutcomes,
      ...more,
      handle: (call, caller) => handle(intake, call, caller),
    }),
  }
}

function admit(intake: Intake, head: Head, found: FoundCaller): Admission<Caller> | Answer | ApiError {
  if (found.kind === 'error') return found
  if (found.kind === 'stranger') {
    const { tenantSlug: slug = '' } = head.params
    return { ...tenantNotAllowed, log: { slug, cause: 'tenant_unknown' } }
  }
  if (found.kind === 'refused') {
    // Does not record a GET or HEAD: it carries no event, and anyone can open the URL, such as a crawler.
    if (head.request.method === 'POST') noteRefusal(intake, head, found)
    const { tenant, provider, cause } = found
    if (cause === 'provider_paused') return paused
    if (cause === 'secrets_unreadable') return secretsUnreadable
    return { ...tenantNotAllowed, log: { slug: tenant.slug ?? tenant.name, provider, cause } }
  }
  const { name: provider, bodyBytesMax } = found.provider
  return { kind: 'admitted', admitted: found, tenant: found.tenant.id, bodyBytesMax, log: { provider } }
}

const tenantNotAllowed: Answer = {
  kind: 'answer',
  status: 403,
  body: JSON.stringify({ message: 'tenant not allowed' }),
  outcome: 'tenant_not_allowed',
}

async function handle(intake: Intake, call: Call, caller: Caller): Promise<Answer | ApiError> {
  const { tenant } = caller
  const provider = caller.provider.name
  const note = (cause: RefusedCause, body?: Uint8Array) =>
    noteRefusal(intake, call, { tenant, provider, cause }, body)
  const handshake = handshakeOf(intake, call, caller)
  if (handshake) return handshake
  const accepted = await acceptWebhook(intake, caller, {
    headers: call.request.headers,
    body: call.body,
    request: requestOf(intake, call),
  })
  switch (accepted.kind) {
    case 'invalid':
      note(accepted.cause, call.body)
      return invalidAnswer(accepted.cause, caller)
    case 'unread':
      intake.onCall(provider, 'unavailable', tenant.id)
      return unread
    case 'looping':
      note('loop_detected')
      return apiError('loop_detected')
    case 'limited': {
      note(limitedCauses[accepted.limit])
      const { limit, quota, retryAfterMs } = accepted
      return apiError('limit_exceeded', undefined, limitHeaders(limit, quota, retryAfterMs))
    }
    case 'uncertified':
      note('certificate_unavailable')
      return uncertified
    case 'confirmed':
      intake.onCall(provider, 'handshake', tenant.id)
      return handshakeAnswer({
        kind: 'answer',
        status: 200,
        contentType: 'text/plain; charset=utf-8',
        body: '',
      })
    case 'unverifiable':
      note('secrets_unreadable')
      return secretsUnreadable
    default: {
      intake.onCall(provider, accepted.kind, tenant.id)
      const { id, type, overLimit } = accepted.event
      const answer = answerOf(accepted.kind, { event: id, type, ...(overLimit && { overLimit }) })
      return answer.kind === 'answer' ? withVendorBody(answer, caller) : answer
    }
  }
}

/** Includes the URL only for a provider that reads it. */
function requestOf({ publicUrl }: Intake, { request }: Call): CallRequest {
  return {
    method: request.method,
    get url() {
      if (publicUrl === undefined) return request.url
      const { origin } = new URL(request.url)
      return publicUrl.replace(/\/+$/, '') + request.url.slice(origin.length)
    },
  }
}

/** Answers a vendor's check of the URL. Undefined for any other call. */
function handshakeOf(intake: Intake, call: Call, caller: Caller): Answer | ApiError | undefined {
  const { tenant, keying, settings } = caller
  if (keying.kind !== 'secrets' || call.body.length > largeBodyBytes) return undefined
  const { provider, keys, unreadableCount } = keying
  if (!provider.handshakes?.methods.has(call.request.method)) return undefined
  const answered = provider.handshakes.answer(
    {
      request: requestOf(intake, call),
      headers: call.request.headers,
      body: call.body,
      settings,
      nowMs: intake.clock.now(),
      signatureAgeMsMax: intake.signatureAgeMsMax,
    },
    keys,
  )
  if (answered?.kind === 'answer') {
    intake.onCall(provider.name, 'handshake', tenant.id)
    return handshakeAnswer(answered)
  }
  if (answered === undefined) return undefined
  const isUnverifiable = answered.cause === 'signature_mismatch' && unreadableCount > 0
  const cause = isUnverifiable ? 'secrets_unreadable' : answered.cause
  noteRefusal(intake, call, { tenant, provider: provider.name, cause }, call.body)
  return isUnverifiable ? secretsUnreadable : invalidAnswer(answered.cause, caller)
}

function handshakeAnswer({ status, contentType, body, headers = {} }: HandshakeAnswer): Answer {
  return {
    kind: 'answer',
    status,
    body,
    outcome: 'handshake',
    headers: { ...headers, 'Content-Type': contentType, 'X-Content-Type-Options': 'nosniff' },
  }
}

const methodNotAllowed = apiError('method_not_allowed', 'This provider sends events by POST only', {
  Allow: 'POST',
})

const limitedCauses: Record<LimitedEvent['limit'], RefusedCause> = {
  eventsPerMinute: 'events_per_minute',
  eventsPerMonth: 'events_per_month',
}

/** Response while a provider is paused. Vendors retry later by their own schedule; other callers use `Retry-After`. */
const paused = apiError('provider_paused', undefined, { 'Retry-After': '30' })

/** Response if the certificate or key set of a call is unavailable. The caller is not at fault; the vendor retries. */
const uncertified = apiError('certificate_unavailable', undefined, { 'Retry-After': '10' })

/**
 * Response if a large body was not verified in time. Any caller can cause this error, since no signature is verified yet. It does not
 * indicate a fault of Postgres or the spool.
 */
const unread = apiError(
  'body_dropped',
  'The body could not be verified in time, so the event was not accepted: send it again',
  { 'Retry-After': '5' },
)

/**
 * Response if the key ring cannot decrypt a tenant's secrets. The platform is at fault: the provider may have signed with one of these
 * secrets.
 */
const secretsUnreadable = apiError('secrets_unreadable', undefined, { 'Retry-After': '30' })

const unavailable = apiError('queue_unavailable', undefined, { 'Retry-After': '5' })

function answerOf(kind: Acceptance, log: LogFields): Answer | ApiError {
  switch (kind) {
    case 'stored':
      return { kind: 'answer', status: 200, body: '{"ok":true}', outcome: kind, log }
    case 'duplicate':
      return { kind: 'answer', status: 200, body: '{"ok":true,"cached":true}', outcome: kind }
    case 'queued':
      return { kind: 'answer', status: 202, body: '{"ok":true,"queued":true}', outcome: kind, log }
    case 'unavailable':
      return unavailable
    case 'refused':
      return apiError('internal')
  }
}

/** Returns the response to an invalid call. The API contract defines the texts of two causes; the others have the same form. */
function invalidAnswer(cause: RefusalCause, caller: Caller): Answer {
  const { outcome, error } = invalidityOf(cause)
  const answer: Answer = {
    kind: 'answer',
    status: 400,
    body: JSON.stringify({ error }),
    outcome,
    log: { cause },
    explainedAs: 'invalid_request',
  }
  if (!unsignedCauses.has(cause)) return answer
  // Answers with the vendor's status instead of 400: some vendors send forged calls as a test and expect this status.
  const { refusedStatus: status = 400 } = caller.provider.answers ?? {}
  return withVendorBody({ ...answer, status }, caller)
}

/** Removes the body of a response to a vendor that accepts none. */
function withVendorBody(answer: Answer, { provider }: Caller): Answer {
  return provider.answers?.isEmpty ? { ...answer, body: '' } : answer
}

function noteRefusal(
  intake: Intake,
  head: Head,
  { tenant, provider, cause }: Omit<RefusedCaller, 'kind'>,
  body?: Uint8Array,
): void {
  intake.onCall(provider, cause, tenant.id)
  intake.onRefused?.({ tenantId: tenant.id, provider, cause, headers: head.request.headers })
  if (!intake.refusedCalls.hasRoom(tenant.id, cause)) return
  intake.refusedCalls.note({
    tenantId: tenant.id,
    days: intake.callers.retentionOf(tenant).payloadDays,
    provider,
    cause,
    sourceAddress: intake.sourceAddressOf(head),
    headers: keptHeaders(head.request.headers, intake.callers.secretHeadersOf(provider)),
    sample: body && unsignedCauses.has(cause) ? sampleOf(body) : null,
  })
}

/**
 * Causes of refusing a call whose body is unverified. A sample is stored of such bodies only: a verified body is the tenant's data and is
 * stored only as an event.
 */
const unsignedCauses: ReadonlySet<RefusedCause> = new Set([
  'signature_missing',
  'signature_malformed',
  'signature_mismatch',
  'scheme_unknown',
  'timestamp_outside_window',
  'certificate_url_refused',
  'certificate_not_found',
  'certificate_untrusted',
  'certificate_weak',
  'certificate_subject_mismatch',
  'certificate_outside_dates',
  'certificate_unavailable',
])
