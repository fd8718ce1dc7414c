import { createHmac, timingSafeEqual } from 'node:crypto'
import { and, asc, count, eq, inArray, lt, lte, or, sql } from 'drizzle-orm'
import { type Clock, randomToken } from '#internal/base/index.ts'
import {
  orm,
  type Pool,
  type PoolClient,
  purgeByKey,
  type RemovedRows,
  withTx,
} from '#internal/storage/index.ts'
import type { Access, Unavailable } from './access.ts'
import { type Actor, actorName } from './actor.ts'
import { writeAudit } from './audit.ts'
import { sessions as table } from './tables.ts'

/** A session of the dashboard. */
export interface Session {
  readonly actor: Actor
  readonly name: string
  readonly startedAtMs: number
  /** Latest end; an idle session ends earlier. */
  readonly endsAtMs: number
  /** Token that every form carries and every change must return. */
  readonly csrfToken: string
}

/** Result of looking up a session. */
export type SessionFound =
  | { readonly kind: 'session'; readonly session: Session }
  | { readonly kind: 'none' }
  | Unavailable

/** Result of signing in. `token` is for the cookie only. */
export type SessionStarted =
  | { readonly kind: 'started'; readonly token: string; readonly session: Session }
  /** The maximum of sessions is reached. */
  | { readonly kind: 'full' }

/** Dependencies of sessions. */
export interface SessionsOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly access: Pick<Access, 'stillCounts'>
}

const hourMs = 3_600_000
/** Maximum duration of a session. */
export const sessionMsMax = 8 * hourMs
/** Duration after which an unused session ends. */
export const sessionIdleMsMax = hourMs
/** Interval at which use is stored, so that most requests write nothing. */
const touchEveryMs = 60_000
const sessionsPerActorMax = 10
const sessionsMax = 10_000
const removedMax = 5_000
const tokenBytes = 32
const tokenPattern = /^[\w-]{43}$/
/** Key of the advisory lock that makes sign-ins run one after the other. */
const startLock = 7_260_114

type Row = typeof table.$inferSelect

/** See `createSessions`. */
export type Sessions = ReturnType<typeof createSessions>

/** Creates the sessions of the dashboard, stored in Postgres: every pod sees the same. Methods throw what Postgres throws. */
export function createSessions({ pool, clock, access }: SessionsOptions) {
  return {
    /**
     * Signs an actor in, for at most 8 h and no longer than its credential. Ends its oldest session beyond ten. Writes an audit row for
     * each.
     */
    async start(actor: Actor, credentialEndsAtMs: number | null): Promise<SessionStarted> {
      const nowMs = clock.now()
      const token = randomToken(tokenBytes)
      const endsAt = new Date(Math.min(nowMs + sessionMsMax, credentialEndsAtMs ?? Infinity))
      const now = new Date(nowMs)
      const tenantId = actor.kind === 'tenantKey' ? actor.tenantId : null
      const row = { idSha256: idOf(token), actor, name: actorName(actor), tenantId, endsAt }
      const isStarted = await withTx(pool, async (client) => {
        const db = orm(client)
        // Until the commit: the next sign-in counts this one.
        await db.execute(sql`SELECT pg_advisory_xact_lock(${startLock})`)
        await deleteEnded(client, nowMs)
        const [all] = await db.select({ count: count() }).from(table)
        const own = await db
          .select({ idSha256: table.idSha256 })
          .from(table)
          .where(eq(table.name, row.name))
          .orderBy(asc(table.startedAt), asc(table.idSha256))
        const surplus = own.slice(0, Math.max(0, own.length - sessionsPerActorMax + 1))
        if ((all?.count ?? 0) - surplus.length >= sessionsMax) return false
        for (const { idSha256 } of surplus) await endSession(client, idSha256, nowMs)
        await db.insert(table).values({ ...row, startedAt: now, seenAt: now })
        await auditSession(client, 'sessions.started', row, nowMs)
        return true
      })
      if (!isStarted) return { kind: 'full' }
      return { kind: 'started', token, session: sessionOf(token, { ...row, startedAt: now }) }
    },
    /**
     * Finds a live session. It ends by time, after an hour without use, by signing out, and with the key that began it. Automatic page
     * refreshes are no use (`isUse`, default true).
     */
    async find(token: string, { isUse = true } = {}): Promise<SessionFound> {
      if (!tokenPattern.test(token)) return { kind: 'none' }
      const nowMs = clock.now()
      const now = new Date(nowMs)
      const db = orm(pool)
      const [row] = await db
        .select()
        .from(table)
        .where(eq(table.idSha256, idOf(token)))
      if (!row || row.endsAt <= now || row.seenAt.getTime() <= nowMs - sessionIdleMsMax)
        return { kind: 'none' }
      const counts = access.stillCounts(row.actor)
      if (counts === 'unknown') return { kind: 'unavailable', retryAfterMs: 1_000 }
      if (counts === 'no') return { kind: 'none' }
      if (isUse && nowMs - row.seenAt.getTime() >= touchEveryMs)
        await db
          .update(table)
          .set({ seenAt: now })
          .where(and(eq(table.idSha256, row.idSha256), lt(table.seenAt, now)))
      return { kind: 'session', session: sessionOf(token, row) }
    },
    /** Signs out, for all pods once committed. Writes an audit row. Repeating it is harmless. */
    async end(token: string): Promise<void> {
      if (!tokenPattern.test(token)) return
      await withTx(pool, (client) => endSession(client, idOf(token), clock.now()))
    },
  }
}

