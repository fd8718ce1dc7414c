import { defined, replayFilterWords, replayFormFields } from '#internal/backoffice/index.ts'
import { type EventId, parseEventId, type TenantId } from '#internal/base/index.ts'
import type { EventSummary } from '#internal/events/index.ts'
import {
  type ReplayFilter,
  type ReplayPreview,
  replayRateDefault,
  replayRateMax,
} from '#internal/replays/index.ts'
import { Card, Empty, Notice, PageHeader, Tile, Tiles } from '../components/block.tsx'
import {
  earliestText,
  type Field,
  Fields,
  filled,
  LinkButton,
  PostForm,
  type Problems,
  readFields,
  SendButtons,
  timeFieldText,
} from '../components/form.tsx'
import { Table, tenantFields } from '../components/list.tsx'
import { countText, durationText, StateBadge, Time } from '../components/text.tsx'
import {
  type ActionRow,
  doneAt,
  goTo,
  link,
  mayReplay,
  type PageContext,
  type PageRow,
  shown,
  withRightTo,
} from '../page.ts'
import type { Form } from '../request.ts'
import { listPathOf } from './events.tsx'
import { ProviderCell } from './origin.tsx'

const dayMs = 86_400_000
const crumbs = [{ label: 'Replays', path: '/replays' }]

/** Fields about an earlier replay. The form shows them only if the address contains them. */
const earlierReplay: ReadonlySet<string> = new Set(['replay', 'outcome'])

const formFields = [
  ...replayFormFields.filter(({ name }) => !earlierReplay.has(name)),
  { kind: 'time', name: 'from', label: 'Received from', isRequired: true },
  { kind: 'time', name: 'to', label: 'Received before', hint: 'Empty: until now.' },
  ...replayFormFields.filter(({ name }) => earlierReplay.has(name)),
  {
    kind: 'number',
    name: 'rate',
    label: 'Events per second',
    min: 1,
    max: replayRateMax,
    expected: `1 to ${replayRateMax} events per second`,
    hint: 'Maximum rate. New events keep at least 75 % of capacity.',
  },
] as const satisfies readonly Field[]

interface ReplayRequest {
  readonly filter: ReplayFilter
  readonly ratePerSecond: number
}

/** Maximum selected events: as many as one page of the list contains. */
const selectedMax = 50

/** Returns the selected events: from `ids`, or from the checkboxes of the event list. */
function selectedIds(typed: Form): readonly EventId[] {
  const named = [...(typed['ids'] ?? '').split(','), ...Object.keys(typed)]
  return [...new Set(named.flatMap((text) => parseEventId(text) ?? []))].slice(0, selectedMax)
}

/** Parses the form of a replay. A missing end becomes the end of the current second, so that preview and replay cover the same events. */
export function parseReplayForm(
  typed: Form,
  { tenantId, nowMs }: { readonly tenantId: TenantId | undefined; readonly nowMs: number },
): ({ readonly kind: 'asked' } & ReplayRequest) | { readonly kind: 'wrong'; readonly problems: Problems } {
  const ids = selectedIds(typed)
  const to = typed['to'] || timeFieldText(Math.ceil(nowMs / 1_000) * 1_000)
  // An earlier replay already limits the events, so the start defaults to the earliest possible time.
  const from = typed['from'] || (typed['replay'] && earliestText) || ''
  const { values, problems } = readFields(formFields, { ...typed, from, to })
  const {
    from: fromMs,
    to: toMs,
    rate: ratePerSecond = replayRateDefault,
    replay: replayId,
    ...fields
  } = values
  // Selected events need no other field, so problems of other fields are ignored.
  if (ids.length > 0)
    return {
      kind: 'asked',
      ratePerSecond,
      filter: { ids, fromMs: 0, toMs: toMs ?? nowMs, ...defined({ tenantId }) },
    }
  if (fromMs === undefined || toMs === undefined || Object.keys(problems).length > 0)
    return { kind: 'wrong', problems }
  return {
    kind: 'asked',
    ratePerSecond,
    filter: { fromMs, toMs, ...defined({ tenantId, replayId, ...fields }) },
  }
}

/** Returns the ids of events that the user selected. Undefined for any other filter, and if `replayId` is set. */
export function selectionOf({ ids, replayId }: ReplayFilter): readonly EventId[] | undefined {
  return replayId === undefined ? ids : undefined
}

export function replayFields({
  filter,
  ratePerSecond,
}: ReplayRequest): Readonly<Record<string, string | undefined>> {
  const { tenantId: tenant, replayId: replay, ids: _ids, fromMs, toMs, ...sameNames } = filter
  const common = {
    tenant,
    rate: String(ratePerSecond),
    to: toMs === undefined ? undefined : timeFieldText(toMs),
  }
  const selection = selectionOf(filter)
  if (selection !== undefined) return { ...common, ids: selection.join(',') }
  return {
    ...common,
    ...Object.fromEntries(Object.entries(sameNames).map(([name, value]) => [name, String(value)])),
    replay,
    from: timeFieldText(fromMs),
  }
}

