import { createHmac, timingSafeEqual } from 'node:crypto'
import { type Clock, randomToken } from '#internal/base/index.ts'
import { type Pool, type PoolClient, withTx } from '#internal/storage/index.ts'
import type { Access, Unavailable } from './access.ts'
import { type Actor, actorName } from './actor.ts'
import { writeAudit } from './audit.ts'
import {
  deleteSession,
  deleteSessionsOver,
  findSession,
  insertSession,
  listSessions,
  lockSessions,
  touchSession,
} from './session-store.ts'

/** Somebody's session, as a request's cookie names it. */
export interface Session {
  readonly actor: Actor
  readonly name: string
  readonly startedAtMs: number
  /** At the latest: sooner where nobody uses it. */
  readonly endsAtMs: number
  /** To stand in each form of it and to come back with each change. */
  readonly csrfToken: string
}

/** What a cookie's token is worth. */
export type SessionFound =
  | { readonly kind: 'session'; readonly session: Session }
  | { readonly kind: 'none' }
  | Unavailable

/** What became of signing in. `token` is for the cookie alone. */
export type SessionStarted =
  | { readonly kind: 'started'; readonly token: string; readonly session: Session }
  /** As many are signed in as may be. */
  | { readonly kind: 'full' }

/** Who is signed in. In Postgres: whichever pod is asked, whatever pod ended since, the answer is the same. */
export interface Sessions {
  /**
   * Signs somebody in, for at most 8 h and no longer than what they showed counts. Their oldest session ends where they have ten.
   * Leaves an audit row of each. @throws whatever Postgres throws, as all here do
   */
  start(actor: Actor, credentialEndsAtMs: number | null): Promise<SessionStarted>
  /**
   * Finds a session that has not ended: by time, by an hour without use, by signing out, or with the key that began it. What nobody
   * does, as a page that looks again by itself, is no use (`isUse`, default true).
   */
  find(token: string, options?: { readonly isUse?: boolean }): Promise<SessionFound>
  /** Signs out: from its commit on no pod knows the session. Leaves an audit row. Repeating it is harmless. */
  end(token: string): Promise<void>
}

/** What sessions are kept with. */
export interface SessionsOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly access: Pick<Access, 'stillCounts'>
}

const hourMs = 3_600_000
/** How long a session lasts at most. */
export const sessionMsMax = 8 * hourMs
/** How long a session lasts that nobody uses. */
export const sessionIdleMsMax = hourMs
/** Use is written down this often, so that most requests write nothing. */
const touchEveryMs = 60_000
const sessionsPerActorMax = 10
const sessionsMax = 10_000
const tokenBytes = 32
const tokenPattern = /^[\w-]{43}$/

/** Makes the sessions of a process. Holds nothing of its own. */
export function createSessions({ pool, clock, access }: SessionsOptions): Sessions {
  const idleSinceMs = () => clock.now() - sessionIdleMsMax
  return {
    async start(actor, credentialEndsAtMs) {
      const nowMs = clock.now()
      const token = randomToken(tokenBytes)
      const endsAtMs = Math.min(nowMs + sessionMsMax, credentialEndsAtMs ?? Infinity)
      const name = actorName(actor)
      const row = { idSha256: idOf(token), actor, name, startedAtMs: nowMs, seenAtMs: nowMs, endsAtMs }
      const isStarted = await withTx(pool, async (client) => {
        await lockSessions(client)
        await deleteSessionsOver(client, { nowMs, idleSinceMs: idleSinceMs() })
        const { all, own } = await listSessions(client, name)
        const surplus = own.slice(0, Math.max(0, own.length - sessionsPerActorMax + 1))
        if (all - surplus.length >= sessionsMax) return false
        for (const old of surplus) await endSession(client, old, nowMs)
        await insertSession(client, row)
        const tenantId = actor.kind === 'tenantKey' ? actor.tenantId : null
        await writeAudit(
          client,
          { actor: name, action: 'sessions.started', tenantId, detail: { kind: actor.kind } },
          nowMs,
        )
        return true
      })
      return isStarted ? { kind: 'started', token, session: sessionOf(token, row) } : { kind: 'full' }
    },
    async find(token, { isUse = true } = {}) {
      if (!tokenPattern.test(token)) return { kind: 'none' }
      const nowMs = clock.now()
      const row = await findSession(pool, idOf(token))
      if (row === undefined || row.endsAtMs <= nowMs || row.seenAtMs <= idleSinceMs()) return { kind: 'none' }
      const counts = access.stillCounts(row.actor)
      if (counts === 'unknown') return { kind: 'unavailable', retryAfterMs: 1_000 }
      if (counts === 'no') return { kind: 'none' }
      if (isUse && nowMs - row.seenAtMs >= touchEveryMs) await touchSession(pool, row.idSha256, nowMs)
      return { kind: 'session', session: sessionOf(token, row) }
    },
    async end(token) {
      if (!tokenPattern.test(token)) return
      await withTx(pool, (client) => endSession(client, idOf(token), clock.now()))
    },
  }
}

/** Ends a session and leaves its audit row; nothing where it had ended. */
async function endSession(client: PoolClient, idSha256: Buffer, nowMs: number): Promise<void> {
  const ended = await deleteSession(client, idSha256)
  if (ended === undefined) return
  const { actor, name } = ended
  const tenantId = actor.kind === 'tenantKey' ? actor.tenantId : null
  await writeAudit(
    client,
    { actor: name, action: 'sessions.ended', tenantId, detail: { kind: actor.kind } },
    nowMs,
  )
}

/** Whether a form's token belongs to a session. Takes the same time for every wrong one. */
export function isCsrfToken(session: Session, given: string): boolean {
  const [own, other] = [session.csrfToken, given].map((text) => Buffer.from(text))
  return (
    own !== undefined && other !== undefined && own.length === other.length && timingSafeEqual(own, other)
  )
}

type SessionFacts = Pick<Session, 'actor' | 'name' | 'startedAtMs' | 'endsAtMs'>

function sessionOf(token: string, { actor, name, startedAtMs, endsAtMs }: SessionFacts): Session {
  return { actor, name, startedAtMs, endsAtMs, csrfToken: csrfTokenOf(token) }
}

/** Whoever has a form's token cannot make the cookie's of it, and whoever lacks the cookie cannot make the form's. */
function csrfTokenOf(token: string): string {
  return createHmac('sha256', token).update('latchkey csrf').digest('base64url')
}

/** What is stored in place of the token: whoever reads the table can sign in as nobody. */
function idOf(token: string): Buffer {
  return Buffer.from(Bun.SHA256.hash(token) as Uint8Array)
}
