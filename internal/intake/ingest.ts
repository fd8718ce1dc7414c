import { type EventId, randomToken } from '#internal/base/index.ts'
import {
  type EventOrigin,
  type EventStateAtReceipt,
  findEventsByKey,
  hopsHeader,
  originHeaders,
  type ReceivedEvent,
  type StoreBatchOptions,
  storeBatch,
} from '#internal/events/index.ts'
import {
  findProviderName,
  isDottedType,
  readEventId,
  readEventText,
  readRawType,
} from '#internal/providers/index.ts'
import {
  type Declarations,
  type DirectoryTenant,
  type ProviderName,
  providerAcceptance,
  type RetentionDays,
  retentionOf,
} from '#internal/tenants/index.ts'
import { createReceivedEvent, keepsHeader } from './intake.ts'

/** Event that another service submits; stored and delivered like an event from a call of its provider. */
export interface IngestRequest {
  readonly tenant: DirectoryTenant
  /** Name of the provider, or an alias of a declared one. */
  readonly provider: ProviderName
  /** 1 to 255 characters without control characters. A second request with the same id is the same event. */
  readonly sourceEventId: string
  /** Dotted lowercase, such as `order.created`. */
  readonly type: string
  readonly rawType: string
  readonly occurredAtMs: number | undefined
  readonly headers: Readonly<Record<string, string>>
  /** JSON text of an object, stored unchanged. */
  readonly payload: string
  /** Name of the service, for the audit log. */
  readonly actor: string
}

/** Dependencies of `ingestEvent`. */
export interface IngestParts {
  readonly storing: StoreBatchOptions
  declarations(): Declarations
  retentionDefaults(): RetentionDays
  /** Awaited before a new event is stored. If it throws, nothing is stored. */
  beforeStored(event: ReceivedEvent): Promise<void>
}

/**
 * Result of ingesting an event. `known`: it was already stored and is unchanged. `invalid`: it is malformed. `notTaken`: the tenant accepts
 * no events of this provider.
 */
export type Ingested =
  | { readonly kind: 'stored' | 'known'; readonly id: EventId }
  | { readonly kind: 'invalid' | 'notTaken'; readonly problem: string }
  | { readonly kind: 'unavailable' }

/**
 * Stores an event and its first delivery, once per source event id. Safe to repeat.
 * @throws errors of Postgres
 */
export async function ingestEvent(
  parts: IngestParts,
  given: IngestRequest,
  nowMs: number,
): Promise<Ingested> {
  const declarations = parts.declarations()
  const request = { ...given, provider: findProviderName(given.provider, declarations) ?? given.provider }
  const problem = problemOf(request)
  if (problem !== undefined) return { kind: 'invalid', problem }
  const state = stateFor(request, declarations)
  if (state === undefined)
    return {
      kind: 'notTaken',
      problem: `This tenant does not accept events of "${request.provider}" at the moment: check spec.providers and the conditions of the Tenant`,
    }
  const event = eventOf(parts, request, state, nowMs)
  const known = await findKnown(parts, event)
  if (known !== undefined) return { kind: 'known', id: known }
  await parts.beforeStored(event)
  const outcome = await storeBatch({ ...parts.storing, requeues: false }, [event])
  const [acceptance] = outcome.kind === 'completed' ? outcome.acceptances : []
  if (acceptance === 'stored') return { kind: 'stored', id: event.id }
  if (acceptance === 'refused')
    return {
      kind: 'invalid',
      problem: 'The event has content that the database cannot store, such as a null character in a text',
    }
  const other = acceptance === 'duplicate' ? await findKnown(parts, event) : undefined
  return other === undefined ? { kind: 'unavailable' } : { kind: 'known', id: other }
}

async function findKnown({ storing }: IngestParts, { dedupeKey }: ReceivedEvent) {
  return (await findEventsByKey(storing.pool, [dedupeKey])).get(dedupeKey)
}

function problemOf({ sourceEventId, type, rawType, payload }: IngestRequest): string | undefined {
  if (typeof readEventId(sourceEventId) !== 'string')
    return 'The provider’s id must be 1 to 255 characters without control characters'
  if (!isDottedType(type)) return 'The type must be dotted lowercase, such as payment.succeeded'
  if (readRawType(rawType) === undefined)
    return 'The raw type must have at most 255 characters without control characters'
  return readEventText(payload).kind === 'object' ? undefined : 'The payload must be a JSON object'
}

/** Returns the event's state at receipt; undefined if the tenant accepts no events of this provider. */
function stateFor(
  { tenant, provider }: IngestRequest,
  declarations: Declarations,
): EventStateAtReceipt | undefined {
  // A tenant's spec can contain an alias, or a name that belongs to no provider. Under the latter, no events are accepted.
  const entry = tenant.providers.find(({ name }) => findProviderName(name, declarations) === provider)
  const acceptance = providerAcceptance({ provider, entry, walletStage: tenant.walletStage })
  return tenant.suspended || acceptance.kind === 'refuse' ? undefined : acceptance.state
}

function eventOf(
  { retentionDefaults }: IngestParts,
  request: IngestRequest,
  state: EventStateAtReceipt,
  nowMs: number,
): ReceivedEvent {
  const { tenant, provider, sourceEventId, rawType, type, occurredAtMs, payload, actor } = request
  const origin: EventOrigin = { kind: 'service', actor }
  const named = Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), value] as const)
  const kept = Object.fromEntries(named.filter(([name]) => keepsHeader(name)))
  return createReceivedEvent({
    tenant,
    provider,
    state,
    receivedAtMs: nowMs,
    origin,
    event: { kind: 'event', sourceEventId, rawType, type, occurredAtMs, payload },
    headers: JSON.stringify({ ...kept, [hopsHeader]: '1', ...originHeaders(origin) }),
    retention: retentionOf(tenant.retention, retentionDefaults()),
  })
}

const testEventType = 'latchkey.test'

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
}: {
  readonly tenant: DirectoryTenant
  readonly actor: string
  /** Test events with the same key are the same event. Omit it for a new event. */
  readonly idempotencyKey?: string | undefined
  readonly retention: RetentionDays
  readonly nowMs: number
  /** Default: an event of type `latchkey.test`. */
  readonly content?: TestEventContent | undefined
}): ReceivedEvent {
  const { idempotencyKey = randomToken() } = fields
  const origin = { kind: 'test', actor } as const
  // The id is a hash, so that an event of the provider does not get the same id by accident.
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
