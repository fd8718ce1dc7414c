import type { Explanation } from '#internal/backoffice/index.ts'
import type { EventSummary } from '#internal/events/index.ts'
import { LinkButton, PostForm, Submit } from '../components/form.tsx'
import { Icon } from '../components/text.tsx'
import { link, type PageContext, type Rights } from '../page.ts'

export function RetryButton(props: {
  readonly context: PageContext
  readonly event: EventSummary
  readonly rights: Rights
  readonly tone: 'primary' | 'normal'
}) {
  const { context, event, rights, tone } = props
  if (!rights.replay) return null
  return (
    <PostForm action={`/events/${event.id}/retry`} csrfToken={context.csrfToken} look="inline-form">
      <Submit tone={tone}>Attempt now</Submit>
    </PostForm>
  )
}

/** Renders the button that delivers now, in the present or a new delivery cycle. Renders no button while an attempt is in progress. */
export function DeliverButtons(props: {
  readonly context: PageContext
  readonly event: EventSummary
  readonly explanation: Explanation
  readonly rights: Rights
}) {
  const { context, event, explanation, rights } = props
  const kept = { tenant: context.query['tenant'] }
  // No replay is offered for an acknowledged event, because its tenant had no callback.
  const isOffered = event.state !== 'accepted' && explanation.position !== 'acknowledged'
  if (!rights.replay) return null
  return (
    <>
      {explanation.position === 'waiting' && (
        <RetryButton context={context} event={event} rights={rights} tone="primary" />
      )}
      {isOffered && event.origin.kind !== 'test' && (
        <LinkButton tone="primary" href={link(`/events/${event.id}/replay`, kept)}>
          <Icon name="replays" /> Replay
        </LinkButton>
      )}
    </>
  )
}
