// Transactions on a real Postgres, with the real API.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { sql as drizzleSql } from 'drizzle-orm'
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres'
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js'
import pgDriver from 'pg'
import postgres from 'postgres'
import { poll } from '../../../internal/dev/index.ts'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import { FaultyFetch } from '../../../test/support/clients/faulty-fetch.ts'
import { type CommitProxy, startCommitProxy } from '../../../test/support/stores/commit-proxy.ts'
import { openRawRedis } from '../../../test/support/stores/raw-redis.ts'
import {
  createTestDatabase,
  createTestRedis,
  type TestDatabase,
  type TestRedis,
} from '../../../test/support/stores.ts'
import { Latchkey, nothingHappened, unwrap } from './index.ts'
import { Database, drizzle, forget, pg, postgresJs, withTransaction } from './postgres.ts'

let redis: TestRedis
let api: TestApi
let latchkey: Latchkey
let own: TestDatabase
let proxy: CommitProxy
let admin: pgDriver.Pool
beforeAll(async () => {
  redis = await createTestRedis()
  api = await startTestApi({ redisUrl: redis.url })
  latchkey = new Latchkey({ url: api.url, apiKey: testApiKey })
  own = await createTestDatabase()
  proxy = await startCommitProxy(own.url)
  admin = new pgDriver.Pool({ connectionString: own.url, max: 4 })
  await admin.query(await Bun.file(join(import.meta.dir, '../latchkey-outcomes.sql')).text())
  await admin.query('CREATE TABLE charges (id bigint GENERATED ALWAYS AS IDENTITY, key text)')
})
afterAll(async () => {
  await admin.end()
  await proxy.close()
  await own.drop()
  await api.close()
  await redis.stop()
})

/** Statement of `work`, in the terms of no driver. */
type Insert<Tx> = (tx: Tx, key: string) => Promise<unknown>

interface Driver {
  readonly database: Database<never>
  readonly insert: Insert<never>
  close(): Promise<void>
}

const insertText = 'INSERT INTO charges (key) VALUES ($1)'
const insertPg = (tx: pgDriver.PoolClient, key: string) => tx.query(insertText, [key])

const drivers: Record<string, (url: string) => Driver> = {
  pg: (url) => {
    const pool = new pgDriver.Pool({ connectionString: url, max: 20 })
    pool.on('error', () => undefined)
    const database = pg<pgDriver.PoolClient>(pool)
    return {
      database: database as Database<never>,
      insert: insertPg as Insert<never>,
      close: () => pool.end(),
    }
  },
  'postgres.js': (url) => {
    const sql = postgres(url, { max: 20, onnotice: () => undefined })
    const insert: Insert<postgres.TransactionSql> = (tx, key) => tx`INSERT INTO charges (key) VALUES (${key})`
    const database = postgresJs<postgres.TransactionSql>(sql)
    return {
      database: database as Database<never>,
      insert: insert as Insert<never>,
      close: () => sql.end({ timeout: 1 }),
    }
  },
  'Drizzle on pg': (url) => {
    const pool = new pgDriver.Pool({ connectionString: url, max: 20 })
    pool.on('error', () => undefined)
    pool.on('connect', (client) => client.on('error', () => undefined))
    const db = drizzlePg(pool)
    const insert = (tx: Parameters<Parameters<typeof db.transaction>[0]>[0], key: string) =>
      tx.execute(drizzleSql`INSERT INTO charges (key) VALUES (${key})`)
    const database = drizzle(db, drizzleSql)
    return { database: database as Database<never>, insert, close: () => pool.end() }
  },
  'Drizzle on postgres.js': (url) => {
    const client = postgres(url, { max: 20, onnotice: () => undefined })
    const db = drizzlePostgresJs(client)
    const insert = (tx: Parameters<Parameters<typeof db.transaction>[0]>[0], key: string) =>
      tx.execute(drizzleSql`INSERT INTO charges (key) VALUES (${key})`)
    const database = drizzle(db, drizzleSql)
    return {
      database: database as Database<never>,
      insert: insert as Insert<never>,
      close: () => client.end({ timeout: 1 }),
    }
  },
}

const chargesOf = async (key: string) =>
  (await admin.query('SELECT count(*)::int AS count FROM charges WHERE key = $1', [key])).rows[0]
    .count as number
const rowsOf = async (key: string) =>
  (await admin.query('SELECT status, headers, body FROM latchkey_outcomes WHERE key = $1', [key]))
    .rows as object[]

