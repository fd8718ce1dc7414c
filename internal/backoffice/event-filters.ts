import { type Static, Type as t } from '@sinclair/typebox'
import { type EventId, parseEventId } from '#internal/base/index.ts'
import {
  eventStates,
  originKinds,
  parseStatusFilter,
  type StatusFilter,
  slowerThanMsMax,
  statusFilterPattern,
} from '#internal/events/index.ts'
import { integerParam, oneOf, type Param, plainText, textParam, wordParam } from '#internal/http/index.ts'
import {
  parseReplayId,
  type ReplayFilter,
  type ReplayId,
  replayEventOutcomes,
  replayedOrigins,
} from '#internal/replays/index.ts'
import { parseProviderName } from '#internal/tenants/index.ts'
import { at, tenantId } from './http-answers.ts'
import type { SharedApi } from './http-apis.ts'
import { idSchema, providerField, providerParam, readTimes, timeParam, timestamp } from './http-params.ts'
import {
  described,
  growingWordOf,
  idOf,
  listOf,
  objectOf,
  providerOf,
  text,
  time,
  unshown,
  whole,
  wordOf,
} from './http-schemas.ts'
import { defined, type Outcome, ok } from './outcome.ts'

// The filters of events in both APIs: as query parameters of the list, as fields of the body of a replay and of a search, and in the answers
// about a replay.

const typeText =
  'Normalized type, or a family of types: `payment.*` stands for all types that begin with `payment.`. In any case.'
const typeCharsMax = 255

const statusText =
  'Response to the last attempt: a status such as `404`, a class such as `5xx`, or `none` for no response. A status other than 2xx, without `state`, finds pending and failed events only.'
const statusSchema = {
  type: 'string',
  pattern: statusFilterPattern,
  expected: 'a status such as 404, a class of statuses such as 5xx, or none for no response',
}
const statusParam: Param<StatusFilter> = {
  parse: parseStatusFilter,
  description: statusText,
  schema: statusSchema,
}

const slowerText = 'The last attempt took longer than this, in milliseconds.'
const slowerBounds = { minimum: 1, maximum: slowerThanMsMax }

const outcomeText =
  'Only with `replayId`: outcome in that replay. `failed`: its delivery failed again, and the event was not replayed once more since. `pending`: its delivery is in progress.'

const idParam: Param<EventId> = {
  parse: parseEventId,
  description: 'Id of an event.',
  schema: idSchema('evt'),
}
const replayParam: Param<ReplayId> = {
  parse: parseReplayId,
  description: 'Id of a replay: only events that it queued, of its first 1 000.',
  schema: idSchema('rpl'),
}
const sourceIdText = {
  backoffice:
    'The provider’s id. Without `tenantId` and `namespaces` it is looked for in all tenants, at most 10 000; `provider` makes it faster.',
  public: 'The provider’s id.',
}

/** Returns the query parameters of the event list in an API. */
export function eventListParams({ name }: Pick<SharedApi<never>, 'name'>) {
  return {
    provider: providerParam,
    type: textParam(typeText, { charsMax: typeCharsMax }),
    state: wordParam('State of the event.', eventStates),
    origin: wordParam('Origin of the event.', originKinds),
    status: statusParam,
    slowerThanMs: integerParam(slowerText, slowerBounds),
    from: timeParam('Received then or later.'),
    to: timeParam('Received earlier.'),
    id: idParam,
    sourceEventId: textParam(sourceIdText[name], { charsMax: 255 }),
    replayId: replayParam,
    outcome: wordParam(outcomeText, replayEventOutcomes),
  }
}

const sharedFields = {
  provider: t.Optional(providerField('Provider of the events')),
  type: t.Optional(plainText(typeCharsMax, { description: typeText })),
}

/** Body fields that choose the events of a search of payloads. */
export const searchFilterFields = {
  ...sharedFields,
  state: t.Optional(oneOf(eventStates, 'State of the events.')),
}

const replayedStates = ['processed', 'delivery_failed', 'verified'] as const

const replayFields = {
  ...sharedFields,
  state: t.Optional(
    oneOf(
      replayedStates,
      'State of the events. Default: any of these, so that only events with a delivery in progress are left out. The command `latchkey replay start` has the default `delivery_failed`, and `any` for all of these.',
    ),
  ),
  origin: t.Optional(
    oneOf(replayedOrigins, 'Origin of the events. Default: any of these, and never test events.'),
  ),
  status: t.Optional(t.Unsafe<StatusFilter>(t.String({ ...statusSchema, description: statusText }))),
  slowerThanMs: t.Optional(t.Integer({ ...slowerBounds, description: slowerText })),
  from: timestamp('Received then or later.'),
  to: t.Optional(timestamp('Received earlier. Default, and latest: start of the replay.')),
  ids: t.Optional(
    t.Array(idSchema('evt'), {
      minItems: 1,
      maxItems: 1_000,
      description: 'Only these events.',
    }),
  ),
  replayId: t.Optional(
    t.Unsafe<ReplayId>(
      idSchema('rpl', { description: 'Only events that this earlier replay queued, of its first 1 000.' }),
    ),
  ),
  outcome: t.Optional(
    oneOf(replayEventOutcomes, `${outcomeText} Its events are chosen when the replay starts.`),
  ),
}

const tenantField = { tenantId: t.Optional(idSchema('ten', { description: 'Id of the tenant.' })) }

/** Returns the fields of a replay's filter in an API. In the public API the tenant is that of the key. */
export function replayFilterFields({ name }: Pick<SharedApi<never>, 'name'>) {
  // A missing optional field is like one that was not sent, so both APIs have the same type.
  const ofTenant = name === 'public' ? ({} as typeof tenantField) : tenantField
  return { ...ofTenant, ...replayFields }
}

/** Returns the filter of a replay, or the refusal of a date that does not exist. Pure. */
export function parseReplayFilter({
  from,
  to,
  provider,
  ...sameNames
}: Static<ReturnType<typeof t.Object<ReturnType<typeof replayFilterFields>>>>): Outcome<ReplayFilter> {
  const times = readTimes({ from, to })
  if (times.kind !== 'ok') return times
  const { from: fromMs, to: toMs } = times.value
  return ok({
    fromMs,
    ...defined({
      toMs,
      provider: provider === undefined ? undefined : parseProviderName(provider),
      ...sameNames,
    }),
  })
}

/** Filter in the answers about a replay. */
export const replayFilterAnswer = objectOf(
  { from: time(at('00:00:00')) },
  {
    to: time(),
    tenantId,
    provider: providerOf(),
    type: text(),
    status: text(),
    slowerThanMs: whole(),
    state: wordOf(eventStates, 'delivery_failed'),
    ids: unshown(listOf(idOf('evt'))),
    origin: growingWordOf(replayedOrigins),
    replayId: described('Earlier replay whose events the filter covers.', unshown(idOf('rpl'))),
    outcome: unshown(growingWordOf(replayEventOutcomes)),
  },
)
