import type { Clock } from '#internal/base/index.ts'
import {
  type Acceptance,
  createEvent,
  type EventOrigin,
  type EventStateAtReceipt,
  fromProvider,
  hopsHeader,
  originHeaders,
  type ReceivedEvent,
} from '#internal/events/index.ts'
import {
  type Provider,
  type ProviderEvent,
  providers,
  type RefusalCause,
  type Refused,
  readCall,
  type VendorKeys,
} from '#internal/providers/index.ts'
import { isCredentialHeader } from '#internal/redaction/index.ts'
import type { DirectoryTenant, ProviderName, RetentionDays } from '#internal/tenants/index.ts'
import type { EventVerdict } from '#internal/usage/index.ts'
import type { Caller, Keying } from './caller.ts'
import { type LargeBodies, largeBodyBytes, type ReceivedCall } from './large-bodies.ts'

/** Result of accepting a call: the result of its event, or the reason why the call has no event. */
export type WebhookResult =
  | { readonly kind: Acceptance; readonly event: ReceivedEvent }
  | { readonly kind: 'invalid'; readonly cause: RefusalCause }
  | LimitedEvent
  /** The call was verified, but this service has already forwarded the event `hopsMax` times. */
  | { readonly kind: 'looping' }
  /** The call confirmed a subscription with its vendor. It has no event. */
  | { readonly kind: 'confirmed' }
  | UnknownCall

/** Results of a call that could be neither verified nor refused. */
export type UnknownCall =
  /** The worker for large bodies did not respond in time. */
  | { readonly kind: 'unread' }
  /** The certificate or the key set of the call is unavailable, or the vendor's subscription could not be confirmed. */
  | { readonly kind: 'uncertified' }
  /** None of the decrypted secrets verifies the call, and the key ring cannot decrypt some of the tenant's secrets. */
  | { readonly kind: 'unverifiable' }

/** The call was verified, but its tenant is over a limit. */
export type LimitedEvent = Extract<EventVerdict, { kind: 'limited' }>

/** Dependencies of `acceptWebhook`. */
export interface AcceptContext {
  readonly queue: { accept(event: ReceivedEvent): Promise<Acceptance> }
  readonly largeBodies: LargeBodies
  readonly vendorKeys: Pick<VendorKeys, 'find' | 'findSigner' | 'confirm'>
  readonly clock: Clock
  /** Maximum difference in milliseconds between a signed time and the clock, in both directions. */
  readonly signatureAgeMsMax: number
  /** Checks the tenant's event limits in memory. */
  checkLimits(tenant: DirectoryTenant): EventVerdict
}

/**
 * Verifies, normalizes and stores a call, and checks its tenant's limits. Never rejects, whatever the caller sends. `simulationId` is set
 * only for calls that a simulation makes; it is never read from a request.
 */
export async function acceptWebhook(
  context: AcceptContext,
  caller: Caller,
  {
    headers,
    body,
    request,
    simulationId,
  }: Pick<ReceivedCall, 'headers' | 'body' | 'request'> & { readonly simulationId?: string },
): Promise<WebhookResult> {
  const { tenant, provider, settings, state, keying } = caller
  const { signatureAgeMsMax } = context
  const receivedAtMs = context.clock.now()
  const call = {
    body,
    headers,
    settings,
    nowMs: receivedAtMs,
    signatureAgeMsMax,
    ...(request && { request }),
  }
  const read = await verifyAndNormalize(context, caller, call)
  if (read.kind === 'unread' || read.kind === 'uncertified' || read.kind === 'unverifiable') return read
  if (read.kind === 'refused') return { kind: 'invalid', cause: read.cause }
  // Confirms a subscription only after its signature was verified: verification also compares the topic with the configured ones.
  const mayConfirm = keying.kind === 'secrets' && simulationId === undefined
  const confirmationUrl = mayConfirm ? keying.provider.confirmationUrl?.(call) : undefined
  if (confirmationUrl !== undefined) {
    const isConfirmed = await context.vendorKeys.confirm(confirmationUrl, tenant.id)
    return { kind: isConfirmed ? 'confirmed' : 'uncertified' }
  }
  // The number of forwards is checked after the signature, since any caller can set `Latchkey-Hops`.
  if (hopsOf(headers) >= hopsMax) return { kind: 'looping' }
  const limits = context.checkLimits(tenant)
  if (limits.kind === 'limited') return limits
  const origin: EventOrigin = simulationId === undefined ? fromProvider : { kind: 'simulation', simulationId }
  const event = createReceivedEvent({
    tenant,
    provider: provider.name,
    event: read,
    headers: keptHeaders(headers, provider.secretHeaders, origin),
    receivedAtMs,
    state,
    overLimit: limits.kind === 'over',
    origin,
    retention: caller.retention,
  })
  return { kind: await context.queue.accept(event), event }
}

