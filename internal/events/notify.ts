import type { RedisConnection } from '#internal/storage/index.ts'

/** The Redis channel on which tenants with new work are named, after the commit. A lost message costs a poll's wait. */
export const dueChannel = 'latchkey:due'

/** Content of a message: these tenants have work, or `all` may have some. */
export type DueNews = readonly string[] | 'all'

const tenantIdsMax = 50
const everyone = '*'
const messageCharsMax = 4_096

/**
 * Tells all forwarders that these tenants have work. To be called after the commit; repeating it is harmless.
 * @throws RedisUnavailable: they find it by their poll
 */
export async function tellForwarders(redis: RedisConnection, tenantIds: readonly string[]): Promise<void> {
  if (tenantIds.length > 0) await redis.publish(dueChannel, encodeDue(tenantIds))
}

/** Writes the message for these tenants; more than 50 are told as `all`. */
export function encodeDue(tenantIds: readonly string[]): string {
  return tenantIds.length > tenantIdsMax ? everyone : JSON.stringify(tenantIds)
}

/** Reads a message. What is no message reads as `all`, since looking once too often is harmless. */
export function decodeDue(message: string): DueNews {
  if (message === everyone || message.length > messageCharsMax) return 'all'
  try {
    const ids: unknown = JSON.parse(message)
    const isList = Array.isArray(ids) && ids.length <= tenantIdsMax
    return isList && ids.every((id) => typeof id === 'string') ? ids : 'all'
  } catch {
    return 'all'
  }
}
