import { type EventId, expiryDayOf } from '#internal/base/index.ts'
import { storableExchange } from '#internal/events/complete.ts'
import type { AttemptExchange, AttemptView } from '#internal/events/index.ts'
import { ensurePartitions, type Pool } from '#internal/storage/index.ts'

/** Exchange of a new connection over TLS whose response has two headers. */
export const someExchange: AttemptExchange = {
  url: 'https://shop.example.com/hooks',
  signatures: 1,
  address: '10.0.3.7',
  isReused: false,
  dnsMs: 4.2,
  connectMs: 11.5,
  tlsMs: 22.1,
  firstByteMs: 480.4,
  headers: [
    ['content-type', 'application/json'],
    ['x-shard', '7'],
  ],
  headersOmitted: 0,
  isAnswerCut: false,
}

/** Inserts an attempt as a forwarder does; default: the first one, answered 500. */
export async function addAttempt(pool: Pool, id: EventId, fields: Partial<AttemptView> = {}): Promise<void> {
  const attempt: AttemptView = {
    cycle: 1,
    attempt: 1,
    startedAtMs: Date.now(),
    durationMs: 12,
    outcome: 'refused',
    status: 500,
    cause: null,
    answer: null,
    ...fields,
  }
  const day = expiryDayOf(id)
  await ensurePartitions(pool, [{ table: 'attempts', day }])
  await pool.query(
    `INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome, status, cause, answer, exchange)
     VALUES ($1, 'callback', $2, $3, $4, to_timestamp($5::double precision / 1000), $6, $7, $8, $9, $10, $11)`,
    [
      id,
      day,
      attempt.cycle,
      attempt.attempt,
      attempt.startedAtMs,
      attempt.durationMs,
      attempt.outcome,
      attempt.status,
      attempt.cause,
      attempt.answer,
      storableExchange(attempt),
    ],
  )
}
