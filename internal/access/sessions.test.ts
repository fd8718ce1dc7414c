import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { type Actor, actorName, type KubeUser } from './actor.ts'
import { listAudit, writeAudit } from './audit.ts'
import {
  clearedSessionCookie,
  createSessions,
  forgetSessions,
  isCsrfToken,
  readSessionCookie,
  type Sessions,
  sessionCookie,
  sessionIdleMsMax,
  sessionMsMax,
} from './sessions.ts'

const startMs = Date.parse('2026-11-01T12:00:00Z')
let nowMs: number
let counts: 'yes' | 'no' | 'unknown'
let database: TestDatabase
let pool: Pool
let otherPod: Pool
const open = (name: string) => {
  const bounds = { connectionsMax: 8, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  return createPool({ url: database.url, applicationName: name, ...bounds })
}
beforeAll(async () => {
  database = await createMigratedDatabase()
  pool = open('one')
  otherPod = open('other')
})
afterAll(async () => {
  await pool.end()
  await otherPod.end()
  await database.drop()
})
beforeEach(async () => {
  nowMs = startMs
  counts = 'yes'
  await pool.query('TRUNCATE sessions, audit')
})

const sessionsOf = (of: Pool): Sessions =>
  createSessions({ pool: of, clock: { now: () => nowMs }, access: { stillCounts: () => counts } })
const ada: KubeUser = {
  kind: 'user',
  username: 'ada',
  uid: 'u-1',
  groups: ['support', 'größe'],
  extra: { 'example.org/from': ['vpn', ''] },
}
const key: Actor = { kind: 'tenantKey', tenantId: someTenantId(), keyName: 'default', keySha256: 'c2hh' }

async function signIn(actor: Actor = ada, endsAtMs: number | null = null) {
  const started = await sessionsOf(pool).start(actor, endsAtMs)
  if (started.kind !== 'started') throw new Error(started.kind)
  return started
}
const found = async (token: string) => (await sessionsOf(otherPod).find(token)).kind

describe('sessions', () => {
  test.each([ada, key, { kind: 'operator', name: 'dev', tokenSha256: 'c2hh' } as const])(
    'session: a session that one pod starts is found by another pod (actor %#)',
    async (actor) => {
      const { token, session } = await signIn(actor)
      expect(await sessionsOf(otherPod).find(token)).toEqual({ kind: 'session', session })
      expect(session).toMatchObject({
        actor,
        name: actorName(actor),
        startedAtMs: startMs,
        endsAtMs: startMs + sessionMsMax,
      })
    },
  )

  test('session: the stored row contains neither the session token nor the form token', async () => {
    const { token, session } = await signIn()
    const { rows } = await pool.query<{ row: string }>('SELECT s::text AS row FROM sessions s')
    expect(rows).toHaveLength(1)
    for (const secret of [token, Buffer.from(token, 'base64url').toString('hex'), session.csrfToken])
      expect(rows[0]?.row).not.toContain(secret)
  })

  test('session: signing out ends the session in every pod, and signing out again is harmless', async () => {
    const [mine, hers] = [await signIn(), await signIn(key)]
    expect(await found(mine.token)).toBe('session')
    await sessionsOf(pool).end(mine.token)
    await sessionsOf(otherPod).end(mine.token)
    expect([await found(mine.token), await found(hers.token)]).toEqual(['none', 'session'])
    const { entries } = await listAudit(pool)
    expect(entries.map(({ action, actor, tenantId }) => [action, actor, tenantId])).toEqual([
      ['sessions.ended', 'user:ada', null],
      ['sessions.started', actorName(key), key.tenantId],
      ['sessions.started', 'user:ada', null],
    ])
  })

  test('session: ends 8 h after sign-in, even if it is used', async () => {
    const { token } = await signIn()
    for (; nowMs < startMs + sessionMsMax; nowMs += 30 * 60_000) expect(await found(token)).toBe('session')
    expect(await found(token)).toBe('none')
  })

  test('session: ends after an hour without use', async () => {
    const [used, idle] = [await signIn(), await signIn()]
    nowMs += sessionIdleMsMax - 1
    expect(await found(used.token)).toBe('session')
    nowMs += 1
    expect([await found(used.token), await found(idle.token)]).toEqual(['session', 'none'])
  })

  test('session: ends after an hour with nothing but automatic refreshes', async () => {
    const { token } = await signIn()
    const look = async () => (await sessionsOf(otherPod).find(token, { isUse: false })).kind
    for (; nowMs < startMs + sessionIdleMsMax; nowMs += 5 * 60_000) expect(await look()).toBe('session')
    expect([await look(), await found(token)]).toEqual(['none', 'none'])
  })

  test('session: ends when the token used to sign in expires', async () => {
    const { token } = await signIn(ada, startMs + 600_000)
    nowMs += 599_999
    expect(await found(token)).toBe('session')
    nowMs += 1
    expect(await found(token)).toBe('none')
  })

  test('session: ends with the API key used to sign in, and is unavailable before the directory is read', async () => {
    const { token } = await signIn(key)
    counts = 'unknown'
    expect(await found(token)).toBe('unavailable')
    counts = 'no'
    expect(await found(token)).toBe('none')
  })

  test.each([
    ['an empty token', ''],
    ['a wrong token', 'x'.repeat(43)],
    ['a malformed token', '../../etc/passwd'],
  ])('session: a lookup with %s finds no session', async (_what, token) => {
    await signIn()
    expect(await found(token)).toBe('none')
    await sessionsOf(pool).end(token)
    expect((await pool.query('SELECT 1 FROM sessions')).rowCount).toBe(1)
  })

  test('session: the eleventh session of an actor ends the actor’s oldest session', async () => {
    const first = await signIn()
    const others = []
    for (let times = 0; times < 10; times += 1) {
      nowMs += 1
      others.push(await signIn())
    }
    const hers = await signIn(key)
    expect(await found(first.token)).toBe('none')
    expect(await found(hers.token)).toBe('session')
    const ended = (await listAudit(pool)).entries.filter(({ action }) => action === 'sessions.ended')
    expect(ended).toMatchObject([
      { actor: 'user:ada', tenantId: null, occurredAtMs: nowMs, detail: { kind: 'user' } },
    ])
    for (const { token } of others) expect(await found(token)).toBe('session')
  })

  test('session: concurrent sign-ins of an actor leave ten sessions', async () => {
    await Promise.all(Array.from({ length: 20 }, () => signIn()))
    expect((await pool.query('SELECT 1 FROM sessions')).rowCount).toBe(10)
  })

  test('session: sign-in is refused while ten thousand sessions exist', async () => {
    await pool.query(
      `INSERT INTO sessions SELECT sha256(convert_to(n::text, 'UTF8')), '{}', 'user:' || n, NULL, $1, $1, $2
       FROM generate_series(1, 10000) n`,
      [new Date(nowMs), new Date(nowMs + 1_000)],
    )
    expect(await sessionsOf(pool).start(ada, null)).toEqual({ kind: 'full' })
    nowMs += 1_000
    const { token } = await signIn()
    expect(await found(token)).toBe('session')
  })

  test('forgetSessions: deletes ended and idle sessions', async () => {
    const [over, idle, kept] = [await signIn(ada, startMs + 60_000), await signIn(), await signIn()]
    nowMs += sessionIdleMsMax - 1
    expect(await found(kept.token)).toBe('session')
    nowMs += 1
    expect(await forgetSessions(pool, nowMs)).toEqual({ removed: 2, hasMore: false })
    const left = await Promise.all([over, idle, kept].map(({ token }) => found(token)))
    expect(left).toEqual(['none', 'none', 'session'])
  })
})

describe('isCsrfToken', () => {
  test('isCsrfToken: accepts only the token of the given session', async () => {
    const [mine, hers] = [await signIn(), await signIn(key)]
    expect(isCsrfToken(mine.session, mine.session.csrfToken)).toBe(true)
    for (const wrong of ['', 'ü', hers.session.csrfToken, mine.token, `${mine.session.csrfToken}x`])
      expect(isCsrfToken(mine.session, wrong)).toBe(false)
  })
})

describe('session cookie', () => {
  const [https, http] = [{ isHttps: true }, { isHttps: false }]

  test('session cookie: is HttpOnly and SameSite=Strict, and over HTTPS also Secure with the prefix __Host-', () => {
    expect(sessionCookie('abc', https)).toBe('__Host-latchkey=abc; Path=/; HttpOnly; SameSite=Strict; Secure')
    expect(sessionCookie('abc', http)).toBe('latchkey=abc; Path=/; HttpOnly; SameSite=Strict')
    expect(clearedSessionCookie(https)).toBe(
      '__Host-latchkey=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict; Secure',
    )
  })

  test.each([
    ['the only cookie', '__Host-latchkey=abc', 'abc'],
    ['one of several cookies', 'a=b; __Host-latchkey=abc; c="d"', 'abc'],
    ['no header', null, undefined],
    ['similar names', 'latchkey=abc; x__Host-latchkey=d; __host-latchkey=e', undefined],
    ['an empty value', '__Host-latchkey=', undefined],
    ['two values', '__Host-latchkey=a; __Host-latchkey=b', undefined],
  ])('readSessionCookie: returns the expected token for %s', (_what, header, token) => {
    expect(readSessionCookie(header, https)).toBe(token)
  })
})

describe('listAudit', () => {
  test('listAudit: returns all entries, or those of one tenant, newest first', async () => {
    const [acme, other] = [someTenantId(), someTenantId()]
    const write = (nth: number) => {
      const tenantId = nth % 3 === 0 ? null : nth % 3 === 1 ? acme : other
      return writeAudit(
        pool,
        { actor: 'user:ada', action: 'payloads.read', tenantId, detail: { nth } },
        startMs + nth,
      )
    }
    for (let nth = 0; nth < 10; nth += 1) await write(nth)
    const read = async (tenantId?: typeof acme) => {
      const pages = []
      let beforeId: number | undefined
      do {
        const page = await listAudit(pool, { tenantId, beforeId, limit: 2 })
        pages.push(page.entries.map(({ detail }) => detail['nth']))
        beforeId = page.next
      } while (beforeId !== undefined)
      return pages
    }
    expect(await read()).toEqual([
      [9, 8],
      [7, 6],
      [5, 4],
      [3, 2],
      [1, 0],
    ])
    expect(await read(acme)).toEqual([[7, 4], [1]])
    const { entries } = await listAudit(pool, { tenantId: other, limit: 1 })
    expect(entries).toEqual([
      {
        id: expect.any(Number),
        occurredAtMs: startMs + 8,
        actor: 'user:ada',
        action: 'payloads.read',
        tenantId: other,
        detail: { nth: 8 },
      },
    ])
  })
})
