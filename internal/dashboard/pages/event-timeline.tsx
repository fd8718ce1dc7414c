import type { ComponentChildren } from 'preact'
import type { EventDetail, TenantDetail } from '#internal/backoffice/index.ts'
import type { AttemptView, QueuedView } from '#internal/events/index.ts'
import { JsonBlock } from '../components/json-block.tsx'
import { Ago, durationText, Time, type Tone } from '../components/text.tsx'
import { adviceOf, endCauseOf, statusAdvice } from './attempt-causes.ts'

/** What a timeline is made of. */
export interface TimelineParts {
  readonly detail: EventDetail
  /** Told of while deliveries wait: why they may stand still. */
  readonly tenant:
    | Pick<TenantDetail, 'id' | 'suspendedCallback' | 'breakerUntilMs' | 'isSuspended'>
    | undefined
  readonly nowMs: number
}

/** An event from its receipt to its end, or to what comes next. */
export function Timeline({ detail, tenant, nowMs }: TimelineParts) {
  const { event, attempts, hasEarlierAttempts } = detail
  const rounds = [...new Set([...attempts.map(({ round }) => round), event.round])]
  return (
    <ol class="timeline">
      <Step id="received" tone="quiet" title="Received" atMs={event.receivedAtMs}>
        {event.provider} called{occurredText(detail)}.
      </Step>
      <Step id="verified" tone="good" title="Verified and stored">
        Its origin was checked, and it was committed before the provider had its answer.
      </Step>
      {hasEarlierAttempts && (
        <Step id="earlier" tone="quiet" title="Earlier attempts">
          They are kept, but only the latest 200 are shown.
        </Step>
      )}
      {rounds.map((round) => (
        <Round
          key={round}
          round={round}
          isOnly={rounds.length === 1 && round === 1}
          attempts={attempts.filter((each) => each.round === round)}
        />
      ))}
      <End detail={detail} tenant={tenant} nowMs={nowMs} />
    </ol>
  )
}

function occurredText({ event }: EventDetail): string {
  const apartMs = event.receivedAtMs - event.occurredAtMs
  return apartMs < 1_000 ? '' : `, ${durationText(apartMs)} after it occurred`
}

interface StepParts {
  /** Unique in the timeline: by it an update finds what is there. */
  readonly id: string
  readonly tone: Tone
  readonly title: ComponentChildren
  readonly atMs?: number | undefined
  readonly note?: ComponentChildren
  readonly children?: ComponentChildren
}

