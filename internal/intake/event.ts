import { createEventId, dayAfter } from '#internal/base/index.ts'
import type { EventStateAtReceipt, ReceivedEvent } from '#internal/events/index.ts'
import { isCredentialHeader } from '#internal/redaction/index.ts'
import type { DirectoryTenant, ProviderName, RetentionDays } from '#internal/tenants/index.ts'
import type { ProviderEvent } from './provider.ts'
import { providers } from './providers/registry.ts'

/** A normalized call with the facts of its receipt. */
export interface Receipt {
  readonly tenant: DirectoryTenant
  readonly provider: ProviderName
  readonly event: ProviderEvent
  /** JSON text of an object of strings. */
  readonly headers: string
  readonly receivedAtMs: number
  readonly state: EventStateAtReceipt
  /** The tenant's monthly limit is reached; default false. */
  readonly overLimit?: boolean
  readonly isSimulated?: boolean
  readonly retention: RetentionDays
}

/** Minimum lifetime of a dedupe key, whatever the tenant's retention: vendors retry for up to three days. */
const dedupeDaysMin = 7
/** Range of times that Postgres stores; a provider may claim any. */
const timeMsMin = Date.UTC(1970, 0, 1)
const timeMsMax = Date.UTC(9999, 11, 31)

/** Makes the event of a verified call: its id, dedupe key and expiry days. */
export function createReceivedEvent(receipt: Receipt): ReceivedEvent {
  const { tenant, provider, event, receivedAtMs, isSimulated = false } = receipt
  const { payloadDays, eventDays } = receipt.retention
  const { eventId, rawType, type, occurredAtMs = receivedAtMs, payload } = event
  // Tenant ids and provider names contain no line feed, so different triples give different texts.
  const dedupeText = `${tenant.id}\n${provider}\n${eventId}`
  const inRange = occurredAtMs >= timeMsMin && occurredAtMs <= timeMsMax
  // Tenant rows of older versions lack the field.
  const retriesOnRedelivery = !isSimulated && tenant.callback.rules.retryOnRedelivery
  return {
    id: createEventId(receivedAtMs, eventDays),
    dedupeKey: Bun.SHA256.hash(dedupeText, 'hex').slice(0, 32),
    tenantId: tenant.id,
    provider,
    sourceEventId: eventId,
    rawType,
    type,
    occurredAtMs: inRange ? Math.floor(occurredAtMs) : receivedAtMs,
    receivedAtMs,
    headers: receipt.headers,
    payload,
    payloadBytes: Buffer.byteLength(payload),
    expiresOn: dayAfter(receivedAtMs, eventDays),
    payloadExpiresOn: dayAfter(receivedAtMs, payloadDays),
    dedupeExpiresOn: dayAfter(receivedAtMs, Math.max(eventDays, dedupeDaysMin)),
    state: receipt.state,
    ...(receipt.overLimit && { overLimit: true }),
    ...(retriesOnRedelivery && { retriesOnRedelivery: true }),
  }
}

/** Incremented by each forward, so that a callback cannot send events through this service for ever. */
export const hopsHeader = 'latchkey-hops'
/** Names the simulation that made the call. Callers cannot set it: headers that begin with `latchkey-` are dropped. */
export const simulationHeader = 'latchkey-simulation'
/** Forwards after which a call is refused. */
export const hopsMax = 5

/** Returns how often the event was forwarded; a header that is not a number counts as `hopsMax`. */
export function hopsOf(headers: Headers): number {
  const text = headers.get(hopsHeader)
  if (text === null) return 0
  return /^\d{1,3}$/.test(text) ? Number(text) : hopsMax
}

/** Returns the headers that are kept, as JSON, with the hop count incremented. Bounded by the server's limit for request heads. */
export function keptHeaders(headers: Headers, simulationId?: string): string {
  const kept: Record<string, string> = Object.create(null)
  headers.forEach((value, name) => {
    if (keepsHeader(name)) kept[name] = value
  })
  kept[hopsHeader] = String(hopsOf(headers) + 1)
  if (simulationId !== undefined) kept[simulationHeader] = simulationId
  return JSON.stringify(kept)
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
/** Memo of `keepsHeader`, since every call has the same few names. */
const keptNames = new Map<string, boolean>()
const keptNamesMax = 1_000

/**
 * Returns whether a header is stored and forwarded: no credential, no provider's signature, not hop-by-hop, not `latchkey-…`. Pure.
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
