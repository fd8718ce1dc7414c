import type { TenantId } from '#internal/base/index.ts'
import type { SuspendedCause } from '#internal/events/index.ts'

/** What an attempt's end changes for its whole tenant queue. `release_probe`: nobody asked the callback, so that another may try it. */
export type QueueChange =
  | { readonly kind: 'suspend'; readonly cause: SuspendedCause }
  | { readonly kind: 'open_breaker' | 'close_breaker' | 'release_probe' }

const strengths = { suspend: 3, open_breaker: 2, close_breaker: 1, release_probe: 0 } as const

/** Which of two changes of one tenant queue is written: what its callback asked for comes before what was counted. Pure. */
export function strongerChange(one: QueueChange, other: QueueChange): QueueChange {
  return strengths[other.kind] > strengths[one.kind] ? other : one
}

/** An end of one of a tenant's deliveries. */
export interface ChangesQueue {
  readonly tenantId: TenantId
  readonly queueChange: QueueChange | undefined
}

/** What is written of each tenant queue, whatever order its ends came in. Pure. */
export function strongestChanges(ends: Iterable<ChangesQueue>): Map<TenantId, QueueChange> {
  const changes = new Map<TenantId, QueueChange>()
  for (const { tenantId, queueChange } of ends) {
    if (queueChange === undefined) continue
    const known = changes.get(tenantId)
    changes.set(tenantId, known === undefined ? queueChange : strongerChange(known, queueChange))
  }
  return changes
}