function Step({ id, tone, title, atMs, note, children }: StepParts) {
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

function Round({
  round,
  isOnly,
  attempts,
}: {
  readonly round: number
  readonly isOnly: boolean
  readonly attempts: readonly AttemptView[]
}) {
  return (
    <>
      {!isOnly && (
        <Step id={`round-${round}`} tone="quiet" title={`Round ${round}`}>
          {round === 1
            ? 'The first walk through the schedule of attempts.'
            : 'Delivered once more: somebody replayed it, or the provider sent it again after it had failed and the tenant retries on redelivery.'}
        </Step>
      )}
      {attempts.map((each, nth) => (
        <Attempt key={each.attempt} attempt={each} isRepeated={isSameEnd(each, attempts[nth + 1])} />
      ))}
    </>
  )
}

/** What to do about a failure is said where it happened last. */
function isSameEnd({ status, cause }: AttemptView, next: AttemptView | undefined): boolean {
  return next !== undefined && next.status === status && (status !== null || next.cause === cause)
}

function Attempt({
  attempt: { round, attempt, startedAtMs, durationMs, ...end },
  isRepeated,
}: {
  readonly attempt: AttemptView
  readonly isRepeated: boolean
}) {
  const { outcome, status, cause, answer } = end
  const isDelivered = outcome === 'delivered'
  // What was answered may have a cause, too: why the event ended with it.
  const advice = status !== null || cause === null ? undefined : adviceOf(cause)
  const hint = status === null ? advice : statusAdvice(status)
  return (
    <Step
      id={`attempt-${round}-${attempt}`}
      tone={isDelivered ? 'good' : 'bad'}
      title={
        <>
          Attempt {attempt}: {status === null ? (advice?.title ?? 'no answer') : <>answered {status}</>}
        </>
      }
      note={durationText(durationMs)}
      atMs={startedAtMs}
    >
      {hint !== undefined && !isDelivered && !isRepeated && (
        <p>
          {hint.means} <span class="todo">{hint.todo}</span>
        </p>
      )}
      {answer !== null && <Answer text={answer} of={attempt} />}
    </Step>
  )
}

function Answer({ text, of }: { readonly text: string; readonly of: number }) {
  if (text.trim() === '') return <p class="muted">The answer had no body.</p>
  return (
    <details>
      <summary>Answer</summary>
      <JsonBlock text={text} label={`answer to attempt ${of}`} />
    </details>
  )
}

function End({ detail: { event, queued, attempts }, tenant, nowMs }: TimelineParts) {
  const { state, settledAtMs } = event
  if (state === 'verified')
    return (
      <Step id="end" tone="quiet" title="Not delivered">
        The provider is only tried out for this tenant: its events are verified and kept. Enable it, then
        replay.
      </Step>
    )
  const ofRound = attempts.filter(({ round }) => round === event.round).length
  if (state === 'processed')
    return (
      <Step id="end" tone="good" title="Processed" atMs={settledAtMs ?? undefined}>
        The callback took it{ofRound > 1 ? ` at attempt ${ofRound}` : ''}.
      </Step>
    )
  if (state === 'delivery_failed')
    return (
      <Step id="end" tone="bad" title="Delivery failed" atMs={settledAtMs ?? undefined}>
        {ofRound === 0 ? 'It ended without an attempt.' : `It ended after ${countOf(ofRound)}.`}{' '}
        {endCauseOf(attempts.at(-1)?.cause ?? null)}{' '}
        <span class="todo">Mend what is wrong, then replay it.</span>
      </Step>
    )
  return <Next queued={queued} tenant={tenant} nowMs={nowMs} />
}

function countOf(attempts: number): string {
  return attempts === 1 ? '1 attempt' : `${attempts} attempts`
}

function Next({
  queued,
  tenant,
  nowMs,
}: Omit<TimelineParts, 'detail'> & { readonly queued: QueuedView | undefined }) {
  const halt = tenant === undefined ? undefined : haltOf(tenant, nowMs)
  if (halt !== undefined)
    return (
      <Step id="end" tone="warn" title="Deliveries stand still">
        {halt} <a href={`/tenants/${tenant?.id}`}>To the tenant</a>
      </Step>
    )
  if (queued === undefined || queued.isClaimed)
    return (
      <Step id="end" tone="info" title="Being delivered now">
        A forwarder has taken it.
      </Step>
    )
  if (queued.dueAtMs <= nowMs)
    return (
      <Step id="end" tone="info" title="Due now">
        It waits for its turn among the tenant’s deliveries.
      </Step>
    )
  return (
    <Step
      id="end"
      tone="info"
      title={
        <>
          Next attempt <Ago atMs={queued.dueAtMs} nowMs={nowMs} />
        </>
      }
      atMs={queued.dueAtMs}
    >
      As the tenant’s schedule of attempts says, or the callback asked.
    </Step>
  )
}

/** Why nothing of the tenant is delivered; undefined while it is. */
function haltOf(
  { isSuspended, suspendedCallback, breakerUntilMs }: NonNullable<TimelineParts['tenant']>,
  nowMs: number,
): ComponentChildren | undefined {
  if (isSuspended) return 'The tenant is suspended.'
  if (suspendedCallback !== undefined)
    return (
      <>
        The callback is suspended since <Time atMs={suspendedCallback.sinceMs} />:{' '}
        {suspendedCallback.cause.replaceAll('_', ' ')}. Resume it on the tenant’s page.
      </>
    )
  if (breakerUntilMs === undefined || breakerUntilMs <= nowMs) return undefined
  return (
    <>
      Most attempts failed lately, so that the callback rests; one is tried{' '}
      <Ago atMs={breakerUntilMs} nowMs={nowMs} />.
    </>
  )
}
