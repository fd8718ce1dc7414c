import { parseEventId } from '#internal/base/index.ts'
import { Card, Notice, PageHeader } from '../components/block.tsx'
import { LinkButton } from '../components/form.tsx'
import { JsonBlock } from '../components/json-block.tsx'
import { bytesText } from '../components/text.tsx'
import { type ActionRow, shown } from '../page.ts'

/** What a page shows of a payload; whoever needs more asks the internal contract. */
const shownCharsMax = 65_536

/** Shows a payload as it was received. A form, so that no link, no history and no look ahead of a browser reads one. */
export const revealRow: ActionRow = {
  ...{ method: 'POST', path: '/events/:id/payload', section: 'events', back: '/events/:id' },
  async act({ backoffice, actor, params }) {
    const id = parseEventId(params['id'] ?? '')
    if (id === undefined) return { kind: 'notFound' }
    const read = await backoffice.events.readPayload(actor, id)
    if (read.kind !== 'ok') return read
    const { event, payload } = read.value
    const isCut = payload.length > shownCharsMax
    return shown(
      'Payload',
      <>
        <PageHeader
          title="Payload as received"
          crumbs={[
            { label: 'Events', path: '/events' },
            { label: event.type, path: `/events/${id}` },
          ]}
        >
          <LinkButton href={`/events/${id}`}>Hide it again</LinkButton>
        </PageHeader>
        <Notice tone="warn" title="Nothing is hidden here">
          It was written to the audit log that you have read it.
        </Notice>
        <Card title={event.type} note={bytesText(event.payloadBytes)}>
          <JsonBlock text={payload.slice(0, shownCharsMax)} label="payload as received" />
          {isCut && (
            <p class="card-foot muted">
              Only its beginning is shown; all of it is at <code>GET /internal/v1/events/{id}/payload</code>.
            </p>
          )}
        </Card>
      </>,
    )
  },
}
