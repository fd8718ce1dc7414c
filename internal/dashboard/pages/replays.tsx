import { parseEventId, receivedAtMsOf } from '#internal/base/index.ts'
import type { CycleOutcome } from '#internal/events/index.ts'
import {
  isMoving,
  parseReplayId,
  type ReplayEventOutcome,
  type ReplayJob,
  stageOf,
} from '#internal/replays/index.ts'
import { Card, type Fact, Facts, Live, Notice, PageHeader, ShareBar } from '../components/block.tsx'
import { LinkButton } from '../components/form.tsx'
import { type Column, listRow } from '../components/list.tsx'
import { Badge, Copy, countText, StateBadge, Time } from '../components/text.tsx'
import { doneAt, link, mayReplay, type PageContext, type PageRow, shown } from '../page.ts'
import { actionRows } from './action-rows.tsx'
import { ReplayFilterText, replayFields, selectionOf } from './replay-start.tsx'

const isActive = ({ state }: ReplayJob) => state === 'queued' || state === 'running'

export const replaysRow = listRow({
  path: '/replays',
  section: 'replays',
  title: 'Replays',
  noun: 'replays',
  hidesTenant: true,
  fields: [],
  lead: () => 'Events selected by a filter and delivered again, at a rate that leaves capacity for new ones.',
  async actions(context) {
    if (!(await mayReplay(context))) return undefined
    return (
      <LinkButton tone="primary" href={link('/replays/new', { tenant: context.query['tenant'] })}>
        New replay
      </LinkButton>
    )
  },
  load: ({ backoffice, actor, selection }, asked) =>
    backoffice.replays.list(actor, { ...selection, ...asked }),
  columns: columnsOf,
  rowId: ({ id }) => id,
  live: (items) => (items.some(isMoving) ? 'tick' : 'slow'),
  examined: () => 'the latest replays',
  empty: {
    icon: 'replays',
    title: 'No replays yet',
    text: 'Events fail after the last retry. Fix the callback, then replay them from here.',
  },
})

/** Returns a text for the tenants of a replay that names no tenant. */
const allOf = ({ ids }: ReplayJob['filter']) => (ids === undefined ? 'all tenants' : 'those of the events')

function columnsOf({ query, tenant, tenantLabel }: PageContext): readonly Column<ReplayJob>[] {
  const ofTenant: Column<ReplayJob> = {
    title: 'Tenant',
    cell: ({ filter }) =>
      filter.tenantId === undefined ? <em>{allOf(filter)}</em> : tenantLabel(filter.tenantId),
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
    { title: 'State', cell: (job) => <ReplayBadge job={job} /> },
    ...(tenant === undefined ? [ofTenant] : []),
    { title: 'Events', isWide: true, cell: ({ filter }) => <ReplayFilterText filter={filter} /> },
    {
      title: 'Progress',
      cell: (job) => (
        <span class="two-lines replay-progress">
          {isActive(job) && <ReplayProgress job={job} isShort />}
          <span class="second-line">{job.progress}</span>
        </span>
      ),
    },
    { title: 'By', cell: ({ requestedBy }) => requestedBy },
  ]
}

/** Returns the progress, 0 to 1: by the number of events if the total is exact, otherwise by the time of the last examined event. */
export function replayShare(job: ReplayJob): number {
  const { state, total, queuedCount, skipped, examinedTo, filter, createdAtMs } = job
  if (state === 'completed') return 1
  const skippedCount = Object.values(skipped).reduce((sum, count) => sum + count, 0)
  if (total.isExact) return total.count === 0 ? 0 : Math.min(1, (queuedCount + skippedCount) / total.count)
  const reached = examinedTo === null ? undefined : parseEventId(examinedTo)
  if (reached === undefined) return 0
  const spanMs = (filter.toMs ?? createdAtMs) - filter.fromMs
  return spanMs <= 0 ? 0 : Math.max(0, Math.min(1, (receivedAtMsOf(reached) - filter.fromMs) / spanMs))
}

function ReplayProgress({ job, isShort = false }: { readonly job: ReplayJob; readonly isShort?: boolean }) {
  const percent = `${Math.floor(replayShare(job) * 100)} %`
  const { total } = job
  const tone = job.state === 'failed' ? 'bad' : 'info'
  return (
    <span class="progress">
      <ShareBar share={replayShare(job)} label={`${percent} queued`} tone={tone} />
      <span class="number">
        {percent}
        {!isShort &&
          ` of ${total.isExact ? '' : 'at least '}${countText(total.count)} ${total.count === 1 ? 'event' : 'events'} queued`}
      </span>
    </span>
  )
}

