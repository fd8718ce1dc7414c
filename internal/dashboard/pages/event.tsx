import type { ComponentChildren } from 'preact'
import {
  type AttemptDetail,
  adviceOf,
  type EventDetail,
  type Explanation,
  eventPositions,
  resumeAdvice,
  statusAdvice,
} from '#internal/backoffice/index.ts'
import { parseEventId } from '#internal/base/index.ts'
import { forwardedEvent, forwardedOf } from '#internal/delivery/index.ts'
import { type EventSummary, shownAttemptsMax } from '#internal/events/index.ts'
import { eventTypeTexts } from '#internal/providers/index.ts'
import type { ReplayId } from '#internal/replays/index.ts'
import { Card, Empty, type Fact, Facts, Live, Notice, PageHeader } from '../components/block.tsx'
import { LinkButton, PostForm, Submit } from '../components/form.tsx'
import { JsonBlock, TextBlock } from '../components/json.tsx'
import {
  Ago,
  Badge,
  bytesText,
  Copy,
  durationText,
  Icon,
  StateBadge,
  Time,
  type Tone,
} from '../components/text.tsx'
import { type ActionRow, doneAt, link, type PageContext, type PageRow, type Rights, shown } from '../page.ts'
import { actionRows } from './action-rows.tsx'
import { attemptCurl, attemptPath } from './attempt.tsx'
import {
  attemptName,
  type CycleOrigins,
  originsText,
  parseAttemptName,
  parseOrigins,
} from './attempt-name.ts'
import { DeliverButtons, RetryButton } from './event-buttons.tsx'
import { listPathOf } from './events.tsx'
import { findSimulationPath, OriginFact, receiptText } from './origin.tsx'

const eventRow: PageRow = {
  method: 'GET',
  path: '/events/:id',
  section: 'events',
  async show(context) {
    const { backoffice, actor, params, query } = context
    const id = parseEventId(params['id'] ?? '')
    if (id === undefined) return { kind: 'notFound' }
    // Skips the payload in live updates, because the payload never changes.
    const isUpdate = query['part'] === 'progress'
    const read = await backoffice.events.read(actor, id, { withoutPayload: isUpdate })
    if (read.kind !== 'ok') return read
    const detail = read.value
    const { tenantId, type } = detail.event
    const [rights, explained, simulationPath, origins] = await Promise.all([
      backoffice.tenants.permissions(actor, tenantId),
      backoffice.events.explain(actor, id),
      findSimulationPath(context, detail.event),
      findOrigins(context, detail.event),
    ])
    if (rights.kind !== 'ok') return rights
    if (explained.kind !== 'ok') return explained
    const known = { explanation: explained.value, simulationPath, origins }
    const parts = { context, detail, rights: rights.value, ...known }
    if (isUpdate) return { ...shown(type, <Progress {...parts} />), tenantId }
    const page = shown(
      type,
      <div class="event-page">
        <Progress {...parts} />
        <Payload {...parts} />
        <Card title="Headers" note="as forwarded to the callback; credentials are never stored">
          <JsonBlock text={JSON.stringify(detail.headers)} label="headers, redacted" />
        </Card>
      </div>,
    )
    return { ...page, tenantId }
  },
}

/** Finds the replays that began the delivery cycles of an event. Live updates pass them in the address until another cycle begins. */
async function findOrigins(
  { backoffice, actor, query }: PageContext,
  { id, tenantId, cycle }: EventSummary,
): Promise<CycleOrigins | undefined> {
  if (cycle === 1) return undefined
  const known = parseOrigins(query['origins'], cycle)
  if (known) return known
  const found = await backoffice.replays.ofEvent(actor, { id, tenantId })
  return found.kind === 'ok' ? found.value : undefined
}

interface EventParts {
  readonly context: PageContext
  readonly detail: EventDetail
  readonly rights: Rights
  readonly explanation: Explanation
  readonly simulationPath: string | undefined
  /** Undefined for an event with a single cycle, or if the replays could not be read. */
  readonly origins: CycleOrigins | undefined
}

