import { type EventId, receivedAtMsOf, type TenantId } from '#internal/base/index.ts'
import { lowestIdOf, readEventStates } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { forEachDue, type ReplayTurn } from './due.ts'
import type { ReplayFilter, ReplayId, ReplayJob } from './job.ts'
import { progressText, type ReplayEventOutcome, type ReplayOutcome } from './progress.ts'

/** Maximum events whose outcome is read; also the maximum of `readEventStates`. */
export const outcomeEventsMax = 1_000

export function queuedText({ id, cycle }: { readonly id: EventId; readonly cycle: number }): string {
  return `${id}:${cycle}`
}

/** Maps the first events that a replay queued to the delivery cycles that it began. */
async function readQueued(pool: Pool, id: ReplayId): Promise<Map<EventId, number>> {
  const { rows } = await pool.query<{ queued: readonly string[] }>({
    name: 'read_replay_outcome',
    text: 'SELECT queued FROM replays WHERE id = $1',
    values: [id],
  })
  return new Map(
    (rows[0]?.queued ?? []).map((text) => {
      const [eventId = '', cycle] = text.split(':')
      return [eventId as EventId, Number(cycle)] as const
    }),
  )
}

const outcomeOfState = {
  processed: 'delivered',
  delivery_failed: 'failed',
  accepted: 'pending',
  verified: undefined,
} as const

/** Reads the outcome of each event. Omits events that were deleted or replayed again since. */
async function readOutcomes(
  pool: Pool,
  cycles: ReadonlyMap<EventId, number>,
  nowMs: number,
): Promise<Map<EventId, ReplayEventOutcome>> {
  const outcomes = new Map<EventId, ReplayEventOutcome>()
  for (const { id, cycle, state } of await readEventStates(pool, [...cycles.keys()], nowMs)) {
    const outcome = outcomeOfState[state]
    if (outcome !== undefined && cycles.get(id) === cycle) outcomes.set(id, outcome)
  }
  return outcomes
}

/** Counts the outcomes of a replay's first 1 000 events. Requires a pool with `eventReadSettings`. @throws errors of Postgres */
export async function readReplayOutcome(pool: Pool, id: ReplayId, nowMs: number): Promise<ReplayOutcome> {
  const cycles = await readQueued(pool, id)
  const outcomes = [...(await readOutcomes(pool, cycles, nowMs)).values()]
  const countOf = (wanted: ReplayEventOutcome) => outcomes.filter((outcome) => outcome === wanted).length
  return {
    examinedCount: cycles.size,
    deliveredCount: countOf('delivered'),
    failedCount: countOf('failed'),
    pendingCount: countOf('pending'),
    otherCount: cycles.size - outcomes.length,
  }
}

/**
 * Reads the ids of the first 1 000 events that a replay queued; with `outcome`, only those whose delivery in the replay's delivery cycle
 * has this outcome now. Requires a pool with `eventReadSettings`. @throws errors of Postgres
 */
export async function readReplayedIds(
  pool: Pool,
  { replayId, outcome }: { readonly replayId: ReplayId; readonly outcome?: ReplayEventOutcome | undefined },
  nowMs: number,
): Promise<EventId[]> {
  const cycles = await readQueued(pool, replayId)
  if (outcome === undefined) return [...cycles.keys()]
  const outcomes = await readOutcomes(pool, cycles, nowMs)
  return [...outcomes].flatMap(([id, own]) => (own === outcome ? [id] : []))
}

const stateOfOutcome = { delivered: 'processed', failed: 'delivery_failed', pending: undefined } as const

/** Completes a filter that has a `replayId`: adds the ids of that replay's events, and the state that the requested outcome implies. */
export async function withReplayedIds(
  pool: Pool,
  filter: ReplayFilter,
  nowMs: number,
): Promise<ReplayFilter> {
  const { replayId, outcome, ids: chosen } = filter
  if (replayId === undefined) return filter
  const replayed = await readReplayedIds(pool, { replayId, outcome }, nowMs)
  const ids = chosen ? replayed.filter((id) => chosen.includes(id)) : replayed
  const state = filter.state ?? (outcome && stateOfOutcome[outcome])
  return { ...filter, ids, ...(state && { state }) }
}

/** Time after the end of a replay at which counting stops, because all retries have ended by then. */
const countedMsMax = 7 * 86_400_000
const countAgainMsMax = 600_000
const countAgainMsMin = 5_000

