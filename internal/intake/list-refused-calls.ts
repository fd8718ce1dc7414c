import { dayAfter, expectPageLimit, pageOf, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'

/** Which page of a tenant's refused calls. */
export interface RefusedListRequest {
  readonly tenantId: TenantId
  /** A neutral name. */
  readonly provider?: string
  readonly cause?: string
  /** `next` of the page before. */
  readonly after?: string
  /** 1 to 100. */
  readonly limit: number
}

/** A refused call, as its tenant may see it. */
export interface RefusedCallView {
  readonly id: string
  readonly provider: string
  readonly cause: string
  /** Milliseconds since the epoch. */
  readonly refusedAtMs: number
  readonly sourceAddress: string | null
  /** JSON text of an object of strings, without credentials. */
  readonly headers: string
  /** The start of a body whose signature failed. */
  readonly sample: string | null
}

/**
 * A page, newest first; `next` is undefined on the last one. One that is shorter than its limit and has a `next` was not finished: all
 * that is newer was searched.
 */
export interface RefusedPage {
  readonly calls: readonly RefusedCallView[]
  readonly next: string | undefined
}

/** Sorts behind every id. */
const behindAll = 'ref_~'

interface ExaminedCall extends RefusedCallView {
  /** The last that was looked at, which comes along also where nobody asked for it. */
  readonly isEdge: boolean
}

/** Calls that a page looks at where it asks for more than the tenant. */
const examinedMax = 1_000

// By the index over tenant and id, in its order, in the partitions whose day is still to come; the tenant stands in the comparison
// and in the order, so that no other index seems to do. Planned once a session. A read, no locks.
const listText = `
SELECT id, provider, cause, floor(extract(epoch FROM refused_at) * 1000)::bigint AS "refusedAtMs",
  source_address AS "sourceAddress", headers, sample
FROM refused_calls
WHERE expires_on >= $1::date AND (tenant_id, id) >= ($2, '') AND (tenant_id, id) < ($2, $3)
ORDER BY tenant_id DESC, id DESC LIMIT $4::bigint`

// As above, of a bounded stretch: its last row comes along in any case and tells how far that was.
const searchText = `
SELECT id, provider, cause, "refusedAtMs", "sourceAddress", headers, sample, nth = ${examinedMax} AS "isEdge"
FROM (
  SELECT id, provider, cause, floor(extract(epoch FROM refused_at) * 1000)::bigint AS "refusedAtMs",
    source_address AS "sourceAddress", headers, sample, tenant_id, row_number() OVER (ORDER BY tenant_id DESC, id DESC) AS nth
  FROM refused_calls
  WHERE expires_on >= $1::date AND (tenant_id, id) >= ($2, '') AND (tenant_id, id) < ($2, $3)
  ORDER BY tenant_id DESC, id DESC LIMIT ${examinedMax}
) AS examined
WHERE ($5::text IS NULL OR provider = $5) AND ($6::text IS NULL OR cause = $6) OR nth = ${examinedMax}
ORDER BY tenant_id DESC, id DESC LIMIT $4::bigint`

/**
 * A page of the calls that were refused to a tenant. Those whose day has come are left out, also while they are there. By provider or
 * cause it looks at 1 000 calls at most. Give it a pool with `eventReadSettings`.
 * @throws RangeError for a limit out of its bounds; whatever Postgres throws
 */
export async function listRefusedCalls(
  pool: Pool,
  { tenantId, provider, cause, after, limit }: RefusedListRequest,
  nowMs: number,
): Promise<RefusedPage> {
  expectPageLimit(limit, 'calls')
  const values = [dayAfter(nowMs, 0), tenantId, after ?? behindAll, limit + 1]
  if (provider === undefined && cause === undefined) {
    const { rows } = await pool.query<RefusedCallView>({ name: 'list_refused_calls', text: listText, values })
    const { page, next } = pageOf(rows, limit)
    return { calls: page, next }
  }
  const { rows } = await pool.query<ExaminedCall>({
    ...{ name: 'search_refused_calls', text: searchText },
    values: [...values, provider ?? null, cause ?? null],
  })
  const { page, next } = pageOf(rows, limit)
  const isMeant = (call: RefusedCallView) =>
    (provider === undefined || call.provider === provider) && (cause === undefined || call.cause === cause)
  const calls = page.filter(isMeant).map(({ isEdge: _edge, ...call }) => call)
  // Behind the stretch's last row nothing was looked at.
  return { calls, next: next ?? page.find(({ isEdge }) => isEdge)?.id }
}