/** Deletes a session and writes its audit row; does nothing for one that has ended. */
async function endSession(client: PoolClient, idSha256: Buffer, nowMs: number): Promise<void> {
  const [ended] = await orm(client).delete(table).where(eq(table.idSha256, idSha256)).returning()
  if (ended) await auditSession(client, 'sessions.ended', ended, nowMs)
}

function auditSession(
  client: PoolClient,
  action: 'sessions.started' | 'sessions.ended',
  { actor, name }: Pick<Row, 'actor' | 'name'>,
  nowMs: number,
): Promise<void> {
  const tenantId = actor.kind === 'tenantKey' ? actor.tenantId : null
  return writeAudit(client, { actor: name, action, tenantId, detail: { kind: actor.kind } }, nowMs)
}

async function deleteEnded(connection: Pool | PoolClient, nowMs: number): Promise<number> {
  const db = orm(connection)
  const idleSince = new Date(nowMs - sessionIdleMsMax)
  const ended = db
    .select({ id: table.idSha256 })
    .from(table)
    .where(or(lte(table.endsAt, new Date(nowMs)), lte(table.seenAt, idleSince)))
    .limit(removedMax)
  const { rowCount } = await db.delete(table).where(inArray(table.idSha256, ended))
  return rowCount ?? 0
}

/** Removes ended sessions, at most 5 000. Repeating it is safe. @throws what Postgres throws */
export async function forgetSessions(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const removed = await deleteEnded(pool, nowMs)
  return { removed, hasMore: removed === removedMax }
}

/** Removes a deleted tenant's sessions. */
export const purgeSessions = purgeByKey('sessions', ['id_sha256'])

/** Returns whether a form's token belongs to a session, in the same time for every wrong token. */
export function isCsrfToken(session: Session, given: string): boolean {
  const [own, other] = [session.csrfToken, given].map((each) => Buffer.from(each))
  return (
    own !== undefined && other !== undefined && own.length === other.length && timingSafeEqual(own, other)
  )
}

function sessionOf(
  token: string,
  { actor, name, startedAt, endsAt }: Pick<Row, 'actor' | 'name' | 'startedAt' | 'endsAt'>,
): Session {
  const csrfToken = createHmac('sha256', token).update('latchkey csrf').digest('base64url')
  return { actor, name, startedAtMs: startedAt.getTime(), endsAtMs: endsAt.getTime(), csrfToken }
}

/** Returns the stored id: a digest, so that reading the table does not allow signing in. */
function idOf(token: string): Buffer {
  return Buffer.from(Bun.SHA256.hash(token) as Uint8Array)
}

/** Transport of a session's cookie. */
export interface CookieOptions {
  /** False for plain HTTP, for example through a port-forward: a browser would not return a `Secure` cookie there. */
  readonly isHttps: boolean
}

/** The prefix `__Host-` binds the cookie to this host and all of its paths: no other host of the domain can set it. */
const cookieNameOf = ({ isHttps }: CookieOptions) => (isHttps ? '__Host-latchkey' : 'latchkey')

function attributesOf({ isHttps }: CookieOptions): string {
  return `Path=/; HttpOnly; SameSite=Strict${isHttps ? '; Secure' : ''}`
}

/** Returns the `Set-Cookie` header of a sign-in. The cookie lasts for the browser's session. */
export function sessionCookie(token: string, options: CookieOptions): string {
  return `${cookieNameOf(options)}=${token}; ${attributesOf(options)}`
}

/** Returns the `Set-Cookie` header of a sign-out. */
export function clearedSessionCookie(options: CookieOptions): string {
  return `${cookieNameOf(options)}=; Max-Age=0; ${attributesOf(options)}`
}

/** Returns the token of a request's `Cookie` header; undefined without one and with two. */
export function readSessionCookie(cookies: string | null, options: CookieOptions): string | undefined {
  const name = cookieNameOf(options)
  const values = (cookies ?? '').split(';').flatMap((pair) => {
    const equals = pair.indexOf('=')
    return equals > 0 && pair.slice(0, equals).trim() === name ? [pair.slice(equals + 1).trim()] : []
  })
  return values.length === 1 && values[0] !== '' ? values[0] : undefined
}