function Progress({ context, detail, rights, explanation, simulationPath, origins }: EventParts) {
  const { event } = detail
  const { query } = context
  const kept = { tenant: query['tenant'] }
  const { list } = query
  const isPending = event.state === 'accepted'
  const known = origins && originsText(event.cycle, origins)
  return (
    <Live
      id="progress"
      here={link(`/events/${event.id}`, { ...kept, list, part: 'progress', origins: known })}
      every={isPending ? 'tick' : 'slow'}
    >
      <PageHeader
        title={event.type}
        badge={<EventBadge event={event} explanation={explanation} />}
        crumbs={[{ label: 'Events', path: listPathOf(list) ?? link('/events', kept) }]}
        lead={<Copy text={event.id} label="Copy the event’s id" />}
      >
        <LinkButton href={link('/events', { ...kept, type: event.type })}>Events of this type</LinkButton>
        <DeliverButtons context={context} event={event} explanation={explanation} rights={rights} />
      </PageHeader>
      <Card title="Timeline" note={isPending ? 'updates live' : undefined}>
        <Timeline
          context={context}
          detail={detail}
          explanation={explanation}
          rights={rights}
          simulationPath={simulationPath}
          origins={origins}
        />
      </Card>
      <aside class="event-facts" aria-label="Facts">
        <Card title="Details">
          <Facts facts={factsOf(context, detail, simulationPath)} />
        </Card>
      </aside>
    </Live>
  )
}

function EventBadge(props: Pick<EventParts, 'explanation'> & { event: EventSummary }) {
  const {
    event,
    explanation: { position },
  } = props
  const described = eventPositions[position]
  return (
    <>
      <StateBadge state={event.state} />{' '}
      {'badge' in described && <Badge tone={described.severity}>{described.badge}</Badge>}
    </>
  )
}

function factsOf(
  { tenantLabel, query }: PageContext,
  { event }: EventDetail,
  simulationPath: string | undefined,
): readonly Fact[] {
  const { tenantId, origin, type } = event
  const { tenant } = query
  const isListed = eventTypeTexts.has(type)
  return [
    ['Type', isListed ? <a href={link(`/event-types/${type}`, { tenant })}>{type}</a> : <code>{type}</code>],
    ['Tenant', <a href={`/tenants/${tenantId}`}>{tenantLabel(tenantId)}</a>],
    ['Provider', event.provider],
    ['Origin', <OriginFact origin={origin} simulationPath={simulationPath} />],
    ['Provider’s id', <Copy text={event.sourceEventId} label="Copy the provider’s id" />],
    ['Provider’s type', <code>{event.providerRawType}</code>],
    ['Occurred', <Time atMs={event.occurredAtMs} format="full" />],
    ['Received', <Time atMs={event.receivedAtMs} format="full" />],
    ['Delivery cycle', String(event.cycle)],
    ['Payload', `${bytesText(event.payloadBytes)}, kept until ${event.payloadExpiresOn}`],
  ]
}

function Payload({ context, detail: { event, redactedPayload: payload }, rights }: EventParts) {
  if (payload === undefined)
    return (
      <Card title="Payload">
        <Empty icon="clock" title="The payload has expired">
          <p>
            Its retention ended on {event.payloadExpiresOn}. The event and its attempts are kept longer; it
            can no longer be replayed.
          </p>
        </Empty>
      </Card>
    )
  const grant =
    context.actor.kind === 'tenantKey' ? (
      <>
        a key with the scope <code>dashboard</code>
      </>
    ) : (
      <>
        the right <code>get tenants/payloads</code>
      </>
    )
  return (
    <Card title="Payload" note="secrets, card numbers and e-mail addresses redacted">
      <JsonBlock text={payload.text} label="payload, redacted" />
      {payload.isCut && <p class="muted card-foot">The payload is truncated here.</p>}
      {rights.readPayloads ? (
        <div class="card-foot">
          <PostForm action={`/events/${event.id}/payload`} csrfToken={context.csrfToken} look="inline-form">
            <Submit tone="normal">
              <Icon name="lock" /> Reveal as received
            </Submit>
          </PostForm>
          <span class="muted">Access is recorded in the audit log.</span>
        </div>
      ) : (
        <p class="card-foot muted">
          <Icon name="lock" /> You may not read raw payloads. Ask for {grant}.
        </p>
      )}
    </Card>
  )
}

/** Maximum characters of a raw payload on the page. The internal API returns the whole payload. */
const rawCharsMax = 65_536

