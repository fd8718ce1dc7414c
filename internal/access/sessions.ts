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

/** Session of the dashboard. */
export interface Session {
  readonly actor: Actor
  readonly name: string
  readonly startedAtMs: number
  /** Latest end; the session ends earlier if it is idle. */
  readonly endsAtMs: number
  /** Required in every form and every request that changes data. */
  readonly csrfToken: string
}

/** `token` is the value of the cookie and must not appear anywhere else. */
type SessionStarted =
  | { readonly kind: 'started'; readonly token: string; readonly session: Session }
  | { readonly kind: 'full' }

const hourMs = 3_600_000
/** Maximum lifetime of a session. */
export const sessionMsMax = 8 * hourMs
/** Idle timeout of a session. */
export const sessionIdleMsMax = hourMs
/** Interval between writes of a session's last use, so that most requests write nothing. */
const touchEveryMs = 60_000
const sessionsPerActorMax = 10
const sessionsMax = 10_000
const removedMax = 5_000
const tokenBytes = 32
const tokenPattern = /^[\w-]{43}$/
/** Serializes sign-ins (advisory lock). */
const startLock = 7_260_114

type Row = typeof table.$inferSelect

/** Session store of the dashboard; see `createSessions`. */
export type Sessions = ReturnType<typeof createSessions>

/** Creates the session store. Sessions are in Postgres, so every pod sees the same ones. Methods throw errors of Postgres. */
export function createSessions({
  pool,
  clock,
  access,
}: {
  readonly pool: Pool
  readonly clock: Clock
  readonly access: Pick<Access, 'stillCounts'>
}) {
  return {
    /**
     * Signs in for at most 8 h, and not longer than the credential is valid. An actor can have ten sessions: a further sign-in ends the
     * oldest. Writes an audit entry for each start and end.
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
        // Holds the lock until the commit, so that a concurrent sign-in waits and then counts this session.
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
     * Finds a session unless it has ended. It ends at `endsAtMs`, after an hour without use, at sign-out, or when its API key becomes
     * invalid. `isUse: false` (automatic page refreshes) does not extend the idle timeout.
     */
    async find(
      token: string,
      { isUse = true } = {},
    ): Promise<
      { readonly kind: 'session'; readonly session: Session } | { readonly kind: 'none' } | Unavailable
    > {
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
    /** Ends the session in all pods and writes an audit entry. Repeating it is safe. */
    async end(token: string): Promise<void> {
      if (!tokenPattern.test(token)) return
      await withTx(pool, (client) => endSession(client, idOf(token), clock.now()))
    },
  }
}

/** Does nothing if the session has already ended. */
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

/** Deletes ended sessions, at most 5 000 per call. Repeating it is safe. @throws errors of Postgres */
export async function forgetSessions(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const removed = await deleteEnded(pool, nowMs)
  return { removed, hasMore: removed === removedMax }
}

/** Deletes the sessions of a deleted tenant. */
export const purgeSessions = purgeByKey('sessions', ['id_sha256'])

/** Returns whether a form's CSRF token belongs to a session. Compares in constant time. */
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

/** Returns the digest of a token. Only the digest is stored, so that nobody can sign in with the contents of the table. */
function idOf(token: string): Buffer {
  return Buffer.from(Bun.SHA256.hash(token) as Uint8Array)
}

/** Options of a session cookie. */
export interface CookieOptions {
  /** Makes the cookie `Secure`. Browsers do not return such a cookie over plain HTTP, for example through a port-forward. */
  readonly isHttps: boolean
}

/** Binds the cookie to this host and all of its paths with `__Host-`, so that no other host of the domain can set it. */
const cookieNameOf = ({ isHttps }: CookieOptions) => (isHttps ? '__Host-latchkey' : 'latchkey')

function attributesOf({ isHttps }: CookieOptions): string {
  return `Path=/; HttpOnly; SameSite=Strict${isHttps ? '; Secure' : ''}`
}

/** Returns the `Set-Cookie` header of a sign-in. The browser deletes the cookie when its session ends. */
export function sessionCookie(token: string, options: CookieOptions): string {
  return `${cookieNameOf(options)}=${token}; ${attributesOf(options)}`
}

/** Returns the `Set-Cookie` header that deletes the session cookie. */
export function clearedSessionCookie(options: CookieOptions): string {
  return `${cookieNameOf(options)}=; Max-Age=0; ${attributesOf(options)}`
}

/** Returns undefined if the header contains no session cookie or two of them. */
export function readSessionCookie(cookies: string | null, options: CookieOptions): string | undefined {
  const name = cookieNameOf(options)
  const values = (cookies ?? '').split(';').flatMap((pair) => {
    const equals = pair.indexOf('=')
    return equals > 0 && pair.slice(0, equals).trim() === name ? [pair.slice(equals + 1).trim()] : []
  })
  return values.length === 1 && values[0] !== '' ? values[0] : undefined
}