export function stageText(job: ReplayJob): string {
  const stage = stageOf(job)
  if (stage === 'failed_again') return `${countText(job.outcome?.failedCount ?? 0)} failed again`
  if (stage === 'done') return 'Completed'
  return `${stage.charAt(0).toUpperCase()}${stage.slice(1)}`
}

/** Renders the stage: a replay in the state `completed` has queued its events, but their deliveries may still run or have failed. */
function ReplayBadge({ job }: { readonly job: ReplayJob }) {
  const stage = stageOf(job)
  const tones = { delivering: 'info', failed_again: 'bad', done: 'good' } as const
  if (stage === 'delivering' || stage === 'failed_again' || stage === 'done')
    return <Badge tone={tones[stage]}>{stageText(job)}</Badge>
  return <StateBadge state={stage} />
}

const replayRow: PageRow = {
  method: 'GET',
  path: '/replays/:id',
  section: 'replays',
  async show(context) {
    const found = await findReplay(context)
    if (found.kind !== 'found') return found
    const { subject: job, owner } = found
    const { backoffice, actor } = context
    const rights = await backoffice.tenants.permissions(actor, owner)
    if (rights.kind !== 'ok') return rights
    const parts = { context, job, canReplay: rights.value.replay }
    return shown('Replay', <Replay {...parts} />)
  },
}

async function findReplay({ backoffice, actor, params }: PageContext) {
  const id = parseReplayId(params['id'] ?? '')
  if (id === undefined) return { kind: 'notFound' } as const
  const read = await backoffice.replays.read(actor, id)
  if (read.kind !== 'ok') return read
  return { kind: 'found', subject: read.value, owner: read.value.filter.tenantId ?? 'all' } as const
}

interface ReplayParts {
  readonly context: PageContext
  readonly job: ReplayJob
  readonly canReplay: boolean
}

function Replay({ context, job, canReplay }: ReplayParts) {
  const { here, query } = context
  const { id, filter } = job
  const kept = { tenant: query['tenant'] }
  const events = link('/events', { tenant: filter.tenantId, replay: id })
  return (
    <Live id="replay" here={here} every={isMoving(job) ? 'tick' : 'slow'}>
      <PageHeader
        title="Replay"
        badge={<ReplayBadge job={job} />}
        crumbs={[{ label: 'Replays', path: link('/replays', kept) }]}
        lead={<Copy text={id} label="Copy the replay’s id" />}
      >
        {job.queuedCount > 0 && <LinkButton href={events}>Its events</LinkButton>}
        {canReplay && isActive(job) && (
          <LinkButton tone="danger" href={link(`/replays/${id}/cancel`, kept)}>
            Cancel
          </LinkButton>
        )}
        {canReplay && !isActive(job) && selectionOf(filter) === undefined && (
          <LinkButton href={link('/replays/new', replayFields(job))}>Start a similar replay</LinkButton>
        )}
      </PageHeader>
      {noticeOf(job)}
      <div class="columns">
        <Card title="Queueing" note={isActive(job) ? 'updates live' : undefined}>
          <div class="card-body">
            <ReplayProgress job={job} />
          </div>
          <Facts facts={countsOf(job)} />
        </Card>
        <Outcomes job={job} canReplay={canReplay} />
      </div>
      <Card title="Details">
        <Facts facts={factsOf(context, job)} />
      </Card>
    </Live>
  )
}

function noticeOf({ state, isWaiting, cause }: ReplayJob) {
  if (state === 'failed')
    return (
      <Notice tone="bad" title="The replay failed">
        {cause === null ? 'The cause is unknown.' : `Cause: ${cause}.`} Queued events are still delivered.
        Start a similar replay for the rest; events that were delivered meanwhile are skipped.
      </Notice>
    )
  if (isWaiting)
    return (
      <Notice tone="warn" title="The replay is waiting">
        The tenant already has a thousand retries and replays in its queue. The replay continues as the
        callback accepts them.
      </Notice>
    )
  return null
}

const skippedWords: Readonly<Record<Exclude<CycleOutcome, 'queued'>, string>> = {
  already_queued: 'Skipped: already queued',
  payload_expired: 'Skipped: payload expired',
  not_enabled: 'Skipped: provider in verify-only mode',
  no_callback: 'Skipped: tenant without a callback',
  cycles_exhausted: 'Skipped: too many delivery cycles',
  test_event: 'Skipped: test event',
  changed: 'Skipped: changed in the meantime',
  not_found: 'Skipped: deleted',
}

