import type { EventSummary } from '#internal/events/index.ts'
import type { ReplayPreview } from '#internal/replays/index.ts'
import { providerNames } from '#internal/tenants/index.ts'
import { Card, Empty, Notice, PageHeader, Tile, Tiles } from '../components/block.tsx'
import { type Field, Fields, LinkButton, PostForm, Submit } from '../components/form.tsx'
import { Table } from '../components/table.tsx'
import { countText, durationText, StateBadge, Time } from '../components/text.tsx'
import { type ActionRow, goTo, link, type PageContext, type PageRow, type Shown, shown } from '../page.ts'
import { timeFieldText } from '../time-field.ts'
import {
  parseReplayForm,
  type ReplayAsked,
  type ReplayProblems,
  rateDefault,
  replayFields,
} from './replay-filter.ts'
import { ReplayFilterText } from './replay-progress.tsx'
import { mayReplay, withRightTo } from './rights.ts'
import { tenantFields } from './tenant-field.ts'

const dayMs = 86_400_000

/** The form that says which events are to be replayed. */
export const newReplayRow: PageRow = {
  ...{ method: 'GET', path: '/replays/new', section: 'replays' },
  async show(context) {
    if (!(await mayReplay(context))) return { kind: 'forbidden' }
    return shown('New replay', <ReplayForm context={context} problems={{}} />)
  },
}

const crumbs = [{ label: 'Replays', path: '/replays' }]

function ReplayForm({
  context,
  problems,
}: {
  readonly context: PageContext
  readonly problems: ReplayProblems
}) {
  return (
    <>
      <PageHeader title="New replay" lead="Events that have ended are delivered once more." crumbs={crumbs} />
      {context.tenant === undefined && (
        <Notice tone="info">
          Without a tenant it is of all tenants, which needs the right for the whole cluster.
        </Notice>
      )}
      <Card title="Which events" note="first you see what would be replayed">
        <form class="form" method="get" action="/replays/preview">
          <Fields fields={fieldsOf(context, problems)} idPrefix="replay" />
          <div class="buttons">
            <Submit>Preview</Submit>
          </div>
        </form>
      </Card>
    </>
  )
}

function fieldsOf(context: PageContext, problems: ReplayProblems): readonly Field[] {
  const { query, nowMs } = context
  const { state, provider, type, from, to, rate } = query
  return [
    ...tenantFields(context),
    {
      ...{
        kind: 'choice',
        name: 'state',
        label: 'What became of them',
        none: 'Anything',
        problem: problems.state,
      },
      value: state ?? (query['from'] === undefined ? 'delivery_failed' : undefined),
      choices: [
        { value: 'delivery_failed', label: 'Failed' },
        { value: 'processed', label: 'Processed' },
        { value: 'verified', label: 'Only verified' },
      ],
    },
    {
      ...{ kind: 'choice', name: 'provider', label: 'Provider', value: provider, none: 'Any' },
      ...{ choices: providerNames.map((name) => ({ value: name, label: name })), problem: problems.provider },
    },
    { kind: 'text', name: 'type', label: 'Type', value: type, placeholder: 'Any', charsMax: 255 },
    {
      ...{ kind: 'time', name: 'from', label: 'Received from (UTC)', problem: problems.from },
      value: from ?? timeFieldText(nowMs - dayMs),
    },
    {
      ...{ kind: 'time', name: 'to', label: 'Received before (UTC)', value: to, problem: problems.to },
      hint: 'Empty: until now.',
    },
    {
      ...{ kind: 'number', name: 'rate', label: 'Events a second', problem: problems.rate },
      ...{
        value: rate ?? String(rateDefault),
        hint: 'At most. Three quarters of the tenant’s turns stay with new events whatever it is.',
      },
    },
  ]
}

function wrongForm(context: PageContext, problems: ReplayProblems): Shown {
  return { ...shown('New replay', <ReplayForm context={context} problems={problems} />), status: 422 }
}

/** Shows what a replay would take up, and asks before it is started. */
export const previewReplayRow: PageRow = {
  ...{ method: 'GET', path: '/replays/preview', section: 'replays' },
  async show(context) {
    const { backoffice, actor, query, tenant, nowMs } = context
    const asked = parseReplayForm(query, { tenantId: tenant?.id, nowMs })
    if (asked.kind === 'wrong') return wrongForm(context, asked.problems)
    return withRightTo(context, asked.filter.tenantId ?? 'all', 'replay', async () => {
      const previewed = await backoffice.replays.preview(actor, asked.filter)
      if (previewed.kind !== 'ok') return previewed
      return shown('Preview of a replay', <Preview {...{ context, asked, preview: previewed.value }} />)
    })
  },
}

