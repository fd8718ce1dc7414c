import { type Actor, actorName, writeAudit } from '#internal/access/index.ts'
import { type EventId, parseEventId, type TenantId } from '#internal/base/index.ts'
import {
  type AttemptPlace,
  type CycleOutcome,
  callbackQueueOf,
  type EventSummary,
  type ListedEvent,
  listAttemptPlaces,
  listEvents,
  notifyForwarders,
  readAttemptsAt,
  readEvent,
  readPayload as readStoredPayload,
  type SourceTenant,
  type EventListRequest as StoredRequest,
  sourceTenantsMax,
  withDeliveryFacts,
} from '#internal/events/index.ts'
import { ingestEvent } from '#internal/intake/index.ts'
import { findProviderName } from '#internal/providers/index.ts'
import { type Redactor, shownCharsMax } from '#internal/redaction/index.ts'
import {
  type ReplayEventOutcome,
  type ReplayId,
  readReplayedIds,
  replayEvent,
  retryEvent,
} from '#internal/replays/index.ts'
import {
  type Directory,
  type DirectoryTenant,
  neutralProviderName,
  type ProviderName,
} from '#internal/tenants/index.ts'
import { attemptDetails } from './attempts.ts'
import { explainEvent } from './explain.ts'
import type { AttemptDetail, EventDetail } from './http-attempt-answers.ts'
import type { EventIngested, EventReplayed, EventRetried, StoredPayload } from './http-event-answers.ts'
import type { ValueOf } from './http-schemas.ts'
import {
  conflict,
  defined,
  invalid,
  noCallback,
  notFound,
  type Outcome,
  ok,
  providerNotReady,
  type Refusal,
  readTypeFilter,
  unavailable,
} from './outcome.ts'
import { listPage, type Page, type PageRequest } from './page.ts'
import { redactHeaders, type SharedDeskParts, type SharedUseCase, type UseCase } from './parts.ts'
import { search } from './payload-search.ts'
import { reachEvent, reachTenant, type TenantSelection } from './reach.ts'
import { outcomeAlone, readJob, unknownReplay } from './replays.ts'

/** Filters of the event list, combined with AND. */
export type EventListRequest = PageRequest &
  TenantSelection & {
    readonly [Name in Exclude<
      keyof StoredRequest,
      'tenantId' | 'sourceTenants' | 'ids' | 'after' | 'limit'
    >]?: StoredRequest[Name] | undefined
  } & {
    /** Selects the first 1 000 events that this replay queued. */
    readonly replayId?: ReplayId | undefined
    readonly outcome?: ReplayEventOutcome | undefined
  }

/** Lists events, newest first, with the facts of their deliveries. */
const list: SharedUseCase<EventListRequest, Page<ListedEvent>> = async (parts, actor, request) => {
  const { after: _after, limit: _limit, tenantId, namespaces: _namespaces, ...asked } = request
  const { replayId, outcome, ...rest } = asked
  const typed = readTypeFilter(rest)
  if (typed.kind !== 'ok') return typed
  const filter = typed.value
  const replayed = await replayedIds(parts, actor, { replayId, outcome })
  if (replayed.kind !== 'ok') return replayed
  const ids = replayed.value
  const { directory } = parts
  const isOfSource = filter.sourceEventId !== undefined
  const readList = () =>
    listPage<EventSummary, EventId>(parts, actor, request, {
      parse: parseEventId,
      positionOf: (event) => event.id,
      refuseAll: () => (isOfSource ? sourceRefusal(directory) : undefined),
      async read({ limit, after, ...owner }) {
        const sourceTenants = isOfSource ? sourceTenantsOf(directory, owner.tenantId) : undefined
        const bounded = { limit, ...defined({ ...filter, ...owner, after, sourceTenants, ids }) }
        const { events, next } = await listEvents(parts.readPool, bounded, parts.clock.now())
        return { items: events, next }
      },
    })
  const isWide = isOfSource && tenantId === undefined && actor.kind !== 'tenantKey'
  const listed = await (isWide ? parts.searchTurns.runWide(actorName(actor), readList) : readList())
  if (listed.kind !== 'ok') return listed
  return ok({ ...listed.value, items: await withDeliveryFacts(parts.readPool, listed.value.items) })
}

