import type { TenantId } from '#internal/base/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import { destinationOfQueue, type QueueId } from './queue-id.ts'

/** Redis channel for the ids of tenant queues with new work, published after the commit. A lost message delays this work until the next poll. */
export const dueChannel = 'latchkey:due'

/** Message about new work: the ids of tenant queues that have new work, or `all` if any can have some. */
export type DueNews = readonly QueueId[] | 'all'

const queueIdsMax = 50
/** Precedes the id of a tenant queue whose new events were handed to a forwarder, and concern only readers of its feed. */
const handedMark = '='
const everyone = '*'
const messageCharsMax = 4_096

/**
 * Notifies all forwarders that these tenant queues have work. Call it after the commit. Safe to repeat.
 * @throws RedisUnavailable; forwarders then find the work by polling
 */
export async function notifyForwarders(redis: RedisConnection, queueIds: readonly QueueId[]): Promise<void> {
  if (queueIds.length > 0) await redis.publish(dueChannel, encodeDue(queueIds))
}

/** Time in which news of handed events are gathered for one message. They concern feeds only, whose readers wait for it at most. */
const gatherMs = 10

/** Notifies the readers of feeds of events that were handed to forwarders, whose work needs no message. */
export class HandedNews {
  readonly #publish: (message: string) => Promise<unknown>
  readonly #queueIds = new Set<string>()
  #timer: ReturnType<typeof setTimeout> | undefined

  /** @param publish publishes a message on `dueChannel`; its failure is ignored, since readers also poll */
  constructor(publish: (message: string) => Promise<unknown>) {
    this.#publish = publish
  }

  /** Adds tenant queues that have new events. They are named in a message within 10 ms. */
  add(queueIds: readonly QueueId[]): void {
    for (const id of queueIds) this.#queueIds.add(id)
    if (queueIds.length > 0) this.#timer ??= setTimeout(() => this.#flush(), gatherMs)
  }

  #flush(): void {
    this.#timer = undefined
    const ids = this.#queueIds.size > queueIdsMax ? [everyone] : [...this.#queueIds]
    this.#queueIds.clear()
    this.#publish(encodeDue(ids.map((id) => `${handedMark}${id}`))).catch(() => undefined)
  }
}

/** Returns the tenant queues of a message that have work for forwarders. Pure. */
export function dueOf(news: DueNews): DueNews {
  return news === 'all' ? news : news.filter((id) => !id.startsWith(handedMark))
}

/** Returns the tenants of a message, including those whose events were handed to a forwarder. Pure. */
export function storedOf(news: DueNews): readonly TenantId[] | 'all' {
  const ids: readonly string[] = news === 'all' ? [everyone] : news
  if (ids.includes(everyone) || ids.includes(`${handedMark}${everyone}`)) return 'all'
  return ids.map((id) => destinationOfQueue(id.startsWith(handedMark) ? id.slice(1) : id).tenantId)
}

/** Encodes the ids of tenant queues with new work as a message. More than 50 ids become `all`. */
export function encodeDue(queueIds: readonly string[]): string {
  return queueIds.length > queueIdsMax ? everyone : JSON.stringify(queueIds)
}

/** Decodes a message about new work. Returns `all` for an invalid message, since an unnecessary claim does no harm. */
export function decodeDue(message: string): DueNews {
  if (message === everyone || message.length > messageCharsMax) return 'all'
  try {
    const ids: unknown = JSON.parse(message)
    const isList = Array.isArray(ids) && ids.length <= queueIdsMax
    return isList && ids.every(isQueueId) ? ids : 'all'
  } catch {
    return 'all'
  }
}

function isQueueId(id: unknown): id is QueueId {
  return typeof id === 'string'
}
