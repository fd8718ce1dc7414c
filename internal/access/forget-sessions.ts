import type { Pool, RemovedRows } from '#internal/storage/index.ts'
import { sessionIdleMsMax } from './session.ts'
import { removeSessionsOver } from './session-store.ts'

/** Removes sessions that are over, at most 5 000. Repeating it is safe. @throws whatever Postgres throws */
export function forgetSessions(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return removeSessionsOver(pool, { nowMs, idleSinceMs: nowMs - sessionIdleMsMax })
}
