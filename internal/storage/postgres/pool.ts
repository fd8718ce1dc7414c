import pg from 'pg'

/** What a pool of connections is made with. Every wait in it has a bound. */
export interface PoolOptions {
  /** A `postgres://` URL; `?host=/dir` connects through a socket. */
  readonly url: string
  /** Shown in `pg_stat_activity`, so that a connection can be traced to its process. */
  readonly applicationName: string
  readonly connectionsMax: number
  /** Bound of one statement: the server ends it, and `clientGraceMs` later we stop waiting for the server. */
  readonly queryTimeoutMs: number
  /** Bound of waiting for a free connection and of making one. */
  readonly connectTimeoutMs: number
  /** A connection that is older is replaced when it is next idle, and with it the plans that its session remembers. Default never. */
  readonly lifetimeMsMax?: number
  /** Server settings of its sessions, such as `jit: 'off'`. Plain words only. */
  readonly sessionSettings?: Readonly<Record<string, string>>
  /** Told of connections that broke while idle; the pool has already dropped them. Must not throw. */
  readonly onIdleError?: (error: Error) => void
}

export type { Pool, PoolClient } from 'pg'

/** How much longer than the server's own time-out a client waits: then the network or the server is gone. */
const clientGraceMs = 250
const int8Oid = 20

/**
 * Makes a pool; connects nothing yet, so it does not fail when Postgres is away. `bigint` columns arrive as numbers, and a
 * value beyond 2^53 fails its query instead of being rounded. The caller ends the pool.
 */
export function createPool(options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.applicationName,
    max: options.connectionsMax,
    connectionTimeoutMillis: options.connectTimeoutMs,
    statement_timeout: options.queryTimeoutMs,
    query_timeout: options.queryTimeoutMs + clientGraceMs,
    idle_in_transaction_session_timeout: Math.max(10_000, options.queryTimeoutMs * 2),
    idleTimeoutMillis: 30_000,
    ...(options.lifetimeMsMax !== undefined && {
      maxLifetimeSeconds: Math.ceil(options.lifetimeMsMax / 1_000),
    }),
    ...(options.sessionSettings && { options: commandLine(options.sessionSettings) }),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: { getTypeParser: typeParser },
  })
  // Without a listener an idle connection's end would be an uncaught exception.
  pool.on('error', (error) => options.onIdleError?.(error))
  return pool
}

/** The startup parameter `options`: https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-CONNECT-OPTIONS (read 2026-11). */
function commandLine(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ')
}

/** The signature `pg` asks for is overloaded per type id and format; only text `bigint` differs from its own parsers. */
const typeParser: typeof pg.types.getTypeParser = (oid: number, format?: 'text' | 'binary') => {
  if (oid === int8Oid && format !== 'binary') return safeInteger
  return format === 'binary' ? pg.types.getTypeParser(oid, 'binary') : pg.types.getTypeParser(oid, 'text')
}

function safeInteger(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError('a bigint of the database is beyond 2^53')
  return value
}
