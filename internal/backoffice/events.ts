import type { Actor } from '#internal/access/index.ts'
import type { EventId, TenantId } from '#internal/base/index.ts'
import type { AttemptView, EventState, EventSummary, EventView, QueuedView } from '#internal/events/index.ts'
import type { RedactedText } from '#internal/redaction/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import { appendEvent } from './append-event.ts'
import { attempt } from './attempt.ts'
import { listEventPage } from './event-page.ts'
import type { Outcome, Page, PageRequest } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import type { Whose } from './reach.ts'
import { readEventDetail, readRawPayload } from './read-event.ts'
import type { RedactorOf } from './redaction.ts'
import { replayOneEvent } from './replay-one-event.ts'

/** Which events are listed: those that all of it applies to. */
export interface EventListRequest extends PageRequest, Whose {
  /** A neutral name or a vendor's. */
  readonly provider?: string | undefined
  /** A normalized type, whole. */
  readonly type?: string | undefined
  readonly state?: EventState | undefined
  /** Received then or later, ms since the epoch. */
  readonly fromMs?: number | undefined
  /** Received earlier than that. */
  readonly toMs?: number | undefined
  readonly id?: EventId | undefined
  /** The provider's own id; only together with a tenant. */
  readonly sourceEventId?: string | undefined
}

/** One event, secrets hidden. */
export interface EventDetail extends Pick<EventView, 'event' | 'hasEarlierAttempts'> {
  readonly headers: Readonly<Record<string, string>>
  /** Its first 65 536 characters, redacted; undefined once its day has come, and where it was not asked for. */
  readonly payload: Pick<RedactedText, 'text' | 'isCut'> | undefined
  /** The latest 200, in their order, with the first 4 096 characters of what the callback answered, redacted. */
  readonly attempts: readonly AttemptView[]
  readonly queued: QueuedView | undefined
}

/** A payload as it was received. */
export interface RawPayload {
  readonly event: EventSummary
  /** JSON text. */
  readonly payload: string
}

/** An event that another service hands in as if its provider had called: verified by that service, on its word. */
export interface AppendedEvent {
  readonly tenantId: TenantId
  readonly provider: ProviderName
  /** 1 to 255 characters; the same one again is the same event. */
  readonly sourceEventId: string
  /** Normalized: dotted lowercase. */
  readonly type: string
  /** Default: the type. */
  readonly rawType?: string | undefined
  /** Default: now. */
  readonly occurredAtMs?: number | undefined
  /** Those that are never kept are left out. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** JSON text of an object. */
  readonly payload: string
}

/** What came of appending: `isNew` is false where it had been there. */
export interface Appended {
  readonly id: EventId
  readonly isNew: boolean
}

/** Which event is delivered once more. */
export interface EventReplay {
  readonly id: EventId
  /**
   * The round that was seen: with it, repeats begin one round and no more, whenever they come; an event that is in a later one is left
   * as it is.
   */
  readonly round?: number | undefined
}

/** What came of a replay; `isQueued` is false where a round was under way, or had been begun by the same request. */
export interface EventReplayed {
  readonly tenantId: TenantId
  readonly round: number
  readonly isQueued: boolean
}

/** What of an event is read. */
export interface EventReadOptions {
  /** Its payload, which does not change, is neither read nor given: for who has it. Default false. */
  readonly withoutPayload?: boolean
}

/** Events, as whoever asks may see them. */
export interface EventDesk {
  /** Newest first. */
  list(actor: Actor, request: EventListRequest): Promise<Outcome<Page<EventSummary>>>
  read(actor: Actor, id: EventId, options?: EventReadOptions): Promise<Outcome<EventDetail>>
  /** Needs the right to payloads, and is in the audit log before it is given. */
  readPayload(actor: Actor, id: EventId): Promise<Outcome<RawPayload>>
  append(actor: Actor, event: AppendedEvent): Promise<Outcome<Appended>>
  replay(actor: Actor, replay: EventReplay): Promise<Outcome<EventReplayed>>
}

/** Makes the use cases of events. */
export function createEventDesk(parts: BackofficeParts, redactorOf: RedactorOf): EventDesk {
  return {
    list: (actor, request) => attempt(parts, () => listEventPage(parts, actor, request)),
    read: (actor, id, options) =>
      attempt(parts, () => readEventDetail({ ...parts, redactorOf }, actor, id, options)),
    readPayload: (actor, id) => attempt(parts, () => readRawPayload(parts, actor, id)),
    append: (actor, event) => attempt(parts, () => appendEvent(parts, actor, event)),
    replay: (actor, replay) => attempt(parts, () => replayOneEvent(parts, actor, replay)),
  }
}
