import type { Pool, PoolClient } from 'pg'
import pg from 'pg'
import { asTlsFailure, type StoreAddress, type StoreTls, TlsFailure, tlsReader } from '../tls.ts'

/** Options of a connection pool. Every wait has a time limit. */
export interface PoolOptions extends StoreAddress {
  /** A `postgres://` URL. `?host=/dir` connects through a Unix socket. If `tls` is set, TLS options in the URL are ignored. */
  readonly url: string
  /** Shown in `pg_stat_activity`, so that a connection can be traced to its process. */
  readonly applicationName: string
  readonly connectionsMax: number
  /** Bounds each statement. The server cancels it; the client stops waiting `clientGraceMs` later. */
  readonly queryTimeoutMs: number
  /** Bounds the wait for a free connection, and the opening of a connection. */
  readonly connectTimeoutMs: number
  /** Age at which an idle connection and its cached plans are replaced. Default: never. */
  readonly lifetimeMsMax?: number
  /** Server settings, such as `jit: 'off'`. Values must be plain words. */
  readonly sessionSettings?: Readonly<Record<string, string>>
  /** Called for each idle connection that breaks, after its removal from the pool. Must not throw. */
  readonly onIdleError?: (error: Error) => void
}

export type { Pool, PoolClient } from 'pg'

/** Time for which the client waits longer than the server's time-out. Without a reply by then, the network or server has failed. */
const clientGraceMs = 250
const int8Oid = 20
/** Keeps parameters, which contain bodies, out of the server's error log, whatever its configuration is. */
const ownSettings = { log_parameter_max_length_on_error: '0' }

/**
 * Creates a pool without connecting, so that it does not fail while Postgres is unavailable. Returns `bigint` columns as numbers; a value
 * beyond 2^53 fails its query. The caller must end the pool.
 */
export function createPool(options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    Client: clientClass(options.tls),
    connectionString: options.tls === undefined ? options.url : withoutTlsOptions(options.url),
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
    options: commandLine({ ...ownSettings, ...options.sessionSettings }),
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: { getTypeParser: typeParser },
  })
  // Prevents the uncaught exception that a broken idle connection would cause without a listener.
  pool.on('error', (error) => options.onIdleError?.(error))
  return pool
}

/**
 * Reads the TLS files for each connection and converts TLS failures. `pg` sends the host of the URL as server name (SNI). The certificate
 * is verified against `tls.serverName`, or against the host if it is unset.
 */
function clientClass(tls: StoreTls | undefined): typeof pg.Client {
  const read = tls && tlsReader(tls)
  return class extends pg.Client {
    constructor(config?: string | pg.ClientConfig) {
      let host = ''
      super(read === undefined || typeof config !== 'object' ? config : { ...config, ssl: read(() => host) })
      host = this.host
    }

    override connect(): Promise<pg.Client>
    override connect(callback: OnConnected): void
    override connect(callback?: OnConnected): Promise<pg.Client> | void {
      if (callback === undefined) return super.connect()
      super.connect((error: Error) => Reflect.apply(callback, undefined, [namedTls(error)]))
    }
  }
}

type OnConnected = ((error: Error) => void) | ((error: null, client: pg.Client) => void)

/** Messages of errors without a code: https://github.com/brianc/node-postgres/blob/master/packages/pg/lib/connection.js (2026-11). */
const withoutTls: ReadonlySet<string> = new Set([
  'The server does not support SSL connections',
  'There was an error establishing an SSL connection',
])

function namedTls(error: Error): Error {
  // On success, `pg` calls back with null, although its types exclude null.
  if (error instanceof Error && withoutTls.has(error.message))
    return new TlsFailure('the server does not offer it', 'NO_TLS', error)
  return asTlsFailure(error)
}

/** Removes TLS options from a URL, because `pg` would prefer them to `tls`. */
function withoutTlsOptions(url: string): string {
  const start = url.indexOf('?')
  if (start < 0) return url
  const query = new URLSearchParams(url.slice(start + 1))
  for (const name of ['sslmode', 'ssl']) query.delete(name)
  return query.size === 0 ? url.slice(0, start) : `${url.slice(0, start)}?${query}`
}

