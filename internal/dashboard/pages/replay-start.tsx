import type { TenantId } from '#internal/base/index.ts'
import type { EventSummary } from '#internal/events/index.ts'
import { type ReplayFilter, type ReplayPreview, replayRateMax } from '#internal/replays/index.ts'
import { neutralProviderName, providerNames } from '#internal/tenants/index.ts'
import { Card, Empty, Notice, PageHeader, Tile, Tiles } from '../components/block.tsx'
import {
  choicesOf,
  type Field,
  Fields,
  LinkButton,
  orderProblem,
  PostForm,
  parseTimeField,
  Submit,
  timeFieldText,
  timeProblem,
} from '../components/form.tsx'
import { type Problems, Table, tenantFields } from '../components/list.tsx'
import { countText, durationText, StateBadge, Time } from '../components/text.tsx'
import {
  type ActionRow,
  doneAt,
  link,
  mayReplay,
  type PageContext,
  type PageRow,
  shown,
  withRightTo,
} from '../page.ts'

const dayMs = 86_400_000
const rateDefault = 50
const crumbs = [{ label: 'Replays', path: '/replays' }]
const states = [
  { value: 'delivery_failed', label: 'Failed' },
  { value: 'processed', label: 'Processed' },
  { value: 'verified', label: 'Verified only' },
] as const

interface ReplayRequest {
  readonly filter: ReplayFilter
  readonly ratePerSecond: number
}

/** Result of parsing the form of a replay. */
export type ReplayAsked =
  | ({ readonly kind: 'asked' } & ReplayRequest)
  | { readonly kind: 'wrong'; readonly problems: Problems }

/**
 * Parses the form of a replay. A missing end becomes the end of the current second, so that the replay covers what its preview shows.
 * Pure.
 */
export function parseReplayForm(
  fields: Readonly<Record<string, string>>,
  { tenantId, nowMs }: { readonly tenantId: TenantId | undefined; readonly nowMs: number },
): ReplayAsked {
  const text = (name: string) => (fields[name] === '' ? undefined : fields[name])
  const [from = '', to, type] = [text('from'), text('to'), text('type')]
  const fromMs = parseTimeField(from)
  const toMs = to === undefined ? Math.ceil(nowMs / 1_000) * 1_000 : parseTimeField(to)
  const state = states.find(({ value }) => value === text('state'))?.value
  const provider = neutralProviderName(text('provider') ?? '')
  const ratePerSecond = Number(text('rate') ?? rateDefault)
  const isRate = Number.isInteger(ratePerSecond) && ratePerSecond >= 1 && ratePerSecond <= replayRateMax
  const isBackwards = fromMs !== undefined && toMs !== undefined && fromMs >= toMs
  const problems = {
    ...(fromMs === undefined && { from: timeProblem }),
    ...(toMs === undefined && { to: timeProblem }),
    ...(isBackwards && { to: orderProblem }),
    ...(text('state') !== undefined && state === undefined && { state: 'Choose one of these states' }),
    ...(text('provider') !== undefined &&
      provider === undefined && { provider: 'There is no such provider' }),
    ...(!isRate && { rate: `1 to ${replayRateMax} events a second` }),
  }
  if (fromMs === undefined || toMs === undefined || Object.keys(problems).length > 0)
    return { kind: 'wrong', problems }
  const filter = {
    ...{ fromMs, toMs },
    ...(tenantId !== undefined && { tenantId }),
    ...(provider !== undefined && { provider }),
    ...(type !== undefined && { type }),
    ...(state !== undefined && { state }),
  }
  return { kind: 'asked', filter, ratePerSecond }
}

/** Returns the form fields of a replay, for a hidden form or a link. Pure. */
export function replayFields({
  filter: { tenantId, provider, type, state, fromMs, toMs },
  ratePerSecond,
}: ReplayRequest): Readonly<Record<string, string | undefined>> {
  return {
    ...{ tenant: tenantId, state, provider, type, from: timeFieldText(fromMs) },
    to: toMs === undefined ? undefined : timeFieldText(toMs),
    rate: String(ratePerSecond),
  }
}

const stateWords = { delivery_failed: 'failed', processed: 'processed', verified: 'verified only' } as const

/** Describes the events of a replay in a line. */
export function ReplayFilterText({ filter }: { readonly filter: ReplayFilter }) {
  const { state, provider, type, fromMs, toMs, ids } = filter
  return (
    <span>
      {[ids === undefined ? undefined : `${ids.length} named`, state && stateWords[state], provider, type]
        .filter((word) => word !== undefined)
        .join(' · ') || 'all ended events'}
      , <Time atMs={fromMs} /> to {toMs === undefined ? 'its start' : <Time atMs={toMs} />}
    </span>
  )
}

/** The form that selects events to replay. */
const newReplayRow: PageRow = {
  ...{ method: 'GET', path: '/replays/new', section: 'replays' },
  async show(context) {
    if (!(await mayReplay(context))) return { kind: 'forbidden' }
    return shown('New replay', <ReplayForm context={context} problems={{}} />)
  },
}

