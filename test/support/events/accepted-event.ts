import type { EventId } from '#internal/base/index.ts'
// Imports files instead of the `index.ts`, as tests may, which avoids loading all of intake.
import type { ReceivedEvent } from '#internal/events/index.ts'
import { insertEvents, partitionsOf } from '#internal/events/insert.ts'
import { ensurePartitions, type Pool } from '#internal/storage/index.ts'

const rowsMax = 500

/** Inserts events by intake's statement, in batches, without notifying forwarders; returns their ids in order. */
export async function acceptEvents(pool: Pool, events: readonly ReceivedEvent[]): Promise<EventId[]> {
  const days = new Map(partitionsOf(events).map((one) => [`${one.table} ${one.day}`, one]))
  await ensurePartitions(pool, [...days.values()])
  for (let from = 0; from < events.length; from += rowsMax) {
    const batch = events.slice(from, from + rowsMax)
    await insertEvents(
      pool,
      batch.toSorted((a, b) => (a.dedupeKey < b.dedupeKey ? -1 : 1)),
    )
  }
  return events.map(({ id }) => id)
}
