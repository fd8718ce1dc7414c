import type { EventListRequest } from '#internal/backoffice/index.ts'
import { type EventId, parseEventId } from '#internal/base/index.ts'
import { type EventState, eventStates } from '#internal/events/index.ts'
import { orderProblem, parseTimeField, timeProblem } from '../time-field.ts'

/** What the filters of the list of events ask for: those of the address, read. */
export interface EventSearch {
  readonly request: Pick<
    EventListRequest,
    'provider' | 'type' | 'state' | 'fromMs' | 'toMs' | 'id' | 'sourceEventId'
  >
  /** What is wrong with a field, by its name. */
  readonly problems: Readonly<Partial<Record<'find' | 'from' | 'to' | 'state' | 'within', string>>>
}

/** Names of the filters in the address, but for the tenant's. */
export const eventFilters = ['state', 'provider', 'type', 'find', 'within', 'from', 'to'] as const

const hourMs = 3_600_000

/** Lengths of time that end now. */
export const eventTimes = [
  { value: '1h', label: 'Last hour', ms: hourMs },
  { value: '24h', label: 'Last 24 hours', ms: 24 * hourMs },
  { value: '7d', label: 'Last 7 days', ms: 168 * hourMs },
  { value: '30d', label: 'Last 30 days', ms: 720 * hourMs },
] as const

/** Reads the filters of an address. A time that is given itself counts before a length of time. Pure. */
export function parseEventSearch(query: Readonly<Record<string, string>>, nowMs: number): EventSearch {
  const problems: { -readonly [Name in keyof EventSearch['problems']]: string } = {}
  const { provider, type, find, from, to } = query
  const state = eventStates.find((each) => each === query['state'])
  if (query['state'] !== undefined && state === undefined) problems.state = 'There is no such state'
  const within = eventTimes.find(({ value }) => value === query['within'])
  if (query['within'] !== undefined && within === undefined) problems.within = 'Choose one of these times'
  const fromMs = from === undefined ? within && nowMs - within.ms : parseTimeField(from)
  const toMs = to === undefined ? undefined : parseTimeField(to)
  if (from !== undefined && fromMs === undefined) problems.from = timeProblem
  if (to !== undefined && toMs === undefined) problems.to = timeProblem
  else if (toMs !== undefined && fromMs !== undefined && fromMs >= toMs) problems.to = orderProblem
  const found = find === undefined ? {} : findById(find)
  if (found.problem !== undefined) problems.find = found.problem
  const { id, sourceEventId } = found
  return { request: asked({ provider, type, state, fromMs, toMs, id, sourceEventId }), problems }
}

/** An id of ours is told by its beginning; anything else is a provider's. */
function findById(text: string): {
  readonly id?: EventId
  readonly sourceEventId?: string
  readonly problem?: string
} {
  // Vendors begin ids with `evt_` as well; theirs are of another length.
  const id = parseEventId(text)
  if (id !== undefined) return { id }
  return text.length > 255 ? { problem: 'An id has at most 255 characters' } : { sourceEventId: text }
}

function asked(fields: {
  readonly provider: string | undefined
  readonly type: string | undefined
  readonly state: EventState | undefined
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
  readonly id: EventId | undefined
  readonly sourceEventId: string | undefined
}): EventSearch['request'] {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
