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
  if (tenantIds.length > 0) await redis.publish(dueChannel, encodeDue(tenantIds))
}

/** Time in which news of handed events are gathered for one message. They concern feeds only, whose readers wait for it at most. */
const gatherMs = 10

/** Notifies the readers of feeds of events that were handed to forwarders, whose work needs no message. */
export class HandedNews {
  readonly #publish: (message: string) => Promise<unknown>
  readonly #tenantIds = new Set<string>()
  #timer: ReturnType<typeof setTimeout> | undefined

  /** @param publish publishes a message on `dueChannel`; its failure is ignored, since readers also poll */
  constructor(publish: (message: string) => Promise<unknown>) {
    this.#publish = publish
  }

  /** Adds tenants that have new events. They are named in a message within 10 ms. */
  add(tenantIds: readonly string[]): void {
    for (const id of tenantIds) this.#tenantIds.add(id)
    if (tenantIds.length > 0) this.#timer ??= setTimeout(() => this.#flush(), gatherMs)
  }

  #flush(): void {
    this.#timer = undefined
    const ids = this.#tenantIds.size > tenantIdsMax ? [everyone] : [...this.#tenantIds]
    this.#tenantIds.clear()
    this.#publish(encodeDue(ids.map((id) => `${handedMark}${id}`))).catch(() => undefined)
  }
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
