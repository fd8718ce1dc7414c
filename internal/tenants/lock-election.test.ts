import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import type { Leadership } from '#internal/kube/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { LockElection, type LockElectionEvent } from './lock-election.ts'
import { findWriterFence } from './tenant-store.ts'

let database: TestDatabase
let admin: Pool
const closing: (() => Promise<void>)[] = []
const pool = (applicationName: string) =>
  createPool({
    url: database.url,
    applicationName,
    connectionsMax: 2,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
    onIdleError: () => undefined,
  })
beforeAll(async () => {
  database = await createMigratedDatabase()
  admin = pool('admin')
})
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})
afterAll(async () => {
  await admin.end()
  await database.drop()
})

/** A candidate whose work runs until its signal fires. */
function stand(name: string, intervalMs = 50) {
  const own = pool(name)
  const terms: Leadership[] = []
  const events: LockElectionEvent[] = []
  const election = new LockElection({
    pool: own,
    lock: 4711,
    fenceName: 'test',
    intervalMs,
    lead: (leadership) => {
      terms.push(leadership)
      return new Promise((resolve) => leadership.signal.addEventListener('abort', () => resolve()))
    },
    onEvent: (event) => events.push(event),
  })
  closing.push(async () => {
    await election.stop()
    await own.end()
  })
  return { election, terms, events }
}

test('lock election: one of two candidates leads, and as soon as it stops, the other candidate leads with a higher fence', async () => {
  const first = stand('first')
  await until(() => first.terms.length === 1)
  const second = stand('second')
  await Bun.sleep(300)
  expect(second.terms).toHaveLength(0)
  expect(first.election.isLeading()).toBe(true)
  expect(await findWriterFence(admin, 'test')).toBe(first.terms[0]?.fence as number)
  await first.election.stop()
  expect(first.terms[0]?.isHeld()).toBe(false)
  await until(() => second.terms.length === 1)
  expect(second.terms[0]?.fence).toBeGreaterThan(first.terms[0]?.fence as number)
})

test('lock election: a leader whose connection ends stops its work, and leads again with a higher fence', async () => {
  const only = stand('only')
  await until(() => only.terms.length === 1)
  await admin.query(
    `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND granted`,
  )
  await until(() => only.terms.length === 2)
  expect(only.terms[0]?.signal.aborted).toBe(true)
  expect(only.terms[1]?.fence).toBeGreaterThan(only.terms[0]?.fence as number)
  expect(only.events.map(({ kind }) => kind)).toEqual(['leading', 'lost', 'leading'])
})

test('lock election: a candidate whose connection breaks during a query tries again', async () => {
  const leader = stand('leader')
  await until(() => leader.terms.length === 1)
  const waiting = stand('waiting', 1)
  await until(async () => {
    const { rowCount } = await admin.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'waiting' AND state = 'active'`,
    )
    return (rowCount ?? 0) > 0 && waiting.events.some(({ kind }) => kind === 'trouble')
  })
  await leader.election.stop()
  await until(() => waiting.terms.length === 1)
})