interface FormParts {
  readonly context: PageContext
  readonly problems: Problems
}

function ReplayForm({ context, problems }: FormParts) {
  return (
    <>
      <PageHeader title="New replay" lead="Delivers ended events again." crumbs={crumbs} />
      {context.tenant === undefined && (
        <Notice tone="info">
          Without a tenant the replay covers all tenants, which needs the right for the whole cluster.
        </Notice>
      )}
      <Card title="Events to replay" note="the next page previews them">
        <form class="form" method="get" action="/replays/preview">
          <Fields fields={[...tenantFields(context), ...fieldsOf(context, problems)]} idPrefix="replay" />
          <div class="buttons">
            <Submit>Preview</Submit>
          </div>
        </form>
      </Card>
    </>
  )
}

function fieldsOf({ query, nowMs }: PageContext, problems: Problems): readonly Field[] {
  const values: Readonly<Record<string, string | undefined>> = {
    ...(query['from'] === undefined && { state: 'delivery_failed' }),
    ...{ from: timeFieldText(nowMs - dayMs), rate: String(rateDefault) },
    ...query,
  }
  const of = (name: string) => ({ name, value: values[name], problem: problems[name] })
  return [
    { ...{ kind: 'choice', label: 'State', none: 'Any', choices: states }, ...of('state') },
    {
      ...{ kind: 'choice', label: 'Provider', none: 'Any', choices: choicesOf(providerNames) },
      ...of('provider'),
    },
    { ...{ kind: 'text', label: 'Type', placeholder: 'Any', charsMax: 255 }, ...of('type') },
    { ...{ kind: 'time', label: 'Received from (UTC)' }, ...of('from') },
    { ...{ kind: 'time', label: 'Received before (UTC)', hint: 'Empty: until now.' }, ...of('to') },
    {
      ...{ kind: 'number', label: 'Events a second', ...of('rate') },
      hint: 'Upper bound. New events keep three quarters of the tenant’s capacity at any rate.',
    },
  ]
}

/** Previews a replay before it is started. */
const previewReplayRow: PageRow = {
  ...{ method: 'GET', path: '/replays/preview', section: 'replays' },
  async show(context) {
    const { backoffice, actor, query, tenant, nowMs } = context
    const asked = parseReplayForm(query, { tenantId: tenant?.id, nowMs })
    if (asked.kind === 'wrong')
      return shown('New replay', <ReplayForm context={context} problems={asked.problems} />, 422)
    return withRightTo(context, asked.filter.tenantId ?? 'all', 'replay', async () => {
      const previewed = await backoffice.replays.preview(actor, asked.filter)
      if (previewed.kind !== 'ok') return previewed
      return shown('Preview of a replay', <Preview {...{ context, asked, preview: previewed.value }} />)
    })
  },
}

interface PreviewParts {
  readonly context: PageContext
  readonly asked: ReplayRequest
  readonly preview: ReplayPreview
}

function Preview({ context, asked, preview: { count, examples } }: PreviewParts) {
  const fields = replayFields(asked)
  const change = link('/replays/new', fields)
  const isEmpty = count.count === 0
  const isAll = count.isExact && count.count <= examples.length
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
          <p>No ended event matches.</p>
        </Empty>
      ) : (
        <>
          <Estimate context={context} asked={asked} count={count} />
          <Card title={isAll ? 'All events' : `The first ${examples.length} events`} note="oldest first">
            <Examples context={context} examples={examples} />
          </Card>
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
        note="some may be skipped, such as those whose payload has expired"
      />
      <Tile
        label="Duration"
        value={`${least}${durationText(Math.max(1_000, (count / ratePerSecond) * 1_000))}`}
        note={`at ${countText(ratePerSecond)} a second, if the callback keeps up`}
      />
    </Tiles>
  )
}

function Examples({
  context: { tenantLabel, tenant },
  examples,
}: Pick<PreviewParts, 'context'> & { readonly examples: readonly EventSummary[] }) {
  const ofTenant = { title: 'Tenant', cell: ({ tenantId }: EventSummary) => tenantLabel(tenantId) }
  return (
    <Table<EventSummary>
      caption="Events to replay"
      rows={examples}
      keyOf={({ id }) => id}
      empty={<Empty title="None of the first events can be shown" />}
      columns={[
        { title: 'Type', isWide: true, cell: ({ id, type }) => <a href={`/events/${id}`}>{type}</a> },
        { title: 'State', cell: ({ state }) => <StateBadge state={state} /> },
        ...(tenant === undefined ? [ofTenant] : []),
        { title: 'Provider', cell: ({ provider }) => provider },
        { title: 'Received', cell: ({ receivedAtMs }) => <Time atMs={receivedAtMs} /> },
      ]}
    />
  )
}

/** Starts a replay; a form that is sent twice starts one. */
const startReplayRow: ActionRow = {
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
    return doneAt(
      path,
      started.value,
      'The replay has begun.',
      'This form was sent before: this is its replay.',
    )
  },
}

/** Pages and actions that start a replay. */
export const replayStartRows = [startReplayRow, newReplayRow, previewReplayRow] as const
