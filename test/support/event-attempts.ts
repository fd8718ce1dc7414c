import { type EventId, expiryDayOf } from '#internal/base/index.ts'
import type { AttemptView } from '#internal/events/index.ts'
import { ensurePartitions, type Pool } from '#internal/storage/index.ts'

/** Inserts an attempt as a forwarder does; default: the first one, answered 500. */
export async function addAttempt(pool: Pool, id: EventId, fields: Partial<AttemptView> = {}): Promise<void> {
  const attempt: AttemptView = {
    ...{ cycle: 1, attempt: 1, startedAtMs: Date.now(), durationMs: 12 },
    ...{ outcome: 'refused', status: 500, cause: null, answer: null },
    ...fields,
  }
  const day = expiryDayOf(id)
  await ensurePartitions(pool, [{ table: 'attempts', day }])
  await pool.query(
    `INSERT INTO attempts (event_id, expires_on, cycle, attempt, started_at, duration_ms, outcome, status, cause, answer)
     VALUES ($1, $2, $3, $4, to_timestamp($5::double precision / 1000), $6, $7, $8, $9, $10)`,
    [
      ...[id, day, attempt.cycle, attempt.attempt, attempt.startedAtMs, attempt.durationMs],
      ...[attempt.outcome, attempt.status, attempt.cause, attempt.answer],
    ],
  )
}