/** Formats the startup parameter `options`: https://www.postgresql.org/docs/15/libpq-connect.html#LIBPQ-CONNECT-OPTIONS (read 2026-11). */
function commandLine(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' ')
}

/** Parses `bigint` text as a number, and all other types like `pg`. */
const typeParser: typeof pg.types.getTypeParser = (oid: number, format?: 'text' | 'binary') => {
  if (oid === int8Oid && format !== 'binary') return safeInteger
  return format === 'binary' ? pg.types.getTypeParser(oid, 'binary') : pg.types.getTypeParser(oid, 'text')
}

function safeInteger(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError('a bigint of the database is beyond 2^53')
  return value
}

/**
 * Runs `fn` in one READ COMMITTED transaction. If `fn` throws, rolls back and throws the same error. Always returns the connection to the
 * pool, also if BEGIN fails, unlike Drizzle's `transaction()`. Destroys the connection if BEGIN, COMMIT or ROLLBACK fails. After a failed
 * COMMIT the outcome is unknown, so `fn` must be safe to repeat.
 */
export async function withTx<T>(pool: Pool, fn: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  // Without this listener, a broken connection would end the process: the pool listens only on idle connections. The query rejects, too.
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

/** Distinguishes an error of `fn` from an error of BEGIN or COMMIT. */
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

const textOid = 25
const float8Oid = 701
const headerBytes = 20

/**
 * Encodes a `text[]` parameter in the binary format of Postgres. `pg` would write one quoted literal, which costs both sides several passes
 * over each JSON text. The statement needs a cast: `$1::text[]`. The server rejects a string with U+0000 (22021). Format: array_recv in
 * https://github.com/postgres/postgres/blob/REL_15_STABLE/src/backend/utils/adt/arrayfuncs.c
 */
export function textArrayParam(values: readonly (string | null)[]): Buffer {
  let length = headerBytes
  for (const value of values) length += 4 + (value === null ? 0 : Buffer.byteLength(value))
  const buffer = Buffer.allocUnsafe(length)
  // Header of the array: number of dimensions, "has nulls" flag and element type, then size and lower bound of the one dimension.
  buffer.writeInt32BE(1, 0)
  buffer.writeInt32BE(values.includes(null) ? 1 : 0, 4)
  buffer.writeInt32BE(textOid, 8)
  buffer.writeInt32BE(values.length, 12)
  buffer.writeInt32BE(1, 16)
  let at = headerBytes
  for (const value of values) {
    if (value === null) {
      at = buffer.writeInt32BE(-1, at)
      continue
    }
    const written = buffer.write(value, at + 4)
    buffer.writeInt32BE(written, at)
    at += 4 + written
  }
  return buffer
}

/** Encodes a `float8[]` parameter in binary, exact for integers up to 2^53. The statement needs a cast: `$1::float8[]`. */
export function numberArrayParam(values: readonly number[]): Buffer {
  const buffer = Buffer.allocUnsafe(headerBytes + 12 * values.length)
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.length)
  view.setInt32(0, 1)
  view.setInt32(4, 0)
  view.setInt32(8, float8Oid)
  view.setInt32(12, values.length)
  view.setInt32(16, 1)
  let at = headerBytes
  for (const value of values) {
    view.setInt32(at, 8)
    view.setFloat64(at + 4, value)
    at += 12
  }
  return buffer
}

/** Session-level advisory lock of Postgres that this process holds. */
export interface AdvisoryLock {
  /** Connection that belongs to the lock until `close`. */
  readonly session: PoolClient
  /** Closes the connection, which frees the lock. */
  readonly close: () => void
}

/**
 * Takes a session-level advisory lock without waiting. Returns undefined if another session holds it. Calls `onError`, which must not
 * throw, when the connection breaks while the lock is held.
 * @throws errors of Postgres, after the connection was closed
 */
export async function tryAdvisoryLock(
  pool: Pool,
  key: number,
  onError: (error: Error) => void = () => undefined,
): Promise<AdvisoryLock | undefined> {
  const session = await pool.connect()
  // Listens for error events of the connection in use: without a listener, one would be an uncaught exception.
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
