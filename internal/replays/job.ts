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

/** Filter of the events to replay; an event must match all members. Excludes accepted events, test events and notifications. */
export interface ReplayFilter extends Omit<EventFilter, 'state' | 'origin'> {
  readonly state?: Exclude<EventState, 'accepted'>
  readonly origin?: (typeof replayedOrigins)[number]
  readonly fromMs: number
  /** Exclusive end of the time of receipt, in milliseconds since the epoch. Default and maximum: the start of the replay. */
  readonly toMs?: number
  /** Limits the filter to the first 1 000 events that this earlier replay queued. When the replay starts, their ids are stored as `ids`. */
  readonly replayId?: ReplayId
  readonly outcome?: ReplayEventOutcome
}

/** Filter as completed at the start of the replay. `asked`: requested `ids` and `state`, if `replayId` made the start replace these. */
export type StoredFilter = ReplayFilter & { readonly asked?: Pick<ReplayFilter, 'ids' | 'state'> }

/** Returns the filter to store. Adds `asked`, the requested `ids` and `state`, if the filter has a `replayId`. */
export function storedFilterOf(filter: ReplayFilter, { ids, state }: ReplayFilter): StoredFilter {
  if (filter.replayId === undefined) return filter
  return { ...filter, asked: { ...(ids && { ids }), ...(state && { state }) } }
}

/** Returns the filter as it was requested. */
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
  /** Id of the last examined event. */
  readonly examinedTo: string | null
  /** True while the replay waits for the delivery of the tenant's queued retries and replays. */
  readonly isWaiting: boolean
  /** Cause of a failed step or a failed replay. */
  readonly cause: string | null
  /** Last counted outcome of the first 1 000 queued events; null before the first count. */
  readonly outcome: ReplayOutcome | null
  readonly progress: string
  readonly createdAtMs: number
  readonly startedAtMs: number | null
  readonly endedAtMs: number | null
}

/** Origins of events that a replay covers. */
export const replayedOrigins = ['provider', 'service', 'simulation'] as const satisfies readonly OriginKind[]

export function isReplayed({ origin }: Pick<EventSummary, 'origin'>): boolean {
  return origin.kind !== 'test' && origin.kind !== 'notification'
}

const { queued: _queued, ...ownColumns } = getTableColumns(replays)

/** Columns of a replay without the ids of queued events, which take up to 34 KB. */
export const jobColumns = ownColumns

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

/** Parses a replay id from outside. Returns undefined for any other text. */
export function parseReplayId(text: string): ReplayId | undefined {
  return replayIdForm.test(text) ? (text as ReplayId) : undefined
}

export function isReplay({ id, tenantId }: { readonly id: ReplayId; readonly tenantId?: TenantId }) {
  return and(eq(replays.id, id), tenantId === undefined ? undefined : eq(replays.tenantId, tenantId))
}

/** Returns undefined if the replay is unknown or another tenant's. @throws errors of Postgres */
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

/** Lists replays, newest first, with keyset pagination. @throws RangeError for a limit outside 1 to 100; errors of Postgres */
export async function listReplays(
  pool: Pool,
  request: {
    /** Default: all tenants. */
    readonly tenantId?: TenantId
    /** Cursor: `next` of the previous page. */
    readonly after?: ReplayId
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
