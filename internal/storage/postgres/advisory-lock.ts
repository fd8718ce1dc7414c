import type { Pool, PoolClient } from './pool.ts'

/** Session-level advisory lock of Postgres that this process holds. */
export interface AdvisoryLock {
  /** Connection that holds the lock. It belongs to the lock until `close`. */
  readonly session: PoolClient
  /** Closes the connection, which frees the lock. */
  readonly close: () => void
}

/**
 * Takes a session-level advisory lock without waiting. Returns undefined if another session holds it. `onError` is called when the
 * connection breaks while the lock is held; must not throw.
 * @throws errors of Postgres, after the connection was closed
 */
export async function tryAdvisoryLock(
  pool: Pool,
  key: number,
  onError: (error: Error) => void = () => undefined,
): Promise<AdvisoryLock | undefined> {
  const session = await pool.connect()
  // The pool has no error listener on a connection in use. Without a listener, an error event would become an uncaught exception.
  session.on('error', onError)
  try {
    const { rows } = await session.query<{ isOurs: boolean }>(
      'SELECT pg_try_advisory_lock($1::bigint) AS "isOurs"',
      [key],
    )
    if (rows[0]?.isOurs === true) return { session, close: () => session.release(true) }
    session.off('error', onError)
    session.release()
    return undefined
  } catch (error) {
    session.release(true)
    throw error
  }
}
