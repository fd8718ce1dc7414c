import type { TenantId } from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import type { FigureTenants } from './read-stats.ts'
import { type FigureName, figureNames, hourMs } from './stat.ts'

/** Which tenants are asked for. Times in milliseconds since the epoch. */
export interface RankRequest {
  readonly tenants: FigureTenants
  /** Of more than 24 h the last 24 count. */
  readonly fromMs: number
  readonly toMs: number
  readonly orderBy: FigureName
  /** 1 to 1 000. */
  readonly limit: number
}

/** What happened for one tenant. */
export interface TenantFigures extends Readonly<Record<FigureName, number>> {
  readonly tenantId: TenantId
}

const spanMsMax = 24 * hourMs
/** From there on hours tell it. */
const minutesMsMax = 2 * hourMs
const columns: Record<FigureName, string> = {
  accepted: 'accepted',
  duplicates: 'duplicates',
  spooled: 'spooled',
  refused: 'refused',
  delivered: 'delivered',
  failed: 'failed',
  attemptsFailed: 'attempts_failed',
}

/**
 * The tenants for which something was counted in a span, those with most first. Over two hours the span is widened to whole hours.
 * Reads two hours of minutes or a day of hours of each tenant at most, by the index over their times or the key. No lock.
 * @throws what Postgres throws
 */
export async function rankTenants(pool: Pool, request: RankRequest): Promise<readonly TenantFigures[]> {
  const { tenants, toMs, orderBy, limit } = request
  const givenFromMs = Math.max(request.fromMs, toMs - spanMsMax)
  const isLong = toMs - givenFromMs > minutesMsMax
  const fromMs = isLong ? Math.floor(givenFromMs / hourMs) * hourMs : givenFromMs
  const table = isLong ? 'figures_hourly' : 'figures_minutely'
  const { rows } = await pool.query<[TenantId, ...number[]]>({
    text: `SELECT tenant_id, ${figureNames.map((name) => `sum(${columns[name]})::float8`).join(', ')} FROM ${table}
      WHERE at >= $1 AND at < $2 AND ${tenants === 'all' ? `tenant_id <> ''` : 'tenant_id = ANY($4::text[])'}
      GROUP BY tenant_id ORDER BY sum(${columns[orderBy]}) DESC, tenant_id LIMIT $3`,
    rowMode: 'array',
    values: [
      new Date(fromMs),
      new Date(toMs),
      Math.min(Math.max(1, limit), 1_000),
      ...(tenants === 'all' ? [] : [textArrayParam(tenants)]),
    ],
  })
  return rows.map(([tenantId, ...counts]) => {
    const named = Object.fromEntries(figureNames.map((name, at) => [name, counts[at] ?? 0]))
    return { tenantId, ...(named as Record<FigureName, number>) }
  })
}
