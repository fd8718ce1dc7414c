import type { Pool } from '#internal/storage/index.ts'
import { type ReplayId, type ReplayJob, readReplay } from './job.ts'

/** One pass over the ended replays whose outcome must be counted, or whose owners must be notified. */
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

/** Maximum replays per turn. The others follow in the next turn. */
const perTurnMax = 20
/** Time after which a replay that failed, or whose process ended, is due again. */
const againMs = 30_000

/**
 * Calls `work` for at most 20 ended replays whose time in `column` has come. First postpones each one by 30 s, so that a replay that always
 * fails does not delay the others; `work` then sets the next time. If several processes call this, each replay is given to only one.
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
