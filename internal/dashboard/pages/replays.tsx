import type { Page } from '#internal/backoffice/index.ts'
import type { ReplayJob } from '#internal/replays/index.ts'
import { Empty, Live, PageHeader } from '../components/block.tsx'
import { LinkButton } from '../components/form.tsx'
import { type Column, Pager, Table } from '../components/table.tsx'
import { countText, StateBadge, Time } from '../components/text.tsx'
import { link, type PageContext, type PageRow, shown } from '../page.ts'
import { ReplayFilterText, ReplayProgress } from './replay-progress.tsx'
import { mayReplay } from './rights.ts'

/** Replays of many events, newest first. */
export const replaysRow: PageRow = {
  ...{ method: 'GET', path: '/replays', section: 'replays' },
  async show(context) {
    const { backoffice, actor, whose, query } = context
    const [listed, mayStart] = await Promise.all([
      backoffice.replays.list(actor, { ...whose, after: query['after'] }),
      mayReplay(context),
    ])
    if (listed.kind !== 'ok') return listed
    return shown('Replays', <Replays context={context} page={listed.value} mayStart={mayStart} />)
  },
}

interface ReplaysParts {
  readonly context: PageContext
  readonly page: Page<ReplayJob>
  readonly mayStart: boolean
}

function Replays({ context, page: { items, next }, mayStart }: ReplaysParts) {
  const { query, here } = context
  return (
    <>
      <PageHeader
        title="Replays"
        lead="Many events, delivered once more by a filter, at a rate that leaves room for new ones."
      >
        {mayStart && (
          <LinkButton tone="primary" href={link('/replays/new', { tenant: query['tenant'] })}>
            New replay
          </LinkButton>
        )}
      </PageHeader>
      <Live id="replays" here={here} every={items.some(isUnderWay) ? 'tick' : 'slow'}>
        <Table<ReplayJob>
          caption="Replays, newest first"
          rows={items}
          keyOf={({ id }) => id}
          columns={columnsOf(context)}
          empty={
            <Empty icon="replays" title="No replays">
              <p>
                When a callback was away for long, its events end as failed. Mend it, then have them delivered
                once more from here.
              </p>
            </Empty>
          }
        />
      </Live>
      <Pager path="/replays" query={query} next={next} shown={items.length} noun="replays" />
    </>
  )
}

function isUnderWay({ state }: ReplayJob): boolean {
  return state === 'queued' || state === 'running'
}

function columnsOf({ query, tenant, tenantLabel }: PageContext): readonly Column<ReplayJob>[] {
  const whose: Column<ReplayJob> = {
    title: 'Tenant',
    cell: ({ filter: { tenantId } }) =>
      tenantId === undefined ? <em>all tenants</em> : tenantLabel(tenantId),
  }
  return [
    {
      title: 'Started',
      cell: ({ id, createdAtMs }) => (
        <a href={link(`/replays/${id}`, { tenant: query['tenant'] })}>
          <Time atMs={createdAtMs} />
        </a>
      ),
    },
    { title: 'State', cell: ({ state }) => <StateBadge state={state} /> },
    ...(tenant === undefined ? [whose] : []),
    { title: 'Events', isWide: true, cell: ({ filter }) => <ReplayFilterText filter={filter} /> },
    { title: 'Progress', cell: (job) => <ReplayProgress job={job} isShort /> },
    { title: 'Queued', isNumber: true, cell: ({ queuedCount }) => countText(queuedCount) },
    { title: 'By', cell: ({ requestedBy }) => requestedBy },
  ]
}