async function replayedIds(
  parts: SharedDeskParts,
  actor: Actor,
  { replayId, outcome }: Pick<EventListRequest, 'replayId' | 'outcome'>,
): Promise<Outcome<readonly EventId[] | undefined>> {
  if (replayId === undefined) return outcome === undefined ? ok(undefined) : outcomeAlone
  const job = await readJob(parts, actor, replayId)
  if (job.kind !== 'ok') return job.kind === 'notFound' ? unknownReplay : job
  return ok(await readReplayedIds(parts.readPool, { replayId, outcome }, parts.clock.now()))
}

/** Returns a refusal if a provider's event id cannot be searched in all tenants now. */
function sourceRefusal(directory: Directory): Refusal | undefined {
  if (!directory.hasSnapshot()) return unavailable
  return directory.stats().tenants > sourceTenantsMax ? tooManyTenants : undefined
}

/** Returns one tenant or all tenants from memory, with their declared providers under the names that stored events have. */
function sourceTenantsOf(directory: Directory, tenantId: TenantId | undefined): readonly SourceTenant[] {
  const names = new Map<string, string>()
  const nameOf = (given: string) => {
    const known = names.get(given)
    if (known !== undefined) return known
    // The spec of a tenant can contain an alias, but events have the provider's own name.
    const name = findProviderName(given, directory.declarations()) ?? given
    names.set(given, name)
    return name
  }
  const declaredOf = (providers: DirectoryTenant['providers']) =>
    providers.filter(({ name }) => neutralProviderName(name) === undefined).map(({ name }) => nameOf(name))
  if (tenantId === undefined)
    return Array.from(directory.tenants(), ({ id, providers }) => ({
      id,
      declaredProviders: declaredOf(providers),
    }))
  const providers = directory.findTenantById(tenantId)?.providers ?? []
  return [{ id: tenantId, declaredProviders: declaredOf(providers) }]
}

const tooManyTenants = invalid(
  `A search by the provider’s id covers at most ${sourceTenantsMax} tenants: name the tenant or namespaces, too`,
)

/** With `withoutPayload`, does not read the payload, for callers that already show it. A payload never changes. */
async function read(
  parts: SharedDeskParts,
  actor: Actor,
  id: EventId,
  { withoutPayload = false }: { readonly withoutPayload?: boolean } = {},
): Promise<Outcome<EventDetail>> {
  const reached = await reachEvent(parts, actor, id)
  if (reached.kind !== 'ok') return reached
  const { tenant } = reached.value
  const place = { id, tenantId: tenant.id }
  const nowMs = parts.clock.now()
  const [view, payload] = await Promise.all([
    readEvent(parts.readPool, place, nowMs),
    // Reads one character more than the page shows, to detect a truncated payload.
    withoutPayload ? undefined : readStoredPayload(parts.readPool, place, nowMs, shownCharsMax + 1),
  ])
  if (view === undefined) return notFound
  const redactor = parts.redactorOf(tenant)
  const { event, hasEarlierAttempts, delivery } = view
  return ok({
    event,
    hasEarlierAttempts,
    delivery,
    headers: redactHeaders(redactor, view.headers),
    redactedPayload: payload?.kind === 'payload' ? shownPayload(redactor, payload.payload) : undefined,
    attempts: attemptDetails(redactor, actor, view),
  })
}

async function summary(parts: SharedDeskParts, actor: Actor, id: EventId): Promise<Outcome<EventSummary>> {
  const reached = await reachEvent(parts, actor, id)
  return reached.kind === 'ok' ? ok(reached.value.event) : reached
}

/** Reads an attempt of an event. Redacts secrets. */
async function readAttempt(
  parts: SharedDeskParts,
  actor: Actor,
  place: AttemptPlace & { readonly id: EventId },
): Promise<Outcome<Pick<EventDetail, 'event' | 'headers'> & { readonly attempt: AttemptDetail }>> {
  const reached = await reachEvent(parts, actor, place.id)
  if (reached.kind !== 'ok') return reached
  const { tenant } = reached.value
  const asked = { id: place.id, tenantId: tenant.id, attempts: [place] }
  const view = await readAttemptsAt(parts.readPool, asked, parts.clock.now())
  if (view === undefined) return notFound
  const redactor = parts.redactorOf(tenant)
  const [attempt] = attemptDetails(redactor, actor, view)
  if (attempt === undefined) return notFound
  return ok({ event: view.event, headers: redactHeaders(redactor, view.headers), attempt })
}