/** Returns the wait before the next count of an ended replay; undefined if no count is needed. */
export function countAgainMs(
  { pendingCount, failedCount }: ReplayOutcome,
  endedSinceMs: number,
): number | undefined {
  if (endedSinceMs > countedMsMax) return undefined
  // A failed event can be replayed again, which changes the counts.
  if (pendingCount === 0) return failedCount > 0 ? countAgainMsMax : undefined
  return Math.min(countAgainMsMax, Math.max(countAgainMsMin, endedSinceMs / 4))
}

/**
 * Counts the outcome of a replay and stores it in the replay's row if it has changed, so that lists show the same as the page. Requires a
 * pool with `eventReadSettings`. @throws errors of Postgres
 */
export async function countOutcome(pool: Pool, job: ReplayJob, nowMs: number): Promise<ReplayJob> {
  if (job.queuedCount === 0) return job
  const outcome = await readReplayOutcome(pool, job.id, nowMs)
  if (!Bun.deepEquals(outcome, job.outcome)) await saveOutcome(pool, job, outcome, nowMs)
  return { ...job, outcome, progress: progressText({ ...job, outcome }) }
}

/** Writes nothing if another process has saved an outcome since `job` was read: it may be newer. @throws errors of Postgres */
export async function saveOutcome(
  pool: Pool,
  job: Pick<ReplayJob, 'id' | 'outcome' | 'endedAtMs'>,
  outcome: ReplayOutcome | null,
  nowMs: number,
): Promise<void> {
  await pool.query({
    name: 'save_replay_outcome',
    text: 'UPDATE replays SET outcome = $2, count_at = $3 WHERE id = $1 AND outcome IS NOT DISTINCT FROM $4::jsonb',
    values: [job.id, jsonOf(outcome), countAtOf(job, outcome, nowMs), jsonOf(job.outcome)],
  })
}

const jsonOf = (outcome: ReplayOutcome | null) => outcome && JSON.stringify(outcome)

/** Returns when to count again; null if no count is needed. An unfinished replay is due as soon as it ends. */
function countAtOf(
  { endedAtMs }: Pick<ReplayJob, 'endedAtMs'>,
  outcome: ReplayOutcome | null,
  nowMs: number,
): Date | null {
  if (endedAtMs === null) return new Date(nowMs)
  const againMs = outcome === null ? undefined : countAgainMs(outcome, nowMs - endedAtMs)
  return againMs === undefined ? null : new Date(nowMs + againMs)
}

/**
 * Counts the outcomes of ended replays that are due, at most 20. Requires a pool with `eventReadSettings`.
 * @throws errors of Postgres before the first replay; later errors are reported to `onFailed`
 */
export async function countDueOutcomes(pool: Pool, turn: ReplayTurn): Promise<void> {
  const { nowMs } = turn
  await forEachDue(pool, 'count_at', turn, async (job) => {
    const outcome = job.queuedCount === 0 ? null : await readReplayOutcome(pool, job.id, nowMs)
    await saveOutcome(pool, job, outcome, nowMs)
  })
}

/** Maximum replays of the tenant, and of all tenants, that are searched for the delivery cycles of an event. */
const searchedMax = 50

/**
 * Finds the replays that began delivery cycles of an event, by cycle number. Searches the first 1 000 queued events of the 50 latest
 * replays of its tenant and, with `isWide`, of the 50 latest of all tenants since the event was received. Takes no locks.
 * @throws errors of Postgres
 */
export async function findReplaysOfEvent(
  pool: Pool,
  { id, tenantId, isWide }: { readonly id: EventId; readonly tenantId: TenantId; readonly isWide: boolean },
): Promise<ReadonlyMap<number, ReplayId>> {
  const latest = (owner: string) =>
    `(SELECT id, queued FROM replays WHERE ${owner} AND id > $3 ORDER BY id DESC LIMIT ${searchedMax})`
  const { rows } = await pool.query<{ id: ReplayId; cycle: number }>({
    name: 'find_replays_of_event',
    text: `SELECT r.id, split_part(q, ':', 2)::integer AS cycle
      FROM (${latest('tenant_id = $2')} UNION ALL ${latest('$4 AND tenant_id IS NULL')}) r
      CROSS JOIN LATERAL unnest(r.queued) q WHERE q ^@ $1`,
    // Replay ids sort by time as event ids do: the third parameter is the lowest id of a replay that began after the event was received.
    values: [`${id}:`, tenantId, lowestIdOf(receivedAtMsOf(id)).replace('evt_', 'rpl_'), isWide],
  })
  return new Map(rows.map((row) => [row.cycle, row.id]))
}
