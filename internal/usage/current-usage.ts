import type { TenantId } from '#internal/base/index.ts'
import {
  type Pool,
  type RedisConnection,
  type RedisScript,
  RedisUnavailable,
} from '#internal/storage/index.ts'
import { type DurableReading, readDurableMeters } from './durable-meters.ts'
import { defineUsageScript, type MeterWindows, readMeters, type UsageReading } from './reading.ts'

export interface CurrentUsage {
  readonly tenantId: TenantId
  /** Time by the clock of the store that has the tenant's new records. */
  readonly nowMs: number
  /** Meter of the store that has the tenant's new records; undefined if that store has no meter or does not reply. */
  readonly locks: MeterWindows | undefined
  readonly events: MeterWindows | undefined
  /** Record bytes of both stores in total; null if a store that may have records does not reply. */
  readonly recordBytes: number | null
  /** Kinds whose meters are unknown, because Redis does not reply. */
  readonly unknown: { readonly locks: boolean; readonly events: boolean }
  /** Whether the other store may also have counted locks in this month. */
  readonly hasMoved: boolean
}

const productionScript = defineUsageScript()

/** Reads the meters of both stores. Without Redis, values that only Redis has are unknown. @throws errors of Postgres */
export async function readCurrent(
  {
    pool,
    redis,
    usageScript = productionScript,
  }: {
    readonly pool: Pool
    readonly redis: RedisConnection
    readonly usageScript?: RedisScript
  },
  tenantId: TenantId,
): Promise<CurrentUsage> {
  const [inRedis, inPostgres] = await Promise.all([
    readMeters(redis, usageScript, tenantId).catch((error: unknown) => {
      if (error instanceof RedisUnavailable) return undefined
      throw error
    }),
    readDurableMeters(pool, [tenantId]),
  ])
  const durable = inPostgres.get(tenantId)
  if (!durable) throw new Error('Postgres returned no meters of the tenant')
  return currentUsage(tenantId, inRedis, durable)
}

/** @param redis undefined if Redis does not reply */
export function currentUsage(
  tenantId: TenantId,
  redis: UsageReading | undefined,
  durable: DurableReading,
): CurrentUsage {
  const isDurable = durable.store === 'postgres'
  const canHaveBytesInRedis = !isDurable || durable.before === 'redis'
  const isUnknown = redis === undefined
  return {
    tenantId,
    nowMs: isDurable || isUnknown ? durable.nowMs : redis.nowMs,
    locks: isDurable ? durable.locks : redis?.locks,
    events: redis?.events,
    recordBytes: isUnknown && canHaveBytesInRedis ? null : durable.recordBytes + (redis?.recordBytes ?? 0),
    unknown: { locks: isUnknown && !isDurable, events: isUnknown },
    hasMoved: durable.generation > 0,
  }
}
