import type { TenantId } from '#internal/base/index.ts'
import {
  beginCycles,
  cycleEventsMax,
  type Queryable,
  rangeBeyond,
  rangeOf,
  type ScannedEvents,
  scanEvents,
} from '#internal/events/index.ts'
import { type Pool, sqlErrorOf, withTx } from '#internal/storage/index.ts'
import type { ReplayFilter, ReplayId } from './replay-job.ts'

/** What a step did. `idle`: no replay is to be worked on now; `waiting`: its tenant has enough to deliver; `failed`: tried again later. */
export type ReplayStep =
  | { readonly kind: 'idle' }
  | { readonly kind: 'waiting' | 'failed'; readonly id: ReplayId; readonly cause?: unknown }
  | {
      readonly kind: 'stepped'
      readonly id: ReplayId
      readonly queuedCount: number
      readonly skippedCount: number
      /** Who has new work. */
      readonly tenantIds: readonly TenantId[]
      readonly isCompleted: boolean
    }

/** Time between two steps of a replay whose rate allows several events in it. */
const stepMs = 500
/** A step that comes late may catch up so much, and no more: nobody is owed a burst. */
const lateMsMax = 1_000
/** Between two steps in any case, so that a filter that matches little does not keep Postgres busy with nothing else. */
const pauseMsMin = 100
/** Looked at in a step where no index knows the filter. */
const examinedMax = 5_000
/** Due retries and replays of a tenant, over which its replay stands still. */
const waitingRowsMax = 1_000
const waitMs = 1_000
/** Steps in a row that may fail, later and later. */
const failuresMax = 10
/** Whoever has not ended by then never will. */
const ageDaysMax = 7

type PickedRow = [
  id: ReplayId,
  tenantId: TenantId | null,
  filter: ReplayFilter,
  rate: number,
  examinedTo: string | null,
  endsBefore: string,
  isOld: boolean,
]

interface Picked {
  readonly id: ReplayId
  readonly tenantId: TenantId | null
  readonly filter: ReplayFilter
  readonly rate: number
  readonly examinedTo: string | null
  readonly endsBefore: string
}

// Whoever holds the row works on the replay, and nobody waits for it; the lock ends with the transaction, also that of a process
// that dies, and with it all that the step did.
const pickText = `
SELECT id, tenant_id, filter, rate_per_second, examined_to, ends_before, created_at < now() - interval '${ageDaysMax} days'
FROM replays WHERE state IN ('queued', 'running') AND next_step_at <= now() ORDER BY next_step_at LIMIT 1 FOR UPDATE SKIP LOCKED`

/**
 * Takes the replay whose turn it is one step further, in one transaction: at most half a second's worth of events, and 500, get
 * another delivery cycle. Any number of processes may call this. What is cut short was not done. Give it a pool with `eventReadSettings`.
 * @throws what Postgres throws while there is no replay to snoozed; otherwise it is in the result
 */
export async function stepReplay(pool: Pool, nowMs: number): Promise<ReplayStep> {
  let picked: Picked | undefined
  try {
    return await withTx(pool, async (client) => {
      const row = await pick(client)
      if (row === undefined) return { kind: 'idle' }
      picked = row.job
      if (row.isOld) return await end(client, row.job, 'too_old')
      return await step(client, row.job, nowMs)
    })
  } catch (cause) {
    if (picked === undefined) throw cause
    await snooze(pool, picked.id, causeOf(cause))
    return { kind: 'failed', id: picked.id, cause }
  }
}

async function pick(client: Queryable): Promise<{ job: Picked; isOld: boolean } | undefined> {
  const { rows } = await client.query<PickedRow>({ text: pickText, rowMode: 'array' })
  const [row] = rows
  if (row === undefined) return undefined
  const [id, tenantId, filter, rate, examinedTo, endsBefore, isOld] = row
  return { job: { id, tenantId, filter, rate, examinedTo, endsBefore }, isOld }
}

