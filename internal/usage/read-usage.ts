import { type Clock, monthEndMs } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import {
  type AnyLimitName,
  emittedLimitName,
  type LimitName,
  limitNames,
  type OwnKind,
} from '#internal/tenants/index.ts'
import { type CurrentUsage, readCurrent } from './current-usage.ts'
import {
  type LimitBounds,
  type LimitedTenant,
  type LimitState,
  type LimitsInForce,
  limitState,
} from './limits.ts'
import { findOverrides, type StoredOverride } from './overrides.ts'
import { countAt } from './reading.ts'
import { findMonthAmounts, findUsage, type HourAmount, listHours } from './store.ts'

export type ReadUsageParts = Parameters<typeof readCurrent>[0] & {
  readonly clock: Clock
  readonly limits: LimitsInForce
}

/** Limit and its current usage. Times are in ms since the epoch. */
export interface LimitUsage {
  readonly limit: AnyLimitName
  /** Usage of the current window; null if it is stored only in Redis and Redis does not reply. */
  readonly used: number | null
  readonly soft: number | null
  /** Limit that applies now. An active override replaces the tenant's usual limit. */
  readonly hard: number | null
  readonly state: LimitState | null
  readonly override: Omit<StoredOverride, 'tenantId' | 'limit'> | undefined
  /** End of the window; undefined for record bytes, which have no window. */
  readonly resetsAtMs: number | undefined
}

/** A tenant's current usage against its limits. `limits`: those on what Latchkey counts, then those on emitted kinds by name. */
export interface LimitsReport {
  readonly limits: readonly LimitUsage[]
  readonly over: 'accept' | 'refuse'
}

/** A tenant's usage against its limits, and by hour. */
export interface UsageReport extends LimitsReport {
  /** Hours without usage are omitted. Redis' counts lag by at most one flush of the meters, and longer while Redis does not reply. */
  readonly hours: readonly HourAmount[]
}

const spanMsMax = 62 * 24 * 3_600_000
const minuteMs = 60_000

/** Reads usage like `readLimits`, and the hours in Postgres of at most the last 62 days of the span. @throws errors of Postgres */
export async function readUsage(
  parts: ReadUsageParts,
  tenant: LimitedTenant,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): Promise<UsageReport> {
  const [limits, hours] = await Promise.all([
    readLimits(parts, tenant),
    listHours(parts.pool, tenant.id, { fromMs: Math.max(fromMs, toMs - spanMsMax), toMs }),
  ])
  return { ...limits, hours }
}

/**
 * Reads a tenant's current usage against its limits. While Redis is unavailable, its monthly counts come from Postgres, with a lag of at
 * most one flush, and its other counts are null.
 * @throws errors of Postgres
 */
export async function readLimits(parts: ReadUsageParts, tenant: LimitedTenant): Promise<LimitsReport> {
  const nowMs = parts.clock.now()
  const { all, emitted } = parts.limits.of(tenant)
  const [current, overrides, amounts] = await Promise.all([
    readCurrent(parts, tenant.id),
    findOverrides(parts.pool, tenant.id),
    findMonthAmounts(parts.pool, tenant.id, [...emitted.keys()], nowMs),
  ])
  const used = await usedOf(parts, current, nowMs)
  const own = limitNames.map((limit) =>
    toLimitUsage(limit, { used: used[limit], bounds: all[limit], overrides, nowMs }),
  )
  const ofOthers = [...emitted].map(([kind, bounds]) =>
    toLimitUsage(emittedLimitName(kind), { used: amounts.get(kind) ?? 0, bounds, overrides, nowMs }),
  )
  return { limits: [...own, ...ofOthers], over: all.eventsPerMonth.over }
}

export function toLimitUsage(
  limit: AnyLimitName,
  {
    used,
    bounds: { soft, hard },
    overrides,
    nowMs,
  }: {
    readonly used: number | null
    readonly bounds: LimitBounds
    readonly overrides: readonly StoredOverride[]
    readonly nowMs: number
  },
): LimitUsage {
  const found = overrides.find((each) => each.limit === limit && each.expiresAtMs > nowMs)
  const override = found && withoutAddress(found)
  const state = limitState({ used, soft, hard, override })
  return { limit, used, soft, hard, state, override, resetsAtMs: resetsAt(limit, nowMs) }
}

function withoutAddress({ tenantId: _tenantId, limit: _limit, ...rest }: StoredOverride) {
  return rest
}

function resetsAt(limit: AnyLimitName, nowMs: number): number | undefined {
  if (limit === 'recordBytes') return undefined
  return limit.endsWith('PerMonth') ? monthEndMs(nowMs) : nowMs - (nowMs % minuteMs) + minuteMs
}

/** Returns null for unknown usage. @throws errors of Postgres */
export async function usedOf(
  { pool }: { readonly pool: Pool },
  current: CurrentUsage,
  nowMs: number,
): Promise<Record<LimitName, number | null>> {
  const { tenantId, unknown, hasMoved, recordBytes } = current
  const month = async (kind: OwnKind) => {
    const counted = current[kind] && countAt(current[kind].months, current.nowMs)
    if (counted !== undefined && !(kind === 'locks' && hasMoved)) return counted
    // Reads the amount of both stores in Postgres. If the meter is missing, the next count creates it from this amount.
    const { monthAmount } = await findUsage(pool, tenantId, kind, nowMs)
    return Math.max(counted ?? 0, monthAmount)
  }
  const minute = (kind: OwnKind) =>
    unknown[kind] ? null : countAt(current[kind]?.minutes ?? [], current.nowMs)
  const [locksPerMonth, eventsPerMonth] = await Promise.all([month('locks'), month('events')])
  return {
    locksPerMinute: minute('locks'),
    locksPerMonth,
    eventsPerMinute: minute('events'),
    eventsPerMonth,
    recordBytes,
  }
}