const outcomeWords = {
  delivered: 'that were delivered',
  failed: 'that failed again',
  pending: 'that are pending',
} as const
const stateWords = { delivery_failed: 'failed', processed: 'processed', verified: 'stored only' } as const

const earliestMs = Date.parse(earliestText)
const countedText = (count: number) => (count === 1 ? '1 event' : `${countText(count)} events`)

export function ReplayFilterText({ filter }: { readonly filter: ReplayFilter }) {
  const { tenantId, state, fromMs, toMs, ids, replayId, outcome } = filter
  const selection = selectionOf(filter)
  const words = [
    selection && `${selection.length} selected ${selection.length === 1 ? 'event' : 'events'}`,
    outcome === undefined && state && stateWords[state],
    ...replayFilterWords(filter, durationText),
  ]
  const text = words.filter(Boolean).join(' · ')
  if (replayId !== undefined)
    return (
      <span>
        {ids === undefined ? 'Events' : countedText(ids.length)} of{' '}
        <a href={link(`/replays/${replayId}`, { tenant: tenantId })}>{replayId}</a>
        {outcome !== undefined && ` ${outcomeWords[outcome]}`}
        {text !== '' && ` · ${text}`}
      </span>
    )
  return (
    <span>
      {text || 'All processed and failed events'}
      {selection === undefined && (
        <>
          , {fromMs === earliestMs ? 'any time' : <Time atMs={fromMs} />} to{' '}
          {toMs === undefined ? 'its start' : <Time atMs={toMs} />}
        </>
      )}
    </span>
  )
}

const newReplayRow: PageRow = {
  method: 'GET',
  path: '/replays/new',
  section: 'replays',
  async show(context) {
    if (!(await mayReplay(context))) return { kind: 'forbidden' }
    return shown('New replay', <ReplayForm context={context} problems={{}} />)
  },
}

function ReplayForm({ context, problems }: { readonly context: PageContext; readonly problems: Problems }) {
  const { list } = context.query
  return (
    <>
      <PageHeader
        title="New replay"
        lead="Redelivers events that were processed or have failed."
        crumbs={crumbs}
      />
      {context.tenant === undefined && (
        <Notice tone="info">
          Leave the tenant empty to include all tenants (requires cluster-wide permission).
        </Notice>
      )}
      <Card title="Events to replay" note="previewed on the next page">
        <form class="form" method="get" action="/replays/preview">
          <Fields fields={[...tenantFields(context), ...fieldsOf(context, problems)]} idPrefix="replay" />
          {list !== undefined && <input type="hidden" name="list" value={list} />}
          <SendButtons
            button="Preview"
            back={listPathOf(list) ?? link('/replays', { tenant: context.query['tenant'] })}
          />
        </form>
      </Card>
    </>
  )
}

function fieldsOf({ query, nowMs }: PageContext, problems: Problems): readonly Field[] {
  const values = {
    ...(query['from'] === undefined && { state: 'delivery_failed' }),
    from: timeFieldText(nowMs - dayMs),
    rate: String(replayRateDefault),
    ...query,
  }
  const isAsked = ({ name }: Field) => !earlierReplay.has(name) || name in query
  return filled(formFields.filter(isAsked), values, problems)
}

const previewReplayRow: PageRow = {
  method: 'GET',
  path: '/replays/preview',
  section: 'replays',
  async show(context) {
    const { backoffice, actor, query, tenant, nowMs } = context
    const asked = parseReplayForm(query, { tenantId: tenant?.id, nowMs })
    if (asked.kind === 'wrong') {
      if (query['selected'] === undefined)
        return shown('New replay', <ReplayForm context={context} problems={asked.problems} />, 422)
      // The selection form was sent without a selected event.
      const list = listPathOf(query['list']) ?? link('/events', { tenant: query['tenant'] })
      return goTo(list, 'Select the events to replay first.', 'info')
    }
    return withRightTo(context, asked.filter.tenantId ?? 'all', 'replay', async () => {
      const previewed = await backoffice.replays.preview(actor, asked.filter)
      if (previewed.kind !== 'ok') return previewed
      return shown(
        'Preview of a replay',
        <Preview context={context} asked={asked} preview={previewed.value} />,
      )
    })
  },
}

interface PreviewParts {
  readonly context: PageContext
  readonly asked: ReplayRequest
  readonly preview: ReplayPreview
}

