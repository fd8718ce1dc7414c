import type { RedisConnection } from '#internal/storage/index.ts'

/** Redis channel for the ids of tenants with new work, published after the commit. A lost message delays this work until the next poll. */
export const dueChannel = 'latchkey:due'

/** Message about new work: the ids of tenants that have new work, or `all` if any tenant can have some. */
export type DueNews = readonly string[] | 'all'

const tenantIdsMax = 50
/** Precedes the id of a tenant whose new events were handed to a forwarder, and concern only readers of its feed. */
const handedMark = '='
const everyone = '*'
const messageCharsMax = 4_096

/**
 * Notifies all forwarders that these tenants have work. Call it after the commit. Safe to repeat.
 * @throws RedisUnavailable; forwarders then find the work by polling
 */
export async function notifyForwarders(redis: RedisConnection, tenantIds: readonly string[]): Promise<void> {
  await notifyReaders(redis, tenantIds, [])
}

/**
 * Notifies all forwarders that the first tenants have work, and readers of the feeds of all these tenants. Call it after the commit. Safe to
 * repeat.
 * @throws RedisUnavailable; forwarders and readers then find the events by polling
 */
export async function notifyReaders(
  redis: RedisConnection,
  dueIds: readonly string[],
  handedIds: readonly string[],
): Promise<void> {
  const marked =
    dueIds.length + handedIds.length > tenantIdsMax
      ? [`${handedMark}${everyone}`]
      : handedIds.map((id) => `${handedMark}${id}`)
  const ids = handedIds.length === 0 ? dueIds : [...dueIds, ...marked]
  if (ids.length > 0) await redis.publish(dueChannel, encodeDue(ids))
}

/** Returns the tenants of a message that have work for forwarders. Pure. */
export function dueOf(news: DueNews): DueNews {
  return news === 'all' ? news : news.filter((id) => !id.startsWith(handedMark))
}

/** Returns all tenants of a message, including those whose events were handed to a forwarder. Pure. */
export function storedOf(news: DueNews): DueNews {
  if (news === 'all' || news.includes(`${handedMark}${everyone}`)) return 'all'
  return news.map((id) => (id.startsWith(handedMark) ? id.slice(1) : id))
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