async function verifyAndNormalize(
  context: AcceptContext,
  { tenant, keying }: Caller,
  call: ReceivedCall,
): Promise<ProviderEvent | Refused | UnknownCall> {
  if (keying.kind === 'unsigned') return keying.provider.normalize(call)
  if (keying.kind === 'signer') return readCall(keying.provider, call, keying.signer)
  if (keying.kind === 'secrets') {
    const read = await readBySecrets(context, { tenant, keying }, call)
    const isMismatch = read.kind === 'refused' && read.cause === 'signature_mismatch'
    return isMismatch && keying.unreadableCount > 0 ? { kind: 'unverifiable' } : read
  }
  const location = keying.provider.locate(call)
  if (location.kind === 'refused') return location
  const { url, environment } = location
  const found = await context.vendorKeys.findSigner({ tenantId: tenant.id, environment, url })
  if (found.kind === 'refused') return found
  return found.kind === 'trusted' ? readCall(keying.provider, call, found.keys) : { kind: 'uncertified' }
}

/** Verifies and reads a call with the secrets that could be decrypted. */
async function readBySecrets(
  context: AcceptContext,
  { tenant, keying }: Pick<Caller, 'tenant'> & { readonly keying: Extract<Keying, { kind: 'secrets' }> },
  call: ReceivedCall,
): Promise<ProviderEvent | Refused | UnknownCall> {
  const { provider, keys, declared } = keying
  const published = await findPublished(context, { tenant, provider, keys }, call)
  if (published?.kind === 'refused') return published
  if (published?.kind === 'unavailable') return { kind: 'uncertified' }
  const keyed = published ? { ...call, published: published.keys } : call
  if (call.body.length <= largeBodyBytes) return readCall(provider, keyed, keys)
  const read = await context.largeBodies.read(keyed, {
    providerName: provider.name,
    declared,
    secrets: keying.secrets(),
  })
  return read ?? { kind: 'unread' }
}

/** Returns the keys that the vendor publishes; undefined if it publishes none. */
async function findPublished(
  { vendorKeys }: AcceptContext,
  { tenant, provider, keys }: { tenant: Caller['tenant']; provider: Provider; keys: unknown },
  call: ReceivedCall,
) {
  const location = provider.locate?.(call, keys)
  if (location === undefined || location.kind === 'refused') return location
  return vendorKeys.find(location, tenant.id)
}

/** Minimum retention of a dedupe key in days, regardless of the tenant's retention: vendors retry for up to three days. */
const dedupeDaysMin = 7
/** Range of an event's time in milliseconds, as stored in Postgres. A provider can state any time. */
const timeMsMin = Date.UTC(1970, 0, 1)
const timeMsMax = Date.UTC(9999, 11, 31)

export function createReceivedEvent(receipt: {
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
}): ReceivedEvent {
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

/** Maximum forwards of an event. Further calls are refused. */
export const hopsMax = 5

/** Reads the hop count. A header that is not a number counts as `hopsMax`. */
export function hopsOf(headers: Headers): number {
  const text = headers.get(hopsHeader)
  if (text === null) return 0
  return /^\d{1,3}$/.test(text) ? Number(text) : hopsMax
}

/**
 * Returns the headers to keep, as JSON, with the hop count incremented and the headers of an origin other than a provider's call. Their
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
 * True unless the header is a credential, a signature of a built-in provider, hop-by-hop or `latchkey-…`. Pure.
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
