import type { Pool, PoolClient, RemovedRows } from '#internal/storage/index.ts'
import type { Actor } from './actor.ts'

/** A session as it is stored. */
export interface SessionRow {
  readonly idSha256: Buffer
  readonly actor: Actor
  readonly name: string
  readonly startedAtMs: number
  readonly seenAtMs: number
  readonly endsAtMs: number
}

/** A moment, and since when a session that was not used is over. */
export interface SessionMoment {
  readonly nowMs: number
  readonly idleSinceMs: number
}

type Connection = Pick<PoolClient, 'query'>

const columns = `id_sha256 AS "idSha256", actor, actor_name AS name, floor(extract(epoch FROM created_at) * 1000)::bigint AS "startedAtMs",
  floor(extract(epoch FROM seen_at) * 1000)::bigint AS "seenAtMs", floor(extract(epoch FROM ends_at) * 1000)::bigint AS "endsAtMs"`
const rowsMax = 5_000
/** Any number that nobody else takes; see `lockSessions`. */
const startLock = 7_260_114

/** One signs in at a time, so that those who count what is there see what the one before wrote. Until the transaction ends. */
export async function lockSessions(connection: Connection): Promise<void> {
  await connection.query('SELECT pg_advisory_xact_lock($1)', [startLock])
}

// By the key. A read, no locks; each request of a page makes it, so that a session that ended is known to nobody.
/** The session of an id, also one that is over by its times. */
export async function findSession(pool: Pool, idSha256: Buffer): Promise<SessionRow | undefined> {
  const { rows } = await pool.query<SessionRow>({
    name: 'find_session',
    text: `SELECT ${columns} FROM sessions WHERE id_sha256 = $1`,
    values: [idSha256],
  })
  return rows[0]
}

/** How many sessions there are, and the ids of somebody's, the oldest first. They are few, and read whole. */
export async function listSessions(
  connection: Connection,
  name: string,
): Promise<{ readonly all: number; readonly own: readonly Buffer[] }> {
  const { rows } = await connection.query<{ all: number; own: readonly Buffer[] }>(
    `SELECT (SELECT count(*) FROM sessions) AS all,
       ARRAY(SELECT id_sha256 FROM sessions WHERE actor_name = $1 ORDER BY created_at, id_sha256) AS own`,
    [name],
  )
  return rows[0] ?? { all: 0, own: [] }
}

/** Adds a session. */
export async function insertSession(connection: Connection, row: SessionRow): Promise<void> {
  const { idSha256, actor, name, startedAtMs, seenAtMs, endsAtMs } = row
  await connection.query(
    `INSERT INTO sessions (id_sha256, actor, actor_name, tenant_id, created_at, seen_at, ends_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7)`,
    [
      ...[idSha256, JSON.stringify(actor), name, actor.kind === 'tenantKey' ? actor.tenantId : null],
      ...[new Date(startedAtMs), new Date(seenAtMs), new Date(endsAtMs)],
    ],
  )
}

/** Notes that a session is used; never earlier than was noted before. One that is gone stays gone. */
export async function touchSession(pool: Pool, idSha256: Buffer, nowMs: number): Promise<void> {
  await pool.query('UPDATE sessions SET seen_at = $2 WHERE id_sha256 = $1 AND seen_at < $2', [
    idSha256,
    new Date(nowMs),
  ])
}

/** Removes a session and gives what it was. */
export async function deleteSession(
  connection: Connection,
  idSha256: Buffer,
): Promise<SessionRow | undefined> {
  const { rows } = await connection.query<SessionRow>(
    `DELETE FROM sessions WHERE id_sha256 = $1 RETURNING ${columns}`,
    [idSha256],
  )
  return rows[0]
}

/** Removes sessions that are over, at most 5 000. They are few, and read whole. Repeating it is safe. */
export async function deleteSessionsOver(connection: Connection, moment: SessionMoment): Promise<number> {
  const { rowCount } = await connection.query(
    `DELETE FROM sessions WHERE id_sha256 = ANY(ARRAY(
       SELECT id_sha256 FROM sessions WHERE ends_at <= $1 OR seen_at <= $2 LIMIT ${rowsMax}))`,
    [new Date(moment.nowMs), new Date(moment.idleSinceMs)],
  )
  return rowCount ?? 0
}

/** Removes sessions that are over, for retention. @throws whatever Postgres throws */
export async function removeSessionsOver(pool: Pool, moment: SessionMoment): Promise<RemovedRows> {
  const removed = await deleteSessionsOver(pool, moment)
  return { removed, hasMore: removed === rowsMax }
}