describe.each(Object.entries(drivers))('withTransaction, %s', (name, open) => {
  let driver: Driver
  let key: string
  beforeAll(() => {
    driver = open(proxy.url)
  })
  beforeEach(() => {
    key = crypto.randomUUID()
  })
  afterAll(() => driver.close())

  /** Inserts a charge under the key, and returns the outcome. */
  const charge = (more: object = {}, client = latchkey) =>
    withTransaction(client, driver.database, { scope: 'charges', key, waitMs: 0, ...more }, async (tx) => {
      await driver.insert(tx, key)
      return { key }
    })

  test(`${name}: writes the effect and its outcome in one transaction, and replays the outcome`, async () => {
    expect(await charge()).toEqual({ kind: 'ran', value: { key }, guarded: true })
    expect(await charge()).toEqual({ kind: 'replayed', value: { key } })
    expect(await chargesOf(key)).toBe(1)
    expect(await rowsOf(key)).toEqual([{ status: 200, headers: '{}', body: JSON.stringify({ key }) }])
    expect(await latchkey.fetchRecord({ scope: 'charges', key })).toEqual({
      status: 200,
      headers: {},
      body: { key },
    })
  })

  test(`${name}: after Redis was emptied, the table replays the outcome and the record is saved again`, async () => {
    await charge()
    const raw = await openRawRedis(redis.url)
    await raw.send('FLUSHALL', [])
    raw.close()
    expect(await charge()).toEqual({ kind: 'replayed', value: { key } })
    expect(await chargesOf(key)).toBe(1)
    expect((await latchkey.fetchRecord({ scope: 'charges', key }))?.body).toEqual({ key })
  })

  test(`${name}: twenty callers without any lock cause only one effect`, async () => {
    const alone = new Latchkey({ url: 'http://127.0.0.1:9', apiKey: 'x' })
    const options = { acquireMs: 0, onUnavailable: 'run' }
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => charge(options, alone)))
    expect(outcomes.map(({ kind }) => kind).toSorted()).toEqual(
      ['ran', ...Array(19).fill('replayed')].toSorted(),
    )
    expect(await chargesOf(key)).toBe(1)
  })

  test(`${name}: an exception of work rolls back, releases the lock and is thrown unchanged`, async () => {
    for (const error of [new Error('declined'), nothingHappened(new Error('marked')), 'a text']) {
      const failing = withTransaction(latchkey, driver.database, { scope: 'charges', key }, async (tx) => {
        await driver.insert(tx, key)
        throw error
      })
      expect(await failing.catch((caught: unknown) => caught)).toBe(error)
    }
    expect([await chargesOf(key), await rowsOf(key)]).toEqual([0, []])
    const takenOver = await withTransaction(
      latchkey,
      driver.database,
      { scope: 'charges', key },
      (_tx, context) => context.takenOver,
    )
    expect(takenOver).toEqual({ kind: 'ran', value: false, guarded: true })
  })

  test(`${name}: a failed statement that work ignores rolls back`, async () => {
    const failing = withTransaction(latchkey, driver.database, { scope: 'charges', key }, async (tx) => {
      await driver.insert(tx, key)
      await driver.insert(tx, '\u0000').catch(() => undefined)
      return 1
    })
    expect(await failing.catch((error: unknown) => error)).toBeInstanceOf(Error)
    expect([await chargesOf(key), await rowsOf(key)]).toEqual([0, []])
  })

  test(`${name}: a commit that never arrived causes an exception, and the next call runs the work`, async () => {
    proxy.failNext('call')
    expect(await charge().catch((error: unknown) => error)).toBeInstanceOf(Error)
    expect(await chargesOf(key)).toBe(0)
    expect(await charge()).toMatchObject({ kind: 'ran' })
    expect(await chargesOf(key)).toBe(1)
  })

  test(`${name}: a commit whose response was lost is detected as successful`, async () => {
    proxy.failNext('answer')
    expect(await charge()).toEqual({ kind: 'ran', value: { key }, guarded: true })
    expect(await charge()).toEqual({ kind: 'replayed', value: { key } })
    expect(await chargesOf(key)).toBe(1)
  })

  test(`${name}: the key under another fingerprint is refused by the service, and by the table`, async () => {
    await charge({ fingerprint: 'a' })
    expect(await charge({ fingerprint: 'b' })).toEqual({ kind: 'reused_key' })
    await latchkey.removeRecord({ scope: 'charges', key })
    expect(await charge({ fingerprint: 'b' })).toEqual({ kind: 'reused_key' })
    expect(await charge({ fingerprint: 'a' })).toMatchObject({ kind: 'replayed' })
    expect(await chargesOf(key)).toBe(1)
  })

  test(`${name}: waits for a concurrent transaction as long as claimMs`, async () => {
    const holder = await admin.connect()
    await holder.query('BEGIN')
    await holder.query(
      "INSERT INTO latchkey_outcomes (scope, key, expires_at) VALUES ('charges', $1, now() + '1 day')",
      [key],
    )
    expect(await charge({ claimMs: 50 })).toEqual({ kind: 'busy', retryAfterMs: 1000 })
    await holder.query('ROLLBACK')
    holder.release()
    expect(await charge()).toMatchObject({ kind: 'ran' })
  })

  test(`${name}: an expired row is replaced`, async () => {
    await charge({ ttlSeconds: 3600 })
    await admin.query("UPDATE latchkey_outcomes SET expires_at = now() - interval '1 s' WHERE key = $1", [
      key,
    ])
    await latchkey.removeRecord({ scope: 'charges', key })
    expect(await charge({ ttlSeconds: 7200 })).toMatchObject({ kind: 'ran' })
    expect(await chargesOf(key)).toBe(2)
    const { rows } = await admin.query<{ seconds: number }>(
      'SELECT extract(epoch FROM expires_at - now())::float8 AS seconds FROM latchkey_outcomes WHERE key = $1',
      [key],
    )
    expect(rows[0]?.seconds).toBeWithin(7100, 7201)
  })

  test(`${name}: forget deletes the row and the record, so that the operation runs again`, async () => {
    await charge()
    await latchkey.removeRecord({ scope: 'charges', key })
    expect(await charge()).toMatchObject({ kind: 'replayed' })
    await forget(latchkey, driver.database, { scope: 'charges', key })
    expect(await charge()).toMatchObject({ kind: 'ran' })
    expect(await chargesOf(key)).toBe(2)
  })
})

