import { and, desc, eq, lt } from 'drizzle-orm'
import { createEventId, expectPageLimit, idPattern, pageOf, type TenantId } from '#internal/base/index.ts'
import type { EventFilter, EventState, ReplayFate } from '#internal/events/index.ts'
import { orm, type Pool } from '#internal/storage/index.ts'
import { replays } from './tables.ts'

/** Events to replay: those that match all of it, of any state but `accepted`. */
export interface ReplayFilter extends Omit<EventFilter, 'state'> {
  readonly state?: Exclude<EventState, 'accepted'>
  readonly fromMs: number
  /** Default, and latest: the start of the replay. */
  readonly toMs?: number
}

/** `queued`: not started; the last three are final. */
export const replayStates = ['queued', 'running', 'completed', 'cancelled', 'failed'] as const
/** State of a replay. */
export type ReplayState = (typeof replayStates)[number]

/** Number of events; at least `count` where it is not exact. */
export interface ReplayCount {
  readonly count: number
  readonly isExact: boolean
}

/** A replay's id: `rpl_` and 26 characters. Sorts by the time of its start. */
export type ReplayId = string & { readonly __brand: 'ReplayId' }

/** A replay of all events of a filter that were received before it was started. */
export interface ReplayJob {
  readonly id: ReplayId
  readonly filter: ReplayFilter
  readonly ratePerSecond: number
  readonly requestedBy: string
  readonly state: ReplayState
  /** Events that matched when it was started. */
  readonly total: ReplayCount
  readonly queuedCount: number
  /** Events that matched and got no delivery cycle, by cause. */
  readonly skipped: Readonly<Partial<Record<Exclude<ReplayFate, 'queued'>, number>>>
  /** Last event that was examined. */
  readonly examinedTo: string | null
  /** Waits until more of the tenant's retries and replays have been delivered. */
  readonly isWaiting: boolean
  readonly failedCause: string | null
  readonly createdAtMs: number
  readonly startedAtMs: number | null
  readonly endedAtMs: number | null
}

/** Makes a job of its row. Pure. */
export function jobOf(row: typeof replays.$inferSelect): ReplayJob {
  const { id, filter, ratePerSecond, requestedBy, state, queuedCount, skipped } = row
  const { examinedTo, isWaiting, failedCause } = row
  return {
    ...{ id, filter, ratePerSecond, requestedBy, state },
    total: { count: row.totalCount, isExact: row.totalIsExact },
    ...{ queuedCount, skipped, examinedTo, isWaiting, failedCause },
    createdAtMs: row.createdAt.getTime(),
    startedAtMs: row.startedAt?.getTime() ?? null,
    endedAtMs: row.endedAt?.getTime() ?? null,
  }
}

/** Makes the id of a replay that is started at a time. */
export function createReplayId(nowMs: number): ReplayId {
  return createEventId(nowMs, 0).replace('evt_', 'rpl_') as ReplayId
}

const replayIdForm = new RegExp(idPattern('rpl'))

/** Parses a replay's id, also from outside; undefined for anything else. */
export function parseReplayId(text: string): ReplayId | undefined {
  return replayIdForm.test(text) ? (text as ReplayId) : undefined
}

/** Condition of one replay, within a tenant where one is given. */
export function isReplay({ id, tenantId }: { readonly id: ReplayId; readonly tenantId?: TenantId }) {
  return and(eq(replays.id, id), tenantId === undefined ? undefined : eq(replays.tenantId, tenantId))
}

/** Reads one replay; undefined for one that is unknown, or another tenant's. @throws what Postgres throws */
export async function readReplay(
  pool: Pool,
  place: { readonly id: ReplayId; readonly tenantId?: TenantId },
): Promise<ReplayJob | undefined> {
  return (await orm(pool).select().from(replays).where(isReplay(place))).map(jobOf)[0]
}

/** Page of replays to read. */
export interface ReplayListRequest {
  /** Filters by tenant. Omit for all replays. */
  readonly tenantId?: TenantId
  /** `next` of the page before. */
  readonly after?: ReplayId
  /** 1 to 100. */
  readonly limit: number
}

/** A page, newest first; `next` is undefined on the last one. */
export interface ReplayPage {
  readonly replays: readonly ReplayJob[]
  readonly next: ReplayId | undefined
}

/** Sorts behind every id. */
const highestId = 'rpl_~' as ReplayId

/** Lists replays by keyset pagination. @throws RangeError for a limit out of its bounds; what Postgres throws */
export async function listReplays(pool: Pool, request: ReplayListRequest): Promise<ReplayPage> {
  const { tenantId, after, limit } = request
  expectPageLimit(limit, 'replays')
  const rows = await orm(pool)
    .select()
    .from(replays)
    .where(
      and(
        tenantId === undefined ? undefined : eq(replays.tenantId, tenantId),
        lt(replays.id, after ?? highestId),
      ),
    )
    .orderBy(desc(replays.id))
    .limit(limit + 1)
  const { page, next } = pageOf(rows.map(jobOf), limit)
  return { replays: page, next }
}
