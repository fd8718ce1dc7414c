import type { TenantId } from '#internal/base/index.ts'
import type { SuspendedCause } from '#internal/events/index.ts'

/** What an attempt's end changes for its whole lane. `release_probe`: nobody asked the callback, so that another may try it. */
export type LaneChange =
  | { readonly kind: 'suspend'; readonly cause: SuspendedCause }
  | { readonly kind: 'open_breaker' | 'close_breaker' | 'release_probe' }

const strengths = { suspend: 3, open_breaker: 2, close_breaker: 1, release_probe: 0 } as const

/** Which of two changes of one lane is written: what its callback asked for comes before what was counted. Pure. */
export function strongerChange(one: LaneChange, other: LaneChange): LaneChange {
  return strengths[other.kind] > strengths[one.kind] ? other : one
}

/** An end of one of a tenant's deliveries. */
export interface ChangesLane {
  readonly tenantId: TenantId
  readonly laneChange: LaneChange | undefined
}

/** What is written of each lane, whatever order its ends came in. Pure. */
export function strongestChanges(ends: Iterable<ChangesLane>): Map<TenantId, LaneChange> {
  const changes = new Map<TenantId, LaneChange>()
  for (const { tenantId, laneChange } of ends) {
    if (laneChange === undefined) continue
    const known = changes.get(tenantId)
    changes.set(tenantId, known === undefined ? laneChange : strongerChange(known, laneChange))
  }
  return changes
}
