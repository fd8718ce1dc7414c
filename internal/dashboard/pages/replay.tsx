import type { ReplayFate } from '#internal/events/index.ts'
import { parseReplayId, type ReplayJob } from '#internal/replays/index.ts'
import { Card, Facts, Live, Notice, PageHeader } from '../components/block.tsx'
import { Confirm, LinkButton } from '../components/form.tsx'
import { Copy, countText, StateBadge, Time } from '../components/text.tsx'
import { type ActionRow, goTo, link, type PageContext, type PageRow, shown } from '../page.ts'
import { eventsLink, replayFields } from './replay-filter.ts'
import { ReplayFilterText, ReplayProgress } from './replay-progress.tsx'
import { withRightTo } from './rights.ts'

/** One replay: how far it is, what it left out, and how to end it. */
export const replayRow: PageRow = {
  ...{ method: 'GET', path: '/replays/:id', section: 'replays' },
  async show(context) {
    const { backoffice, actor, params } = context
    const id = parseReplayId(params['id'] ?? '')
    if (id === undefined) return { kind: 'notFound' }
    const read = await backoffice.replays.read(actor, id)
    if (read.kind !== 'ok') return read
    const job = read.value
    const rights = await backoffice.tenants.permissions(actor, job.filter.tenantId ?? 'all')
    if (rights.kind !== 'ok') return rights
    return shown('Replay', <Replay context={context} job={job} mayReplay={rights.value.replay} />)
  },
}

interface ReplayParts {
  readonly context: PageContext
  readonly job: ReplayJob
  readonly mayReplay: boolean
}

const isUnderWay = ({ state }: ReplayJob) => state === 'queued' || state === 'running'

function Replay({ context, job, mayReplay }: ReplayParts) {
  const { here, query } = context
  const kept = { tenant: query['tenant'] }
  return (
    <Live id="replay" here={here} every={isUnderWay(job) ? 'tick' : 'slow'}>
      <PageHeader
        title="Replay"
        badge={<StateBadge state={job.state} />}
        crumbs={[{ label: 'Replays', path: link('/replays', kept) }]}
        lead={<Copy text={job.id} label="Copy the replay’s id" />}
      >
        <LinkButton href={eventsLink(job.filter)}>Its events</LinkButton>
        {mayReplay && isUnderWay(job) && (
          <LinkButton tone="danger" href={link(`/replays/${job.id}/cancel`, kept)}>
            Cancel
          </LinkButton>
        )}
        {mayReplay && !isUnderWay(job) && job.filter.ids === undefined && (
          <LinkButton href={link('/replays/new', replayFields(job))}>Another like it</LinkButton>
        )}
      </PageHeader>
      {noticeOf(job)}
      <div class="event-columns">
        <Card title="Progress" note={isUnderWay(job) ? 'followed live' : undefined}>
          <div class="card-body">
            <ReplayProgress job={job} />
          </div>
          <Facts facts={countsOf(job)} />
        </Card>
        <Card title="About it">
          <Facts facts={factsOf(context, job)} />
        </Card>
      </div>
    </Live>
  )
}

function noticeOf({ state, isWaiting, failedCause }: ReplayJob) {
  if (state === 'failed')
    return (
      <Notice tone="bad" title="The replay could not go on">
        {failedCause === null ? 'Nobody knows why.' : `What is known of it: ${failedCause}.`} What it queued
        is delivered. Begin another one like it: events that are done since are left out by their state.
      </Notice>
    )
  if (isWaiting)
    return (
      <Notice tone="warn" title="It stands still for the moment">
        A thousand retries and replays of the tenant wait already. It goes on as the callback takes them.
      </Notice>
    )
  return null
}

const skippedWords: Readonly<Record<Exclude<ReplayFate, 'queued'>, string>> = {
  already_queued: 'Left out: under way already',
  payload_expired: 'Left out: payload gone',
  not_enabled: 'Left out: provider only tried out',
  rounds_exhausted: 'Left out: too many rounds',
  changed: 'Left out: changed meanwhile',
  not_found: 'Left out: gone',
}

function countsOf({ queuedCount, skipped, total }: ReplayJob) {
  const left = Object.entries(skippedWords).flatMap(([cause, words]) => {
    const count = skipped[cause as keyof typeof skippedWords] ?? 0
    return count === 0 ? [] : [[words, countText(count)] as const]
  })
  return [
    ['Matched at its start', `${total.isExact ? '' : 'at least '}${countText(total.count)}`] as const,
    ['Queued for delivery', countText(queuedCount)] as const,
    ...left,
  ]
}

function factsOf({ tenantLabel }: PageContext, job: ReplayJob) {
  const { filter, ratePerSecond, requestedBy, createdAtMs, startedAtMs, endedAtMs } = job
  const { tenantId } = filter
  return [
    [
      'Tenant',
      tenantId === undefined ? 'all tenants' : <a href={`/tenants/${tenantId}`}>{tenantLabel(tenantId)}</a>,
    ],
    ['Events', <ReplayFilterText filter={filter} />],
    ['Rate', `at most ${countText(ratePerSecond)} events a second`],
    ['Asked for by', requestedBy],
    ['Asked for', <Time atMs={createdAtMs} format="full" />],
    ['Begun', startedAtMs === null ? undefined : <Time atMs={startedAtMs} format="full" />],
    ['Ended', endedAtMs === null ? undefined : <Time atMs={endedAtMs} format="full" />],
  ] as const
}

/** Asks before a replay is ended. */
export const askCancelRow: PageRow = {
  ...{ method: 'GET', path: '/replays/:id/cancel', section: 'replays' },
  async show(context) {
    const { backoffice, actor, params, csrfToken, query } = context
    const id = parseReplayId(params['id'] ?? '')
    if (id === undefined) return { kind: 'notFound' }
    const read = await backoffice.replays.read(actor, id)
    if (read.kind !== 'ok') return read
    const { queuedCount, filter } = read.value
    const kept = { tenant: query['tenant'] }
    return withRightTo(context, filter.tenantId ?? 'all', 'replay', () =>
      shown(
        'Cancel a replay',
        <Confirm
          question="End this replay?"
          action={link(`/replays/${id}/cancel`, kept)}
          csrfToken={csrfToken}
          button="End the replay"
          tone="danger"
          back={link(`/replays/${id}`, kept)}
        >
          <p>
            It ends after the step under way. The {countText(queuedCount)} events that it has queued are
            delivered; the rest stays as it is. It cannot go on later, but another one like it can be started.
          </p>
        </Confirm>,
      ),
    )
  },
}

/** Ends a replay. */
export const cancelReplayRow: ActionRow = {
  ...{ method: 'POST', path: '/replays/:id/cancel', section: 'replays', back: '/replays/:id' },
  async act({ backoffice, actor, params, query }) {
    const id = parseReplayId(params['id'] ?? '')
    if (id === undefined) return { kind: 'notFound' }
    const cancelled = await backoffice.replays.cancel(actor, id)
    if (cancelled.kind !== 'ok') return cancelled
    const path = link(`/replays/${id}`, { tenant: query['tenant'] })
    return cancelled.value.isNew
      ? goTo(path, 'The replay has ended.')
      : goTo(path, 'It had ended before: nothing was changed.', 'info')
  },
}
