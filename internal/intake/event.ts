import { createEventId, dayAfter, type TenantId } from '#internal/base/index.ts'
import type { EventStateAtReceipt, ReceivedEvent } from '#internal/events/index.ts'
import type { DirectoryTenant, ProviderName, RetentionDays } from '#internal/tenants/index.ts'
import type { ProviderEvent } from './provider.ts'

/** What an event is made of. */
export interface EventParts {
  readonly tenant: DirectoryTenant
  readonly provider: ProviderName
  readonly event: ProviderEvent
  readonly headers: string
  readonly receivedAtMs: number
  readonly state: EventStateAtReceipt
  /** Whether the tenant's limit of a month is reached; default no. */
  readonly overLimit?: boolean
  readonly isSimulated?: boolean
  /** How long the tenant's data is kept. */
  readonly retention: RetentionDays
}

/** A duplicate is known for this long at least, whatever the tenant's days: vendors retry for up to three days. */
const dedupeDaysMin = 7
/** What Postgres takes for a time; a provider may claim any. */
const timeMsMin = Date.UTC(1970, 0, 1)
const timeMsMax = Date.UTC(9999, 11, 31)

/** Makes the event of a verified call. */
export function createReceivedEvent(parts: EventParts): ReceivedEvent {
  const { tenant, provider, event, receivedAtMs } = parts
  const { payloadDays, eventDays } = parts.retention
  return {
    id: createEventId(receivedAtMs, eventDays),
    dedupeKey: dedupeKeyOf(tenant.id, provider, event.eventId),
    tenantId: tenant.id,
    provider,
    sourceEventId: event.eventId,
    rawType: event.rawType,
    type: event.type,
    occurredAtMs: occurredAt(event.occurredAtMs, receivedAtMs),
    receivedAtMs,
    headers: parts.headers,
    payload: event.payload,
    payloadBytes: Buffer.byteLength(event.payload),
    expiresOn: dayAfter(receivedAtMs, eventDays),
    payloadExpiresOn: dayAfter(receivedAtMs, payloadDays),
    dedupeExpiresOn: dayAfter(receivedAtMs, Math.max(eventDays, dedupeDaysMin)),
    state: parts.state,
    ...(parts.overLimit && { overLimit: true }),
    ...(retriesOnRedelivery(parts) && { retriesOnRedelivery: true }),
  }
}

/** Also false for tenant rows of older versions, which lack the field. */
function retriesOnRedelivery({ tenant, isSimulated }: EventParts): boolean {
  return !isSimulated && tenant.callback.rules.retryOnRedelivery
}

/** Neither a tenant's id nor a provider's name holds a line feed, so that no two triples give the same bytes. */
function dedupeKeyOf(tenantId: TenantId, provider: ProviderName, sourceEventId: string): string {
  const text = `${tenantId}\n${provider}\n${sourceEventId}`
  return Bun.SHA256.hash(text, 'hex').slice(0, 32)
}

function occurredAt(claimedMs: number | undefined, receivedAtMs: number): number {
  if (claimedMs === undefined || !(claimedMs >= timeMsMin && claimedMs <= timeMsMax)) return receivedAtMs
  return Math.floor(claimedMs)
}
