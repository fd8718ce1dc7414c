import type { TenantId } from '#internal/base/index.ts'
import { defineScript, type RedisConnection } from '#internal/storage/index.ts'
import { meterKeys } from './meter-keys.ts'
import forget from './scripts/forget.lua' with { type: 'text' }

// Frees memory, so it runs also when Redis is full.
const forgetScript = defineScript('forget', 'allow-oom', [forget])

/**
 * Removes what Redis keeps of a deleted tenant without an expiry: its meters. No process gives it new ones, since seeding
 * refuses a deleted tenant; its records and locks expire by themselves. Repeating it is harmless. @throws RedisUnavailable
 */
export async function forgetMeters(redis: RedisConnection, tenantId: TenantId): Promise<void> {
  const { meta, side, events } = meterKeys(tenantId)
  await redis.evaluate(forgetScript, [meta, side, events], [])
}