interface PreviewParts {
  readonly context: PageContext
  readonly asked: Extract<ReplayAsked, { kind: 'asked' }>
  readonly preview: ReplayPreview
}

function Preview({ context, asked, preview }: PreviewParts) {
  const { count, examples } = preview
  const fields = replayFields(asked)
  const change = link('/replays/new', fields)
  const isEmpty = count.count === 0
  return (
    <>
      <PageHeader
        title="Start this replay?"
        lead={<ReplayFilterText filter={asked.filter} />}
        crumbs={[...crumbs, { label: 'New', path: change }]}
      >
        <LinkButton href={change}>Change it</LinkButton>
        {!isEmpty && (
          <PostForm
            action="/replays"
            csrfToken={context.csrfToken}
            hidden={{ ...fields, key: crypto.randomUUID() }}
            isInline
          >
            <Submit>Start the replay</Submit>
          </PostForm>
        )}
      </PageHeader>
      {isEmpty ? (
        <Empty icon="search" title="There is nothing to replay">
          <p>No event that has ended matches.</p>
        </Empty>
      ) : (
        <>
          <Estimate context={context} asked={asked} count={count} />
          <Examples
            context={context}
            examples={examples}
            isAll={count.isExact && count.count <= examples.length}
          />
        </>
      )}
    </>
  )
}

function Estimate({
  context: { tenant, tenantLabel },
  asked: { ratePerSecond },
  count: { count, isExact },
}: Pick<PreviewParts, 'context' | 'asked'> & Pick<ReplayPreview, 'count'>) {
  const least = isExact ? '' : 'at least '
  return (
    <Tiles>
      <Tile
        label="Tenant"
        value={tenant === undefined ? 'All' : tenantLabel(tenant.id)}
        tone={tenant === undefined ? 'warn' : undefined}
      />
      <Tile
        label="Events"
        value={`${least}${countText(count)}`}
        note="some may be left out, as when their payload is gone"
      />
      <Tile
        label="Takes"
        value={`${least}${durationText(Math.max(1_000, (count / ratePerSecond) * 1_000))}`}
        note={`at ${countText(ratePerSecond)} a second, if the callback keeps up`}
      />
    </Tiles>
  )
}

function Examples({
  context: { tenantLabel, tenant },
  examples,
  isAll,
}: Pick<PreviewParts, 'context'> & { readonly examples: readonly EventSummary[]; readonly isAll: boolean }) {
  return (
    <Card title={isAll ? 'All of them' : `The first ${examples.length}`} note="oldest first">
      <Table<EventSummary>
        caption="Events that would be replayed"
        rows={examples}
        keyOf={({ id }) => id}
        empty={<Empty title="None of the first can be shown" />}
        columns={[
          { title: 'Type', isWide: true, cell: ({ id, type }) => <a href={`/events/${id}`}>{type}</a> },
          { title: 'State', cell: ({ state }) => <StateBadge state={state} /> },
          ...(tenant === undefined
            ? [{ title: 'Tenant', cell: ({ tenantId }: EventSummary) => tenantLabel(tenantId) }]
            : []),
          { title: 'Provider', cell: ({ provider }) => provider },
          { title: 'Received', cell: ({ receivedAtMs }) => <Time atMs={receivedAtMs} /> },
        ]}
      />
    </Card>
  )
}

/** Starts a replay; sent twice, the same form starts one. */
export const startReplayRow: ActionRow = {
  ...{ method: 'POST', path: '/replays', section: 'replays' },
  back: '/replays/new',
  backKeeps: ['state', 'provider', 'type', 'from', 'to', 'rate'],
  async act(context) {
    const { backoffice, actor, form, tenant, nowMs } = context
    const asked = parseReplayForm(form, { tenantId: tenant?.id, nowMs })
    if (asked.kind === 'wrong' || form['to'] === undefined || !/^[\da-f-]{36}$/.test(form['key'] ?? ''))
      return { kind: 'invalid', problem: 'This form is incomplete: preview the replay once more' }
    const { filter, ratePerSecond } = asked
    const idempotencyKey = `dashboard:${form['key']}`
    const started = await backoffice.replays.start(actor, { filter, ratePerSecond, idempotencyKey })
    if (started.kind !== 'ok') return started
    const path = link(`/replays/${started.value.job.id}`, { tenant: filter.tenantId })
    return started.value.isNew
      ? goTo(path, 'The replay has begun.')
      : goTo(path, 'It was started before: this is the same one.', 'info')
  },
}
