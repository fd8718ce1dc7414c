import type { Pool } from '#internal/storage/index.ts'
import { type ReplayId, type ReplayJob, readReplay } from './job.ts'

/** One turn over ended replays that are due for a count or a notification. */
export interface ReplayTurn {
  readonly nowMs: number
  /** Called for each replay that failed; the turn then continues with the next one. Must not throw. */
  readonly onFailed: (id: ReplayId, cause: unknown) => void
  /** Ends the turn before the next replay. */
  readonly signal?: AbortSignal
}

export interface EndedReplay extends ReplayJob {
  readonly endedAtMs: number
}

/** The rest follows in the next turn. */
const perTurnMax = 20
/** Time after which a replay that failed, or whose process ended, is due again. */
const againMs = 30_000

/**
 * Calls `work` for ended replays that are due by a column, at most 20. First makes each due again in 30 s, so that a replay that always
 * fails does not hold up the others; `work` sets another time. Any number of processes can call it: each replay is given to one.
 * @throws errors of Postgres before the first replay; later errors are reported to `onFailed`
 */
export async function forEachDue(
  pool: Pool,
  column: 'count_at' | 'notify_at',
  { nowMs, onFailed, signal }: ReplayTurn,
  work: (job: EndedReplay) => Promise<void>,
): Promise<void> {
  const { rows } = await pool.query<{ id: ReplayId }>({
    name: `take_replays_by_${column}`,
    text: `UPDATE replays SET ${column} = $2 WHERE id IN (
        SELECT id FROM replays WHERE ${column} <= $1 AND ended_at IS NOT NULL
        ORDER BY ${column} LIMIT ${perTurnMax} FOR UPDATE SKIP LOCKED)
      RETURNING id`,
    values: [new Date(nowMs), new Date(nowMs + againMs)],
  })
  for (const { id } of rows) {
    if (signal?.aborted === true) return
    try {
      const job = await readReplay(pool, { id })
      if (job && job.endedAtMs !== null) await work({ ...job, endedAtMs: job.endedAtMs })
    } catch (cause) {
      onFailed(id, cause)
    }
  }
}
