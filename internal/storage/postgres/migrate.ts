import { createHash } from 'node:crypto'
import type { Pool, PoolClient } from 'pg'
import type { Logger } from '#internal/telemetry/index.ts'
import { type Migration, migrations as ownMigrations } from './migrations/list.ts'
import { lockWaitMs } from './partitions.ts'
import { sqlErrorOf } from './sql-failure.ts'

export interface MigrateOptions {
  readonly log: Pick<Logger, 'info' | 'warn'>
  /** Maximum wait for another process that migrates, and for tables in use. Default 60 s. */
  readonly lockTimeoutMs?: number
  /** Replaces the migrations of the product in tests. */
  readonly migrations?: readonly Migration[]
}

/** Minimum schema version of this build. A process is not ready while the database has an older version. */
export const schemaVersionNeeded: number = ownMigrations.length

/** Key of the advisory lock: arbitrary, but unique in this database. */
const advisoryLock = 7_205_759_403_792_793

/**
 * Migrates the database, each step in its own transaction, one process at a time (advisory lock). Fails without changes if the lock is not
 * free in time, or if the text of an applied step has changed. Leaves a newer database unchanged and logs a warning. Idempotent.
 *
 * A step waits at most 1.5 s at a time for a table in use, then rolls back and tries again, since queries of running processes queue behind
 * a waiting ALTER TABLE.
 */
export async function migrate(pool: Pool, options: MigrateOptions) {
  const steps = options.migrations ?? ownMigrations
  const client = await pool.connect()
  let broken: Error | undefined
  client.on('error', (error) => {
    broken = error
  })
  try {
    await prepareSession(client, options)
    const versionBefore = await verifyApplied(client, steps, options.log)
    for (const step of steps.filter(({ version }) => version > versionBefore)) {
      await applyStep(client, step, options)
      options.log.info({ version: step.version, name: step.name }, 'migration applied')
    }
    return { versionBefore, versionAfter: Math.max(versionBefore, steps.length) }
  } finally {
    // Closes the session, which releases its lock, time-outs and open transaction.
    client.release(broken ?? true)
  }
}

/** Returns the version of the last applied migration; 0 before the first. @throws any error of Postgres */
export async function schemaVersion(pool: Pool): Promise<number> {
  const known = await pool.query<{ known: boolean }>(
    `SELECT to_regclass('schema_migrations') IS NOT NULL AS known`,
  )
  if (known.rows[0]?.known !== true) return 0
  const { rows } = await pool.query<{ version: number | null }>(
    'SELECT max(version) AS version FROM schema_migrations',
  )
  return rows[0]?.version ?? 0
}

/** Returns the database's id: equal only in copies of it, and not changed by migrations. @throws any error of Postgres */
export async function readDatabaseId(pool: Pool): Promise<string> {
  const { rows } = await pool.query<{ id: string | null }>(
    `SELECT md5(current_database() || checksum || extract(epoch FROM applied_at)) AS id
    FROM schema_migrations ORDER BY version LIMIT 1`,
  )
  const id = rows[0]?.id
  if (!id) throw new Error('the database has no schema yet')
  return id
}

const lockTimeoutMsDefault = 60_000

async function prepareSession(
  client: PoolClient,
  { lockTimeoutMs = lockTimeoutMsDefault }: MigrateOptions,
): Promise<void> {
  await run(client, `SET statement_timeout = 0; SET lock_timeout = ${Math.ceil(lockTimeoutMs)}`, 10_000)
  await run(client, `SELECT pg_advisory_lock(${advisoryLock})`, lockTimeoutMs + 5_000)
  await run(
    client,
    `CREATE TABLE IF NOT EXISTS schema_migrations (
       version integer PRIMARY KEY,
       name text NOT NULL,
       checksum text NOT NULL,
       applied_at timestamptz NOT NULL DEFAULT now()
     )`,
    lockTimeoutMs + 5_000,
  )
}

async function verifyApplied(
  client: PoolClient,
  steps: readonly Migration[],
  log: MigrateOptions['log'],
): Promise<number> {
  const { rows } = await client.query<{ version: number; name: string; checksum: string }>(
    'SELECT version, name, checksum FROM schema_migrations ORDER BY version',
  )
  for (const row of rows) {
    const step = steps[row.version - 1]
    if (step === undefined || row.checksum === checksumOf(step)) continue
    throw new Error(
      `migration ${row.version} (${row.name}) was applied with a different text: use the build that applied it, or a new database (for npm run dev: without its folder, .latchkey)`,
    )
  }
  const version = rows.at(-1)?.version ?? 0
  if (version > steps.length)
    log.warn({ version, known: steps.length }, 'the database schema is newer than this build')
  return version
}

const stepMsMax = 600_000
/** Pause between two tries, in which queries run that waited behind the migration's lock. */
const pauseMs = 500
const lockNotAvailable = '55P03'

async function applyStep(
  client: PoolClient,
  step: Migration,
  { log, lockTimeoutMs = lockTimeoutMsDefault }: MigrateOptions,
): Promise<void> {
  for (let waitedMs = 0; ; waitedMs += lockWaitMs + pauseMs) {
    try {
      return await tryStep(client, step)
    } catch (error) {
      const isLocked = sqlErrorOf(error)?.code === lockNotAvailable
      if (!isLocked || waitedMs + lockWaitMs + pauseMs > lockTimeoutMs) throw error
      await run(client, 'ROLLBACK', 10_000)
      log.warn({ version: step.version, name: step.name, waitedMs }, 'migration waits for a table in use')
      await run(client, `SELECT pg_sleep(${pauseMs / 1000})`, 10_000)
    }
  }
}

async function tryStep(client: PoolClient, step: Migration): Promise<void> {
  await run(client, `BEGIN; SET LOCAL lock_timeout = ${lockWaitMs}`, 10_000)
  await run(client, step.sql, stepMsMax)
  await client.query('INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)', [
    step.version,
    step.name,
    checksumOf(step),
  ])
  await run(client, 'COMMIT', stepMsMax)
}

/** Runs SQL text, possibly several statements, with its own time limit instead of the limit of the pool. */
async function run(client: PoolClient, text: string, queryTimeoutMs: number): Promise<void> {
  const query = { text, query_timeout: queryTimeoutMs }
  await client.query(query)
}

function checksumOf(step: Migration): string {
  return createHash('sha256').update(step.sql).digest('hex')
}
