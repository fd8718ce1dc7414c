import type { ExecutionListRequest } from '#internal/backoffice/index.ts'
import { type Execution, executionStates } from '#internal/records/index.ts'
import { Empty, PageHeader } from '../components/block.tsx'
import { type Field, FilterForm } from '../components/form.tsx'
import { Pager, Table } from '../components/table.tsx'
import { durationText, StateBadge, Time } from '../components/text.tsx'
import { link, type PageContext, type PageRow, shown } from '../page.ts'
import { parseTimeFields } from '../time-field.ts'
import { NotSearched, SearchGoesOn } from './search-stops.tsx'

const path = '/executions'

/** The history of a tenant's locks, the latest first. */
export const executionsRow: PageRow = {
  ...{ method: 'GET', path, section: 'executions' },
  async show(context) {
    const { tenant, backoffice, actor, query } = context
    if (tenant === undefined) return { kind: 'needsTenant' }
    const filter = readFilter(query)
    const parts = { context, problems: filter.problems }
    if (Object.keys(filter.problems).length > 0)
      return { ...shown('Executions', <Executions {...parts} items={[]} next={undefined} />), status: 400 }
    const listed = await backoffice.executions.list(actor, {
      ...{ tenantId: tenant.id, after: query['after'] },
      ...filter.asked,
    })
    if (listed.kind !== 'ok') return listed
    const { items, next } = listed.value
    return shown('Executions', <Executions {...parts} items={items} next={next} />)
  },
}

const filterNames = ['scope', 'key', 'state', 'from', 'to'] as const
type Problems = Partial<Record<(typeof filterNames)[number], string>>

interface Filter {
  readonly asked: Omit<ExecutionListRequest, 'tenantId' | 'after'>
  readonly problems: Problems
}

/** Reads the filters of the address, or says which of them are none. Pure. */
export function readFilter(query: PageContext['query']): Filter {
  const { scope, key } = query
  const state = executionStates.find((each) => each === query['state'])
  const times = parseTimeFields(query)
  const problems: Problems = {
    ...(query['state'] !== undefined && state === undefined && { state: 'Choose one of the states' }),
    ...times.problems,
    ...(key !== undefined &&
      scope === undefined && { scope: 'A key is looked for within its scope: give both' }),
  }
  return { asked: { scope, key, state, fromMs: times.fromMs, toMs: times.toMs }, problems }
}

interface ExecutionsParts {
  readonly context: PageContext
  readonly problems: Problems
  readonly items: readonly Execution[]
  readonly next: string | undefined
}

function Executions({ context, problems, items, next }: ExecutionsParts) {
  const { query, tenant } = context
  const isActive = filterNames.some((name) => query[name] !== undefined)
  return (
    <>
      <PageHeader
        title="Executions"
        lead={`Who ran what at ${tenant?.displayName ?? tenant?.slug ?? tenant?.name}: every lock from its acquisition to its end. At most a second behind, and for diagnosis only.`}
      />
      <FilterForm
        path={path}
        kept={{ tenant: query['tenant'] }}
        isActive={isActive}
        fields={fieldsOf(query, problems)}
      />
      <Table<Execution>
        caption="Executions"
        rows={items}
        keyOf={({ fence }) => fence}
        empty={<NoExecutions {...{ isActive, next, isWrong: Object.keys(problems).length > 0 }} />}
        columns={[
          { title: 'Key', isWide: true, cell: (execution) => <KeyOf {...{ execution, query }} /> },
          { title: 'Scope', cell: ({ scope }) => <code class="clipped">{scope}</code> },
          { title: 'State', cell: ({ state }) => <ExecutionBadge state={state} /> },
          { title: 'Acquired', cell: ({ acquiredAtMs }) => <Time atMs={acquiredAtMs} /> },
          { title: 'Ran', isNumber: true, cell: ranText },
          { title: 'Status', isNumber: true, cell: ({ status }) => status ?? '–' },
          { title: 'Fence', isNumber: true, cell: ({ fence }) => <code>{fence}</code> },
        ]}
      />
      <Pager path={path} query={query} next={next} shown={items.length} noun="executions" />
    </>
  )
}

function fieldsOf(query: PageContext['query'], problems: Problems): readonly Field[] {
  const of = (name: (typeof filterNames)[number]) => ({ name, value: query[name], problem: problems[name] })
  return [
    { ...{ kind: 'text', label: 'Scope', charsMax: 128 }, ...of('scope') },
    { ...{ kind: 'text', label: 'Key', charsMax: 255 }, ...of('key') },
    {
      ...{ kind: 'choice', label: 'State', none: 'Any', ...of('state') },
      choices: executionStates.map((value) => ({ value, label: value.replaceAll('_', ' ') })),
    },
    { ...{ kind: 'time', label: 'From (UTC)' }, ...of('from') },
    { ...{ kind: 'time', label: 'Until (UTC)' }, ...of('to') },
  ]
}

/** All runs of one key, by a click. */
function KeyOf({
  execution: { scope, key },
  query,
}: {
  readonly execution: Execution
  readonly query: PageContext['query']
}) {
  return (
    <a href={link(path, { tenant: query['tenant'], scope, key })} title="All runs of this key">
      <code>{key}</code>
    </a>
  )
}

function ExecutionBadge({ state }: Pick<Execution, 'state'>) {
  return <StateBadge state={state === 'taken_over' ? 'taken over' : state} />
}

function ranText({ durationMs, heldUntilMs, state }: Execution): string {
  if (durationMs !== null) return durationText(durationMs)
  return state === 'running' && heldUntilMs !== null ? 'runs' : '–'
}

function NoExecutions({
  isActive,
  isWrong,
  next,
}: {
  readonly isActive: boolean
  readonly isWrong: boolean
  readonly next: string | undefined
}) {
  if (isWrong) return <NotSearched />
  if (next !== undefined) return <SearchGoesOn lookedAt="those that were looked at" />
  return isActive ? (
    <Empty icon="search" title="No execution matches">
      Scope and key have to be exact, capitals included. What is older than the tenant’s retention is gone.
    </Empty>
  ) : (
    <Empty icon="executions" title="Nothing was run yet">
      Every lock that is acquired by <code>POST /v1/record</code> shows up here.
    </Empty>
  )
}
