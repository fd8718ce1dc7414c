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
  /** Lines written before this one, as `next` of the page before has it. */
  readonly beforeId?: number | undefined
  /** 1 to 200, default 50. */
  readonly limit?: number | undefined
}

/** A page of the audit log. */
export interface AuditPage {
  readonly entries: readonly AuditRecord[]
  /** Where the next page begins; undefined at the end. */
  readonly next: number | undefined
}

const limitMax = 200
const limitDefault = 50

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

/** Reads a page, by the key or by the index over tenant and id. No locks. @throws whatever Postgres throws */
export async function listAudit(pool: Pool, filter: AuditFilter = {}): Promise<AuditPage> {
  const limit = Math.max(1, Math.min(limitMax, filter.limit ?? limitDefault))
  const { rows } = await pool.query<AuditRecord>({
    text: `SELECT id, floor(extract(epoch FROM at) * 1000)::bigint AS "atMs", actor, action, tenant_id AS "tenantId", detail
      FROM audit WHERE ${filter.tenantId === undefined ? '$1::text IS NULL' : 'tenant_id = $1'} AND id < $2
      ORDER BY id DESC LIMIT $3`,
    values: [filter.tenantId ?? null, filter.beforeId ?? Number.MAX_SAFE_INTEGER, limit + 1],
  })
  const entries = rows.slice(0, limit)
  return { entries, next: rows.length > limit ? entries.at(-1)?.id : undefined }
}
