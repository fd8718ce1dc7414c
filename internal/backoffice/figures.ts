import type { Actor } from '#internal/access/index.ts'
import {
  type FigureName,
  type Figures,
  type FigureTenants,
  figureStepMs,
  rankTenants,
  readFigures,
  type TenantFigures,
} from '#internal/usage/index.ts'
import { attempt } from './attempt.ts'
import { invalid, type Outcome, ok } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { createRanking, rankedMax } from './ranking.ts'
import { type ListScope, reachList, type Whose } from './reach.ts'

/** Whose figures, and of which time: at most 35 days. Times in milliseconds since the epoch. */
export interface FigureRequest extends Whose {
  readonly fromMs: number
  readonly toMs: number
}

/** Which tenants are ranked; of more than 24 h the last 24 count. */
export interface FigureRankRequest extends FigureRequest {
  readonly orderBy: FigureName
  /** 1 to 100. */
  readonly limit: number
}

/** What was counted, over time: from roll-ups, some seconds behind. */
export interface FigureDesk {
  /** At most 200 points. The queue's are given to those only who see all tenants. */
  read(actor: Actor, request: FigureRequest): Promise<Outcome<Figures>>
  /** The tenants for which most was counted; of all tenants as it was within the last 15 s. */
  rank(actor: Actor, request: FigureRankRequest): Promise<Outcome<readonly TenantFigures[]>>
}

const spanMsMax = 35 * 86_400_000

/** Makes the use cases about figures. */
export function createFigureDesk(parts: BackofficeParts): FigureDesk {
  const reach = async <Value>(
    actor: Actor,
    request: FigureRequest,
    read: (tenants: FigureTenants) => Promise<Value>,
  ): Promise<Outcome<Value>> => {
    const { fromMs, toMs, ...whose } = request
    if (!(fromMs < toMs && toMs - fromMs <= spanMsMax))
      return invalid('Ask for a time that begins before it ends, of at most 35 days')
    const scope = await reachList(parts, actor, { tenantId: whose.tenantId, namespaces: whose.namespaces })
    return scope.kind === 'ok' ? ok(await read(tenantsOf(scope.value))) : scope
  }
  const rankAll = createRanking(parts)
  return {
    read: (actor, request) =>
      attempt(parts, () =>
        reach(actor, request, (tenants) => {
          const count = tenants === 'all' ? 1 : tenants.length
          const stepMs = figureStepMs(request.toMs - request.fromMs, count)
          return readFigures(parts.readPool, { tenants, fromMs: request.fromMs, toMs: request.toMs, stepMs })
        }),
      ),
    rank: (actor, { orderBy, limit, ...request }) =>
      attempt(parts, () =>
        reach(actor, request, async (tenants) => {
          const asked = { fromMs: request.fromMs, toMs: request.toMs, orderBy }
          const rows = Math.min(limit, rankedMax)
          if (tenants === 'all') return (await rankAll(asked)).slice(0, rows)
          return rankTenants(parts.readPool, { ...asked, tenants, limit: rows })
        }),
      ),
  }
}

function tenantsOf(scope: ListScope): FigureTenants {
  return scope.kind === 'all' ? 'all' : scope.tenantIds
}