test('pg: a commit without a response is detected as successful', async () => {
  const pool = new pgDriver.Pool({ connectionString: proxy.url })
  const key = crypto.randomUUID()
  proxy.failNext('hang')
  const options = { scope: 'charges', key, commitMs: 200 }
  const outcome = await withTransaction(latchkey, pg<pgDriver.PoolClient>(pool), options, (tx) =>
    insertPg(tx, key).then(() => 1),
  )
  expect(outcome).toEqual({ kind: 'ran', value: 1, guarded: true })
  // The pool has discarded the connection that hangs.
  expect([pool.totalCount, pool.idleCount]).toEqual([1, 1])
  await pool.end()
})

test('withTransaction: a row with another fingerprint is not treated as the row of a lost commit, regardless of its body', async () => {
  const key = crypto.randomUUID()
  const real = pg<pgDriver.PoolClient>(admin)
  let begun = 0
  // Loses the commit, and lets another caller use the key before the library looks for the row.
  const losing = new Database<pgDriver.PoolClient>(async (run) => {
    begun += 1
    if (begun > 1) return real.transaction(run)
    await real
      .transaction(async (transaction) => {
        await run(transaction)
        throw new Error('rolled back')
      })
      .catch(() => undefined)
    await admin.query(
      `INSERT INTO latchkey_outcomes VALUES ('charges', $1, 'other', 200, '{}', '1', now() + interval '1 h')`,
      [key],
    )
    throw new Error('connection lost')
  })
  const options = { scope: 'charges', key, fingerprint: 'own' }
  expect(await withTransaction(latchkey, losing, options, () => 1)).toEqual({ kind: 'reused_key' })
})

test('onTakenOver: `undefined` means `run`, and a recovered value is used even if it cannot be saved', async () => {
  const database = pg<pgDriver.PoolClient>(admin)
  const faults = new FaultyFetch()
  const client = new Latchkey({ url: api.url, apiKey: testApiKey, fetch: faults.fetch })
  const leaveOver = async (key: string) => {
    await client
      .once({ scope: 'charges', key }, () => Promise.reject(new Error('lost')))
      .catch(() => undefined)
  }
  const [one, two] = [crypto.randomUUID(), crypto.randomUUID()]
  await leaveOver(one)
  const options = { scope: 'charges', key: one, onTakenOver: undefined }
  expect(await withTransaction(client, database, options, () => 1)).toMatchObject({ kind: 'ran', value: 1 })
  await leaveOver(two)
  faults.fail('PUT /v1/record', 'call lost', 1000)
  const recovering = { scope: 'charges', key: two, saveMs: 0, onTakenOver: () => ({ recovered: 7 }) }
  expect(await withTransaction(client, database, recovering, () => expect.unreachable())).toEqual({
    kind: 'replayed',
    value: 7,
  })
})

