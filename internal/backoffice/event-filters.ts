import { type TSchema, Type as t } from '@sinclair/typebox'
import { parseEventId } from '#internal/base/index.ts'
import {
  type EventListRequest,
  eventStates,
  originKinds,
  ownProvider,
  parseStatusFilter,
  type StatusFilter,
  slowerThanMsMax,
  statusFilterPattern,
} from '#internal/events/index.ts'
import { integerParam, oneOf, type Param, plainText, textParam, wordParam } from '#internal/http/index.ts'
import { shippedNames } from '#internal/providers/index.ts'
import {
  parseReplayId,
  type ReplayId,
  replayEventOutcomes,
  replayedOrigins,
} from '#internal/replays/index.ts'
import { acceptedProviderNames, parseProviderName } from '#internal/tenants/index.ts'
import { idSchema, providerField, providerParam } from './http-params.ts'
import {
  type DocumentedAnswer,
  described,
  growingWordOf,
  idOf,
  providerOf,
  text,
  unshown,
  whole,
  wordOf,
} from './http-schemas.ts'

// Each filter of events is defined once, in `eventFilters`. Query parameters, bodies and answers of both APIs, the forms of the dashboard
// and the options of the command line are derived from it. `contributing/add-event-filter.md` names the steps.

/** Filters of the event list, by their name in both APIs, without the times of receipt. */
export type FilterName =
  | Exclude<
      keyof EventListRequest,
      'tenantId' | 'sourceTenants' | 'ids' | 'fromMs' | 'toMs' | 'after' | 'limit'
    >
  | 'replayId'
  | 'outcome'

/** Filter of events in all interfaces. A member is null where the filter does not apply, so that no interface can be forgotten. */
export interface EventFilterDefinition {
  readonly param: Param<unknown>
  /** Form field. Null if the field of another filter also takes the values of this one. */
  readonly field: FilterField | null
  readonly flag: FilterFlag
  /** Body field of a replay. */
  readonly replay: TSchema | null
  /** Field in a response that describes a replay. */
  readonly answer: DocumentedAnswer | null
  readonly shownReplay: {
    readonly field: FilterField
    /** Default value that the help text of the command-line option states. */
    readonly flagDefault?: string
    /** Text for the filter: `{}` stands for the value, `{ms}` for a duration. Null if pages and commands have their own text. */
    readonly summary: string | null
  } | null
  /** Body and form field of a search of payloads. */
  readonly search: TSchema | null
  /** Schema of one item in the filter of a subscription. */
  readonly feed: TSchema | null
}

type FilterFlag = readonly [flags: string, text: string]

export interface FilterField {
  readonly kind: 'text' | 'number' | 'choice'
  readonly name: string
  readonly label: string
  readonly choices?: readonly { readonly value: string; readonly label: string }[]
  readonly [member: string]: unknown
}

const stateLabels = {
  accepted: 'Accepted',
  processed: 'Processed',
  delivery_failed: 'Delivery failed',
  verified: 'Stored only',
} as const

/** Texts for the origins of events, in filters and badges. */
export const originLabels = {
  provider: 'Provider’s call',
  service: 'Handed in',
  simulation: 'Simulated',
  test: 'Test',
  notification: 'Notification',
} as const

const outcomeLabels = { delivered: 'Delivered', failed: 'Failed again', pending: 'Pending' } as const

function choiceField<const Name extends string, const Value extends string>(
  { name, label }: { readonly name: Name; readonly label: string },
  values: readonly Value[],
  labels: Readonly<Record<Value, string>>,
) {
  const choices = values.map((value) => ({ value, label: labels[value] }))
  return { kind: 'choice', name, label, none: 'Any', choices } as const
}

function numberFilter<const Name extends string>(
  name: Name,
  {
    minimum,
    maximum,
    unit,
    description,
    summary,
    flag,
    ...shown
  }: {
    readonly minimum: number
    readonly maximum: number
    readonly unit: string
    readonly description: string
    readonly label: string
    readonly placeholder: string
    readonly flag: FilterFlag
    readonly summary: string
  },
) {
  const expected = `Enter ${minimum} to ${maximum} ${unit}`
  const field = { kind: 'number', name, min: minimum, max: maximum, expected, ...shown } as const
  const schema = t.Optional(t.Integer({ minimum, maximum, description }))
  return {
    param: integerParam(description, { minimum, maximum }),
    field: { ...field, place: 'times' },
    flag,
    replay: schema,
    answer: whole(),
    shownReplay: { field, summary },
    search: null,
    feed: null,
  } as const
}

