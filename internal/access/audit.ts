import type { TenantId } from '#internal/base/index.ts'
import type { Pool, PoolClient } from '#internal/storage/index.ts'

/** One line of the audit log. */
export interface AuditEntry {
  /** Who did it, by `actorName`: 1 to 200 printable characters. */
  readonly actor: string
  /** What was done, such as `payloads.read`. */
  readonly action: string
  /** With whose data; null for what belongs to no tenant. */
  readonly tenantId: TenantId | null
  /** On what exactly. Holds no secret and no payload. */
  readonly detail: Readonly<Record<string, unknown>>
}

/** A line of the audit log as it was written. */
export interface AuditRecord extends AuditEntry {
  readonly id: number
  readonly atMs: number
}

/** Which lines are wanted, the latest first. */
export interface AuditFilter {
  /** One tenant's; absent: of all, and of none. */
  readonly tenantId?: TenantId | undefined
  /** Part of who did it, in any case. */
  readonly actor?: string | undefined
  /** What it was, or how that begins: `replays.` are all that was done with replays. */
  readonly action?: string | undefined
  /** Done then or later, ms since the epoch. */
  readonly fromMs?: number | undefined
  /** Done earlier than that. */
  readonly toMs?: number | undefined
  /** Lines written before this one, as `next` of the page before has it. */
  readonly beforeId?: number | undefined
  /** 1 to 200, default 50. */
  readonly limit?: number | undefined
  /** Lines that are looked at: at least one more than `limit`, at most 50 000, which is the default. */
  readonly examinedMax?: number | undefined
}

/** A page of the audit log. */
export interface AuditPage {
  readonly entries: readonly AuditRecord[]
  /** Where the next page begins; undefined at the end. A page that is not full may have it: then not all was searched yet. */
  readonly next: number | undefined
}

const limitMax = 200
const limitDefault = 50
/** Lines that are looked at for one page of a search, at most. */
export const auditExaminedMax = 50_000
/** How far ids and times may be out of step: a transaction that lasted, a clock that was behind. */
const outOfStepMs = 600_000

/** Appends to the audit log: in the transaction that does the deed, or before what is read is shown. @throws whatever Postgres throws */
export async function writeAudit(
  connection: Pick<PoolClient, 'query'>,
  { actor, action, tenantId, detail }: AuditEntry,
  nowMs: number,
): Promise<void> {
  await connection.query({
    text: 'INSERT INTO audit (at, actor, action, tenant_id, detail) VALUES ($1, $2, $3, $4, $5)',
    values: [new Date(nowMs), actor, action, tenantId, JSON.stringify(detail)],
  })
}

/**
 * Reads a page, by the key or by the index over tenant and id, of the 50 000 lines, or `examinedMax`, that come next: what is searched for may lie
 * behind them. No locks. @throws whatever Postgres throws
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

/** One more than a page has tells that there are more. */
function examinedOf(filter: AuditFilter): number {
  const examinedMax = Math.trunc(filter.examinedMax ?? auditExaminedMax)
  return Math.max(limitOf(filter) + 1, Math.min(auditExaminedMax, examinedMax))
}

/** The lines that a page is looked for in. */
function linesText({ tenantId, beforeId }: AuditFilter, values: unknown[]): string {
  const ofTenant = tenantId === undefined ? '' : `tenant_id = $${values.push(tenantId)} AND`
  return `SELECT * FROM audit WHERE ${ofTenant} id < $${values.push(beforeId ?? Number.MAX_SAFE_INTEGER)} ORDER BY id DESC`
}

/** The last line that a page looked at, where there are more behind it that may be meant. By the same index, no locks. */
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
