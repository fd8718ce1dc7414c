import { type EventId, expiryDayOf, receivedAtMsOf } from '#internal/base/index.ts'
import { ensurePartitions, type Pool, withTx } from '#internal/storage/index.ts'
import { checkedDay } from './claim.ts'
import { type Attempt, failedEventColumns, storableAnswer, storableExchange } from './complete.ts'
import { findEventsByKey, insertEvents, partitionsOf } from './insert.ts'
import type { EventState, Queryable } from './list-source.ts'
import { callbackDestination, isCallbackText, type ReceivedEvent } from './model.ts'

/**
 * Stores a test event, or finds the stored event with the same dedupe key, and returns it as it is to be sent. It gets no queue entry. Its
 * state is `delivery_failed` until `completeTestEvent`, so that it is correct after a crash. Safe to repeat.
 * @param event in state `verified`, which queues nothing
 * @throws errors of Postgres; then nothing was stored
 */
export async function storeTestEvent(pool: Pool, event: ReceivedEvent): Promise<ReceivedEvent> {
  await ensurePartitions(pool, partitionsOf([event]))
  return await withTx(pool, async (client) => {
    if ((await insertEvents(client, [event])).size > 0) {
      await close(client, event.id, 'delivery_failed')
      return event
    }
    // If retention removed the known event or its key, the test event is sent without being stored.
    const id = (await findEventsByKey(client, [event.dedupeKey])).get(event.dedupeKey) ?? event.id
    const receivedAtMs = receivedAtMsOf(id)
    return { ...event, id, receivedAtMs, occurredAtMs: receivedAtMs }
  })
}

// The caller holds the lock on the event, so that attempts have different numbers. Attempts beyond the largest smallint are not kept.
const attemptText = (day: string) => `
INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome, status, cause, answer, exchange)
SELECT $1, '${callbackDestination}', '${day}', 1, least(coalesce(max(attempt), 0) + 1, 32767), $2, $3, $4, $5, $6, $7, $8 FROM attempts
WHERE expires_on = '${day}' AND event_id = $1 AND ${isCallbackText} AND cycle = 1
ON CONFLICT DO NOTHING`

/** Adds an attempt, from which the state of the event follows. @throws errors of Postgres; then nothing was stored */
export async function completeTestEvent(pool: Pool, id: EventId, attempt: Attempt): Promise<void> {
  const { startedAtMs, durationMs, outcome, status, cause, answer } = attempt
  await withTx(pool, async (client) => {
    const isStored = await close(client, id, outcome === 'delivered' ? 'processed' : 'delivery_failed')
    if (!isStored) return
    const measured = [new Date(startedAtMs), Math.round(durationMs)]
    await client.query({
      text: attemptText(checkedDay(expiryDayOf(id))),
      values: [id, ...measured, outcome, status, cause, storableAnswer(answer), storableExchange(attempt)],
    })
  })
}

// Returns false if retention removed the event.
async function close(
  connection: Queryable,
  id: EventId,
  state: Extract<EventState, 'processed' | 'delivery_failed'>,
): Promise<boolean> {
  const { rowCount } = await connection.query({
    text: `WITH closed AS (
        UPDATE events SET state = $2, completed_at = now()
        WHERE expires_on = '${checkedDay(expiryDayOf(id))}' AND id = $1 AND origin = 'test'
        RETURNING ${failedEventColumns}, state
      ), failures AS (
        INSERT INTO failed_deliveries (${failedEventColumns}, destination)
        SELECT ${failedEventColumns}, '${callbackDestination}' FROM closed WHERE state = 'delivery_failed'
        ON CONFLICT (tenant_id, id, destination) DO UPDATE SET completed_at = excluded.completed_at
      ), unlisted AS (
        DELETE FROM failed_deliveries WHERE id = ANY(ARRAY(SELECT id FROM closed WHERE state = 'processed'))
          AND ${isCallbackText}
      )
      SELECT FROM closed`,
    values: [id, state],
  })
  return rowCount === 1
}
