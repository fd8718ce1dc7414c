import { poll } from '#internal/dev/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { testStores } from './running.ts'

/** Database of one test file. */
export interface TestDatabase {
  readonly url: string
  /** Drops it. @throws with the names of connections that are still open */
  drop(): Promise<void>
}

/** Options of a test database. */
export interface TestDatabaseOptions {
  /** Migrates an empty database; runs once per process and function, and its result is cloned. */
  readonly migrate?: (url: string) => Promise<void>
}

type Migrate = (url: string) => Promise<void>

const templates = new Map<Migrate, Promise<string>>()
const leakWaitMs = 2000

/** Creates a database on `testStores`, empty or cloned from a migrated one (about 50 ms). The caller drops it. */
export async function createTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const { databaseUrl } = await testStores()
  const template = options.migrate ? await templateOf(databaseUrl, options.migrate) : 'template0'
  const name = await createDatabase(databaseUrl, template)
  return { url: urlOf(databaseUrl, name), drop: () => dropDatabase(databaseUrl, name) }
}

/** Drops the templates, since an external server outlives the tests. Called after the last file. */
export async function dropTemplates(): Promise<void> {
  const names = await Promise.all([...templates.values()].map((name) => name.catch(() => undefined)))
  templates.clear()
  for (const name of names) if (name) await dropDatabase((await testStores()).databaseUrl, name)
}

function templateOf(databaseUrl: string, migrate: Migrate): Promise<string> {
  const known = templates.get(migrate)
  if (known) return known
  const made = createDatabase(databaseUrl, 'template0').then(async (name) => {
    await migrate(urlOf(databaseUrl, name))
    return name
  })
  templates.set(migrate, made)
  return made
}

async function createDatabase(databaseUrl: string, template: string): Promise<string> {
  const name = `latchkey_test_${process.pid}_${crypto.randomUUID().slice(0, 8)}`
  await asAdmin(databaseUrl, (pool) => pool.query(`CREATE DATABASE ${name} TEMPLATE ${template}`))
  return name
}

async function dropDatabase(databaseUrl: string, name: string): Promise<void> {
  await asAdmin(databaseUrl, async (pool) => {
    const select = 'SELECT application_name FROM pg_stat_activity WHERE datname = $1'
    let left: string[] = []
    // Waits, because the server process of a closed connection ends with a delay.
    const unused = await poll(
      async () => {
        const { rows } = await pool.query<{ application_name: string }>(select, [name])
        left = rows.map((row) => row.application_name)
        return left.length === 0 || undefined
      },
      { deadlineMs: leakWaitMs },
    )
    await pool.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    if (!unused) throw new Error(`${left.length} connections were left open: ${left.join(', ')}`)
  })
}

function urlOf(databaseUrl: string, name: string): string {
  const url = new URL(databaseUrl)
  url.pathname = `/${name}`
  return url.href
}

async function asAdmin(databaseUrl: string, work: (pool: Pool) => Promise<unknown>): Promise<void> {
  const pool = createPool({
    url: databaseUrl,
    applicationName: 'latchkey test admin',
    connectionsMax: 1,
    queryTimeoutMs: 30_000,
    connectTimeoutMs: 5000,
  })
  try {
    await work(pool)
  } finally {
    await pool.end()
  }
}
