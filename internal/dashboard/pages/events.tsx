import type { Page } from '#internal/backoffice/index.ts'
import { parseEventId, receivedAtMsOf } from '#internal/base/index.ts'
import type { EventSummary } from '#internal/events/index.ts'
import { providerNames } from '#internal/tenants/index.ts'
import { Empty, Live, Notice, PageHeader } from '../components/block.tsx'
import { type Field, FilterForm, LinkButton } from '../components/form.tsx'
import { type Column, Pager, Table } from '../components/table.tsx'
import { Copy, StateBadge, Time } from '../components/text.tsx'
import { link, type PageContext, type PageRow, type Shown, shown } from '../page.ts'
import { type EventSearch, eventFilters, eventTimes, parseEventSearch } from './event-search.ts'
import { mayReplay as askReplay } from './rights.ts'
import { tenantFields } from './tenant-field.ts'

/** Events, newest first, by filters that stand in the address. */
export const eventsRow: PageRow = {
  ...{ method: 'GET', path: '/events', section: 'events' },
  async show(context) {
    const { backoffice, actor, whose, query, nowMs } = context
    const search = parseEventSearch(query, nowMs)
    if (Object.keys(search.problems).length > 0) return refusedSearch(context, search)
    const [listed, mayReplay] = await Promise.all([
      backoffice.events.list(actor, { ...whose, ...search.request, after: query['after'] }),
      askReplay(context),
    ])
    if (listed.kind === 'invalid') return refusedSearch(context, search, listed.problem)
    if (listed.kind !== 'ok') return listed
    return shown('Events', <Events {...{ context, search, mayReplay, page: listed.value }} />)
  },
}

function refusedSearch(context: PageContext, search: EventSearch, problem?: string): Shown {
  const body = (
    <>
      <Head context={context} mayReplay={false} />
      <Filters context={context} search={search} />
      <Notice tone="bad" title="This cannot be searched for">
        {problem ?? Object.values(search.problems)[0]}
      </Notice>
    </>
  )
  return { ...shown('Events', body), status: 400 }
}

interface EventsParts {
  readonly context: PageContext
  readonly search: EventSearch
  readonly page: Page<EventSummary>
  readonly mayReplay: boolean
}

function Events({ context, search, page, mayReplay }: EventsParts) {
  const { here, query } = context
  const list = <List context={context} page={page} />
  return (
    <>
      <Head context={context} mayReplay={mayReplay} />
      <Filters context={context} search={search} />
      {query['after'] === undefined ? (
        <Live id="events" here={here} every="slow">
          {list}
        </Live>
      ) : (
        list
      )}
    </>
  )
}

function Head({ context, mayReplay }: Pick<EventsParts, 'context' | 'mayReplay'>) {
  const { tenant, query } = context
  const { after: _after, find: _find, state, within, from, ...kept } = query
  const days = eventTimes.find(({ value }) => value === within)
  return (
    <PageHeader
      title="Events"
      lead={
        tenant === undefined
          ? 'What providers told, and what became of it.'
          : `What providers told ${tenant.displayName ?? tenant.slug ?? tenant.name}, and what became of it.`
      }
    >
      {mayReplay && (
        <LinkButton
          href={link('/replays/new', {
            ...kept,
            state: state === 'accepted' ? undefined : state,
            from: from ?? (days && new Date(context.nowMs - days.ms).toISOString().slice(0, 19)),
          })}
        >
          Replay several…
        </LinkButton>
      )}
    </PageHeader>
  )
}

const tabs = [
  [undefined, 'All'],
  ['accepted', 'Under way'],
  ['processed', 'Processed'],
  ['delivery_failed', 'Failed'],
  ['verified', 'Verified'],
] as const

