import { type Static, Type as t } from '@sinclair/typebox'
import type { EventListRequest } from '#internal/events/index.ts'
import type { ReplayFilter } from '#internal/replays/index.ts'
import { parseProviderName } from '#internal/tenants/index.ts'
import {
  type EventFilterDefinition,
  eventFilters,
  type FilterField,
  type FilterName,
  sourceIdText,
} from './event-filters.ts'
import { at, tenantId } from './http-answers.ts'
import type { SharedApi } from './http-apis.ts'
import { idSchema, readTimes, timeParam, timestamp } from './http-params.ts'
import { idOf, listOf, objectOf, time, unshown } from './http-schemas.ts'
import { defined, type Outcome, ok } from './outcome.ts'

// Derives what each interface needs from the definitions in `event-filters.ts`.

type Definitions = typeof eventFilters

type NameWith<Part extends keyof EventFilterDefinition> = {
  [Name in FilterName]: Definitions[Name][Part] extends null ? never : Name
}[FilterName]

type Parts<Part extends keyof EventFilterDefinition> = {
  readonly [Name in NameWith<Part>]: Definitions[Name][Part]
}

const definitions: readonly (readonly [FilterName, EventFilterDefinition])[] = Object.entries(
  eventFilters,
) as never

function parseParts<Part extends keyof EventFilterDefinition>(part: Part): Parts<Part> {
  const found = definitions.map(([name, definition]) => [name, definition[part]] as const)
  return Object.fromEntries(found.filter(([, statement]) => statement !== null)) as Parts<Part>
}

const params = parseParts('param')

export function eventListParams({ name }: Pick<SharedApi<never>, 'name'>) {
  return {
    from: timeParam('Received then or later.'),
    to: timeParam('Received earlier.'),
    ...params,
    sourceEventId: { ...params.sourceEventId, description: sourceIdText[name] },
  }
}

export const searchFilterFields = parseParts('search')

export type SearchFilter = Pick<EventListRequest, NameWith<'search'>>

export const feedFilterFields = parseParts('feed')

const replayFields = {
  from: timestamp('Received then or later.'),
  to: t.Optional(timestamp('Received earlier. Default, and latest: start of the replay.')),
  ids: t.Optional(
    t.Array(idSchema('evt'), {
      minItems: 1,
      maxItems: 1_000,
      description: 'Only these events.',
    }),
  ),
  ...parseParts('replay'),
}

const tenantField = { tenantId: t.Optional(idSchema('ten', { description: 'Id of the tenant.' })) }

/** Returns the body fields of a replay's filter. The public API has no field for the tenant, which its key determines. */
export function replayFilterFields({ name }: Pick<SharedApi<never>, 'name'>) {
  // The type assertion is safe: `tenantId` is optional, so a filter without this field also has the type.
  const ofTenant = name === 'public' ? ({} as typeof tenantField) : tenantField
  return { ...ofTenant, ...replayFields }
}

/** Parses the filter of a replay. Refuses a date that does not exist. */
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

export const replayFilterAnswer = objectOf(
  { from: time(at('00:00:00')) },
  {
    to: time(),
    tenantId,
    ids: unshown(listOf(idOf('evt'))),
    ...parseParts('answer'),
  },
)

/** Fields of the filters in the list of events on the dashboard. */
export const eventListFields = Object.values(eventFilters).flatMap(({ field }) => field ?? [])

/** Fields of the filters in the form of a replay. */
export const replayFormFields = Object.values(eventFilters).flatMap(
  ({ shownReplay }) => shownReplay?.field ?? [],
)

/** Fields of the filters in the form that searches payloads. */
export const searchFormFields = Object.values(eventFilters).flatMap(({ search, field }) =>
  search === null ? [] : field,
)

/** Returns the members of a replay's filter in words. Omits members without a `summary`, which pages describe themselves. */
export function replayFilterWords(filter: ReplayFilter, durationText: (ms: number) => string): string[] {
  const values = new Map(Object.entries(filter))
  return definitions.flatMap(([name, { shownReplay }]) => {
    const value = values.get(name)
    if (value === undefined || !shownReplay?.summary) return []
    const label = shownReplay.field.choices?.find((choice) => choice.value === value)?.label.toLowerCase()
    return shownReplay.summary
      .replace('{ms}', () => durationText(Number(value)))
      .replace('{}', () => label ?? String(value))
  })
}

/** Returns the filter options of commands, by the API operation that the command calls. */
export function eventFilterOptions(): Readonly<
  Record<
    'listEvents' | 'searchPayloads' | 'startReplay',
    readonly {
      readonly name: string
      readonly flags: string
      readonly text: string
      readonly choices?: readonly string[] | undefined
      readonly bounds: { readonly minimum: number; readonly maximum: number } | undefined
      readonly summary?: string | null
    }[]
  >
> {
  const options = definitions.map(([name, { param, field, flag, shownReplay, search }]) => {
    const { minimum, maximum } = param.schema
    const isBounded = typeof minimum === 'number' && typeof maximum === 'number'
    const bounds = isBounded ? { minimum, maximum } : undefined
    const own = { name, flags: flag[0], text: flag[1], choices: valuesOf(field), bounds }
    return { own, shownReplay, search }
  })
  return {
    listEvents: options.map(({ own }) => own),
    searchPayloads: options.flatMap(({ own, search }) => (search ? [own] : [])),
    startReplay: options.flatMap(({ own, shownReplay }) => {
      if (shownReplay === null) return []
      const { field, flagDefault, summary } = shownReplay
      const withDefault = flagDefault === undefined ? own.text : `${own.text}; default: ${flagDefault}`
      return [{ ...own, text: withDefault, choices: valuesOf(field), summary }]
    }),
  }
}

function valuesOf(field: FilterField | null): readonly string[] | undefined {
  return field?.choices?.map(({ value }) => value)
}
