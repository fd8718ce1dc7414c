import { parseEventId } from '#internal/base/index.ts'
import { Facts } from '../components/block.tsx'
import { Confirm } from '../components/form.tsx'
import { StateBadge, Time } from '../components/text.tsx'
import { type ActionRow, goTo, link, type PageRow, shown } from '../page.ts'
import { withRightTo } from './rights.ts'

/** Asks before an event is delivered once more. */
export const askReplayRow: PageRow = {
  ...{ method: 'GET', path: '/events/:id/replay', section: 'events' },
  async show(context) {
    const { backoffice, actor, params, csrfToken, tenantLabel, query } = context
    const id = parseEventId(params['id'] ?? '')
    if (id === undefined) return { kind: 'notFound' }
    const read = await backoffice.events.read(actor, id)
    if (read.kind !== 'ok') return read
    const { event } = read.value
    const back = link(`/events/${id}`, { tenant: query['tenant'] })
    return withRightTo(context, event.tenantId, 'replay', () =>
      shown(
        'Replay an event',
        <Confirm
          question="Deliver this event once more?"
          action={link(`/events/${id}/replay`, { tenant: query['tenant'] })}
          csrfToken={csrfToken}
          // The round that was seen: sent twice, the form begins one more and not two.
          hidden={{ round: String(event.round) }}
          button="Replay the event"
          back={back}
        >
          <p>
            The callback is called with the same event under the same <code>webhook-id</code>, so that a
            receiver that keeps to it does nothing twice. If it fails, the schedule of attempts begins anew.
          </p>
          <Facts
            facts={[
              ['Event', event.type],
              ['Tenant', tenantLabel(event.tenantId)],
              ['Received', <Time atMs={event.receivedAtMs} format="full" />],
              ['State', <StateBadge state={event.state} />],
            ]}
          />
        </Confirm>,
      ),
    )
  },
}

/** Has an event delivered once more. */
export const replayEventRow: ActionRow = {
  ...{ method: 'POST', path: '/events/:id/replay', section: 'events', back: '/events/:id' },
  async act({ backoffice, actor, params, form, query }) {
    const id = parseEventId(params['id'] ?? '')
    const round = Number(form['round'])
    if (id === undefined) return { kind: 'notFound' }
    if (!Number.isInteger(round) || round < 1)
      return { kind: 'invalid', problem: 'This form is incomplete: open the event and replay it from there' }
    const replayed = await backoffice.events.replay(actor, { id, round })
    if (replayed.kind !== 'ok') return replayed
    const path = link(`/events/${id}`, { tenant: query['tenant'] })
    return replayed.value.isQueued
      ? goTo(path, `Round ${replayed.value.round} has begun: the callback is called within moments.`)
      : goTo(path, 'It is being delivered already: nothing was added.', 'info')
  },
}
