import { type FigureName, rankTenants, type TenantFigures } from '#internal/usage/index.ts'
import type { BackofficeParts } from './parts.ts'

/** What all tenants are ranked by, and of which time; see `rankTenants`. */
export interface RankingRequest {
  readonly fromMs: number
  readonly toMs: number
  readonly orderBy: FigureName
}

/** The first 100 of all tenants. @throws what Postgres throws */
export type Ranking = (request: RankingRequest) => Promise<readonly TenantFigures[]>

/** How many tenants a ranking has. */
export const rankedMax = 100
const rememberedMs = 15_000
const rankingsMax = 20

interface Remembered {
  readonly askedAtMs: number
  readonly toMs: number
  readonly tenants: Promise<readonly TenantFigures[]>
}

/**
 * Makes the ranking of an installation, which reads rows of every tenant and is asked for by each page that is followed live: for one
 * length of time and one order it is read once in 15 s, for all of them.
 */
export function createRanking({ readPool, clock }: Pick<BackofficeParts, 'readPool' | 'clock'>): Ranking {
  const remembered = new Map<string, Remembered>()
  return ({ fromMs, toMs, orderBy }) => {
    const key = `${orderBy} ${toMs - fromMs}`
    const nowMs = clock.now()
    const known = remembered.get(key)
    if (known && nowMs - known.askedAtMs < rememberedMs && Math.abs(toMs - known.toMs) < rememberedMs)
      return known.tenants
    const tenants = rankTenants(readPool, { tenants: 'all', fromMs, toMs, orderBy, limit: rankedMax })
    const asked = { askedAtMs: nowMs, toMs, tenants }
    remembered.delete(key)
    remembered.set(key, asked)
    const oldest = remembered.keys().next()
    if (remembered.size > rankingsMax && !oldest.done) remembered.delete(oldest.value)
    // What failed is asked anew; whoever waits for it is told.
    tenants.catch(() => remembered.get(key) === asked && remembered.delete(key))
    return tenants
  }
}