/** One attempt of an event, and another one to compare. Secrets are redacted. */
export interface InspectedAttempt extends Pick<EventDetail, 'event' | 'headers' | 'redactedPayload'> {
  readonly attempt: AttemptDetail
  /** Requested attempt to compare, or else the previous attempt. */
  readonly compared: AttemptDetail | undefined
  /** Keys of the latest 200 attempts, oldest first. */
  readonly places: readonly AttemptPlace[]
}

const isSamePlace = (one: AttemptPlace) => (other: AttemptPlace) =>
  one.cycle === other.cycle && one.attempt === other.attempt

/** Reads two attempts of an event, and only the keys of other attempts. */
async function inspectAttempt(
  parts: SharedDeskParts,
  actor: Actor,
  {
    id,
    comparedWith,
    ...place
  }: AttemptPlace & {
    readonly id: EventId
    readonly comparedWith?: AttemptPlace | undefined
  },
): Promise<Outcome<InspectedAttempt>> {
  const reached = await reachEvent(parts, actor, id)
  if (reached.kind !== 'ok') return reached
  const { event, tenant } = reached.value
  const owned = { id, tenantId: tenant.id }
  const nowMs = parts.clock.now()
  const places = await listAttemptPlaces(parts.readPool, event)
  const before = places[places.findIndex(isSamePlace(place)) - 1]
  const other = places.find((each) => comparedWith && isSamePlace(comparedWith)(each)) ?? before
  const [view, payload] = await Promise.all([
    readAttemptsAt(parts.readPool, { ...owned, attempts: [place, ...(other ? [other] : [])] }, nowMs),
    readStoredPayload(parts.readPool, owned, nowMs, shownCharsMax + 1),
  ])
  if (view === undefined) return notFound
  const redactor = parts.redactorOf(tenant)
  const details = attemptDetails(redactor, actor, view)
  const attempt = details.find(isSamePlace(place))
  if (attempt === undefined) return notFound
  return ok({
    event: view.event,
    headers: redactHeaders(redactor, view.headers),
    places,
    attempt,
    redactedPayload: payload.kind === 'payload' ? shownPayload(redactor, payload.payload) : undefined,
    compared: other && details.find(isSamePlace(other)),
  })
}

/** Redacts a payload. Omits the redactor's character count, which would count only the part of the payload that was read. */
function shownPayload(redactor: Redactor, payload: string): EventDetail['redactedPayload'] {
  const { text, isCut } = redactor.payload(payload)
  return { text, isCut }
}

/** Requires the right to read payloads. Writes the audit entry before it returns the payload as received. */
async function readPayload(
  parts: SharedDeskParts,
  actor: Actor,
  id: EventId,
): Promise<Outcome<ValueOf<typeof StoredPayload>>> {
  const reached = await reachEvent(parts, actor, id, 'readPayloads')
  if (reached.kind !== 'ok') return reached
  const { event, tenant } = reached.value
  const nowMs = parts.clock.now()
  const stored = await readStoredPayload(parts.readPool, { id, tenantId: tenant.id }, nowMs)
  if (stored.kind !== 'payload')
    return stored.kind === 'unknown'
      ? notFound
      : conflict('The payload has expired; the event and its attempts are still kept')
  const entry = { actor: actorName(actor), action: 'payloads.read', tenantId: tenant.id } as const
  await writeAudit(parts.pool, { ...entry, detail: { eventId: id } }, nowMs)
  return ok({ event, payload: stored.payload })
}

/** Event that another service sends to Latchkey, for example after it verified the provider's call itself. */
export interface IngestedEvent {
  readonly tenantId: TenantId
  readonly provider: ProviderName
  /** Deduplication key within the provider, 1 to 255 characters. */
  readonly sourceEventId: string
  /** Normalized event type, in dotted lowercase. */
  readonly type: string
  /** Type as the provider named it. Default: `type`. */
  readonly providerRawType?: string | undefined
  /** Default: the current time. */
  readonly occurredAtMs?: number | undefined
  /** Headers that Latchkey never stores are dropped. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Text of a JSON object. */
  readonly payload: string
}

