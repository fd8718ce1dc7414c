import { forwardedEvent } from '#internal/delivery/index.ts'
import type { EventPages, StreamPage } from '#internal/subscriptions/index.ts'

const reconnectAfterMs = 2_000
const encoder = new TextEncoder()

/**
 * Writes pages of events as server-sent events, one page at a time as the caller reads them. Ends the pages when the caller disconnects.
 * Form: https://html.spec.whatwg.org/multipage/server-sent-events.html (read 2026-11).
 */
export function eventStream({ pages, close }: EventPages): ReadableStream<Uint8Array<ArrayBuffer>> {
  const bytesOf = (text: string) => encoder.encode(text)
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => controller.enqueue(bytesOf(`retry: ${reconnectAfterMs}\n\n`)),
    async pull(controller) {
      const page = await pages.next()
      if (page.done) controller.close()
      else controller.enqueue(bytesOf(textOf(page.value)))
    },
    async cancel() {
      close()
      await pages.return()
    },
  })
}

/** Returns a page as text. A payload can contain line breaks between its tokens. */
function textOf({ events }: StreamPage): string {
  if (events.length === 0) return ':\n\n'
  return events
    .map(({ streamId, event }) => {
      const data = forwardedEvent(event).replaceAll(/\r\n|\r|\n/g, '\ndata: ')
      return `id: ${streamId}\ndata: ${data}\n\n`
    })
    .join('')
}
