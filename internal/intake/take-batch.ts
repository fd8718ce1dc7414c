import type { ReceivedEvent } from '#internal/events/index.ts'

const rowsMax = 500
const bytesMax = 4 * 1024 * 1024

/** Takes from the front of a queue what goes into one call: 500 events or 4 MiB, and at least one where there is any. */
export function takeBatch<Waiting extends { readonly event: ReceivedEvent }>(queue: Waiting[]): Waiting[] {
  let bytes = 0
  let count = 0
  for (const { event } of queue) {
    bytes += event.payloadBytes + event.headers.length
    if (count === rowsMax || (bytes > bytesMax && count > 0)) break
    count += 1
  }
  return queue.splice(0, count)
}
