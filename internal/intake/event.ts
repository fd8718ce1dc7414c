import { randomToken } from '#internal/base/index.ts'
import {
  createEvent,
  type EventOrigin,
  type EventStateAtReceipt,
  fromProvider,
  originHeaders,
  type ReceivedEvent,
} from '#internal/events/index.ts'
import { type ProviderEvent, providers } from '#internal/providers/index.ts'
import { isCredentialHeader } from '#internal/redaction/index.ts'
import type { DirectoryTenant, ProviderName, RetentionDays } from '#internal/tenants/index.ts'

/** A normalized call with tenant, provider and time of its receipt. */
export interface Receipt {
  readonly tenant: DirectoryTenant
  readonly provider: ProviderName
  readonly event: ProviderEvent
  /** Headers as JSON text: an object whose values are strings. */
  readonly headers: string
  readonly receivedAtMs: number
  readonly state: EventStateAtReceipt
  /** True if the tenant has reached its monthly limit; default false. */
  readonly overLimit?: boolean
  readonly origin: EventOrigin
  readonly retention: RetentionDays
}

/** Minimum retention of a dedupe key in days, regardless of the tenant's retention: vendors retry for up to three days. */
const dedupeDaysMin = 7
/** Minimum and maximum time of an event, in milliseconds, as stored in Postgres. A provider can state any time. */
const timeMsMin = Date.UTC(1970, 0, 1)
const timeMsMax = Date.UTC(9999, 11, 31)

/** Creates the event of a verified call, with its id, dedupe key and expiry days. */
export function createReceivedEvent(receipt: Receipt): ReceivedEvent {
  const { tenant, provider, event, receivedAtMs, origin } = receipt
  const { sourceEventId, rawType, type, occurredAtMs = receivedAtMs, payload } = event
  const inRange = occurredAtMs >= timeMsMin && occurredAtMs <= timeMsMax
  const retriesOnRedelivery = origin.kind === 'provider' && tenant.callback?.rules.retryOnRedelivery
  const isPullOnly = tenant.callback === undefined && receipt.state === 'accepted'
  return createEvent(
    {
      tenantId: tenant.id,
      provider,
      sourceEventId,
      receivedAtMs,
      payload,
      rawType,
      type,
      occurredAtMs: inRange ? Math.floor(occurredAtMs) : receivedAtMs,
      headers: receipt.headers,
      origin,
      state: receipt.state,
      ...(receipt.overLimit && { overLimit: true }),
      ...(retriesOnRedelivery && { retriesOnRedelivery: true }),
      ...(isPullOnly && { isPullOnly: true }),
    },
    receipt.retention,
    dedupeDaysMin,
  )
}

/** Type of events that test a callback. */
const testEventType = 'latchkey.test'

/** A test event to create. */
interface TestEventFields {
  readonly tenant: DirectoryTenant
  /** Name of the caller that sends it. */
  readonly actor: string
  /** Test events with the same key are the same event. Omit it for a new event. */
  readonly idempotencyKey?: string | undefined
  readonly retention: RetentionDays
  readonly nowMs: number
  /** Default: an event of type `latchkey.test`. */
  readonly content?: TestEventContent | undefined
}

/** Content of a test event, in the format of a provider. */
export interface TestEventContent {
  readonly provider: ProviderName
  readonly rawType: string
  readonly type: string
  /** JSON text of an object. */
  readonly payload: string
}

const testContent: TestEventContent = {
  provider: 'generic',
  rawType: testEventType,
  type: testEventType,
  payload: '{"message":"A test of this callback. No provider sent it."}',
}

/** Creates an event that tests a tenant's callback. It is not queued: its state is `verified`, which means stored and not delivered. */
export function createTestEvent({
  tenant,
  actor,
  retention,
  nowMs,
  content: { provider, ...content } = testContent,
  ...fields
}: TestEventFields): ReceivedEvent {
  const { idempotencyKey = randomToken() } = fields
  const origin = { kind: 'test', actor } as const
  // A hash, so that the id of a provider's event equals it only on purpose.
  const digest = Bun.SHA256.hash(`${tenant.id}\n${idempotencyKey}`, 'hex').slice(0, 32)
  return createReceivedEvent({
    tenant,
    provider,
    origin,
    receivedAtMs: nowMs,
    state: 'verified',
    retention,
    event: {
      kind: 'event',
      sourceEventId: `test_${digest}`,
      occurredAtMs: nowMs,
      ...content,
    },
    headers: JSON.stringify({ [hopsHeader]: '1', ...originHeaders(origin) }),
  })
}

/**
 * Header with the number of forwards of an event. Each forward increments it, so that a callback that sends events back cannot cause an
 * endless loop.
 */
export const hopsHeader = 'latchkey-hops'
/** Maximum forwards of an event. Further calls are refused. */
export const hopsMax = 5

/** Returns the number of times that the event was forwarded. A header that is not a number is read as `hopsMax`. */
export function hopsOf(headers: Headers): number {
  const text = headers.get(hopsHeader)
  if (text === null) return 0
  return /^\d{1,3}$/.test(text) ? Number(text) : hopsMax
}

/**
 * Returns the headers to keep, as JSON, with the hop count incremented, and with those of an origin other than a provider's call. Their
 * size is limited by the server's maximum for request heads.
 * @param secret names of the provider's headers with signatures, in lower case
 */
export function keptHeaders(
  headers: Headers,
  secret: readonly string[],
  origin: EventOrigin = fromProvider,
): string {
  const kept: Record<string, string> = Object.create(null)
  headers.forEach((value, name) => {
    if (keepsHeader(name) && !secret.includes(name)) kept[name] = value
  })
  kept[hopsHeader] = String(hopsOf(headers) + 1)
  return JSON.stringify(Object.assign(kept, originHeaders(origin)))
}

/** Hop-by-hop headers (RFC 9110 section 7.6.1). */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'proxy-connection',
])
const secretHeaders: ReadonlySet<string> = new Set(providers.flatMap((each) => each.secretHeaders))
/** Cache of `keepsHeader`, since every call has the same few header names. */
const keptNames = new Map<string, boolean>()
const keptNamesMax = 1_000

/**
 * Returns whether a header is stored and forwarded. Credentials, signatures of built-in providers, hop-by-hop headers and `latchkey-…`
 * headers are not.
 * Pure.
 * @param name in lower case
 */
export function keepsHeader(name: string): boolean {
  const known = keptNames.get(name)
  if (known !== undefined) return known
  const isSecret = secretHeaders.has(name) || isCredentialHeader(name)
  const isKept = !isSecret && !hopByHop.has(name) && !name.startsWith('latchkey-')
  if (keptNames.size < keptNamesMax) keptNames.set(name, isKept)
  return isKept
}