const typeText =
  'Normalized type, or a family of types: `payment.*` stands for all types that begin with `payment.`. In any case.'
const textCharsMax = 255

const statusText =
  'Response to the last attempt: a status such as `404`, a class such as `5xx`, or `none` for no response. A status other than 2xx, without `state`, finds pending and failed events only.'
const statusSchema = {
  type: 'string',
  pattern: statusFilterPattern,
  expected: 'a status such as 404, a class of statuses such as 5xx, or none for no response',
}

const outcomeText =
  'Only with `replayId`: outcome in that replay. `failed`: its delivery failed again, and the event was not replayed once more since. `pending`: its delivery is in progress.'

export const sourceIdText = {
  backoffice:
    'The provider’s id. Without `tenantId` and `namespaces` it is looked for in all tenants, at most 10 000; `provider` makes it faster.',
  public: 'The provider’s id.',
}

/** Form field for a provider: its neutral name, its vendor's name, or the name of a declared provider. */
export const providerFormField = {
  kind: 'text',
  name: 'provider',
  label: 'Provider',
  placeholder: 'card, slack',
  isShort: true,
  charsMax: 40,
  suggestions: [...acceptedProviderNames, ...shippedNames],
  suggestsProviders: true,
  parse: parseProviderName,
  expected: 'Enter the name of a provider, such as card or slack',
} as const

const providerSchema = t.Optional(providerField('Provider of the events'))

const typeFormField = {
  kind: 'text',
  name: 'type',
  label: 'Type',
  placeholder: 'payment.*',
  charsMax: textCharsMax,
} as const

const typeSchema = t.Optional(plainText(textCharsMax, { description: typeText }))

const stateName = { name: 'state', label: 'State' } as const
const replayedStates = ['processed', 'delivery_failed', 'verified'] as const

const originName = { name: 'origin', label: 'Origin' } as const

const statusFormField = {
  kind: 'text',
  name: 'status',
  label: 'Last status',
  placeholder: '404, 5xx, none',
  isShort: true,
  charsMax: 4,
  parse: parseStatusFilter,
  expected: 'Enter a status such as 404, a class such as 5xx, or none for no response',
} as const

const replayFormField = {
  kind: 'text',
  name: 'replay',
  label: 'Of the replay',
  placeholder: 'rpl_…',
  charsMax: 30,
  parse: parseReplayId,
  expected: 'Enter the id of a replay: rpl_ and 26 characters',
} as const

const outcomeFormField = choiceField(
  { name: 'outcome', label: 'Outcome in the replay' },
  replayEventOutcomes,
  outcomeLabels,
)

const statusParam: Param<StatusFilter> = {
  parse: parseStatusFilter,
  description: statusText,
  schema: statusSchema,
}