/** Writes the audit entry before it stores the event. A repeated request writes no second audit entry. */
const ingest: UseCase<IngestedEvent, ValueOf<typeof EventIngested>> = async (parts, actor, given) => {
  const reached = await reachTenant(parts, actor, given.tenantId, 'ingestEvents')
  if (reached.kind !== 'ok') return reached
  const { pool, redis, clock, onIngested, onTrouble, retentionDefaults } = parts
  const ingesting: Parameters<typeof ingestEvent>[0] = {
    retentionDefaults,
    declarations: () => parts.directory.declarations(),
    storing: {
      pool,
      // If the notification is lost, a forwarder still finds the event by polling.
      wake: (tenantIds) => void notifyForwarders(redis, tenantIds).catch(() => undefined),
      onStored: onIngested,
      onError: onTrouble,
    },
    async beforeStored({ id, tenantId, provider, sourceEventId }) {
      const detail = { eventId: id, provider, sourceEventId }
      const entry = { actor: actorName(actor), action: 'events.ingested', tenantId, detail } as const
      await writeAudit(pool, entry, clock.now())
    },
  }
  const { type, providerRawType: rawType = type, headers = {}, occurredAtMs } = given
  const event = { ...given, rawType, headers, occurredAtMs, tenant: reached.value, actor: actorName(actor) }
  const result = await ingestEvent(ingesting, event, clock.now())
  switch (result.kind) {
    case 'stored':
    case 'known':
      return ok({ id: result.id, isNew: result.kind === 'stored' })
    case 'invalid':
      return invalid(result.problem)
    case 'notTaken':
      return providerNotReady(result.problem)
    case 'unavailable':
      return unavailable
  }
}

/** Starts another delivery cycle of an event. `isNew` is false if a cycle was in progress, for example after an identical request. */
const replay: SharedUseCase<
  {
    readonly id: EventId
    /** Number of the delivery cycle that the caller saw. With it, repeated requests start only one cycle. */
    readonly cycle?: number | undefined
  },
  ValueOf<typeof EventReplayed>
> = async (parts, actor, { id, cycle }) => {
  const reached = await reachEvent(parts, actor, id, 'replay')
  if (reached.kind !== 'ok') return reached
  const { pool, clock } = parts
  const tenantId = reached.value.tenant.id
  const request = { eventId: id, tenantId, by: actorName(actor), ...defined({ cycle }) }
  const result = await replayEvent(pool, request, clock.now())
  switch (result.kind) {
    case 'queued':
      await wakeForwarders(parts, tenantId)
      return ok({ tenantId, cycle: result.cycle, isNew: true })
    case 'already_queued':
      return ok({ tenantId, cycle: result.cycle, isNew: false })
    case 'changed':
      return cycle !== undefined && result.cycle > cycle
        ? ok({ tenantId, cycle: result.cycle, isNew: false })
        : conflict('The event is not in this delivery cycle yet: read it again')
    default:
      return cycleRefusals[result.kind]
  }
}

/** Brings the next attempt forward, or begins another delivery cycle if none is in progress. */
const retry: SharedUseCase<EventId, ValueOf<typeof EventRetried>> = async (parts, actor, id) => {
  const reached = await reachEvent(parts, actor, id, 'replay')
  if (reached.kind !== 'ok') return reached
  const tenantId = reached.value.tenant.id
  const request = { eventId: id, tenantId, by: actorName(actor) }
  const result = await retryEvent(parts.pool, request, parts.clock.now())
  switch (result.kind) {
    case 'queued':
    case 'due_now':
      await wakeForwarders(parts, tenantId)
      return ok({ tenantId, cycle: result.cycle, change: changeBy[result.kind], isNew: true })
    case 'already_queued':
    case 'changed':
      return ok({ tenantId, cycle: result.cycle, change: 'none', isNew: false })
    default:
      return cycleRefusals[result.kind]
  }
}

const changeBy = { queued: 'new_cycle', due_now: 'due_now' } as const

/** If the notification is lost, a forwarder still finds the event by polling. */
async function wakeForwarders({ redis }: SharedDeskParts, tenantId: TenantId): Promise<void> {
  await notifyForwarders(redis, [callbackQueueOf(tenantId)]).catch(() => undefined)
}

const cycleRefusals: Readonly<
  Record<Exclude<CycleOutcome, 'queued' | 'already_queued' | 'changed'>, Outcome<never>>
> = {
  not_found: notFound,
  payload_expired: conflict('The payload has expired, so the event cannot be delivered again'),
  no_callback: noCallback,
  not_enabled: conflict('The provider is in verify-only mode for this tenant: enable it first'),
  test_event: conflict('A test event is never delivered again: send another test event'),
  cycles_exhausted: conflict('The event has reached the maximum number of delivery cycles'),
}

export const eventCases = {
  explain: explainEvent,
  list,
  summary,
  read,
  readAttempt,
  inspectAttempt,
  readPayload,
  replay,
  retry,
  search,
}

export const ingestCases = { ingest }
