import { type Day, dayAfter, type TenantId } from '#internal/base/index.ts'
import { ensurePartitions, isMissingPartition, type Pool, textArrayParam } from '#internal/storage/index.ts'
import { acquiredAtMsOf, type ExecutionFacts } from './execution.ts'

/** An execution's facts on their way into a row. */
export interface ExecutionRow extends ExecutionFacts {
  readonly tenantId: TenantId
  readonly expiresOn: Day
}

/** The first day on which a row may go: told by the fence alone, so that beginning and end, from any process, meet in one row. */
export function executionExpiry(fence: number, eventDays: number): Day {
  return dayAfter(acquiredAtMsOf(fence), eventDays)
}

// One statement a batch. Rows that are there are joined with what comes: the latest holding, the earliest end, as joinFacts has it,
// so that order and repetition do not matter. Written in the order of the key, so that two processes wait for each other in one
// direction only. A deleted tenant gets no rows, since nobody would remove them again.
const upsertText = `
INSERT INTO executions AS known
  (tenant_id, fence, expires_on, scope, key, held_until, extended_at, ended_at, ending, status)
SELECT i.tenant_id, i.fence::bigint, i.expires_on::date, i.scope, i.key, i.held_until::timestamptz, i.extended_at::timestamptz,
  i.ended_at::timestamptz, i.ending, i.status::smallint
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
  AS i(tenant_id, fence, expires_on, scope, key, held_until, extended_at, ended_at, ending, status)
JOIN tenants t ON t.id = i.tenant_id AND t.deleted_at IS NULL
ORDER BY 1, 2
ON CONFLICT (tenant_id, fence, expires_on) DO UPDATE SET
  (held_until, extended_at) = (
    SELECT h.held_until, h.extended_at
    FROM (VALUES (known.held_until, known.extended_at), (EXCLUDED.held_until, EXCLUDED.extended_at)) AS h(held_until, extended_at)
    ORDER BY h.extended_at DESC NULLS LAST, h.held_until DESC NULLS LAST LIMIT 1),
  (ended_at, ending, status) = (
    SELECT e.ended_at, e.ending, e.status
    FROM (VALUES (known.ended_at, known.ending, known.status), (EXCLUDED.ended_at, EXCLUDED.ending, EXCLUDED.status))
      AS e(ended_at, ending, status)
    ORDER BY e.ended_at NULLS LAST, e.ending, e.status NULLS LAST LIMIT 1)`

/**
 * Writes a batch in one statement, and the partitions first that it misses. Repeating it changes nothing, whatever was written
 * in between.
 * @param rows none twice for one tenant and fence
 * @throws what Postgres throws
 */
export async function writeExecutions(pool: Pool, rows: readonly ExecutionRow[]): Promise<void> {
  try {
    await upsertExecutions(pool, rows)
  } catch (error) {
    if (!isMissingPartition(error)) throw error
    const days = new Set(rows.map(({ expiresOn }) => expiresOn))
    await ensurePartitions(
      pool,
      [...days].map((day) => ({ table: 'executions', day })),
    )
    await upsertExecutions(pool, rows)
  }
}

async function upsertExecutions(pool: Pool, rows: readonly ExecutionRow[]): Promise<void> {
  const column = (pick: (row: ExecutionRow) => string | null) => textArrayParam(rows.map(pick))
  await pool.query({
    name: 'upsert_executions',
    text: upsertText,
    values: [
      column(({ tenantId }) => tenantId),
      column(({ fence }) => String(fence)),
      column(({ expiresOn }) => expiresOn),
      column(({ scope }) => scope),
      column(({ key }) => key),
      column(({ heldUntilMs }) => timeText(heldUntilMs)),
      column(({ extendedAtMs }) => timeText(extendedAtMs)),
      column(({ endedAtMs }) => timeText(endedAtMs)),
      column(({ ending }) => ending),
      column(({ status }) => (status === null ? null : String(status))),
    ],
  })
}

function timeText(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