/** Accepts only a POST form, because a link, the browser history or a prefetch must not read a payload. */
const revealRow: ActionRow = {
  method: 'POST',
  path: '/events/:id/payload',
  section: 'events',
  back: '/events/:id',
  async act({ backoffice, actor, params, form }) {
    const id = parseEventId(params['id'] ?? '')
    if (id === undefined) return { kind: 'notFound' }
    const read = await backoffice.events.readPayload(actor, id)
    if (read.kind !== 'ok') return read
    const { event, payload } = read.value
    const place = parseAttemptName(form['attempt'])
    const attempt = place && (await backoffice.events.readAttempt(actor, { ...place, id }))
    if (attempt !== undefined && attempt.kind !== 'ok') return attempt
    const crumbs = [
      { label: 'Events', path: '/events' },
      { label: event.type, path: `/events/${id}` },
    ]
    return shown(
      'Payload',
      <>
        <PageHeader title="Payload as received" crumbs={crumbs}>
          <LinkButton href={`/events/${id}`}>Hide it again</LinkButton>
        </PageHeader>
        <Notice tone="warn" title="Nothing is redacted here">
          Your access was recorded in the audit log.
        </Notice>
        <Card title={event.type} note={bytesText(event.payloadBytes)}>
          <JsonBlock text={payload.slice(0, rawCharsMax)} label="payload as received" />
          {payload.length > rawCharsMax && (
            <p class="card-foot muted">
              The payload is truncated here; <code>GET /internal/v1/events/{id}/payload</code> returns all of
              it.
            </p>
          )}
        </Card>
        {attempt && <RevealedCall {...attempt.value} payload={payload} />}
      </>,
    )
  },
}

function RevealedCall(
  props: Pick<EventDetail, 'event' | 'headers'> & {
    readonly attempt: AttemptDetail
    readonly payload: string
  },
) {
  const {
    event,
    headers,
    attempt: { exchange },
    payload,
  } = props
  if (exchange === undefined) return null
  const sent = { ...forwardedOf({ event, headers: JSON.stringify(headers) }), payload }
  return (
    <Card title="Copy as cURL" note="for a POSIX shell; replace the signature">
      <TextBlock text={attemptCurl(exchange, forwardedEvent(sent))} label="the call as a curl command" />
    </Card>
  )
}

const replayRows = actionRows<EventSummary>({
  path: '/events/:id/replay',
  section: 'events',
  back: '/events/:id',
  title: 'Replay an event',
  right: 'replay',
  async find({ backoffice, actor, params }) {
    const id = parseEventId(params['id'] ?? '')
    if (id === undefined) return { kind: 'notFound' }
    const read = await backoffice.events.summary(actor, id)
    if (read.kind !== 'ok') return read
    const event = read.value
    return { kind: 'found', subject: event, owner: event.tenantId }
  },
  ask: (event, { tenantLabel, query }) => ({
    question: 'Deliver this event again?',
    button: 'Replay the event',
    back: link(`/events/${event.id}`, { tenant: query['tenant'] }),
    // Number of the delivery cycle that the page shows. With this number, a form that is sent twice starts only one new cycle.
    hidden: { cycle: String(event.cycle) },
    text: (
      <>
        <p>
          The callback receives the same event with the same <code>webhook-id</code>, so that a receiver that
          deduplicates by it processes the event once. If the delivery fails, the retry schedule begins again.
        </p>
        <Facts
          facts={[
            ['Event', event.type],
            ['Tenant', tenantLabel(event.tenantId)],
            ['Received', <Time atMs={event.receivedAtMs} format="full" />],
            ['State', <StateBadge state={event.state} />],
          ]}
        />
      </>
    ),
  }),
  async act({ id }, { backoffice, actor, form }) {
    const cycle = Number(form['cycle'])
    if (!Number.isInteger(cycle) || cycle < 1)
      return { kind: 'invalid', problem: 'This form is incomplete: open the event and replay it from there' }
    const replayed = await backoffice.events.replay(actor, { id, cycle })
    if (replayed.kind !== 'ok') return replayed
    const path = link(`/events/${id}`, { tenant: form['tenant'] })
    const begun = `Delivery cycle ${replayed.value.cycle} has begun. The callback will be called within seconds.`
    return doneAt(path, replayed.value, begun, 'The event is already being delivered; nothing was added.')
  },
})

