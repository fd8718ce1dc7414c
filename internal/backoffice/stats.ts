import type { Actor } from '#internal/access/index.ts'
import { setNewest } from '#internal/base/index.ts'
import {
  rankTenants,
  readStats,
  type Stats,
  type StatsTenants,
  statsStepMs,
  type TenantStats,
} from '#internal/usage/index.ts'
import { invalid, type Outcome, ok } from './outcome.ts'
import type { BackofficeParts, DeskParts, UseCase } from './parts.ts'
import { reachList, type TenantSelection } from './reach.ts'

/** Request for statistics of at most 35 days. Times are in milliseconds since the epoch. */
interface StatsRequest extends TenantSelection {
  readonly fromMs: number
  readonly toMs: number
}

const spanMsMax = 35 * 86_400_000

/** Reads statistics of at most 200 points, some seconds old. Includes the queue depth only for actors that see all tenants. */
async function read(parts: DeskParts, actor: Actor, request: StatsRequest): Promise<Outcome<Stats>> {
  const tenants = await reachStats(parts, actor, request)
  if (tenants.kind !== 'ok') return tenants
  const { fromMs, toMs } = request
  const count = tenants.value === 'all' ? 1 : tenants.value.length
  const stepMs = statsStepMs(toMs - fromMs, count)
  return ok(await readStats(parts.readPool, { tenants: tenants.value, fromMs, toMs, stepMs }))
}

/** Lists the ten tenants with most accepted events, in at most the last 24 h of the range. A list of all tenants may be 15 s old. */
const rank: UseCase<StatsRequest, readonly TenantStats[]> = async (parts, actor, request) => {
  const tenants = await reachStats(parts, actor, request)
  if (tenants.kind !== 'ok') return tenants
  const { fromMs, toMs } = request
  if (tenants.value === 'all') return ok(await parts.rankAll({ fromMs, toMs }))
  return ok(await rankTenants(parts.readPool, { ...ranking, fromMs, toMs, tenants: tenants.value }))
}

async function reachStats(
  parts: DeskParts,
  actor: Actor,
  { fromMs, toMs, tenantId, namespaces }: StatsRequest,
): Promise<Outcome<StatsTenants>> {
  if (!(fromMs < toMs && toMs - fromMs <= spanMsMax))
    return invalid('Choose a start before the end, at most 35 days apart')
  const scope = await reachList(parts, actor, { tenantId, namespaces })
  if (scope.kind !== 'ok') return scope
  return ok(scope.value.kind === 'all' ? 'all' : scope.value.tenantIds)
}

export const statsCases = { read, rank }

/** Returns the ten tenants with the most accepted events, in at most the last 24 hours of the range. @throws errors of Postgres */
export type Ranking = (request: Pick<StatsRequest, 'fromMs' | 'toMs'>) => Promise<readonly TenantStats[]>

const ranking = { orderBy: 'accepted', limit: 10 } as const
const rememberedMs = 15_000
const rankingsMax = 20

/** Caches the ranking of all tenants for 15 s per length of the range, because every open overview page requests it. */
export function createRanking({ readPool, clock }: Pick<BackofficeParts, 'readPool' | 'clock'>): Ranking {
  const cache = new Map<number, { askedAtMs: number; toMs: number; tenants: ReturnType<Ranking> }>()
  return ({ fromMs, toMs }) => {
    const key = toMs - fromMs
    const nowMs = clock.now()
    const known = cache.get(key)
    if (known && nowMs - known.askedAtMs < rememberedMs && Math.abs(toMs - known.toMs) < rememberedMs)
      return known.tenants
    const tenants = rankTenants(readPool, { ...ranking, tenants: 'all', fromMs, toMs })
    const asked = { askedAtMs: nowMs, toMs, tenants }
    setNewest(cache, key, asked, rankingsMax)
    // Removes a failed query from the cache, so that the next request repeats it.
    tenants.catch(() => cache.get(key) === asked && cache.delete(key))
    return tenants
  }
}
