import type { EventListRequest } from '#internal/backoffice/index.ts'
import { type EventId, parseEventId, receivedAtMsOf } from '#internal/base/index.ts'
import { type EventSummary, eventStates } from '#internal/events/index.ts'
import { providerNames } from '#internal/tenants/index.ts'
import { Segments } from '../components/block.tsx'
import { choicesOf, LinkButton, orderProblem, parseTimeField, timeProblem } from '../components/form.tsx'
import { type Column, listRow, type Problems, Table } from '../components/list.tsx'
import { Copy, StateBadge, Time } from '../components/text.tsx'
import { link, mayReplay, nameOf, type PageContext } from '../page.ts'

const hourMs = 3_600_000
const spans = [
  { value: '1h', label: 'Last hour', ms: hourMs },
  { value: '24h', label: 'Last 24 hours', ms: 24 * hourMs },
  { value: '7d', label: 'Last 7 days', ms: 168 * hourMs },
  { value: '30d', label: 'Last 30 days', ms: 720 * hourMs },
] as const

type EventFilters = Pick<
  EventListRequest,
  'provider' | 'type' | 'state' | 'fromMs' | 'toMs' | 'id' | 'sourceEventId'
>

/** Lists events, newest first. */
export const eventsRow = listRow<EventSummary, EventFilters>({
  ...{ path: '/events', section: 'events', title: 'Events', noun: 'events' },
  lead: ({ tenant }) =>
    `Events received from providers${tenant === undefined ? '' : ` for ${nameOf(tenant)}`}, and their delivery status.`,
  fields: [
    { kind: 'choice', name: 'provider', label: 'Provider', choices: choicesOf(providerNames), none: 'Any' },
    { kind: 'text', name: 'type', label: 'Type', placeholder: 'payment.succeeded', charsMax: 255 },
    { kind: 'text', name: 'find', label: 'Event or provider id', placeholder: 'evt_…', charsMax: 255 },
    { kind: 'choice', name: 'within', label: 'Received', choices: spans, none: 'Any time' },
  ],
  more: {
    label: 'Exact times',
    fields: [
      { kind: 'time', name: 'from', label: 'Received from (UTC)' },
      { kind: 'time', name: 'to', label: 'Received before (UTC)' },
    ],
  },
  kept: ['state'],
  read: readEventFilters,
  load: ({ backoffice, actor, selection }, asked) =>
    backoffice.events.list(actor, { ...selection, ...asked }),
  actions: replaySeveral,
  above: ({ query: { after: _after, state, ...kept } }) => (
    <Segments
      label="State"
      isTabs
      links={tabs.map(([value, text]) => ({
        text,
        href: link('/events', { ...kept, state: value }),
        isCurrent: value === state,
      }))}
    />
  ),
  rows: (context, items) => (
    <Table<EventSummary>
      caption="Events, newest first"
      rows={items}
      keyOf={({ id }) => id}
      columns={columnsOf(context)}
    />
  ),
  live: () => 'slow',
  examined(next) {
    const id = parseEventId(next)
    return <>the events received since {id === undefined ? '–' : <Time atMs={receivedAtMsOf(id)} />}</>
  },
  empty: {
    ...{ icon: 'events', title: 'No events yet' },
    text: 'Enter the webhook URL from the tenant’s page at a provider, or start a simulation.',
  },
  noMatch: 'All stored events were searched. Events are deleted after their tenant’s retention.',
})

const tabs = [
  [undefined, 'All'],
  ['accepted', 'Pending'],
  ['processed', 'Processed'],
  ['delivery_failed', 'Failed'],
  ['verified', 'Verified'],
] as const

/** Parses the filters of the event list. An exact start takes precedence over a span. Pure. */
export function readEventFilters(
  query: PageContext['query'],
  nowMs: number,
): { readonly asked: EventFilters; readonly problems: Problems } {
  const { provider, type, find, from, to } = query
  const state = eventStates.find((each) => each === query['state'])
  const within = spans.find(({ value }) => value === query['within'])
  const fromMs = from === undefined ? within && nowMs - within.ms : parseTimeField(from)
  const toMs = to === undefined ? undefined : parseTimeField(to)
  const isBackwards = toMs !== undefined && fromMs !== undefined && fromMs >= toMs
  const problems = {
    ...(query['state'] !== undefined && state === undefined && { state: 'There is no such state' }),
    ...(query['within'] !== undefined && within === undefined && { within: 'Choose one of these times' }),
    ...(from !== undefined && fromMs === undefined && { from: timeProblem }),
    ...(to !== undefined && toMs === undefined && { to: timeProblem }),
    ...(isBackwards && { to: orderProblem }),
    ...(find !== undefined && find.length > 255 && { find: 'An id has at most 255 characters' }),
  }
  return { asked: { provider, type, state, fromMs, toMs, ...idOf(find) }, problems }
}

/** Tells Latchkey's ids from providers' ids, which can begin with `evt_`, too, but differ in length. */
function idOf(text: string | undefined): { readonly id?: EventId; readonly sourceEventId?: string } {
  if (text === undefined) return {}
  const id = parseEventId(text)
  return id === undefined ? { sourceEventId: text } : { id }
}

async function replaySeveral(context: PageContext) {
  if (!(await mayReplay(context))) return undefined
  const { after: _after, find: _find, state, within, from, ...kept } = context.query
  const span = spans.find(({ value }) => value === within)
  const fields = {
    ...kept,
    state: state === 'accepted' ? undefined : state,
    from: from ?? (span && new Date(context.nowMs - span.ms).toISOString().slice(0, 19)),
  }
  return <LinkButton href={link('/replays/new', fields)}>Replay several…</LinkButton>
}

function columnsOf({ query, tenant, tenantLabel }: PageContext): readonly Column<EventSummary>[] {
  const ofTenant: Column<EventSummary> = {
    title: 'Tenant',
    cell: ({ tenantId }) => (
      <a class="quiet-link" href={link('/events', { ...query, after: undefined, tenant: tenantId })}>
        {tenantLabel(tenantId)}
      </a>
    ),
  }
  return [
    {
      title: 'Type',
      cell: ({ id, type }) => <a href={link(`/events/${id}`, { tenant: query['tenant'] })}>{type}</a>,
    },
    {
      title: 'State',
      cell: ({ state, round }) => (
        <>
          <StateBadge state={state} />
          {round > 1 && <span class="muted"> cycle {round}</span>}
        </>
      ),
    },
    ...(tenant === undefined ? [ofTenant] : []),
    { title: 'Provider', cell: ({ provider }) => provider },
    {
      title: 'Provider’s id',
      ...{ isWide: true, isMinor: true },
      cell: ({ sourceEventId }) => <code title={sourceEventId}>{sourceEventId}</code>,
    },
    { title: 'Received', cell: ({ receivedAtMs }) => <Time atMs={receivedAtMs} /> },
    {
      title: 'Event',
      isMinor: true,
      cell: ({ id }) => <Copy text={id} label={`Copy ${id}`} shown={`…${id.slice(-6)}`} />,
    },
  ]
}
