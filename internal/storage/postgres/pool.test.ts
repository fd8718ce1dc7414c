import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { poll } from '#internal/dev/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { createPool, type Pool, withTx } from './pool.ts'

const open: Pool[] = []

function poolOf(url: string, fields: Partial<Parameters<typeof createPool>[0]> = {}): Pool {
  const bounds = { connectionsMax: 2, queryTimeoutMs: 2_000, connectTimeoutMs: 2_000 }
  const pool = createPool({ url, applicationName: 'test', ...bounds, ...fields })
  open.push(pool)
  return pool
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((pool) => pool.end()))
})

let database: TestDatabase
beforeAll(async () => {
  database = await createMigratedDatabase()
})
afterAll(async () => {
  await database.drop()
})

test('Postgres pool: returns a bigint as a number, and fails the query if the number would be rounded', async () => {
  const pool = poolOf(database.url)
  expect((await pool.query('SELECT 9007199254740991::bigint AS n')).rows).toEqual([
    { n: 9_007_199_254_740_991 },
  ])
  await expect(pool.query('SELECT 9007199254740993::bigint AS n')).rejects.toThrow('beyond 2^53')
})

test('Postgres pool: a connection remains usable after a statement time-out', async () => {
  const pool = poolOf(database.url, { queryTimeoutMs: 50, connectionsMax: 1 })
  await expect(pool.query('SELECT pg_sleep(5)')).rejects.toThrow('statement timeout')
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
})

test('Postgres pool: parameters are not in Postgres’ error log, even if the settings of the database enable it', async () => {
  await poolOf(database.url).query(
    `ALTER DATABASE ${new URL(database.url).pathname.slice(1)} SET log_parameter_max_length_on_error = -1`,
  )
  const pool = poolOf(database.url, { sessionSettings: { jit: 'off' } })
  const { rows } = await pool.query(
    "SELECT name, setting FROM pg_settings WHERE name IN ('log_parameter_max_length_on_error', 'jit') ORDER BY name",
  )
  expect(rows).toEqual([
    { name: 'jit', setting: 'off' },
    { name: 'log_parameter_max_length_on_error', setting: '0' },
  ])
})

test('Postgres pool: waits at most for its time limit until a connection is free', async () => {
  const pool = poolOf(database.url, { connectionsMax: 1, connectTimeoutMs: 500 })
  const client = await pool.connect()
  await expect(pool.query('SELECT 1')).rejects.toThrow('timeout')
  client.release()
})

test('Postgres pool: replaces a connection and its prepared plans when it reaches its maximum age', async () => {
  const pool = poolOf(database.url, { connectionsMax: 1, lifetimeMsMax: 1_000 })
  const session = async () =>
    (await pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]?.pid
  const first = await session()
  expect(await session()).toBe(first)
  const replaced = await poll(async () => (await session()) !== first || undefined, { deadlineMs: 10_000 })
  expect(replaced).toBe(true)
})

test('Postgres pool: reports and replaces a broken idle connection', async () => {
  const broken = Promise.withResolvers<Error>()
  const pool = poolOf(database.url, { onIdleError: broken.resolve, connectionsMax: 1 })
  const { rows } = await pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  await poolOf(database.url).query('SELECT pg_terminate_backend($1)', [rows[0]?.pid])
  expect(await broken.promise).toBeInstanceOf(Error)
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
})

test('withTx: commits and returns the result', async () => {
  const pool = poolOf(database.url)
  const result = await withTx(pool, async (client) => {
    await client.query(`INSERT INTO writer_fence VALUES ('committed', 1)`)
    return 'done'
  })
  expect(result).toBe('done')
  expect((await pool.query(`SELECT 1 FROM writer_fence WHERE name = 'committed'`)).rowCount).toBe(1)
  expect(pool.idleCount).toBe(1)
})

test('withTx: rolls back and rethrows an error, and keeps the connection', async () => {
  const pool = poolOf(database.url)
  const error = new Error('mine')
  const run = withTx(pool, async (client) => {
    await client.query(`INSERT INTO writer_fence VALUES ('undone', 1)`)
    throw error
  })
  expect(await run.catch((caught: unknown) => caught)).toBe(error)
  expect((await pool.query(`SELECT 1 FROM writer_fence WHERE name = 'undone'`)).rowCount).toBe(0)
  expect([pool.totalCount, pool.idleCount, pool.waitingCount]).toEqual([1, 1, 0])
})

test('withTx: drops a connection that breaks during the transaction, and the pool opens a new connection', async () => {
  const pool = poolOf(database.url, { connectionsMax: 1 })
  const run = withTx(pool, async (client) => {
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    await poolOf(database.url).query('SELECT pg_terminate_backend($1)', [rows[0]?.pid])
    await client.query('SELECT 1')
  })
  await expect(run).rejects.toThrow()
  expect(pool.totalCount).toBe(0)
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
})

test('withTx: returns the connection to the pool when BEGIN fails', async () => {
  const proxy = await deafProxy(database.url, 'BEGIN')
  const pool = poolOf(proxy.url, { connectionsMax: 1, queryTimeoutMs: 100 })
  await expect(withTx(pool, async () => 'never')).rejects.toThrow()
  expect([pool.totalCount, pool.waitingCount]).toEqual([0, 0])
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  await pool.end()
  open.splice(open.indexOf(pool), 1)
  await proxy.close()
})

/** A way to the database that swallows what holds `text`: the server then seems to hang. */
async function deafProxy(url: string, text: string): Promise<{ url: string; close(): Promise<void> }> {
  const target = new URL(url)
  const sockets = new Set<Socket>()
  const server: Server = createServer((near) => {
    const far = connectTo(target)
    sockets.add(near).add(far)
    near.on('data', (chunk) => {
      if (!chunk.includes(text)) far.write(chunk)
    })
    far.on('data', (chunk) => near.write(chunk))
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on('error', () => other.destroy())
      one.on('close', () => other.destroy())
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const through = new URL(url)
  through.searchParams.delete('host')
  through.host = `127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
  return {
    url: through.href,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function connectTo(target: URL): Socket {
  const dir = target.searchParams.get('host')
  const port = target.port || '5432'
  return dir === null ? connect(Number(port), target.hostname) : connect(`${dir}/.s.PGSQL.${port}`)
}
