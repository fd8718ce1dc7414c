import type { ComponentChildren } from 'preact'
import { originLabels } from '#internal/backoffice/index.ts'
import type { EventOrigin, EventSummary } from '#internal/events/index.ts'
import { parseSimulationId } from '#internal/simulations/index.ts'
import { Badge, durationText } from '../components/text.tsx'
import { link, type PageContext } from '../page.ts'

/** Renders the provider of an event, with a badge if the event did not come from a call of the provider. */
export function ProviderCell({ event: { provider, origin } }: { readonly event: EventSummary }) {
  return (
    <span>
      {provider}
      {origin.kind !== 'provider' && (
        <>
          {' '}
          <Badge tone="quiet">{originLabels[origin.kind]}</Badge>
        </>
      )}
    </span>
  )
}

export function OriginFact(props: {
  readonly origin: EventOrigin
  readonly simulationPath: string | undefined
}) {
  const { origin, simulationPath } = props
  switch (origin.kind) {
    case 'provider':
      return <>a call of the provider</>
    case 'service':
      return <>handed in by {origin.actor}</>
    case 'simulation':
      return <SimulationLink path={simulationPath}>a simulation</SimulationLink>
    case 'test':
      return <>a test of the callback by {origin.actor}</>
    case 'notification':
      return <>a notification about this tenant, made by Latchkey</>
  }
}

/** Returns undefined for a simulation of a single event, which is not stored. */
export async function findSimulationPath(
  { backoffice, actor, query }: PageContext,
  { origin }: Pick<EventSummary, 'origin'>,
): Promise<string | undefined> {
  const id = origin.kind === 'simulation' ? parseSimulationId(origin.simulationId) : undefined
  if (id === undefined || (await backoffice.simulations.read(actor, id)).kind !== 'ok') return undefined
  return link(`/simulations/${id}`, { tenant: query['tenant'] })
}

function SimulationLink(props: { readonly path: string | undefined; readonly children: ComponentChildren }) {
  const { path, children } = props
  return path === undefined ? <>{children}</> : <a href={path}>{children}</a>
}

/** Returns a text that says how an event came to be stored. Only a provider's call has a verified signature. */
export function receiptText(
  { provider, origin, receivedAtMs, occurredAtMs }: EventSummary,
  simulationPath: string | undefined,
): {
  readonly received: readonly [title: string, text: ComponentChildren]
  readonly stored: readonly [title: string, text: ComponentChildren]
} {
  const lateMs = receivedAtMs - occurredAtMs
  const late = lateMs < 1_000 ? '' : `, ${durationText(lateMs)} after the event occurred`
  switch (origin.kind) {
    case 'provider':
      return {
        received: ['Received', `The provider ${provider} called the webhook URL${late}.`],
        stored: [
          'Verified and stored',
          'The signature was verified, and the event was stored before the provider got its response.',
        ],
      }
    case 'service':
      return {
        received: ['Handed in', `${origin.actor} handed in this event of ${provider}${late}.`],
        stored: ['Stored', 'No provider sent it, and Latchkey verified no signature.'],
      }
    case 'simulation':
      return {
        received: [
          'Simulated',
          <>
            A <SimulationLink path={simulationPath}>simulation</SimulationLink> made this event of {provider}.
          </>,
        ],
        stored: ['Stored', 'No provider sent it: Latchkey made the call and signed it.'],
      }
    case 'test':
      return {
        received: ['Test event', `${origin.actor} sent this event to test the callback.`],
        stored: ['Stored', 'No provider sent it. A test event is never retried or replayed.'],
      }
    case 'notification':
      return {
        received: ['Notification', 'Latchkey made this event about the operation of the tenant.'],
        stored: ['Stored', 'It goes to the receiver of notifications and never to the callback.'],
      }
  }
}