function Filters({ context, search }: Pick<EventsParts, 'context' | 'search'>) {
  const { query, tenant, actor } = context
  const { after: _after, state, ...kept } = query
  const isActive = eventFilters.some((name) => name !== 'state' && query[name] !== undefined)
  return (
    <>
      <nav class="segments tabs" aria-label="State">
        {tabs.map(([value, label]) => (
          <a
            key={label}
            href={link('/events', { ...kept, state: value })}
            {...(value === state && { 'aria-current': 'true' as const })}
          >
            {label}
          </a>
        ))}
      </nav>
      <FilterForm
        path="/events"
        kept={{ state }}
        isActive={isActive || (tenant !== undefined && actor.kind !== 'tenantKey')}
        fields={[...tenantFields(context), ...searchFields(query, search.problems)]}
        more={{ label: 'Exact times', fields: timeFields(query, search.problems) }}
      />
    </>
  )
}

function searchFields(query: PageContext['query'], problems: EventSearch['problems']): readonly Field[] {
  const { provider, type, find, within } = query
  const choices = providerNames.map((name) => ({ value: name, label: name }))
  const times = eventTimes.map(({ value, label }) => ({ value, label }))
  return [
    { kind: 'choice', name: 'provider', label: 'Provider', value: provider, choices, none: 'Any' },
    {
      ...{ kind: 'text', name: 'type', label: 'Type', value: type, placeholder: 'payment.succeeded' },
      charsMax: 255,
    },
    {
      ...{ kind: 'text', name: 'find', label: 'Event’s or provider’s id', value: find },
      ...{ placeholder: 'evt_…', charsMax: 255, problem: problems.find },
    },
    {
      ...{ kind: 'choice', name: 'within', label: 'Received', value: within, choices: times },
      ...{ none: 'Any time', problem: problems.within },
    },
  ]
}

function timeFields({ from, to }: PageContext['query'], problems: EventSearch['problems']): readonly Field[] {
  return [
    { kind: 'time', name: 'from', label: 'Received from (UTC)', value: from, problem: problems.from },
    { kind: 'time', name: 'to', label: 'Received before (UTC)', value: to, problem: problems.to },
  ]
}

function List({ context, page: { items, next } }: Pick<EventsParts, 'context' | 'page'>) {
  const { query } = context
  return (
    <>
      <Table<EventSummary>
        caption="Events, newest first"
        rows={items}
        keyOf={({ id }) => id}
        columns={columnsOf(context)}
        empty={<NoEvents context={context} next={next} />}
      />
      {items.length > 0 && (
        <>
          {next !== undefined && items.length < pageItems && (
            <p class="muted searched">
              Searched back to <SearchedTo next={next} />: what is older follows.
            </p>
          )}
          <Pager path="/events" query={query} next={next} shown={items.length} noun="events" />
        </>
      )}
    </>
  )
}

/** As many as a page of the backoffice has unless it is told otherwise. */
const pageItems = 50

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
          {round > 1 && <span class="muted"> round {round}</span>}
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

/** Until when was searched, as the cursor says, which is an event's id. */
function SearchedTo({ next }: { readonly next: string }) {
  const id = parseEventId(next)
  return id === undefined ? <>there</> : <Time atMs={receivedAtMsOf(id)} />
}

function NoEvents({ context, next }: { readonly context: PageContext; readonly next: string | undefined }) {
  const { query } = context
  const isFiltered = eventFilters.some((name) => query[name] !== undefined)
  if (next !== undefined)
    return (
      <Empty icon="search" title="Nothing found yet">
        <p>
          No event matches among those received since <SearchedTo next={next} />. There are older ones.
        </p>
        <div class="buttons">
          <LinkButton tone="primary" href={link('/events', { ...query, after: next })}>
            Search on
          </LinkButton>
        </div>
      </Empty>
    )
  if (!isFiltered && query['after'] === undefined)
    return (
      <Empty icon="events" title="No events yet">
        <p>Hand a provider its URL, which stands on the tenant’s page, or start a simulation.</p>
      </Empty>
    )
  return (
    <Empty icon="search" title="No event matches">
      <p>All that is kept was searched. Events go after the days that their tenant keeps them.</p>
      <div class="buttons">
        <LinkButton href={link('/events', { tenant: query['tenant'] })}>Without filters</LinkButton>
      </div>
    </Empty>
  )
}