async function step(client: Queryable, job: Picked, nowMs: number): Promise<ReplayStep> {
  if (job.tenantId !== null && (await hasEnough(client, job.tenantId))) {
    await client.query(
      `UPDATE replays SET is_waiting = true, next_step_at = now() + interval '${waitMs} ms' WHERE id = $1`,
      [job.id],
    )
    return { kind: 'waiting', id: job.id }
  }
  const { events, searchedTo } = await nextEvents(client, job, nowMs)
  const { tenantId, state } = job.filter
  const results = await beginCycles(
    client,
    {
      ids: events.flatMap((event) => (event.state === 'accepted' ? [] : [event.id])),
      ...(tenantId !== undefined && { tenantId }),
      ...(state !== undefined && { state }),
    },
    nowMs,
  )
  const skipped: Record<string, number> = {}
  const skip = (fate: string) => (skipped[fate] = (skipped[fate] ?? 0) + 1)
  for (const { fate } of results) if (fate !== 'queued') skip(fate)
  for (const event of events) if (event.state === 'accepted') skip('already_queued')
  const queued = results.filter(({ fate }) => fate === 'queued')
  await advance(client, job, { queuedCount: queued.length, skipped, searchedTo })
  return {
    ...{ kind: 'stepped', id: job.id, queuedCount: queued.length, isCompleted: searchedTo === undefined },
    skippedCount: events.length - queued.length,
    tenantIds: [...new Set(queued.flatMap((result) => result.tenantId ?? []))],
  }
}

/** What is left of it is asked for oldest first, by the time of the start: what was received later is not among it. */
async function nextEvents(client: Queryable, job: Picked, nowMs: number): Promise<ScannedEvents> {
  const whole = rangeOf(job.filter, nowMs)
  const bounded = job.endsBefore < whole.highId ? { ...whole, highId: job.endsBefore } : whole
  const range = job.examinedTo === null ? bounded : rangeBeyond(bounded, job.examinedTo, 'oldest')
  const rowsMax = Math.min(cycleEventsMax, Math.max(1, Math.ceil((job.rate * stepMs) / 1_000)))
  return await scanEvents(client, { filter: job.filter, range, order: 'oldest', rowsMax, examinedMax })
}

// Bounded by its limit, and a step for each row under a lease, which is not counted.
async function hasEnough(client: Queryable, tenantId: TenantId): Promise<boolean> {
  const { rows } = await client.query<[number]>({
    text: `SELECT count(*) FROM (SELECT FROM deliveries_due WHERE tenant_id = $1 AND is_retry AND due_at <= now()
      AND leased_until <= now() LIMIT ${waitingRowsMax}) q`,
    rowMode: 'array',
    values: [tenantId],
  })
  return (rows[0]?.[0] ?? 0) >= waitingRowsMax
}

interface Advance {
  readonly queuedCount: number
  readonly skipped: Readonly<Record<string, number>>
  readonly searchedTo: string | undefined
}

// By key, a row that we hold. Each event that got a delivery cycle takes its share of a second.
async function advance(client: Queryable, { id, rate }: Picked, done: Advance): Promise<void> {
  const { queuedCount, skipped, searchedTo } = done
  await client.query({
    text: `UPDATE replays SET state = CASE WHEN $2::text IS NULL THEN 'completed' ELSE 'running' END,
        examined_to = coalesce($2, examined_to), queued_count = queued_count + $3, is_waiting = false, failures = 0,
        skipped = skipped || coalesce((SELECT jsonb_object_agg(key, coalesce((skipped ->> key)::bigint, 0) + value::bigint)
          FROM jsonb_each_text($4::jsonb)), '{}'),
        started_at = coalesce(started_at, now()), ended_at = CASE WHEN $2::text IS NULL THEN now() END,
        next_step_at = greatest(next_step_at, now() - interval '${lateMsMax} ms') + $5 * interval '1 ms'
      WHERE id = $1`,
    values: [
      id,
      searchedTo ?? null,
      queuedCount,
      JSON.stringify(skipped),
      Math.max(pauseMsMin, (queuedCount * 1_000) / rate),
    ],
  })
}

async function end(client: Queryable, { id }: Picked, cause: string): Promise<ReplayStep> {
  await client.query(
    `UPDATE replays SET state = 'failed', failed_cause = $2, ended_at = now(), is_waiting = false WHERE id = $1`,
    [id, cause],
  )
  return { kind: 'failed', id, cause: new Error(`a replay failed: ${cause}`) }
}

// By key, outside of the step, which was undone. Others that wait for their turn are not held up by one that fails.
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

/** What of an error may be shown to whoever asked: an SQLSTATE, or which side it lies on. */
function causeOf(error: unknown): string {
  const code = sqlErrorOf(error)?.code
  if (code !== undefined && /^[0-9A-Z]{5}$/.test(code)) return code
  return error instanceof RangeError || error instanceof TypeError ? 'internal' : 'unavailable'
}
