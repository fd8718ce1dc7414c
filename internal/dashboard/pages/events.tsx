import {
  type Blocker,
  blockerState,
  type EventListRequest,
  eventListFields,
  searchFormFields,
} from '#internal/backoffice/index.ts'
import { type EventId, parseEventId, receivedAtMsOf } from '#internal/base/index.ts'
import type { EventSummary, ListedEvent } from '#internal/events/index.ts'
import { isMoving } from '#internal/replays/index.ts'
import type { ReaderClock } from '../components/clock.ts'
import { earliestText, type FieldValues, LinkButton, timeFieldText } from '../components/form.tsx'
import { type Column, type Filter, listRow } from '../components/list.tsx'
import { receivedChoices, receivedRange } from '../components/received.ts'
import { Badge, durationText, StateBadge, Time } from '../components/text.tsx'
import { link, mayReplay, nameOf, type PageContext, withBlockers } from '../page.ts'
import { ProviderCell } from './origin.tsx'
import { savedViews } from './saved-views.tsx'
import { TypeHint } from './type-hint.tsx'

const isCollapsed = (field: (typeof eventListFields)[number]) => 'place' in field && field.place === 'times'

export const eventFields = [
  ...eventListFields.filter((field) => !isCollapsed(field)),
  { kind: 'choice', name: 'within', label: 'Received', choices: receivedChoices, none: 'Any time' },
  { kind: 'time', name: 'from', label: 'Received from', place: 'times' },
  { kind: 'time', name: 'to', label: 'Received before', place: 'times' },
  ...eventListFields.filter(isCollapsed),
] as const satisfies readonly Filter[]

export const eventsRow = listRow({
  path: '/events',
  section: 'events',
  title: 'Events',
  noun: 'events',
  fields: eventFields,
  moreLabel: 'Exact times, slow attempts, a replay',
  lead: ({ tenant }) =>
    tenant === undefined
      ? 'Events received from providers and their delivery status.'
      : `Events of ${nameOf(tenant)} and their delivery status.`,
  async load(context, { after, ...asked }) {
    const listed = await context.backoffice.events.list(context.actor, {
      ...context.selection,
      after,
      ...eventFilterOf(asked, context),
    })
    if (listed.kind !== 'ok') return listed
    const { items, next } = listed.value
    const rows = await withBlockers(context, items, ({ tenantId }) => tenantId)
    return {
      kind: 'ok',
      value: { next, items: rows.map((event) => ({ ...event, nowMs: context.nowMs })) },
    }
  },
  actions: actionsOf,
  aboveFilters: (context) => savedViews(context, eventFields),
  bar: selectionBar,
  columns: columnsOf,
  rowId: ({ id }) => id,
  live: (items) => (items.some(({ state }) => state === 'accepted') ? 'tick' : 'slow'),
  isMoving: hasMovingReplay,
  examined(next) {
    const id = parseEventId(next)
    return <>the events received since {id === undefined ? '–' : <Time atMs={receivedAtMsOf(id)} />}</>
  },
  empty: {
    icon: 'events',
    title: 'No events yet',
    text: 'Register the webhook URL from the tenant’s page with a provider, or start a simulation.',
  },
  noMatch: (query) => (
    <>
      <TypeHint
        type={query['type']}
        hrefOf={(type) => link('/events', { ...query, type, after: undefined })}
      />
      All stored events were searched. Events are deleted after their tenant’s retention.
    </>
  ),
})

/** Converts filter fields to a request. `find` is an event id or a provider's id; both can begin with `evt_`, so its form decides. */
export function eventFilterOf(
  { from, to, within, find, replay: replayId, ...filter }: FieldValues<typeof eventFields>,
  clock: ReaderClock,
): EventListRequest {
  const id = find === undefined ? undefined : parseEventId(find)
  const sourceEventId = id === undefined ? find : undefined
  return { ...filter, replayId, id, sourceEventId, ...receivedRange({ within, from, to }, clock) }
}

/** Returns true while the latest replay still changes events, which the list may not show. */
async function hasMovingReplay({ backoffice, actor, selection }: PageContext): Promise<boolean> {
  const listed = await backoffice.replays.list(actor, selection)
  return listed.kind === 'ok' && listed.value.items.slice(0, 1).some(isMoving)
}

async function actionsOf(context: PageContext) {
  const { backoffice, actor, tenant } = context
  const [replay, rights] = await Promise.all([
    replayAllButton(context),
    backoffice.tenants.permissions(actor, tenant?.id ?? 'all'),
  ])
  const maySearch = rights.kind === 'ok' && rights.value.readPayloads
  const searched = { tenant: tenant?.id, ...searchableQuery(context.query) }
  return (
    <>
      {maySearch && <LinkButton href={link('/events/search', searched)}>Search payloads…</LinkButton>}
      {replay}
    </>
  )
}

