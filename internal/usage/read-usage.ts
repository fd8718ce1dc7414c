import type { Clock, TenantId } from '#internal/base/index.ts'
import { type Pool, type RedisConnection, RedisUnavailable } from '#internal/storage/index.ts'
import { type LimitName, limitNames } from '#internal/tenants/index.ts'
import type { LimitedTenant, LimitsInForce } from './limits.ts'
import { findOverrides, type StoredOverride } from './overrides.ts'
import { countAt, defineUsageScript, monthEndMs, readMeters, type UsageReading } from './reading.ts'
import { findUsage, type HourAmount, listHours } from './store.ts'

/** Dependencies of `readUsage`. */
export interface ReadUsageParts {
  readonly pool: Pool
  readonly redis: RedisConnection
  readonly clock: Clock
  readonly limits: LimitsInForce
}

/** Limit and its current usage. Times are in ms since the epoch. */
export interface LimitUsage {
  readonly limit: LimitName
  /** Usage in the current window; null if the usage is stored only in Redis and Redis does not reply. */
  readonly used: number | null
  readonly soft: number | null
  /** Hard limit that applies now. An active override replaces the tenant's usual limit. */
  readonly hard: number | null
  readonly override: Omit<StoredOverride, 'tenantId' | 'limit'> | undefined
  /** End of the window; undefined for record bytes, which have no window. */
  readonly resetsAtMs: number | undefined
}

/** A tenant's usage against its limits. */
export interface UsageReport {
  readonly limits: readonly LimitUsage[]
  readonly over: 'accept' | 'refuse'
  /** Amounts by hour and meter. Hours without usage are omitted. The amounts lag by at most one flush of the meters. */
  readonly hours: readonly HourAmount[]
}

const spanMsMax = 62 * 24 * 3_600_000
const minuteMs = 60_000
const script = defineUsageScript()

/**
 * Reads a tenant's usage: current counts from Redis, and hours from Postgres. While Redis is unavailable, monthly counts come from
 * Postgres, with a lag of at most one flush, and other counts are null. Returns at most the last 62 days of the span.
 * @throws errors of Postgres
 */
export async function readUsage(
  parts: ReadUsageParts,
  tenant: LimitedTenant,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): Promise<UsageReport> {
  const nowMs = parts.clock.now()
  const [used, overrides, hours] = await Promise.all([
    readUsed(parts, tenant.id, nowMs),
    findOverrides(parts.pool, tenant.id),
    listHours(parts.pool, tenant.id, { fromMs: Math.max(fromMs, toMs - spanMsMax), toMs }),
  ])
  const { all } = parts.limits.of(tenant)
  const limits = limitNames.map((limit): LimitUsage => {
    const override = overrides.find((each) => each.limit === limit && each.untilMs > nowMs)
    return {
      limit,
      used: used[limit],
      soft: all[limit].soft,
      hard: all[limit].hard,
      override: override && withoutAddress(override),
      resetsAtMs: resetsAt(limit, nowMs),
    }
  })
  return { limits, over: all.eventsPerMonth.over, hours }
}

function withoutAddress({ tenantId: _tenantId, limit: _limit, ...rest }: StoredOverride) {
  return rest
}

function resetsAt(limit: LimitName, nowMs: number): number | undefined {
  if (limit === 'recordBytes') return undefined
  return limit.endsWith('PerMonth') ? monthEndMs(nowMs) : nowMs - (nowMs % minuteMs) + minuteMs
}

type Used = Record<LimitName, number | null>

async function readUsed(parts: ReadUsageParts, tenantId: TenantId, nowMs: number): Promise<Used> {
  const reading = await readMeters(parts.redis, script, tenantId).catch((error: unknown) => {
    if (error instanceof RedisUnavailable) return undefined
    throw error
  })
  // If Redis has no meter, the amount of the month is in Postgres, from which the next count seeds the meter.
  const month = async (meter: 'locks' | 'events') => {
    const read = reading?.[meter]
    return read
      ? countAt(read.months, reading.nowMs)
      : (await findUsage(parts.pool, tenantId, meter, nowMs)).monthAmount
  }
  const minute = (meter: 'locks' | 'events') => reading && minuteOf(reading, meter)
  const [locksPerMonth, eventsPerMonth] = await Promise.all([month('locks'), month('events')])
  return {
    locksPerMinute: minute('locks') ?? null,
    locksPerMonth,
    eventsPerMinute: minute('events') ?? null,
    eventsPerMonth,
    recordBytes: reading?.recordBytes ?? null,
  }
}

function minuteOf(reading: UsageReading, meter: 'locks' | 'events'): number {
  return countAt(reading[meter]?.minutes ?? [], reading.nowMs)
}
