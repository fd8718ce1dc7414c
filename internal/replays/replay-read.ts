import { expectPageLimit, pageOf, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { type JobRow, jobColumns, jobOf, type ReplayId, type ReplayJob } from './replay-job.ts'

/** Which page of whose replays. */
export interface ReplayListRequest {
  /** Absent: anybody's. */
  readonly tenantId?: TenantId
  /** `next` of the page before. */
  readonly after?: ReplayId
  /** 1 to 100. */
  readonly limit: number
}

/** A page, newest first; `next` is undefined on the last one. */
export interface ReplayPage {
  readonly replays: readonly ReplayJob[]
  readonly next: ReplayId | undefined
}

// By key. A read, no locks.
const readText = `SELECT ${jobColumns} FROM replays WHERE id = $1 AND ($2::text IS NULL OR tenant_id = $2)`

/** One replay; undefined for one that is unknown, or another tenant's. @throws whatever Postgres throws */
export async function readReplay(
  pool: Pool,
  place: { readonly id: ReplayId; readonly tenantId?: TenantId },
): Promise<ReplayJob | undefined> {
  const values = [place.id, place.tenantId ?? null]
  const { rows } = await pool.query<JobRow>({ text: readText, rowMode: 'array', values })
  return rows.map(jobOf)[0]
}

/** A page of replays. @throws RangeError for a limit out of its bounds; whatever Postgres throws */
export async function listReplays(pool: Pool, request: ReplayListRequest): Promise<ReplayPage> {
  const { tenantId, after, limit } = request
  expectPageLimit(limit, 'replays')
  const whose = tenantId === undefined ? '' : 'tenant_id = $2 AND'
  const { rows } = await pool.query<JobRow>({
    text: `SELECT ${jobColumns} FROM replays WHERE ${whose} id < $1 ORDER BY id DESC LIMIT ${limit + 1}`,
    rowMode: 'array',
    values: [after ?? 'rpl_~', ...(tenantId === undefined ? [] : [tenantId])],
  })
  const { page, next } = pageOf(rows.map(jobOf), limit)
  return { replays: page, next }
}
