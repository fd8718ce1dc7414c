import type { Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { listCallbackStatuses } from '#internal/events/index.ts'
import { readSpoolStats } from '#internal/intake/index.ts'
import { readSettings } from '#internal/settings/index.ts'
import { RedisUnavailable } from '#internal/storage/index.ts'
import { type AnyLimitName, listUnreadyTenants } from '#internal/tenants/index.ts'
import { readLimits } from '#internal/usage/index.ts'
import { blockerCases, blockersOf, pausesOf } from './blockers.ts'
import { type Outcome, ok } from './outcome.ts'
import type { DeskParts } from './parts.ts'
import { reachList, type TenantSelection } from './reach.ts'
import type { Blocker } from './states.ts'

/** Problem that an operator or a tenant should act on. */
export type Attention =
  | Blocker
  | { readonly kind: 'spool_in_use'; readonly count: number; readonly oldestAgeMs: number }
  | { readonly kind: 'dead_entries'; readonly count: number }
  | { readonly kind: 'tenant_not_ready'; readonly tenantId: TenantId; readonly reason: string }
  | {
      readonly kind: 'limit_near'
      readonly tenantId: TenantId
      readonly limit: AnyLimitName
      readonly used: number
      readonly hard: number
    }

/** Problems, most important first. */
export interface AttentionList {
  readonly items: readonly Attention[]
  /** True if the list is incomplete, because more than `rowsMax` tenants have the same kind of problem. */
  readonly isCut: boolean
}

/** Maximum number of items per kind of problem. */
const rowsMax = 20
/** Maximum number of tenants whose limits are read. Each tenant costs two statements and a call of Redis. */
const limitTenantsMax = 10
/** Fraction of a hard limit from which usage counts as near the limit. */
const nearShare = 0.8
const dayMs = 86_400_000

/** Lists problems. Reads limits of the selected tenants, or of the busiest of 24 h. Includes the spool only if all tenants are listed. */
async function list(
  parts: DeskParts,
  actor: Actor,
  selection: TenantSelection,
): Promise<Outcome<AttentionList>> {
  const scope = await reachList(parts, actor, selection)
  if (scope.kind !== 'ok') return scope
  const { pool, readPool } = parts
  const ids = scope.value.kind === 'all' ? undefined : scope.value.tenantIds
  const request = { tenantIds: ids, rowsMax: rowsMax + 1 }
  const [{ settings }, callbacks, unready, spool, limits] = await Promise.all([
    readSettings(pool),
    listCallbackStatuses(pool, request),
    listUnreadyTenants(readPool, request),
    ids === undefined ? spoolItems(parts) : [],
    limitItems(parts, ids),
  ])
  const pauses = await pausesOf(parts, actor, settings, (owner) => ids?.includes(owner) ?? true)
  const suspended = new Set(callbacks.flatMap((each) => (each.suspension ? [each.tenantId] : [])))
  const notReady = unready.filter(
    ({ id, reason }) => !suspended.has(id) && reason !== callbackSuspendedReason,
  )
  return ok({
    items: [
      ...pauses.slice(0, rowsMax),
      ...spool,
      ...callbacks.slice(0, rowsMax).flatMap(blockersOf),
      ...notReady
        .slice(0, rowsMax)
        .map(({ id, reason }) => ({ kind: 'tenant_not_ready', tenantId: id, reason }) as const),
      ...limits,
    ],
    isCut: [pauses, callbacks, unready].some(({ length }) => length > rowsMax),
  })
}

/** Reason in the condition `Ready` of a tenant whose callback is suspended. The operator updates the condition with a delay. */
export const callbackSuspendedReason = 'CallbackSuspended'

async function spoolItems({ redis }: DeskParts): Promise<Attention[]> {
  try {
    const { entries, oldestAgeMs, deadEntries } = await readSpoolStats(redis)
    return [
      ...(entries > 0 ? [{ kind: 'spool_in_use', count: entries, oldestAgeMs } as const] : []),
      ...(deadEntries > 0 ? [{ kind: 'dead_entries', count: deadEntries } as const] : []),
    ]
  } catch (error) {
    if (error instanceof RedisUnavailable) return []
    throw error
  }
}

async function limitItems(parts: DeskParts, ids: readonly TenantId[] | undefined): Promise<Attention[]> {
  const nowMs = parts.clock.now()
  const busiest = async () =>
    (await parts.rankAll({ fromMs: nowMs - dayMs, toMs: nowMs })).map((each) => each.tenantId)
  const read = (ids ?? (await busiest())).slice(0, limitTenantsMax).map(async (tenantId) => {
    const tenant = parts.directory.findTenantById(tenantId)
    if (tenant === undefined) return []
    const { limits } = await readLimits(parts, tenant)
    return limits.flatMap(({ limit, used, hard }): Attention[] =>
      used !== null && hard !== null && hard > 0 && used >= hard * nearShare
        ? [{ kind: 'limit_near', tenantId, limit, used, hard }]
        : [],
    )
  })
  return (await Promise.all(read)).flat()
}

export const attentionCases = { ...blockerCases, list }
