import type { Clock, TenantId } from '#internal/base/index.ts'
import {
  beginCycles,
  type CycleResult,
  cycleEventsMax,
  hasDueRetries,
  type Queryable,
  type QueueId,
  rangeBeyond,
  rangeOf,
  type ScannedEvents,
  scanEvents,
} from '#internal/events/index.ts'
import {
  classifySqlError,
  type Pool,
  purgeByKey,
  type RemovedRows,
  textArrayParam,
  withTx,
} from '#internal/storage/index.ts'
import { isReplayed, type ReplayFilter, type ReplayId } from './job.ts'
import { outcomeEventsMax, queuedText } from './outcome.ts'

/** `idle`: no replay is due. `waiting`: the tenant has too many due retries. `failed`: the step is retried, or the replay has failed. */
export type ReplayStep =
  | { readonly kind: 'idle' }
  | { readonly kind: 'waiting' | 'failed'; readonly id: ReplayId; readonly cause?: unknown }
  | {
      readonly kind: 'stepped'
      readonly id: ReplayId
      readonly queuedCount: number
      readonly skippedCount: number
      /** Tenant queues with new deliveries. */
      readonly queueIds: readonly QueueId[]
      readonly isCompleted: boolean
    }

/** Interval between two steps of a replay whose rate allows several events per interval. */
const stepMs = 500
/** Maximum delay that later steps make up for, to prevent a burst of events after a long delay. */
const lateMsMax = 1_000
/** Minimum time between two steps, so that a filter with few matches does not keep Postgres busy. */
const pauseMsMin = 100
/** Maximum events examined in a step if no index covers the filter. */
const examinedMax = 5_000
/** Number of the tenant's due retries and replays at which its replay waits. */
const waitingRowsMax = 1_000
const waitMs = 1_000
/** Number of consecutive failed steps at which a replay fails. The wait for the next step grows after each failure. */
const failuresMax = 10
/** Maximum age of an unfinished replay in days. An older one fails. */
const ageDaysMax = 7

interface Picked {
  readonly id: ReplayId
  readonly tenantId: TenantId | null
  readonly filter: ReplayFilter
  readonly rate: number
  readonly examinedTo: string | null
  readonly endsBefore: string
  readonly isOld: boolean
}

// The row lock is the lease: other processes skip a locked row. A crash of the process releases the lock and rolls back the step.
const pickText = `
SELECT id, tenant_id AS "tenantId", filter - 'asked' AS filter, rate_per_second AS rate, examined_to AS "examinedTo", ends_before AS "endsBefore",
  created_at < now() - interval '${ageDaysMax} days' AS "isOld"
FROM replays WHERE state IN ('queued', 'running') AND next_step_at <= now() ORDER BY next_step_at LIMIT 1 FOR UPDATE SKIP LOCKED`

/**
 * Performs one step of the next replay in one transaction: begins another delivery cycle for as many events as the rate allows in half a
 * second, at most 500. Any number of processes can call it; an interrupted step has no effect. Requires a pool with `eventReadSettings`.
 * @throws errors of Postgres before a replay was picked; later errors are in the result
 */
export async function stepReplay(pool: Pool, nowMs: number): Promise<ReplayStep> {
  let picked: Picked | undefined
  try {
    return await withTx(pool, async (client) => {
      picked = (await client.query<Picked>(pickText)).rows[0]
      if (picked === undefined) return { kind: 'idle' }
      if (picked.isOld) return await end(client, picked, 'too_old')
      return await step(client, picked, nowMs)
    })
  } catch (cause) {
    if (picked === undefined) throw cause
    await snooze(pool, picked.id, causeOf(cause))
    return { kind: 'failed', id: picked.id, cause }
  }
}

async function step(client: Queryable, job: Picked, nowMs: number): Promise<ReplayStep> {
  if (job.tenantId !== null && (await hasDueRetries(client, job.tenantId, waitingRowsMax))) {
    await client.query(
      `UPDATE replays SET is_waiting = true, next_step_at = now() + interval '${waitMs} ms' WHERE id = $1`,
      [job.id],
    )
    return { kind: 'waiting', id: job.id }
  }
  const { events: matching, searchedTo } = await nextEvents(client, job, nowMs)
  const events = matching.filter(isReplayed)
  const { tenantId, state } = job.filter
  const results = await beginCycles(
    client,
    {
      // Includes events in the state `accepted`: some of these wait for a pull, and the replay queues them.
      ids: events.map(({ id }) => id),
      ...(tenantId !== undefined && { tenantId }),
      ...(state !== undefined && { state }),
    },
    nowMs,
  )
  const skipped: Record<string, number> = {}
  const skip = (outcome: string) => (skipped[outcome] = (skipped[outcome] ?? 0) + 1)
  for (const { outcome } of results) if (outcome !== 'queued') skip(outcome)
  const queued = results.filter(({ outcome }) => outcome === 'queued')
  await advance(client, job, { queued, skipped, searchedTo })
  return {
    kind: 'stepped',
    id: job.id,
    queuedCount: queued.length,
    isCompleted: searchedTo === undefined,
    skippedCount: events.length - queued.length,
    queueIds: [...new Set(queued.flatMap((result) => result.queueId ?? []))],
  }
}

