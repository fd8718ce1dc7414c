import type { Day } from '#internal/base/index.ts'
import { eventStates, type OriginKind, originKinds } from '#internal/events/index.ts'
import { mayGrow } from '#internal/http/index.ts'
import { replayStates } from '#internal/replays/index.ts'
import { replayFilterAnswer } from './derived-filters.ts'
import { at, eventId, isNew, tenantId } from './http-answers.ts'
import {
  answer,
  constant,
  type DocumentedAnswer,
  described,
  eventProviderOf,
  flag,
  growingWordOf,
  idOf,
  listOf,
  objectOf,
  of,
  orNull,
  pageAnswer,
  text,
  time,
  unshown,
  type ValueOf,
  whole,
  wordOf,
} from './http-schemas.ts'
import { eventPositions } from './states.ts'

function originOf<Kind extends OriginKind, Own extends Readonly<Record<string, DocumentedAnswer>>>(
  kind: Kind,
  name: string,
  description: string,
  fields?: Own,
) {
  return answer(name, described(description, objectOf({ kind: constant(kind), ...(fields as Own) })))
}
const actor = described('Caller, as in the audit log.', text('user:ada'))
const origins = {
  provider: originOf(
    'provider',
    'ProviderOrigin',
    'A provider called, and its signature was verified; also every event that a version without origins stored.',
  ),
  service: originOf('service', 'ServiceOrigin', 'Ingested over this API by `actor`.', { actor }),
  simulation: originOf('simulation', 'SimulationOrigin', 'Made by a simulation.', {
    simulationId: idOf('sim', 'sim_06gzx3byyxdccqxb8v47jbp37g'),
  }),
  notification: originOf(
    'notification',
    'NotificationOrigin',
    'Made by Latchkey about the tenant’s operation, and sent to its `spec.notifications` only.',
  ),
  test: originOf('test', 'TestOrigin', 'A test of the callback that `actor` sent.', { actor }),
} satisfies Record<OriginKind, DocumentedAnswer>
const origin = answer(
  'EventOrigin',
  of<ValueOf<(typeof origins)[OriginKind]>>({
    oneOf: originKinds.map((kind) => origins[kind].schema),
    ...mayGrow,
  })(origins.service.example),
)
export const EventSummary = answer(
  'EventSummary',
  objectOf(
    {
      id: idOf('evt', eventId),
      tenantId,
      provider: eventProviderOf('card'),
      sourceEventId: described('The provider’s id.', text('evt_1Pq0')),
      providerRawType: described('The provider’s name of the type.', text('charge.dispute.updated')),
      type: described('Normalized type.', text('chargeback.under_review')),
      occurredAt: time(at('08:40:00')),
      receivedAt: time(at('08:40:01')),
      payloadBytes: whole(1_204),
      payloadExpiresOn: described(
        'Day from which the payload can be deleted.',
        of<Day>({ type: 'string', format: 'date' })('2026-12-22'),
      ),
      state: described(
        '`accepted`: a delivery cycle is in progress. `verified`: stored and not delivered, while the wallet’s rollout is in stage `verify`.',
        wordOf(eventStates, 'delivery_failed'),
      ),
      origin,
      cycle: described('Delivery cycle, 1 for the first.', whole(1)),
      completedAt: described(
        'End of its last delivery cycle; null while one is in progress.',
        orNull(time(at('09:10:00'))),
      ),
    },
    {
      attemptCount: described(
        'Only in lists of events: completed attempts of its delivery cycle.',
        unshown(whole()),
      ),
      lastStatus: described(
        'Only in lists of events: status of the last response; null without one.',
        unshown(orNull(whole())),
      ),
      lastCause: described(
        'Only in lists of events: reason why the last attempt had no response, or why the event failed.',
        unshown(orNull(text())),
      ),
      lastDurationMs: described(
        'Only in lists of events: duration of the last attempt.',
        unshown(orNull(whole())),
      ),
      nextAttemptAt: described(
        'Only in lists of events: earliest time of the next attempt, which waits longer while the callback or the tenant is suspended, its circuit breaker is open or forwarding is paused; null if none is planned, or while one is in progress.',
        unshown(orNull(time())),
      ),
    },
  ),
)
export const EventPage = pageAnswer('EventPage', EventSummary, eventId)

