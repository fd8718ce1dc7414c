import { pageItemsDefault, type TenantId } from '#internal/base/index.ts'
import type { Pool, PoolClient, RemovedRows } from '#internal/storage/index.ts'

const auditSubjects = {
  callbacks: ['resumed', 'tested'],
  events: ['ingested', 'replayed', 'retried'],
  notifications: ['tested'],
  payloads: ['pulled', 'read', 'searched'],
  records: ['epoch_lost'],
  replays: ['cancelled', 'started'],
  sessions: ['ended', 'started'],
  settings: ['cleared', 'set'],
  simulations: ['advanced', 'cancelled', 'started'],
  stats: ['made_up'],
  subscriptions: ['deleted', 'moved', 'written'],
  tenants: ['adopted', 'changed', 'created', 'credentials', 'deleted', 'restored'],
  usage: ['committed', 'emitted', 'override_cleared', 'override_set', 'soft_limit_crossed'],
} as const

/** Audited action: a subject in the plural and what was done to it, such as `replays.started`. */
export type AuditAction = {
  [Subject in keyof typeof auditSubjects]: `${Subject}.${(typeof auditSubjects)[Subject][number]}`
}[keyof typeof auditSubjects]
/** Action, or all actions of a subject, written as the subject and a dot, such as `replays.`. */
export type AuditActionFilter = AuditAction | `${keyof typeof auditSubjects}.`
/** All values that the filter by action accepts. */
export const auditActionFilters = Object.entries(auditSubjects).flatMap(([subject, done]) => [
  `${subject}.`,
  ...done.map((each) => `${subject}.${each}`),
]) as readonly AuditActionFilter[]

export interface AuditEntry {
  /** Name returned by `actorName`: 1 to 200 printable characters. */
  readonly actor: string
  readonly action: AuditAction
  /** Owner of the data; null for data without a tenant. */
  readonly tenantId: TenantId | null
  /** Contains no secret and no payload. */
  readonly detail: Readonly<Record<string, unknown>>
}

/** Stored entry of the audit log. */
export interface AuditRecord extends Omit<AuditEntry, 'action'> {
  readonly id: number
  readonly occurredAtMs: number
  /** `AuditAction`, or an action that only another version of Latchkey knows. */
  readonly action: string
}

/** Filter and page of a list, newest first. */
export interface AuditFilter {
  /** Omit for all entries, including those without a tenant. */
  readonly tenantId?: TenantId | undefined
  /** Case-insensitive substring of the actor's name. */
  readonly actor?: string | undefined
  readonly action?: AuditActionFilter | undefined
  /** Inclusive start, in ms since the epoch. */
  readonly fromMs?: number | undefined
  /** Exclusive end, in ms since the epoch. */
  readonly toMs?: number | undefined
  /** `next` of the previous page. The page contains only entries with a lower id. */
  readonly beforeId?: number | undefined
  /** Entries per page: 1 to 200, default 50. */
  readonly limit?: number | undefined
  /** Maximum number of entries to examine: at least `limit` + 1; default and maximum 50 000. */
  readonly examinedMax?: number | undefined
}

const removedMax = 5_000
/** Days after which an entry is deleted: more than a year, and longer than all other retention times. */
export const auditKeptDays = 400
const limitMax = 200
/** Maximum number of entries examined for one page. */
export const auditExaminedMax = 50_000
/** Maximum time by which an entry can be newer than one with a higher id, because of long transactions and clock skew. */
const outOfStepMs = 600_000

const insertEntry =
  'INSERT INTO audit (at, actor, action, tenant_id, detail) VALUES (coalesce($1, now()), $2, $3, $4, $5)'

/**
 * Appends an entry in the transaction of a write, or before the response to a read. Without `nowMs` it gets the time of the transaction.
 * @throws errors of Postgres
 */
export async function writeAudit(
  connection: Pick<PoolClient, 'query'>,
  entry: AuditEntry,
  nowMs?: number,
): Promise<void> {
  await connection.query({ text: insertEntry, values: valuesOf(entry, nowMs) })
}

/**
 * Appends an entry about the commit of a tenant's locks, unless the log already has an entry with the same tenant, `detail.id` and
 * `detail.committedAt`. Repeating the call is safe. @throws errors of Postgres
 */
export async function writeLockCommitAudit(
  connection: Pick<PoolClient, 'query'>,
  entry: AuditEntry & { readonly action: 'usage.committed' },
  nowMs: number,
): Promise<void> {
  await connection.query({
    text: `${insertEntry} ON CONFLICT (tenant_id, (detail ->> 'id'), (detail ->> 'committedAt'))
           WHERE action = 'usage.committed' AND detail ->> 'kind' = 'locks' DO NOTHING`,
    values: valuesOf(entry, nowMs),
  })
}

function valuesOf({ actor, action, tenantId, detail }: AuditEntry, nowMs: number | undefined) {
  return [nowMs === undefined ? null : new Date(nowMs), actor, action, tenantId, JSON.stringify(detail)]
}

interface AuditPage {
  readonly entries: readonly AuditRecord[]
  /** `beforeId` of the next page; undefined on the last page. A page with fewer entries than `limit` can have a next page. */
  readonly next: number | undefined
}

/**
 * Lists entries, newest first. Examines at most `examinedMax` entries by an index, so a page can contain fewer matches than `limit`
 * although later pages contain more. Takes no locks. @throws errors of Postgres
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
    text: `SELECT id, floor(extract(epoch FROM at) * 1000)::bigint AS "occurredAtMs", actor, action, tenant_id AS "tenantId", detail
      FROM (${lines} LIMIT ${examinedOf(filter)}) examined ${wanted.length === 0 ? '' : `WHERE ${wanted.join(' AND ')}`}
      ORDER BY id DESC LIMIT ${limit + 1}`,
    values,
  })
  const entries = rows.slice(0, limit)
  if (rows.length > limit) return { entries, next: entries.at(-1)?.id }
  return { entries, next: wanted.length === 0 ? undefined : await searchedTo(pool, filter) }
}

function limitOf({ limit = pageItemsDefault }: AuditFilter): number {
  return Math.max(1, Math.min(limitMax, limit))
}

/** Returns the maximum number of entries to examine: at least one more than a page contains, to detect whether a next page exists. */
function examinedOf(filter: AuditFilter): number {
  const examinedMax = Math.trunc(filter.examinedMax ?? auditExaminedMax)
  return Math.max(limitOf(filter) + 1, Math.min(auditExaminedMax, examinedMax))
}

function linesText({ tenantId, beforeId }: AuditFilter, values: unknown[]): string {
  const ofTenant = tenantId === undefined ? '' : `tenant_id = $${values.push(tenantId)} AND`
  return `SELECT * FROM audit WHERE ${ofTenant} id < $${values.push(beforeId ?? Number.MAX_SAFE_INTEGER)} ORDER BY id DESC`
}

/** Returns the id of the last examined entry, or undefined if no older entry can match. Takes no locks. */
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

/** Deletes audit entries older than 400 days, at most 5 000 per call, the lowest ids first. Idempotent. */
export async function forgetAudit(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const { rowCount } = await pool.query(
    `DELETE FROM audit WHERE id = ANY(ARRAY(
      SELECT id FROM (SELECT id, at FROM audit ORDER BY id LIMIT ${removedMax}) oldest WHERE at < $1))`,
    [new Date(nowMs - auditKeptDays * 86_400_000)],
  )
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === removedMax }
}
