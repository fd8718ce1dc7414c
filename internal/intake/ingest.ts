import type { EventId } from '#internal/base/index.ts'
import {
  type EventStateAtReceipt,
  findEventsByKey,
  type ReceivedEvent,
  type StoreBatchOptions,
  storeBatch,
} from '#internal/events/index.ts'
import {
  type DirectoryTenant,
  type ProviderName,
  type RetentionDays,
  retentionOf,
} from '#internal/tenants/index.ts'
import { createReceivedEvent } from './event.ts'
import { readEventText } from './event-body.ts'
import { type HeaderRules, hopsHeader } from './event-headers.ts'
import { judgeEventId } from './event-id.ts'
import { isDottedType, judgeTypes } from './event-type.ts'

/** An event that somebody else has verified, on whose word it is stored as if its provider had called. */
export interface HandInRequest {
  readonly tenant: DirectoryTenant
  readonly provider: ProviderName
  /** 1 to 255 characters without control characters; the same one again is the same event. */
  readonly sourceEventId: string
  /** Dotted lowercase. */
  readonly type: string
  readonly rawType: string
  readonly occurredAtMs: number | undefined
  readonly headers: Readonly<Record<string, string>>
  /** JSON text of an object, kept as it is. */
  readonly payload: string
}

/** What handing in works with. */
export interface HandInParts {
  readonly storing: StoreBatchOptions
  readonly headerRules: HeaderRules
  retentionDefaults(): RetentionDays
  /** Waited for before an event is stored that is not known yet. What it throws is thrown, and nothing is stored. */
  beforeStored(event: ReceivedEvent): Promise<void>
}

/** What came of it. `known`: it was there before, and nothing was changed. */
export type HandedIn =
  | { readonly kind: 'stored' | 'known'; readonly id: EventId }
  /** The request is none, or the tenant takes no events of this provider. */
  | { readonly kind: 'invalid' | 'notTaken'; readonly problem: string }
  | { readonly kind: 'unavailable' }

/** Stores an event and its first delivery, once for each of its provider's ids. @throws whatever Postgres throws */
export async function handInEvent(
  parts: HandInParts,
  request: HandInRequest,
  nowMs: number,
): Promise<HandedIn> {
  const problem = problemOf(request)
  if (problem !== undefined) return { kind: 'invalid', problem }
  const state = stateFor(request)
  if (state === undefined)
    return {
      kind: 'notTaken',
      problem: `This tenant takes no events of "${request.provider}" now: see its spec, and its conditions`,
    }
  const event = eventOf(parts, request, state, nowMs)
  const known = await findKnown(parts, event)
  if (known !== undefined) return { kind: 'known', id: known }
  await parts.beforeStored(event)
  const outcome = await storeBatch({ ...parts.storing, requeues: false }, [event])
  const [acceptance] = outcome.kind === 'settled' ? outcome.acceptances : []
  if (acceptance === 'stored') return { kind: 'stored', id: event.id }
  if (acceptance === 'refused') return { kind: 'invalid', problem: 'The event cannot be stored as it is' }
  const other = acceptance === 'duplicate' ? await findKnown(parts, event) : undefined
  return other === undefined ? { kind: 'unavailable' } : { kind: 'known', id: other }
}

async function findKnown({ storing }: HandInParts, { dedupeKey }: ReceivedEvent) {
  return (await findEventsByKey(storing.pool, [dedupeKey])).get(dedupeKey)
}

function problemOf({ sourceEventId, type, rawType, payload }: HandInRequest): string | undefined {
  if (judgeEventId(sourceEventId).kind === 'refused')
    return 'The provider’s id has to be 1 to 255 characters without control characters'
  if (!isDottedType(type)) return 'The type has to be dotted lowercase, such as payment.succeeded'
  if (judgeTypes(rawType, () => type).kind === 'refused')
    return 'The raw type has to be at most 255 characters without control characters'
  // Postgres holds no U+0000, which JSON may write as an escape: as text it stays one.
  return readEventText(payload).kind === 'object' ? undefined : 'The payload has to be a JSON object'
}

/** How its provider's events are stored for this tenant; undefined where none are taken. */
function stateFor({ tenant, provider }: HandInRequest): EventStateAtReceipt | undefined {
  const isSet = tenant.providers.some(({ name }) => name === provider)
  if (tenant.suspended || !isSet || provider === 'gateway') return undefined
  if (provider !== 'wallet' || tenant.walletStage === 'enabled') return 'accepted'
  return tenant.walletStage === 'verify' ? 'verified' : undefined
}

function eventOf(
  { headerRules, retentionDefaults }: HandInParts,
  request: HandInRequest,
  state: EventStateAtReceipt,
  nowMs: number,
): ReceivedEvent {
  const { tenant, provider, sourceEventId, rawType, type, occurredAtMs, payload } = request
  const named = Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), value] as const)
  const kept = Object.fromEntries(named.filter(([name]) => headerRules.keeps(name)))
  return createReceivedEvent({
    ...{ tenant, provider, state, receivedAtMs: nowMs },
    event: { kind: 'event', eventId: sourceEventId, rawType, type, occurredAtMs, payload },
    headers: JSON.stringify({ ...kept, [hopsHeader]: '1' }),
    retention: retentionOf(tenant.retention, retentionDefaults()),
  })
}