const retryRow: ActionRow = {
  method: 'POST',
  path: '/events/:id/retry',
  section: 'events',
  back: '/events/:id',
  async act({ backoffice, actor, params }) {
    const id = parseEventId(params['id'] ?? '')
    if (id === undefined) return { kind: 'notFound' }
    const retried = await backoffice.events.retry(actor, id)
    if (retried.kind !== 'ok') return retried
    const unchanged = 'An attempt is due or in progress; nothing was changed.'
    return doneAt(`/events/${id}`, retried.value, 'The callback will be called within seconds.', unchanged)
  },
}

export const eventRows = [eventRow, revealRow, retryRow, ...replayRows] as const

function Timeline({ context, detail, explanation, rights, simulationPath, origins }: EventParts) {
  const { event, attempts, hasEarlierAttempts } = detail
  const cycles = [...new Set([...attempts.map(({ cycle }) => cycle), event.cycle])]
  const { received, stored } = receiptText(event, simulationPath)
  const hasAdvice = explanation.position === 'waiting' || explanation.position === 'failed'
  return (
    <ol class="timeline">
      <Step id="received" tone="quiet" title={received[0]} atMs={event.receivedAtMs}>
        {received[1]}
      </Step>
      <Step id="stored" tone={event.origin.kind === 'provider' ? 'good' : 'quiet'} title={stored[0]}>
        {stored[1]}
      </Step>
      {hasEarlierAttempts && (
        <Step id="earlier" tone="quiet" title="Earlier attempts">
          Only the latest {shownAttemptsMax} attempts are shown.
        </Step>
      )}
      {cycles.map((cycle) => (
        <Cycle
          cycle={cycle}
          isOnly={cycles.length === 1 && cycle === 1}
          replayId={origins?.get(cycle)}
          attempts={attempts.filter((each) => each.cycle === cycle)}
          advisedBelow={hasAdvice ? attempts.at(-1) : undefined}
          pathOf={(attempt) => attemptPath(detail, attempt, context)}
        />
      ))}
      <End context={context} detail={detail} explanation={explanation} rights={rights} />
    </ol>
  )
}

function Step(props: {
  /** Unique in the timeline, so that live updates can match the steps. */
  readonly id: string
  readonly tone: Tone
  readonly title: ComponentChildren
  readonly atMs?: number | undefined
  readonly note?: ComponentChildren
  readonly children?: ComponentChildren
}) {
  const { id, tone, title, atMs, note, children } = props
  return (
    <li id={`step-${id}`} class={`step is-${tone}`}>
      <div class="step-head">
        <span class="step-title">{title}</span>
        {note !== undefined && <span class="step-note">{note}</span>}
        {atMs !== undefined && (
          <span class="step-time">
            <Time atMs={atMs} />
          </span>
        )}
      </div>
      {children !== undefined && <div class="step-text">{children}</div>}
    </li>
  )
}

function Cycle(props: {
  readonly cycle: number
  readonly isOnly: boolean
  readonly replayId: ReplayId | undefined
  readonly attempts: readonly AttemptDetail[]
  readonly advisedBelow: AttemptDetail | undefined
  pathOf(attempt: AttemptDetail): string
}) {
  const { cycle, isOnly, replayId, attempts, advisedBelow, pathOf } = props
  return (
    <>
      {!isOnly && (
        <Step id={`cycle-${cycle}`} tone="quiet" title={`Delivery cycle ${cycle}`}>
          {cycleOrigin(cycle, replayId)}
        </Step>
      )}
      {attempts.map((each, nth) => (
        <Attempt
          attempt={each}
          next={attempts[nth + 1]}
          isAdvisedBelow={each === advisedBelow}
          path={pathOf(each)}
        />
      ))}
    </>
  )
}

function cycleOrigin(cycle: number, replayId: ReplayId | undefined): ComponentChildren {
  if (cycle === 1) return 'First pass through the retry schedule.'
  if (replayId === undefined) return 'Begun by a replay, or by a redelivery of the provider after a failure.'
  return (
    <>
      Begun by a <a href={`/replays/${replayId}`}>replay of several events</a>.
    </>
  )
}

