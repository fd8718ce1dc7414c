import type { EventDetail } from '#internal/backoffice/index.ts'
import { parseEventId } from '#internal/base/index.ts'
import { parseSimulationId } from '#internal/simulations/index.ts'
import { Card, Empty, type Fact, Facts, Live, PageHeader } from '../components/block.tsx'
import { LinkButton, PostForm, Submit } from '../components/form.tsx'
import { Icon } from '../components/icon.tsx'
import { JsonBlock } from '../components/json-block.tsx'
import { bytesText, Copy, StateBadge, Time } from '../components/text.tsx'
import { link, type PageContext, type PageRow, shown } from '../page.ts'
import { Timeline, type TimelineParts } from './event-timeline.tsx'
import type { Rights } from './rights.ts'

/** One event: what happened to it, why, and what can be done. */
export const eventRow: PageRow = {
  ...{ method: 'GET', path: '/events/:id', section: 'events' },
  async show(context) {
    const { backoffice, actor, params, query } = context
    const id = parseEventId(params['id'] ?? '')
    if (id === undefined) return { kind: 'notFound' }
    // What is followed live is asked for without what cannot change.
    const isFollowed = query['part'] === 'progress'
    const read = await backoffice.events.read(actor, id, { withoutPayload: isFollowed })
    if (read.kind !== 'ok') return read
    const { tenantId, state } = read.value.event
    const [rights, tenant] = await Promise.all([
      backoffice.tenants.permissions(actor, tenantId),
      state === 'accepted' ? backoffice.tenants.read(actor, tenantId) : undefined,
    ])
    if (rights.kind !== 'ok') return rights
    const parts = {
      context,
      detail: read.value,
      rights: rights.value,
      tenant: tenant?.kind === 'ok' ? tenant.value : undefined,
    }
    if (isFollowed) return shown(read.value.event.type, <Progress {...parts} />)
    return shown(read.value.event.type, <EventPage {...parts} />)
  },
}

interface EventParts extends Pick<TimelineParts, 'detail' | 'tenant'> {
  readonly context: PageContext
  readonly rights: Rights
}

function EventPage(parts: EventParts) {
  return (
    <div class="event-page">
      <Progress {...parts} />
      <Payload {...parts} />
      <Headers {...parts} />
    </div>
  )
}

function Progress({ context, detail, rights, tenant }: EventParts) {
  const { event } = detail
  const { query, nowMs } = context
  const kept = { tenant: query['tenant'] }
  return (
    <Live
      id="progress"
      here={link(`/events/${event.id}`, { ...kept, part: 'progress' })}
      every={event.state === 'accepted' ? 'tick' : 'slow'}
    >
      <PageHeader
        title={event.type}
        badge={<StateBadge state={event.state} />}
        crumbs={[{ label: 'Events', path: link('/events', kept) }]}
        lead={<Copy text={event.id} label="Copy the event’s id" />}
      >
        <LinkButton href={link('/events', { ...kept, type: event.type })}>Same type</LinkButton>
        {rights.replay && event.state !== 'accepted' && (
          <LinkButton tone="primary" href={link(`/events/${event.id}/replay`, kept)}>
            <Icon name="replays" /> Replay
          </LinkButton>
        )}
      </PageHeader>
      <Card title="What happened" note={event.state === 'accepted' ? 'followed live' : undefined}>
        <Timeline detail={detail} tenant={tenant} nowMs={nowMs} />
      </Card>
      <aside class="event-facts" aria-label="Facts">
        <Card title="About it">
          <Facts facts={factsOf(context, detail)} />
        </Card>
      </aside>
    </Live>
  )
}

function factsOf(
  { tenantLabel, query }: PageContext,
  { event, headers }: EventDetail,
): readonly (Fact | undefined)[] {
  const { tenantId } = event
  const simulation = parseSimulationId(headers['latchkey-simulation'] ?? '')
  return [
    ['Tenant', <a href={`/tenants/${tenantId}`}>{tenantLabel(tenantId)}</a>],
    ['Provider', event.provider],
    ['Provider’s id', <Copy text={event.sourceEventId} label="Copy the provider’s id" />],
    ['Provider’s type', <code>{event.rawType}</code>],
    ['Occurred', <Time atMs={event.occurredAtMs} format="full" />],
    ['Received', <Time atMs={event.receivedAtMs} format="full" />],
    ['Round', String(event.round)],
    ['Payload', `${bytesText(event.payloadBytes)}, kept until ${event.payloadExpiresOn}`],
    simulation === undefined
      ? undefined
      : [
          'Made up by',
          <a href={link(`/simulations/${simulation}`, { tenant: query['tenant'] })}>a simulation</a>,
        ],
  ]
}

function Payload({ context, detail: { event, payload }, rights }: EventParts) {
  if (payload === undefined)
    return (
      <Card title="Payload">
        <Empty icon="clock" title="The payload is not kept any more">
          <p>
            Its days ended on {event.payloadExpiresOn}. What became of the event is kept for longer; it cannot
            be replayed.
          </p>
        </Empty>
      </Card>
    )
  return (
    <Card title="Payload" note="secrets, card numbers and e-mail addresses hidden">
      <JsonBlock text={payload.text} label="payload, redacted" />
      {payload.isCut && <p class="muted card-foot">Only its beginning is shown.</p>}
      {rights.readPayloads ? (
        <div class="card-foot">
          <PostForm action={`/events/${event.id}/payload`} csrfToken={context.csrfToken} isInline>
            <Submit tone="normal">
              <Icon name="lock" /> Reveal as received
            </Submit>
          </PostForm>
          <span class="muted">It is written down who reads it.</span>
        </div>
      ) : (
        <p class="card-foot muted">
          <Icon name="lock" /> You may not read payloads as they were received. Ask for{' '}
          {context.actor.kind === 'tenantKey' ? (
            <>
              a key with the scope <code>dashboard</code>
            </>
          ) : (
            <>
              the right <code>get tenants/payloads</code>
            </>
          )}
          .
        </p>
      )}
    </Card>
  )
}

function Headers({ detail: { headers } }: EventParts) {
  return (
    <Card title="Headers" note="as forwarded to the callback; credentials are never kept">
      <JsonBlock text={JSON.stringify(headers)} label="headers, redacted" />
    </Card>
  )
}