export const eventFilters = {
  state: {
    param: wordParam('State of the event.', eventStates),
    field: { ...choiceField(stateName, eventStates, stateLabels), place: 'tabs' },
    flag: ['--state <state>', 'in one state'],
    replay: t.Optional(
      oneOf(
        replayedStates,
        'State of the events. Default: any of these, so that only events with a delivery in progress are left out. The command `latchkey replay start` has the default `delivery_failed`, and `any` for all of these.',
      ),
    ),
    answer: wordOf(eventStates, 'delivery_failed'),
    shownReplay: {
      field: choiceField(stateName, replayedStates, stateLabels),
      flagDefault: 'delivery_failed',
      summary: null,
    },
    search: t.Optional(oneOf(eventStates, 'State of the events.')),
    feed: null,
  },
  provider: {
    param: providerParam,
    // The provider of notifications is suggested only here, because only the event list shows notifications.
    field: { ...providerFormField, suggestions: [...providerFormField.suggestions, ownProvider] },
    flag: [
      '--provider <name>',
      'of one provider: a built-in one, such as card or stripe, a declared one, such as slack, or latchkey for notifications',
    ],
    replay: providerSchema,
    answer: providerOf(),
    shownReplay: { field: providerFormField, summary: '{}' },
    search: providerSchema,
    feed: providerField('Provider of the events'),
  },
  type: {
    param: textParam(typeText, { charsMax: textCharsMax }),
    field: typeFormField,
    flag: ['--type <type>', 'of one normalized type, or of a family: payment.*'],
    replay: typeSchema,
    answer: text(),
    shownReplay: { field: typeFormField, summary: '{}' },
    search: typeSchema,
    feed: t.String({
      pattern: '^[a-z0-9_-]+([.][a-z0-9_-]+)*([.][*])?$',
      maxLength: textCharsMax,
      expected: 'a normalized type such as payment.succeeded, or payment.*',
    }),
  },
  origin: {
    param: wordParam('Origin of the event.', originKinds),
    field: choiceField(originName, originKinds, originLabels),
    flag: ['--origin <origin>', 'of one origin'],
    replay: t.Optional(
      oneOf(replayedOrigins, 'Origin of the events. Default: any of these, and never test events.'),
    ),
    answer: growingWordOf(replayedOrigins),
    shownReplay: {
      field: choiceField(originName, replayedOrigins, originLabels),
      flagDefault: 'all but test events',
      summary: '{}',
    },
    search: null,
    feed: null,
  },
  status: {
    param: statusParam,
    field: statusFormField,
    flag: ['--status <status>', 'whose last attempt had this status: 404, 5xx, or none for no response'],
    replay: t.Optional(t.Unsafe<StatusFilter>(t.String({ ...statusSchema, description: statusText }))),
    answer: text(),
    shownReplay: {
      field: statusFormField,
      summary: 'last status {}',
    },
    search: null,
    feed: null,
  },
  slowerThanMs: numberFilter('slowerThanMs', {
    minimum: 1,
    maximum: slowerThanMsMax,
    unit: 'ms',
    description: 'The last attempt took longer than this, in milliseconds.',
    label: 'Last attempt slower than, in ms',
    placeholder: '1000',
    flag: ['--slower-than <ms>', 'whose last attempt took longer, in milliseconds'],
    summary: 'slower than {ms}',
  }),
  id: {
    param: { parse: parseEventId, description: 'Id of an event.', schema: idSchema('evt') },
    // Also accepts an event id. The page recognizes which of the two ids was entered.
    field: {
      kind: 'text',
      name: 'find',
      label: 'Event/provider id',
      placeholder: 'evt_…',
      charsMax: textCharsMax,
    },
    flag: ['--id <id>', 'the event of this id'],
    replay: null,
    answer: null,
    shownReplay: null,
    search: null,
    feed: null,
  },
  sourceEventId: {
    param: textParam(sourceIdText.public, { charsMax: 255 }),
    field: null,
    flag: ['--source-event-id <id>', 'events of this id of the provider'],
    replay: null,
    answer: null,
    shownReplay: null,
    search: null,
    feed: null,
  },
  replayId: {
    param: {
      parse: parseReplayId,
      description: 'Id of a replay: only events that it queued, of its first 1 000.',
      schema: idSchema('rpl'),
    },
    field: { ...replayFormField, place: 'times' },
    flag: ['--replay <id>', 'that this replay queued, of its first 1 000'],
    replay: t.Optional(
      t.Unsafe<ReplayId>(
        idSchema('rpl', {
          description: 'Only events that this earlier replay queued, of its first 1 000.',
        }),
      ),
    ),
    answer: described('Earlier replay whose events the filter covers.', unshown(idOf('rpl'))),
    shownReplay: {
      field: replayFormField,
      summary: null,
    },
    search: null,
    feed: null,
  },
  outcome: {
    param: wordParam(outcomeText, replayEventOutcomes),
    field: { ...outcomeFormField, place: 'times' },
    flag: ['--outcome <outcome>', 'with this outcome in the replay'],
    replay: t.Optional(
      oneOf(replayEventOutcomes, `${outcomeText} Its events are chosen when the replay starts.`),
    ),
    answer: unshown(growingWordOf(replayEventOutcomes)),
    shownReplay: {
      field: outcomeFormField,
      summary: null,
    },
    search: null,
    feed: null,
  },
} as const satisfies Readonly<Record<FilterName, EventFilterDefinition>>
