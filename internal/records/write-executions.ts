import { type Day, dayAfter, type TenantId } from '#internal/base/index.ts'
import {
  ensurePartitions,
  numberArrayParam,
  type Pool,
  textArrayParam,
  writeRowsOrThrow,
} from '#internal/storage/index.ts'
import { acquiredAtMsOf, type Ending, type ExecutionFacts } from './execution.ts'

/** An execution's facts on their way into a row. */
export interface ExecutionRow extends ExecutionFacts {
  readonly tenantId: TenantId
  readonly expiresOn: Day
}

/** The first day on which a row may go: told by the fence alone, so that beginning and end, from any process, meet in one row. */
export function executionExpiry(fence: number, eventDays: number): Day {
  return dayAfter(acquiredAtMsOf(fence), eventDays)
}

const endings: readonly Ending[] = ['open', 'completed', 'released', 'taken_over']

// One statement a batch. Rows that are there are joined with what comes: the latest holding, the earliest end, as joinFacts has it,
// so that order and repetition do not matter. Written in the order of the key, so that two processes wait for each other in one
// direction only. A deleted tenant gets no rows, since nobody would remove them again. A number of 0 stands for null.
const upsertText = `
INSERT INTO executions AS known
  (tenant_id, fence, expires_on, scope, key, held_until, extended_at, ended_at, ending, status)
SELECT o.tenant_id, i.fence, o.expires_on::date, i.scope, i.key, to_timestamp(nullif(i.held_until, 0) / 1000),
  to_timestamp(nullif(i.extended_at, 0) / 1000), to_timestamp(nullif(i.ended_at, 0) / 1000),
  (ARRAY['${endings.join("', '")}'])[i.ending::integer], nullif(i.status, 0)
FROM unnest($1::float8[], $2::float8[], $3::text[], $4::text[], $5::float8[], $6::float8[], $7::float8[], $8::float8[], $9::float8[])
  AS i(owner, fence, scope, key, held_until, extended_at, ended_at, ending, status)
JOIN unnest($10::text[], $11::text[]) WITH ORDINALITY AS o(tenant_id, expires_on, owner) ON o.owner = i.owner
JOIN tenants t ON t.id = o.tenant_id AND t.deleted_at IS NULL
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
 * Writes a batch in one statement, and creates the partitions that it misses. Repeating it changes nothing, whatever was written
 * in between.
 * @param rows none twice for one tenant and fence
 * @returns the rows that Postgres rejected
 * @throws what Postgres throws while it is unavailable
 */
export function writeExecutions<Row extends ExecutionRow>(
  pool: Pool,
  rows: readonly Row[],
): Promise<{ readonly row: Row; readonly error: unknown }[]> {
  return writeRowsOrThrow(rows, {
    write: (part) => upsertExecutions(pool, part),
    createPartitions: (part) => {
      const days = new Set(part.map(({ expiresOn }) => expiresOn))
      return ensurePartitions(
        pool,
        Array.from(days, (day) => ({ table: 'executions', day })),
      )
    },
  })
}

async function upsertExecutions(pool: Pool, rows: readonly ExecutionRow[]): Promise<void> {
  const numbers = (pick: (row: ExecutionRow) => number) => numberArrayParam(rows.map(pick))
  const { owners, ofRows } = listOwners(rows)
  await pool.query({
    name: 'upsert_executions',
    text: upsertText,
    values: [
      numberArrayParam(ofRows),
      numbers(({ fence }) => fence),
      textArrayParam(rows.map(({ scope }) => scope)),
      textArrayParam(rows.map(({ key }) => key)),
      numbers(({ heldUntilMs }) => heldUntilMs ?? 0),
      numbers(({ extendedAtMs }) => extendedAtMs ?? 0),
      numbers(({ endedAtMs }) => endedAtMs ?? 0),
      numbers(({ ending }) => endings.indexOf(ending) + 1),
      numbers(({ status }) => status ?? 0),
      textArrayParam(owners.map(({ tenantId }) => tenantId)),
      textArrayParam(owners.map(({ expiresOn }) => expiresOn)),
    ],
  })
}

type Owner = Pick<ExecutionRow, 'tenantId' | 'expiresOn'>

/** Tenants and days are few: each pair is sent once, and a row says the how manieth is its own. */
function listOwners(rows: readonly ExecutionRow[]): { owners: Owner[]; ofRows: number[] } {
  const owners: Owner[] = []
  const known = new Map<string, number>()
  const ofRows = rows.map(({ tenantId, expiresOn }) => {
    const name = `${tenantId} ${expiresOn}`
    const owner = known.get(name) ?? owners.push({ tenantId, expiresOn })
    known.set(name, owner)
    return owner
  })
  return { owners, ofRows }
}
