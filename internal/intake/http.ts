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
} from '#internal/http/index.ts'
import { type ProviderName, retentionOf } from '#internal/tenants/index.ts'
import { limitHeaders } from '#internal/usage/index.ts'
import { type AcceptContext, acceptWebhook, type LimitedEvent } from './accept.ts'
import type { Caller, Callers, FoundCaller, RefusedCaller } from './caller.ts'
import { keptHeaders } from './event-headers.ts'
import type { RefusalCause } from './provider.ts'
import { type RefusedCall, type RefusedCalls, type RefusedCause, sampleOf } from './refused-calls.ts'

/** What the routes work with. */
export interface Intake extends AcceptContext {
  readonly callers: Callers
  readonly refusedCalls: RefusedCalls
  /** Where a call comes from, through the proxies that are trusted. */
  sourceAddressOf(head: Head): string | null
  /** Told of each call for a known tenant and provider. */
  onCall(provider: ProviderName, outcome: CallOutcome, tenantId: TenantId): void
}

/** What a call ended with: a label of metrics. */
export type CallOutcome = Acceptance | RefusedCause

/**
 * Outcomes outside the error budget of webhooks, with limited log lines: any caller that knows a slug can cause them at will, and a
 * loop is caused by its tenant. `certificate_unavailable` is among them: a
 * forged call may name any certificate at the vendor's host. A real outage there has an alert of its own.
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
])

/**
 * Outcomes whose log lines are limited. `secrets_unreadable` is in the error budget all the same: any caller can cause it, but only while
 * our key ring is wrong.
 */
const limitedOutcomes: ReadonlySet<string> = new Set([...unverifiedOutcomes, 'secrets_unreadable'])

/** The routes that providers call: by API key, and by the tenant's slug. */
export function webhookRoutes(intake: Intake): readonly AdmittingRoute<Caller>[] {
  const { callers } = intake
  const handle = (call: Call, caller: Caller) => accept(intake, call, caller)
  return [
    {
      method: 'POST',
      path: '/v1/webhooks/:provider',
      access: {
        admit: (head) => {
          const authorization = head.request.headers.get('authorization')
          return admit(intake, head, callers.byApiKey(authorization, head.params.provider ?? ''))
        },
      },
      handle,
      unverifiedOutcomes: limitedOutcomes,
    },
    {
      method: 'POST',
      path: '/v1/t/:tenantSlug/webhooks/:provider',
      access: {
        admit: (head) => {
          const { tenantSlug = '', provider = '' } = head.params
          return admit(intake, head, callers.bySlug(tenantSlug, provider))
        },
        // Slugs are public, so bodies are grouped by client network.
        sourceOf: (head) => networkOf(intake.sourceAddressOf(head)),
      },
      handle,
      unverifiedOutcomes: limitedOutcomes,
      // Malformed slugs get the same answer as unknown ones.
      admitsMalformedParams: true,
    },
  ]
}

function admit(intake: Intake, head: Head, found: FoundCaller): Admission<Caller> | Answer | ApiError {
  if (found.kind === 'error') return found
  if (found.kind === 'stranger') {
    const { tenantSlug: slug = '' } = head.params
    return { ...tenantNotAllowed, log: { slug, cause: 'tenant_unknown' } }
  }
  if (found.kind === 'refused') {
    noteRefusal(intake, head, found)
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

async function accept(intake: Intake, call: Call, caller: Caller): Promise<Answer | ApiError> {
  const { headers } = call.request
  const accepted = await acceptWebhook(intake, caller, { headers, body: call.body })
  const { tenant } = caller
  const provider = caller.provider.name
  if (accepted.kind === 'invalid') {
    noteRefusal(intake, call, { tenant, provider, cause: accepted.cause }, call.body)
    return invalidAnswer(accepted.cause)
  }
  if (accepted.kind === 'unread') {
    intake.onCall(provider, 'unavailable', tenant.id)
    return unread
  }
  if (accepted.kind === 'looping') {
    noteRefusal(intake, call, { tenant, provider, cause: 'loop_detected' })
    return apiError('loop_detected')
  }
  if (accepted.kind === 'limited') {
    noteRefusal(intake, call, { tenant, provider, cause: limitedCauses[accepted.limit] })
    return limitedAnswer(accepted)
  }
  if (accepted.kind === 'uncertified') {
    noteRefusal(intake, call, { tenant, provider, cause: 'certificate_unavailable' })
    return uncertified
  }
  if (accepted.kind === 'unverifiable') {
    noteRefusal(intake, call, { tenant, provider, cause: 'secrets_unreadable' })
    return secretsUnreadable
  }
  intake.onCall(provider, accepted.kind, tenant.id)
  const { id, type, overLimit } = accepted.event
  return answerOf(accepted.kind, { event: id, type, ...(overLimit && { overLimit }) })
}

const limitedCauses: Record<LimitedEvent['limit'], RefusedCause> = {
  eventsPerMinute: 'events_per_minute',
  eventsPerMonth: 'events_per_month',
}

function limitedAnswer({ limit, quota, retryAfterMs }: LimitedEvent): ApiError {
  return apiError('limit_exceeded', undefined, limitHeaders(limit, quota, retryAfterMs))
}

/** Vendors wait longer than that by themselves; others are told when to come back. */
const paused = apiError('provider_paused', undefined, { 'Retry-After': '30' })

/** Not the caller's fault, whoever it is: the vendor sends it again, for three days. */
const uncertified = apiError('certificate_unavailable', undefined, { 'Retry-After': '10' })

/** Nothing was verified yet, so any caller can cause it: it says nothing about Postgres or the spool. */
const unread = apiError(
  'body_dropped',
  'The body could not be verified in time: nothing was accepted, send it again',
  { 'Retry-After': '5' },
)

/** Our fault: the provider's own secret may be the one that the key ring does not open. */
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

/** What a provider is told: the contract's texts for the two cases it names, the same form for the others. */
function invalidAnswer(cause: RefusalCause): Answer {
  const error = invalidTexts[cause] ?? 'invalid signature'
  return {
    kind: 'answer',
    status: 400,
    body: JSON.stringify({ error }),
    outcome: error.replaceAll(' ', '_'),
    log: { cause },
  }
}

const invalidTexts: Partial<Record<RefusalCause, string>> = {
  headers_conflict: 'conflicting headers',
  event_id_missing: 'missing event id',
  event_id_malformed: 'invalid event id',
  event_type_malformed: 'invalid event type',
  body_not_json: 'invalid payload',
  body_too_deep: 'payload nested too deeply',
  body_ambiguous: 'invalid payload',
}

type Refusal = Omit<RefusedCaller, 'kind'>

function noteRefusal(
  intake: Intake,
  head: Head,
  { tenant, provider, cause }: Refusal,
  body?: Uint8Array,
): void {
  intake.onCall(provider, cause, tenant.id)
  if (!intake.refusedCalls.hasRoom(tenant.id, cause)) return
  const refused: RefusedCall = {
    tenantId: tenant.id,
    days: retentionOf(tenant.retention, intake.retentionDefaults()).payloadDays,
    provider,
    cause,
    sourceAddress: intake.sourceAddressOf(head),
    headers: keptHeaders(head.request.headers, intake.headerRules),
    sample: body && isUnsigned(cause) ? sampleOf(body) : null,
  }
  intake.refusedCalls.note(refused)
}

/** What was verified is the tenant's own data, and is not kept beside its retention. */
function isUnsigned(cause: RefusedCause): boolean {
  return (
    /^(signature|certificate)_/.test(cause) ||
    cause === 'scheme_unknown' ||
    cause === 'timestamp_outside_window'
  )
}
