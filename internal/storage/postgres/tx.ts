import type { Pool, PoolClient } from 'pg'

/**
 * Runs `fn` in one READ COMMITTED transaction and commits; when `fn` throws, rolls back and throws the same error. The
 * connection always goes back: also when BEGIN fails, which drizzle's own `transaction()` does not manage. A connection whose
 * state is unknown (BEGIN, COMMIT or ROLLBACK failed) is destroyed instead of reused. An error from COMMIT itself means that
 * the outcome is unknown, so `fn` must be safe to repeat.
 */
export async function withTx<T>(pool: Pool, fn: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  // A checked-out connection has no listener of the pool's; its breaking also rejects the query under way.
  let broken: Error | undefined
  const onError = (error: Error) => {
    broken = error
  }
  client.on('error', onError)
  try {
    await client.query('BEGIN')
    const result = await runOrRollBack(client, fn)
    await client.query('COMMIT')
    return result
  } catch (error) {
    if (!(error instanceof RolledBack)) {
      broken ??= asError(error)
      throw error
    }
    broken ??= error.connectionError
    throw error.cause
  } finally {
    client.off('error', onError)
    client.release(broken)
  }
}

/** Carries the error of `fn` past the handling of BEGIN and COMMIT, with what became of the connection. */
class RolledBack extends Error {
  readonly connectionError: Error | undefined
  constructor(cause: unknown, connectionError: Error | undefined) {
    super('rolled back', { cause })
    this.connectionError = connectionError
  }
}

async function runOrRollBack<T>(client: PoolClient, fn: (client: PoolClient) => Promise<T>): Promise<T> {
  try {
    return await fn(client)
  } catch (cause) {
    const connectionError = await client.query('ROLLBACK').then(() => undefined, asError)
    throw new RolledBack(cause, connectionError)
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error('a query failed', { cause: error })
}