function countsOf({ queuedCount, skipped, total }: ReplayJob): readonly Fact[] {
  const left = Object.entries(skippedWords).flatMap(([cause, words]): Fact[] => {
    const count = skipped[cause as keyof typeof skippedWords] ?? 0
    return count === 0 ? [] : [[words, countText(count)]]
  })
  return [
    ['Matched at start', `${total.isExact ? '' : 'at least '}${countText(total.count)}`],
    ['Queued for delivery', countText(queuedCount)],
    ...left,
  ]
}

/** Renders the count of each outcome with a link to exactly the counted events. */
function Outcomes({ job, canReplay }: Pick<ReplayParts, 'job' | 'canReplay'>) {
  const { id, filter, queuedCount, outcome } = job
  if (outcome === null || outcome.examinedCount === 0)
    return (
      <Card title="Outcome">
        <p class="muted">No event is queued yet.</p>
      </Card>
    )
  const { examinedCount, deliveredCount, failedCount, pendingCount, otherCount } = outcome
  const listed = { tenant: filter.tenantId, replay: id }
  const linked = (count: number, wanted: ReplayEventOutcome) =>
    count === 0 ? '0' : <a href={link('/events', { ...listed, outcome: wanted })}>{countText(count)}</a>
  const part = queuedCount > examinedCount ? `first ${countText(examinedCount)} ` : ''
  return (
    <Card title="Outcome" note={`of the ${part}queued events`}>
      <div class="card-body">
        <ShareBar
          share={deliveredCount / examinedCount}
          label={`${countText(deliveredCount)} of ${countText(examinedCount)} delivered, ${countText(failedCount)} failed again`}
          tone="good"
          badShare={failedCount / examinedCount}
        />
      </div>
      <Facts
        facts={[
          ['Delivered', linked(deliveredCount, 'delivered')],
          [
            'Failed again',
            <span class={failedCount > 0 ? 'is-bad' : undefined}>{linked(failedCount, 'failed')}</span>,
          ],
          ['Still pending', linked(pendingCount, 'pending')],
          otherCount > 0 ? ['Replayed since, or deleted', countText(otherCount)] : undefined,
        ]}
      />
      {canReplay && failedCount > 0 && (
        <div class="card-foot">
          <LinkButton href={link('/replays/preview', { ...listed, outcome: 'failed' })}>
            {failedCount === 1 ? 'Replay this event again…' : `Replay these ${countText(failedCount)} again…`}
          </LinkButton>
        </div>
      )}
    </Card>
  )
}

function factsOf({ tenantLabel }: PageContext, job: ReplayJob): readonly Fact[] {
  const { filter, ratePerSecond, requestedBy, createdAtMs, startedAtMs, endedAtMs, state } = job
  const { tenantId } = filter
  return [
    [
      'Tenant',
      tenantId === undefined ? allOf(filter) : <a href={`/tenants/${tenantId}`}>{tenantLabel(tenantId)}</a>,
    ],
    ['Progress', job.progress],
    ['Events', <ReplayFilterText filter={filter} />],
    ['Rate', `at most ${countText(ratePerSecond)} events per second`],
    ['Requested by', requestedBy],
    ['Requested', <Time atMs={createdAtMs} format="full" />],
    ['Started', startedAtMs === null ? undefined : <Time atMs={startedAtMs} format="full" />],
    [
      state === 'completed' ? 'All queued' : 'Ended',
      endedAtMs === null ? undefined : <Time atMs={endedAtMs} format="full" />,
    ],
  ]
}

const cancelRows = actionRows<ReplayJob>({
  path: '/replays/:id/cancel',
  section: 'replays',
  back: '/replays/:id',
  title: 'Cancel a replay',
  right: 'replay',
  find: findReplay,
  ask: ({ id, queuedCount }, { query }) => ({
    question: 'End this replay?',
    button: 'End the replay',
    tone: 'danger',
    back: link(`/replays/${id}`, { tenant: query['tenant'] }),
    text: (
      <p>
        It ends after the current step. The {countText(queuedCount)} events that are queued are still
        delivered; the rest is left as it is. A cancelled replay cannot be resumed, but a similar one can be
        started.
      </p>
    ),
  }),
  async act({ id }, { backoffice, actor, form }) {
    const cancelled = await backoffice.replays.cancel(actor, id)
    if (cancelled.kind !== 'ok') return cancelled
    const path = link(`/replays/${id}`, { tenant: form['tenant'] })
    return doneAt(path, cancelled.value, 'The replay has ended.', 'The replay had already ended.')
  },
})

export const replayRows = [replayRow, ...cancelRows] as const
