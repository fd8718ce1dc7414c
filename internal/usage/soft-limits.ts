import type { TenantId } from '#internal/base/index.ts'
import type { LimitName } from '#internal/tenants/index.ts'
import type { EffectiveLimits } from './limits.ts'
import type { UsageReading, WindowCount } from './reading.ts'

/** A soft limit that was reached in a period. */
export interface SoftCrossing {
  readonly tenantId: TenantId
  readonly limit: LimitName
  /** When the period began: a minute, a month, or a day for bytes of records. UTC, ms. */
  readonly periodMs: number
  readonly used: number
  readonly soft: number
}

const dayMs = 86_400_000

/** The soft limits that a tenant has reached, in the running periods and in those that ended last. Pure. */
export function softCrossings(reading: UsageReading, limits: EffectiveLimits): SoftCrossing[] {
  const { locks, events, nowMs, recordBytes, tenantId } = reading
  const today = { startMs: nowMs - (nowMs % dayMs), count: recordBytes }
  const periods: Record<LimitName, readonly Pick<WindowCount, 'startMs' | 'count'>[]> = {
    locksPerMinute: locks?.minutes ?? [],
    locksPerMonth: locks?.months ?? [],
    eventsPerMinute: events?.minutes ?? [],
    eventsPerMonth: events?.months ?? [],
    recordBytes: locks ? [today] : [],
  }
  return (Object.keys(periods) as LimitName[]).flatMap((limit) => {
    const { soft } = limits[limit]
    if (soft === null) return []
    return periods[limit].flatMap(({ startMs, count }) =>
      count > 0 && count >= soft ? [{ tenantId, limit, periodMs: startMs, used: count, soft }] : [],
    )
  })
}
