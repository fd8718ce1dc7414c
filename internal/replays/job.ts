import { and, desc, eq, getTableColumns, lt } from 'drizzle-orm'
import { createEventId, expectPageLimit, idPattern, pageOf, type TenantId } from '#internal/base/index.ts'
import {
  type CycleOutcome,
  type EventFilter,
  type EventState,
  type EventSummary,
  type OriginKind,
} from '#internal/events/index.ts'
import { orm, type Pool } from '#internal/storage/index.ts'
import { progressText, type ReplayEventOutcome, type ReplayOutcome } from './progress.ts'
import { replays } from './tables.ts'

/**
 * Filter of the events to replay. An event must match all members and can be in any state except `accepted`. Test events and
 * notifications are never replayed.
 */
export interface ReplayFilter extends Omit<EventFilter, 'state' | 'origin'> {
  readonly state?: Exclude<EventState, 'accepted'>
  readonly origin?: (typeof replayedOrigins)[number]
  readonly fromMs: number
  /** Exclusive end of the time of receipt, in milliseconds since the epoch. Default and maximum: the start of the replay. */
  readonly toMs?: number
  /** Only events that this earlier replay queued, of its first 1 000. The start stores them as `ids`. */
  readonly replayId?: ReplayId
  readonly outcome?: ReplayEventOutcome
}

/** Filter as stored, completed by the start. `asked`: of a request with `replayId`, the members that the start replaced. */
export type StoredFilter = ReplayFilter & { readonly asked?: Pick<ReplayFilter, 'ids' | 'state'> }

/** Returns the stored form of a filter that the start has completed, and of what was asked. Pure. */
export function storedFilterOf(filter: ReplayFilter, { ids, state }: ReplayFilter): StoredFilter {
  if (filter.replayId === undefined) return filter
  return { ...filter, asked: { ...(ids && { ids }), ...(state && { state }) } }
}

/** Returns the filter of a request as it was before the start completed it. Pure. */
export function askedFilterOf({ asked, ...filter }: StoredFilter): ReplayFilter {
  if (asked === undefined) return filter
  const { ids: _ids, state: _state, ...rest } = filter
  return { ...rest, ...asked }
}

/** States of a replay. `queued`: not started. `completed`, `cancelled` and `failed` are final. */
export const replayStates = ['queued', 'running', 'completed', 'cancelled', 'failed'] as const
export type ReplayState = (typeof replayStates)[number]

/** Number of events. If `isExact` is false, `count` is a lower bound. */
export interface ReplayCount {
  readonly count: number
  readonly isExact: boolean
}

/** Id of a replay: `rpl_` and 26 characters. Ids sort by the start time of the replay. */
export type ReplayId = string & { readonly __brand: 'ReplayId' }

/** A replay of all events that match a filter and were received before the replay was started. */
export interface ReplayJob {
  readonly id: ReplayId
  readonly filter: ReplayFilter
  readonly ratePerSecond: number
  readonly requestedBy: string
  readonly state: ReplayState
  /** Number of events that matched at the start. */
  readonly total: ReplayCount
  readonly queuedCount: number
  /** Number of events that matched and got no delivery cycle, by cause. */
  readonly skipped: Readonly<Partial<Record<Exclude<CycleOutcome, 'queued'>, number>>>
  /** Id of the last event that was examined. */
  readonly examinedTo: string | null
  /** True while the replay waits for the delivery of the tenant's queued retries and replays. */
  readonly isWaiting: boolean
  /** Cause of a failed step or a failed replay; null if there is none. */
  readonly cause: string | null
  /** Outcome of the first queued events, as last counted; null before the first count. */
  readonly outcome: ReplayOutcome | null
  readonly progress: string
  readonly createdAtMs: number
  readonly startedAtMs: number | null
  readonly endedAtMs: number | null
}

/** Origins of events that a replay covers. */
export const replayedOrigins = ['provider', 'service', 'simulation'] as const satisfies readonly OriginKind[]

/** Returns whether a replay covers an event that matches its filter. Pure. */
export function isReplayed({ origin }: Pick<EventSummary, 'origin'>): boolean {
  return origin.kind !== 'test' && origin.kind !== 'notification'
}

const { queued: _queued, ...ownColumns } = getTableColumns(replays)

/** Columns of a job: all but the ids of queued events, which are up to 34 KB. */
export const jobColumns = ownColumns

/** Creates a job from a row. Pure. */
export function jobOf(row: Omit<typeof replays.$inferSelect, 'queued'>): ReplayJob {
  const { id, ratePerSecond, requestedBy, state, queuedCount, skipped } = row
  const { examinedTo, isWaiting, failedCause: cause, outcome } = row
  const { asked: _asked, ...filter } = row.filter
  return {
    id,
    filter,
    ratePerSecond,
    requestedBy,
    state,
    total: { count: row.totalCount, isExact: row.totalIsExact },
    queuedCount,
    skipped,
    examinedTo,
    isWaiting,
    cause,
    outcome,
    progress: progressText(row),
    createdAtMs: row.createdAt.getTime(),
    startedAtMs: row.startedAt?.getTime() ?? null,
    endedAtMs: row.endedAt?.getTime() ?? null,
  }
}

export function createReplayId(nowMs: number): ReplayId {
  return createEventId(nowMs, 0).replace('evt_', 'rpl_') as ReplayId
}

const replayIdForm = new RegExp(idPattern('rpl'))

/** Parses a replay id, including input from outside. Returns undefined for any other text. */
export function parseReplayId(text: string): ReplayId | undefined {
  return replayIdForm.test(text) ? (text as ReplayId) : undefined
}

/** Returns the SQL condition for one replay, restricted to a tenant if one is given. */
export function isReplay({ id, tenantId }: { readonly id: ReplayId; readonly tenantId?: TenantId }) {
  return and(eq(replays.id, id), tenantId === undefined ? undefined : eq(replays.tenantId, tenantId))
}

/**
 * Reads one replay. Returns undefined if the replay is unknown or another tenant's.
 * @throws errors of Postgres
 */
export async function readReplay(
  pool: Pool,
  place: { readonly id: ReplayId; readonly tenantId?: TenantId },
): Promise<ReplayJob | undefined> {
  return (await orm(pool).select(jobColumns).from(replays).where(isReplay(place))).map(jobOf)[0]
}

/** A page of replays, newest first. `next` is undefined on the last page. */
export interface ReplayPage {
  readonly replays: readonly ReplayJob[]
  readonly next: ReplayId | undefined
}

/** Cursor of the first page. Pages run from newest to oldest, so it sorts after every id. */
const highestId = 'rpl_~' as ReplayId

/**
 * Lists replays with keyset pagination.
 * @throws RangeError for a limit outside 1 to 100; errors of Postgres
 */
export async function listReplays(
  pool: Pool,
  request: {
    /** Filters by tenant. Omit it for all replays. */
    readonly tenantId?: TenantId
    /** Cursor: `next` of the previous page. */
    readonly after?: ReplayId
    /** Maximum replays per page, 1 to 100. */
    readonly limit: number
  },
): Promise<ReplayPage> {
  const { tenantId, after, limit } = request
  expectPageLimit(limit, 'replays')
  const rows = await orm(pool)
    .select(jobColumns)
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
