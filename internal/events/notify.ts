import type { RedisConnection } from '#internal/storage/index.ts'

/** Redis channel for the ids of tenants with new work, published after the commit. A lost message delays this work until the next poll. */
export const dueChannel = 'latchkey:due'

/** Message about new work: the ids of tenants that have new work, or `all` if any tenant can have some. */
export type DueNews = readonly string[] | 'all'

const tenantIdsMax = 50
const everyone = '*'
const messageCharsMax = 4_096

/**
 * Notifies all forwarders that these tenants have work. Call it after the commit. Safe to repeat.
 * @throws RedisUnavailable; forwarders then find the work by polling
 */
export async function notifyForwarders(redis: RedisConnection, tenantIds: readonly string[]): Promise<void> {
  if (tenantIds.length > 0) await redis.publish(dueChannel, encodeDue(tenantIds))
}

/** Encodes the ids of tenants with new work as a message. More than 50 ids become `all`. */
export function encodeDue(tenantIds: readonly string[]): string {
  return tenantIds.length > tenantIdsMax ? everyone : JSON.stringify(tenantIds)
}

/** Decodes a message about new work. Returns `all` for an invalid message, since an unnecessary claim does no harm. */
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