function Preview({ context, asked, preview: { total, examples } }: PreviewParts) {
  const fields = replayFields(asked)
  const { list } = context.query
  const selection = selectionOf(asked.filter)
  const { replayId } = asked.filter
  const ofReplay = replayId && link(`/replays/${replayId}`, { tenant: fields['tenant'] })
  const toList = listPathOf(list, selection)
  const change =
    selection === undefined
      ? ((ofReplay && (toList ?? ofReplay)) ?? link('/replays/new', { ...fields, list }))
      : (toList ?? link('/events', { tenant: fields['tenant'] }))
  const isSelection = selection !== undefined
  const changeLabel = isSelection ? 'Events' : replayId === undefined ? 'New' : 'Replay'
  const isEmpty = total.count === 0
  const isAll = total.isExact && total.count <= examples.length
  const tenantIds = [...new Set(examples.map(({ tenantId }) => tenantId))]
  // If all selected events belong to one tenant, the replay is limited to this tenant.
  const onlyTenantId = isAll && isSelection && tenantIds.length === 1 ? tenantIds[0] : undefined
  return (
    <>
      <PageHeader
        title="Start this replay?"
        lead={<ReplayFilterText filter={asked.filter} />}
        crumbs={[...crumbs, { label: changeLabel, path: change }]}
      />
      {isEmpty ? (
        <Empty icon="search" title="Nothing to replay">
          <p>No processed or failed event matches.</p>
          <div class="buttons">
            <LinkButton href={change}>Back</LinkButton>
          </div>
        </Empty>
      ) : (
        <>
          <Estimate
            context={context}
            asked={asked}
            total={total}
            tenantIds={isAll && isSelection ? tenantIds : undefined}
          />
          <PostForm
            action="/replays"
            csrfToken={context.csrfToken}
            hidden={{ ...fields, tenant: onlyTenantId ?? fields['tenant'], list, key: crypto.randomUUID() }}
            look="toolbar"
          >
            <SendButtons
              button={total.isExact ? `Replay ${countedText(total.count)}` : 'Start the replay'}
              back={change}
            />
          </PostForm>
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
  total: { count, isExact },
  tenantIds,
}: Pick<PreviewParts, 'context' | 'asked'> &
  Pick<ReplayPreview, 'total'> & {
    /** Tenants of selected events. Undefined for a replay by a filter. */
    readonly tenantIds: readonly TenantId[] | undefined
  }) {
  const least = isExact ? '' : 'at least '
  const known = tenant === undefined ? tenantIds : [tenant.id]
  const durationMs = (count / ratePerSecond) * 1_000
  return (
    <Tiles>
      <Tile
        label={known === undefined || known.length === 1 ? 'Tenant' : 'Tenants'}
        value={known?.map(tenantLabel).join(', ') ?? 'All'}
        tone={known === undefined ? 'warn' : undefined}
      />
      <Tile
        label="Events"
        value={`${least}${countText(count)}`}
        note="some may be skipped, such as those whose payload has expired"
      />
      <Tile
        label="Duration"
        value={durationMs <= 1_000 ? `${least}about a second` : `${least}${durationText(durationMs)}`}
        note={`at ${countText(ratePerSecond)} per second, if the callback keeps up`}
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
      empty={<Empty title="None of the first events can be shown" />}
      columns={[
        {
          title: 'Event',
          isWide: true,
          cell: ({ id }) => (
            <a href={`/events/${id}`}>
              <code>{id}</code>
            </a>
          ),
        },
        { title: 'Type', cell: ({ type }) => type },
        { title: 'State', cell: ({ state }) => <StateBadge state={state} /> },
        ...(tenant === undefined ? [ofTenant] : []),
        { title: 'Provider', cell: (event) => <ProviderCell event={event} /> },
        { title: 'Received', cell: ({ receivedAtMs }) => <Time atMs={receivedAtMs} /> },
      ]}
    />
  )
}

/** Starts one replay even if the form is sent twice. Redirects to the event list if the user came from it, else to the replay. */
const startReplayRow: ActionRow = {
  method: 'POST',
  path: '/replays',
  section: 'replays',
  back: '/replays/new',
  backKeeps: [...formFields.map(({ name }) => name), 'zone', 'ids', 'list'],
  async act(context) {
    const { backoffice, actor, form, tenant, nowMs } = context
    const asked = parseReplayForm(form, { tenantId: tenant?.id, nowMs })
    if (asked.kind === 'wrong' || form['to'] === undefined || !/^[\da-f-]{36}$/.test(form['key'] ?? ''))
      return { kind: 'invalid', problem: 'This form is incomplete: preview the replay once more' }
    const { filter, ratePerSecond } = asked
    const idempotencyKey = `dashboard:${form['key']}`
    const started = await backoffice.replays.start(actor, { filter, ratePerSecond, idempotencyKey })
    if (started.kind !== 'ok') return started
    const path = link(`/replays/${started.value.replay.id}`, { tenant: filter.tenantId })
    const list = listPathOf(form['list'])
    const begun = 'The replay has begun.'
    if (list === undefined)
      return doneAt(
        path,
        started.value,
        begun,
        'This form was already sent: this is the replay that it started.',
      )
    const toReplay = { path, label: 'See its progress and outcome' }
    return doneAt(
      list,
      started.value,
      begun,
      'This form was already sent, and its replay has begun.',
      toReplay,
    )
  },
}

export const replayStartRows = [startReplayRow, newReplayRow, previewReplayRow] as const