/** The payload is an object in the response. Use cases return it as the text that was received. */
export const StoredPayload = answer(
  'StoredPayload',
  objectOf({
    event: EventSummary,
    payload: described('As received.', of<string>({ type: 'object' })({ id: 'evt_1Pq0', amount: 4200 })),
  }),
)
export const EventIngested = answer('EventIngested', objectOf({ id: idOf('evt', eventId), isNew }))
export const EventReplayed = answer(
  'EventReplayed',
  objectOf({
    tenantId,
    cycle: whole(2),
    isNew: described(
      'false where a delivery cycle was in progress, or an earlier call began it.',
      flag(true),
    ),
  }),
)

/** Explanation of the position of an event between receipt and delivery, and of the reason. */
export const Explanation = answer(
  'Explanation',
  objectOf(
    {
      position: described(
        'What the event waits for, or how it ended. While several things hold it, the first one in this order.',
        growingWordOf(Object.keys(eventPositions) as (keyof typeof eventPositions)[], 'waiting'),
      ),
      sentence: text('The event waits for attempt 4 of 10; the callback last answered 500.'),
    },
    {
      todo: described('What to do. Absent if there is nothing to do.', text('Look for an error in its log.')),
      startedAt: described('Time since which it is there.', unshown(time())),
      nextChangeAt: described('Time at which it changes unless something else happens before.', time()),
    },
  ),
)
export type Explanation = ValueOf<typeof Explanation>

export const EventRetried = answer(
  'EventRetried',
  objectOf({
    tenantId,
    cycle: whole(2),
    change: described(
      '`new_cycle`: another delivery cycle began. `due_now`: the next attempt was brought forward. `none`: an attempt is due or in progress.',
      wordOf(['new_cycle', 'due_now', 'none'], 'due_now'),
    ),
    isNew: described('false where nothing was changed.', flag(true)),
  }),
)

const countOf = (count: number) => objectOf({ count: whole(count), isExact: flag(true) })
const replayOutcome = objectOf({
  examinedCount: whole(400),
  deliveredCount: whole(391),
  failedCount: whole(3),
  pendingCount: whole(6),
  otherCount: described('Events that were replayed once more since, or deleted.', whole(0)),
})
const skipped = of<Readonly<Partial<Record<string, number>>>>({
  type: 'object',
  additionalProperties: { type: 'integer' },
})({ payload_expired: 3 })

export const Replay = answer(
  'Replay',
  objectOf({
    id: idOf('rpl', 'rpl_06gw979vs1d9q6mddfvvx375s4'),
    filter: replayFilterAnswer,
    ratePerSecond: whole(100),
    requestedBy: text('user:ada'),
    state: wordOf(replayStates, 'running'),
    total: described('Events that matched at the start.', countOf(1_312)),
    queuedCount: whole(400),
    skipped: described('Events that matched and were not queued, by cause.', skipped),
    examinedTo: orNull(text(eventId)),
    isWaiting: flag(false),
    cause: orNull(text(null)),
    createdAt: time(at('09:20:00')),
    startedAt: orNull(time(at('09:20:01'))),
    endedAt: orNull(time(null)),
    outcome: described(
      'Outcome of the deliveries of the first 1 000 queued events, as last counted; null before the first count. `readReplay` counts it.',
      orNull(replayOutcome),
    ),
    progress: described(
      'Progress for people. Programs use the counts.',
      text('400 queued: 391 delivered, 3 failed again, 6 pending; 3 skipped'),
    ),
  }),
)
export const ReplayPage = pageAnswer('ReplayPage', Replay)
export const ReplayChanged = answer('ReplayChanged', objectOf({ replay: Replay, isNew }))
export const ReplayPreview = answer(
  'ReplayPreview',
  objectOf({ total: countOf(1), examples: listOf(EventSummary) }, { newest: EventSummary }),
)
