import type { Clock } from '#internal/base/index.ts'
import {
  type Acceptance,
  type EventOrigin,
  fromProvider,
  type ReceivedEvent,
} from '#internal/events/index.ts'
import {
  type Provider,
  type ProviderEvent,
  type RefusalCause,
  type Refused,
  readCall,
  type VendorKeys,
} from '#internal/providers/index.ts'
import { type DirectoryTenant, type RetentionDays, retentionOf } from '#internal/tenants/index.ts'
import type { EventVerdict } from '#internal/usage/index.ts'
import type { Caller, Keying } from './caller.ts'
import { createReceivedEvent, hopsMax, hopsOf, keptHeaders } from './event.ts'
import type { Accepting } from './event-queue.ts'
import { type LargeBodies, largeBodyBytes, type ReceivedCall } from './large-bodies.ts'

/** Result of accepting a call: the result of its event, or the reason why the call has no event. */
export type Accepted =
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
  readonly queue: Accepting
  readonly largeBodies: LargeBodies
  readonly vendorKeys: Pick<VendorKeys, 'find' | 'findSigner' | 'confirm'>
  readonly clock: Clock
  /** Maximum difference in milliseconds between a signed time and the clock, in both directions. */
  readonly signatureAgeMsMax: number
  /** Checks the tenant's event limits in memory. */
  checkLimits(tenant: DirectoryTenant): EventVerdict
  /** Returns the retention for tenants that do not set it. Called once per webhook call. */
  retentionDefaults(): RetentionDays
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
): Promise<Accepted> {
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
  // Only the check of a signature compares the topic with those that the tenant has configured.
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
    retention: retentionOf(tenant.retention, context.retentionDefaults()),
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

/** Verifies and normalizes a call by the secrets that could be decrypted. */
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

/** Finds the keys that the vendor of a call publishes; undefined if it publishes none. */
async function findPublished(
  { vendorKeys }: AcceptContext,
  { tenant, provider, keys }: { tenant: Caller['tenant']; provider: Provider; keys: unknown },
  call: ReceivedCall,
) {
  const location = provider.locate?.(call, keys)
  if (location === undefined || location.kind === 'refused') return location
  return vendorKeys.find(location, tenant.id)
}
