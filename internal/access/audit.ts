import type { TenantId } from '#internal/base/index.ts'
import type { Pool, PoolClient, RemovedRows } from '#internal/storage/index.ts'

/** An entry of the audit log. */
export interface AuditEntry {
  /** Name by `actorName`: 1 to 200 printable characters. */
  readonly actor: string
  /** For example `payloads.read`. */
  readonly action: string
  /** Owner of the data; null without a tenant. */
  readonly tenantId: TenantId | null
  /** Object of the action. Holds no secret and no payload. */
  readonly detail: Readonly<Record<string, unknown>>
}

/** A stored entry of the audit log. */
export interface AuditRecord extends AuditEntry {
  readonly id: number
  readonly atMs: number
}

/** Filter and page of a list, newest first. */
export interface AuditFilter {
  /** Filters by tenant. Omit for all entries, including those without a tenant. */
  readonly tenantId?: TenantId | undefined
  /** Part of the actor's name, in any case. */
  readonly actor?: string | undefined
  /** Action or its prefix: `replays.` matches all actions on replays. */
  readonly action?: string | undefined
  /** Inclusive, ms since the epoch. */
  readonly fromMs?: number | undefined
  /** Exclusive. */
  readonly toMs?: number | undefined
  /** Entries before this one: `next` of the previous page. */
  readonly beforeId?: number | undefined
  /** 1 to 200, default 50. */
  readonly limit?: number | undefined
  /** Maximum of examined entries: more than `limit`, at most 50 000, which is the default. */
  readonly examinedMax?: number | undefined
}

/** A page of the audit log. */
export interface AuditPage {
  readonly entries: readonly AuditRecord[]
  /** Start of the next page; undefined at the end. A page that is not full may have it: then the search is not complete. */
  readonly next: number | undefined
}

const removedMax = 5_000
/** Longer than any other retention, so that a whole year stays explainable. */
const keptMs = 400 * 86_400_000
const limitMax = 200
const limitDefault = 50
/** Maximum of examined entries per page. */
export const auditExaminedMax = 50_000
/** Maximum disorder between ids and times, by long transactions and clock skew. */
const outOfStepMs = 600_000

/**
 * Appends to the audit log: in the transaction of a write, or before the response of a read. Without `nowMs` the entry has the time of the
 * transaction. @throws what Postgres throws
 */
export async function writeAudit(
  connection: Pick<PoolClient, 'query'>,
  { actor, action, tenantId, detail }: AuditEntry,
  nowMs?: number,
): Promise<void> {
  await connection.query({
    text: 'INSERT INTO audit (at, actor, action, tenant_id, detail) VALUES (coalesce($1, now()), $2, $3, $4, $5)',
    values: [nowMs === undefined ? null : new Date(nowMs), actor, action, tenantId, JSON.stringify(detail)],
  })
}

/**
 * Lists a page of the audit log. Examines at most `examinedMax` entries by the primary key, or by the index over tenant and id, so that
 * matches may follow on later pages. Takes no locks. @throws what Postgres throws
 */
export async function listAudit(pool: Pool, filter: AuditFilter = {}): Promise<AuditPage> {
  const limit = limitOf(filter)
  const { actor, action, fromMs, toMs } = filter
  const values: unknown[] = []
  const lines = linesText(filter, values)
  const wanted = [
    actor !== undefined && `strpos(lower(actor), lower($${values.push(actor)})) > 0`,
    action !== undefined && `starts_with(action, $${values.push(action)})`,
    fromMs !== undefined && `at >= $${values.push(new Date(fromMs))}`,
    toMs !== undefined && `at < $${values.push(new Date(toMs))}`,
  ].filter((condition) => condition !== false)
  const { rows } = await pool.query<AuditRecord>({
    text: `SELECT id, floor(extract(epoch FROM at) * 1000)::bigint AS "atMs", actor, action, tenant_id AS "tenantId", detail
      FROM (${lines} LIMIT ${examinedOf(filter)}) examined ${wanted.length === 0 ? '' : `WHERE ${wanted.join(' AND ')}`}
      ORDER BY id DESC LIMIT ${limit + 1}`,
    values,
  })
  const entries = rows.slice(0, limit)
  if (rows.length > limit) return { entries, next: entries.at(-1)?.id }
  return { entries, next: wanted.length === 0 ? undefined : await searchedTo(pool, filter) }
}

function limitOf({ limit = limitDefault }: AuditFilter): number {
  return Math.max(1, Math.min(limitMax, limit))
}

/** One entry more than a page tells whether there is a next page. */
function examinedOf(filter: AuditFilter): number {
  const examinedMax = Math.trunc(filter.examinedMax ?? auditExaminedMax)
  return Math.max(limitOf(filter) + 1, Math.min(auditExaminedMax, examinedMax))
}

/** Returns the statement of the examined entries. */
function linesText({ tenantId, beforeId }: AuditFilter, values: unknown[]): string {
  const ofTenant = tenantId === undefined ? '' : `tenant_id = $${values.push(tenantId)} AND`
  return `SELECT * FROM audit WHERE ${ofTenant} id < $${values.push(beforeId ?? Number.MAX_SAFE_INTEGER)} ORDER BY id DESC`
}

/** Returns the last examined entry, unless none before it can match. Uses the same index, takes no locks. */
async function searchedTo(pool: Pool, filter: AuditFilter): Promise<number | undefined> {
  const values: unknown[] = []
  const { rows } = await pool.query<{ id: number; at: Date }>({
    text: `SELECT id, at FROM (${linesText(filter, values)} OFFSET ${examinedOf(filter) - 1} LIMIT 1) last`,
    values,
  })
  const [last] = rows
  const isBehind = last !== undefined && last.at.getTime() < (filter.fromMs ?? 0) - outOfStepMs
  return isBehind ? undefined : last?.id
}

/** Removes audit entries over 400 days old, at most 5 000 of the oldest by key. Idempotent. */
export async function forgetAudit(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const { rowCount } = await pool.query(
    `DELETE FROM audit WHERE id = ANY(ARRAY(
      SELECT id FROM (SELECT id, at FROM audit ORDER BY id LIMIT ${removedMax}) oldest WHERE at < $1))`,
    [new Date(nowMs - keptMs)],
  )
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === removedMax }
}