/** Returns the query parameters that the list and the search of payloads have in common. */
export function searchableQuery(query: PageContext['query']): Readonly<Record<string, string | undefined>> {
  const names = [...searchFormFields.map(({ name }) => name), 'within', 'from', 'to', 'zone']
  return Object.fromEntries(names.map((name) => [name, query[name]]))
}

/** Renders the link to a replay of all matching events, or the reason why these cannot be replayed. */
async function replayAllButton(context: PageContext) {
  if (!(await mayReplay(context))) return undefined
  // Drops the cursor, because the replay covers all pages.
  const { after: _after, ...filter } = context.query
  const { selected: _selected, within, from, to, ...kept } = filter
  const refused = noReplayText(kept)
  if (refused !== undefined) return <p class="muted header-note">{refused}</p>
  const { fromMs, toMs } = receivedRange({ within }, context)
  const textOf = (atMs: number | undefined) => (atMs === undefined ? undefined : timeFieldText(atMs))
  const isExact = from !== undefined || to !== undefined
  // A list without a start covers all times, and so does its replay.
  const times = isExact
    ? { from: from ?? earliestText, to }
    : { from: textOf(fromMs) ?? earliestText, to: textOf(toMs) }
  // Events of an earlier replay need no time range, so the form, which asks for one, is skipped.
  const path = kept['replay'] === undefined ? '/replays/new' : '/replays/preview'
  return (
    <LinkButton href={link(path, { ...kept, ...times, list: listText(filter) })}>
      Replay all that match…
    </LinkButton>
  )
}

/** Returns the filter as a query with its question mark, for pages that lead back to the same list. */
function listText({ selected: _selected, ...kept }: PageContext['query']): string {
  return link('', kept) || '?'
}

/** Maximum characters of the filter in the link of each row, so that the page stays small. */
const rowListCharsMax = 300

/** Returns the filter for the links of rows, whose pages lead back to the list. Undefined without a filter. */
function filterText(context: PageContext): string | undefined {
  const text = listText(context.query)
  const isFiltered = eventFields.some(({ name }) => name in context.query)
  return isFiltered && text.length <= rowListCharsMax ? text : undefined
}

const listCharsMax = 2_000

export function listPathOf(text: string | undefined, selected: readonly EventId[] = []): string | undefined {
  if (text === undefined || text.length > listCharsMax) return undefined
  const query = new URLSearchParams(text)
  const names = ['tenant', 'zone', 'after', ...eventFields.map(({ name }) => name)]
  const kept = names.map((name) => [name, query.get(name) ?? undefined] as const)
  return link('/events', { ...Object.fromEntries(kept), selected: selected.join(',') })
}

/** Returns why a replay cannot cover exactly the events of a filter. Undefined if it can. */
function noReplayText({ find, state, origin, outcome }: PageContext['query']): string | undefined {
  if (find !== undefined) return 'A replay of several events has no filter by id: select events in the list.'
  if (state === 'accepted' || outcome === 'pending')
    return 'Accepted events cannot be replayed: their delivery is under way.'
  return origin === 'test' ? 'Test events cannot be replayed.' : undefined
}

/** HTML id of the form. The checkboxes refer to it by id: a form around the table would be replaced when the table refreshes. */
const selectionForm = 'selection'

async function selectionBar(context: PageContext, items: readonly EventSummary[]) {
  if (!(await mayReplay(context))) return undefined
  const offered = items.filter(isSelectable)
  const count = offered.filter(({ id }) => isSelected(context, id)).length
  const isAll = count === offered.length
  const selected = isAll ? undefined : offered.map(({ id }) => id).join(',')
  return (
    <form id={selectionForm} method="get" action="/replays/preview" class="selection-bar">
      <input type="hidden" name="tenant" value={context.query['tenant'] ?? ''} />
      <input type="hidden" name="selected" value="yes" />
      <input type="hidden" name="list" value={listText(context.query)} />
      <button type="submit" class="button" data-selection={selectionForm}>
        {count === 0 ? 'Replay selected events' : `Replay ${count} ${count === 1 ? 'event' : 'events'}`}
      </button>
      {offered.length > 0 && (
        <LinkButton tone="plain" href={link('/events', { ...context.query, selected })}>
          {isAll ? 'Select none' : `Select all ${offered.length} on this page`}
        </LinkButton>
      )}
    </form>
  )
}

/** Accepted events and test events are never replayed. */
function isSelectable({ state, origin }: EventSummary): boolean {
  return state !== 'accepted' && origin.kind !== 'test'
}

function isSelected({ query }: Pick<PageContext, 'query'>, id: EventId): boolean {
  return (query['selected'] ?? '').includes(id)
}

function Selection({ event, context }: { readonly event: EventSummary; readonly context: PageContext }) {
  if (!isSelectable(event)) return <span class="row-select" />
  const { id, type } = event
  return (
    <span class="row-select">
      <input
        type="checkbox"
        form={selectionForm}
        name={id}
        value="on"
        checked={isSelected(context, id)}
        aria-label={`Select ${type} ${id}`}
      />
    </span>
  )
}

type Row = ListedEvent & { readonly blockers: readonly Blocker[]; readonly nowMs: number }