function Attempt(props: {
  readonly attempt: AttemptDetail
  readonly next: AttemptDetail | undefined
  /** True if the end of the timeline shows the advice, so that this step must not repeat it. */
  readonly isAdvisedBelow: boolean
  readonly path: string
}) {
  const { attempt: each, next, isAdvisedBelow, path } = props
  const { cycle, attempt, startedAtMs, durationMs, ...end } = each
  const { outcome, status, cause, answer } = end
  const isDelivered = outcome === 'delivered'
  // If several attempts in a row failed in the same way, only the last of them explains it.
  const isRepeated = next !== undefined && next.status === status && (status !== null || next.cause === cause)
  // If the callback responded, the cause explains the outcome of the event and not this attempt, so no advice for the cause is shown.
  const advice = status !== null || cause === null ? undefined : adviceOf(cause)
  const hint = status === null ? advice : statusAdvice(status)
  const result = status === null ? (advice?.title ?? 'no response') : `answered ${status}`
  return (
    <Step
      id={`attempt-${attemptName({ cycle, attempt })}`}
      tone={isDelivered ? 'good' : 'bad'}
      title={`Attempt ${attempt}: ${result}`}
      note={durationText(durationMs)}
      atMs={startedAtMs}
    >
      {hint !== undefined && !isDelivered && !isRepeated && (
        <p>
          {hint.means} {!isAdvisedBelow && <span class="todo">{hint.todo}</span>}
        </p>
      )}
      {answer !== null &&
        (answer.trim() === '' ? (
          <p class="muted">The response has no body.</p>
        ) : (
          <details>
            <summary>Response</summary>
            <JsonBlock text={answer} label={`response to attempt ${attempt}`} />
          </details>
        ))}
      <p>
        <a href={path}>Inspect attempt {attempt}</a>
      </p>
    </Step>
  )
}

/** Returns the link that ends what holds back the event. Undefined if the actor lacks the right. */
function resumeLink(
  props: Pick<EventParts, 'context' | 'explanation' | 'rights'> & Pick<EventDetail, 'event'>,
) {
  const {
    event: { id, tenantId },
    explanation: { position, todo },
    context: { query },
    rights,
  } = props
  const next = link(`/events/${id}`, { tenant: query['tenant'], list: query['list'] })
  if (position === 'callback_suspended' && rights.replay) return link(`/tenants/${tenantId}/resume`, { next })
  const tenant = todo === resumeAdvice.tenant ? tenantId : undefined
  if (tenant === undefined && todo !== resumeAdvice.all) return undefined
  return link('/settings/clear', { name: 'forwarding.paused', tenant, next })
}

function End({
  context,
  detail: { event, attempts },
  explanation,
  rights,
}: Omit<EventParts, 'simulationPath' | 'origins'>) {
  const { position, sentence, todo, startedAtMs, nextChangeAtMs } = explanation
  const { title, severity } = eventPositions[position]
  const waits = position === 'waiting' || position === 'breaker_open' ? nextChangeAtMs : undefined
  const shownTitle =
    waits === undefined ? (
      title
    ) : (
      <>
        {title}
        {position === 'breaker_open' && ', next probe'} <Ago atMs={waits} nowMs={context.nowMs} />
      </>
    )
  // If the pause began earlier, the event has waited for it since the event was received or since its last attempt.
  const latestMs = Math.max(event.receivedAtMs, ...attempts.map((each) => each.startedAtMs))
  const sinceMs = startedAtMs === undefined ? undefined : Math.max(startedAtMs, latestMs)
  const resume = resumeLink({ context, event, explanation, rights })
  const isResumable = todo !== undefined && resume !== undefined
  const advice = isResumable ? <a href={resume}>{todo}</a> : todo && <span class="todo">{todo}</span>
  return (
    <Step id="end" tone={severity} title={shownTitle} atMs={sinceMs ?? waits}>
      {sentence} {advice}{' '}
      {position === 'in_progress' && rights.replay && (
        <span class="muted">If it fails, “Attempt now” makes the next one at once. </span>
      )}
      {position === 'waiting' && (
        <RetryButton context={context} event={event} rights={rights} tone="normal" />
      )}
      {'badge' in eventPositions[position] && !isResumable && (
        <a href={`/tenants/${event.tenantId}`}>Open the tenant</a>
      )}
    </Step>
  )
}