async function nextEvents(client: Queryable, job: Picked, nowMs: number): Promise<ScannedEvents> {
  const whole = rangeOf(job.filter, nowMs)
  const bounded = job.endsBefore < whole.highId ? { ...whole, highId: job.endsBefore } : whole
  const range = job.examinedTo === null ? bounded : rangeBeyond(bounded, job.examinedTo, 'oldest')
  const rowsMax = Math.min(cycleEventsMax, Math.max(1, Math.ceil((job.rate * stepMs) / 1_000)))
  return await scanEvents(client, { filter: job.filter, range, order: 'oldest', rowsMax, examinedMax })
}

// The number of queued events and the rate determine the time of the next step.
async function advance(
  client: Queryable,
  { id, rate }: Picked,
  done: {
    readonly queued: readonly CycleResult[]
    readonly skipped: Readonly<Record<string, number>>
    readonly searchedTo: string | undefined
  },
): Promise<void> {
  const { queued, skipped, searchedTo } = done
  const queuedCount = queued.length
  await client.query({
    text: `UPDATE replays SET state = CASE WHEN $2::text IS NULL THEN 'completed' ELSE 'running' END,
        examined_to = coalesce($2, examined_to), queued_count = queued_count + $3,
        queued = CASE WHEN cardinality(queued) < ${outcomeEventsMax} THEN (queued || $6::text[])[1:${outcomeEventsMax}] ELSE queued END, is_waiting = false, failures = 0,
        skipped = skipped || coalesce((SELECT jsonb_object_agg(key, coalesce((skipped ->> key)::bigint, 0) + value::bigint)
          FROM jsonb_each_text($4::jsonb)), '{}'),
        started_at = coalesce(started_at, now()), ended_at = CASE WHEN $2::text IS NULL THEN now() END,
        count_at = now(), next_step_at = greatest(next_step_at, now() - interval '${lateMsMax} ms') + $5 * interval '1 ms'
      WHERE id = $1`,
    values: [
      id,
      searchedTo ?? null,
      queuedCount,
      JSON.stringify(skipped),
      Math.max(pauseMsMin, (queuedCount * 1_000) / rate),
      textArrayParam(queued.map(queuedText)),
    ],
  })
}

async function end(client: Queryable, { id }: Picked, cause: string): Promise<ReplayStep> {
  await client.query(
    `UPDATE replays SET state = 'failed', failed_cause = $2, ended_at = now(), is_waiting = false WHERE id = $1`,
    [id, cause],
  )
  return { kind: 'failed', id, cause: new Error(`replay failed: ${cause}`) }
}

// Delays the next step of a replay after a failed step was rolled back, so that other replays are not blocked.
async function snooze(pool: Pool, id: ReplayId, cause: string): Promise<void> {
  await pool.query({
    text: `UPDATE replays SET failures = failures + 1, failed_cause = $2,
        next_step_at = now() + least(60, power(2, failures)) * interval '1 s',
        state = CASE WHEN failures + 1 >= ${failuresMax} THEN 'failed' ELSE state END,
        ended_at = CASE WHEN failures + 1 >= ${failuresMax} THEN now() END
      WHERE id = $1 AND state IN ('queued', 'running')`,
    values: [id, cause],
  })
}

/** Limits an error to the part that the requester can see: the SQLSTATE, or whether Postgres or this service failed. */
function causeOf(error: unknown): string {
  const { kind, code } = classifySqlError(error)
  if (/^[0-9A-Z]{5}$/.test(code)) return code
  return kind === 'unavailable' ? 'unavailable' : 'internal'
}

/** Maximum steps per call of `stepReplays`, so that a call stays short. */
const stepsPerTurnMax = 40

/**
 * Performs steps until no replay is due, at most 40. Any number of processes share the replays.
 * @param onStep called for each step that changed something or failed. Must not throw
 * @throws errors of Postgres while it is unavailable
 */
export async function stepReplays(
  { pool, clock }: { readonly pool: Pool; readonly clock: Clock },
  onStep: (step: Exclude<ReplayStep, { readonly kind: 'idle' }>) => void,
  signal: AbortSignal,
): Promise<void> {
  for (let steps = 0; steps < stepsPerTurnMax && !signal.aborted; steps += 1) {
    const result = await stepReplay(pool, clock.now())
    if (result.kind === 'idle') return
    onStep(result)
  }
}

const forgottenMax = 1_000
/** Retention of an ended replay, in milliseconds: the maximum retention of events, after which no replayed event is left. */
const keptMs = 90 * 86_400_000

/**
 * Removes at most 1 000 replays that ended over 90 days ago, oldest first, with their idempotency keys. Safe to repeat.
 * @throws errors of Postgres
 */
export async function forgetReplays(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const { rowCount } = await pool.query({
    name: 'forget_replays',
    text: `DELETE FROM replays WHERE id = ANY(ARRAY(
      SELECT id FROM (SELECT id, ended_at FROM replays ORDER BY id LIMIT ${forgottenMax}) oldest WHERE ended_at < $1))`,
    values: [new Date(nowMs - keptMs)],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === forgottenMax }
}

/** Removes a deleted tenant's replay jobs. */
export const purgeReplays = purgeByKey('replays', ['id'])