function holdOf({ blockers, nextAttemptAtMs, origin, nowMs }: Row): Blocker | undefined {
  if (nextAttemptAtMs === null) return undefined
  // Notifications have their own receiver. They are held back only if the tenant is suspended or deliveries of all tenants are paused.
  if (origin.kind === 'notification')
    return blockers.find(
      ({ kind, tenantId }) =>
        kind === 'tenant_suspended' || (kind === 'forwarding_paused' && tenantId === null),
    )
  const standing = blockers.find((blocker) => blockerState(blocker).isStanding)
  // A breaker holds back deliveries that are due before its next probe.
  return (
    standing ??
    blockers.find(
      (blocker) =>
        'breaker' in blocker &&
        blocker.breaker !== 'closed' &&
        nextAttemptAtMs <= (blocker.endsAtMs ?? nowMs),
    )
  )
}

function holdText(hold: Blocker): string {
  if ('breaker' in hold) return 'Accepted, waiting for a probe'
  return hold.kind === 'forwarding_paused' ? 'Accepted, paused' : 'Accepted, suspended'
}

function EventState({ event }: { readonly event: Row }) {
  const hold = holdOf(event)
  if (hold === undefined) return <StateBadge state={event.state} />
  return <Badge tone="warn">{holdText(hold)}</Badge>
}

/** Renders no time for an event that is held back. */
function NextAttempt({ event }: { readonly event: Row }) {
  const { nextAttemptAtMs: atMs } = event
  if (atMs === null) return <span class="muted">–</span>
  return holdOf(event) === undefined ? <Time atMs={atMs} /> : <span class="muted">held back</span>
}

/** Renders the delivery's progress in one line, on screens that are too narrow for the columns. */
function DeliveryLine({ event }: { readonly event: Row }) {
  const { attemptCount, nextAttemptAtMs } = event
  const facts = [
    attemptCount > 0 && `${attemptCount} ${attemptCount === 1 ? 'attempt' : 'attempts'}`,
    hasAnswer(event) && <LastStatus event={event} />,
    nextAttemptAtMs !== null && (
      <>
        next <NextAttempt event={event} />
      </>
    ),
  ].filter((fact) => fact !== false)
  if (facts.length === 0) return null
  return (
    <span class="unless-wide second-line">
      {facts.map((fact, nth) => (
        <>
          {nth > 0 && ' · '}
          {fact}
        </>
      ))}
    </span>
  )
}

const hasAnswer = ({ lastStatus, lastCause }: ListedEvent) => lastStatus !== null || lastCause !== null

function LastStatus({ event }: { readonly event: ListedEvent }) {
  const { lastStatus, lastCause, lastDurationMs } = event
  if (!hasAnswer(event)) return <span class="muted">–</span>
  const text = lastStatus ?? lastCause?.replaceAll('_', ' ')
  return <span title={lastDurationMs === null ? undefined : durationText(lastDurationMs)}>{text}</span>
}

async function columnsOf(context: PageContext): Promise<readonly Column<Row>[]> {
  const { query, tenant, tenantLabel } = context
  const canReplay = await mayReplay(context)
  const list = filterText(context)
  const ofTenant: Column<Row> = {
    title: 'Tenant',
    isMinor: true,
    cell: ({ tenantId }) => (
      <a class="quiet-link" href={link('/events', { ...query, after: undefined, tenant: tenantId })}>
        {tenantLabel(tenantId)}
      </a>
    ),
  }
  return [
    {
      title: 'Type',
      cell: (event) => (
        <>
          {canReplay && <Selection event={event} context={context} />}
          <span class="two-lines">
            <a href={link(`/events/${event.id}`, { tenant: query['tenant'], list })}>{event.type}</a>
            <span class="when-narrow second-line">
              {tenant === undefined && <>{tenantLabel(event.tenantId)} · </>}
              <ProviderCell event={event} />
            </span>
          </span>
        </>
      ),
    },
    {
      title: 'State',
      cell: (event) => (
        <span class="two-lines">
          <EventState event={event} />
          {event.cycle > 1 && <span class="second-line">cycle {event.cycle}</span>}
          <DeliveryLine event={event} />
        </span>
      ),
    },
    ...(tenant === undefined ? [ofTenant] : []),
    { title: 'Provider', isMinor: true, cell: (event) => <ProviderCell event={event} /> },
    {
      title: 'Provider’s id',
      isWide: true,
      isExtra: true,
      cell: ({ sourceEventId }) => <code title={sourceEventId}>{sourceEventId}</code>,
    },
    { title: 'Attempts', isNumber: true, isExtra: true, cell: ({ attemptCount }) => attemptCount },
    { title: 'Last status', isExtra: true, cell: (event) => <LastStatus event={event} /> },
    {
      title: 'Next attempt',
      isExtra: true,
      cell: (event) => <NextAttempt event={event} />,
    },
    { title: 'Received', cell: ({ receivedAtMs }) => <Time atMs={receivedAtMs} /> },
  ]
}