test('pg: a commit that fails because Postgres terminates the backend causes an exception', async () => {
  await admin.query(`
    CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER die AFTER INSERT ON charges DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW WHEN (NEW.key LIKE 'die %') EXECUTE FUNCTION die()`)
  const pool = new pgDriver.Pool({ connectionString: own.url })
  const key = `die ${crypto.randomUUID()}`
  const options = { scope: 'charges', key }
  const ended = withTransaction(latchkey, pg<pgDriver.PoolClient>(pool), options, (tx) =>
    insertPg(tx, key).then(() => 1),
  )
  expect(await ended.catch((error: unknown) => error)).toBeInstanceOf(Error)
  expect([await chargesOf(key), await rowsOf(key)]).toEqual([0, []])
  await pool.end()
})

test('pg: a commit whose result cannot be determined is `unknown`, and a later call determines the result', async () => {
  const lost = await startCommitProxy(own.url)
  const pool = new pgDriver.Pool({ connectionString: lost.url })
  pool.on('error', () => undefined)
  const key = crypto.randomUUID()
  lost.failNext('answer')
  const options = { scope: 'charges', key, commitMs: 300, lockSeconds: 1 }
  const outcome = await withTransaction(latchkey, pg<pgDriver.PoolClient>(pool), options, async (tx) => {
    await insertPg(tx, key)
    // Makes the database unreachable from the commit on.
    tx.on('end', () => void lost.close())
    return 1
  })
  expect(outcome).toMatchObject({ kind: 'unknown_commit' })
  expect(() => unwrap(outcome)).toThrow('call again with the same key')
  await pool.end()
  const again = await withTransaction(latchkey, pg<pgDriver.PoolClient>(admin), options, () => 2)
  expect(again).toEqual({ kind: 'replayed', value: 1 })
})

test('pg: the effect of a process killed between commit and save happens only once', async () => {
  const key = crypto.randomUUID()
  const program = `
    import pgDriver from 'pg'
    import { Latchkey } from ${JSON.stringify(join(import.meta.dir, 'index.ts'))}
    import { pg, withTransaction } from ${JSON.stringify(join(import.meta.dir, 'postgres.ts'))}
    const fetchUntilSave = (url, init) => (init.method === 'PUT' ? process.kill(process.pid, 'SIGKILL') : fetch(url, init))
    const latchkey = new Latchkey({ url: '${api.url}', apiKey: '${testApiKey}', fetch: fetchUntilSave })
    const pool = new pgDriver.Pool({ connectionString: '${own.url}' })
    await withTransaction(latchkey, pg(pool), { scope: 'charges', key: '${key}', lockSeconds: 1 }, async (tx) => {
      await tx.query('${insertText}', ['${key}'])
      return 1
    })`
  const child = Bun.spawn([process.execPath, '-e', program], { stdout: 'inherit', stderr: 'inherit' })
  expect(await child.exited).toBe(137)
  expect(await chargesOf(key)).toBe(1)
  const outcome = await withTransaction(
    latchkey,
    pg<pgDriver.PoolClient>(admin),
    { scope: 'charges', key },
    (tx) => insertPg(tx, key).then(() => 2),
  )
  expect(outcome).toEqual({ kind: 'replayed', value: 1 })
  expect(await chargesOf(key)).toBe(1)
})

test('pg: the work runs with the `lock_timeout` of its session, not with the timeout of the claim', async () => {
  const pool = new pgDriver.Pool({ connectionString: `${own.url}?options=-c%20lock_timeout%3D7s` })
  const options = { scope: 'charges', key: crypto.randomUUID(), claimMs: 50 }
  const outcome = await withTransaction(latchkey, pg<pgDriver.PoolClient>(pool), options, async (tx) => {
    const { rows } = await tx.query<{ lock_timeout: string }>('SHOW lock_timeout')
    return rows[0]?.lock_timeout
  })
  expect(outcome).toMatchObject({ kind: 'ran', value: '7s' })
  await pool.end()
})

test('pg: expired rows are deleted after a commit', async () => {
  await admin.query(`INSERT INTO latchkey_outcomes (scope, key, expires_at)
    SELECT 'expired', number::text, now() - interval '1 s' FROM generate_series(1, 1200) number`)
  const database = pg<pgDriver.PoolClient>(admin)
  for (const key of ['one', 'two'])
    await withTransaction(latchkey, database, { scope: 'pruned', key }, () => 1)
  const left = await poll(
    async () => {
      const { rows } = await admin.query(
        "SELECT count(*)::int AS count FROM latchkey_outcomes WHERE scope = 'expired'",
      )
      return rows[0].count === 1200 ? undefined : (rows[0].count as number)
    },
    { deadlineMs: 5000 },
  )
  expect(left).toBe(200)
})
