import { resolve } from 'node:path'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startTcpProxy, type TcpProxy } from '#test/faults/tcp-proxy.ts'
import { keyRingText, type openTenants, type TestTenants } from '../api.ts'
import { createTestDatabase, testStores } from '../stores.ts'
import { type ApiProcess, readiness, startCommand, type TestProcess } from './api-process.ts'
import { compiledProgram } from './compiled-program.ts'
import { previousSources } from './previous-version.ts'

const ownSources = resolve(import.meta.dir, '../../..')

/** Name of a version. */
export type VersionName = 'N−1' | 'N'

/** Processes of one version on the stores that both versions share. */
export interface RunningVersion {
  readonly name: VersionName
  readonly api: ApiProcess
  /** Between the API and Postgres. */
  readonly apiPostgres: TcpProxy
  readonly backofficeUrl: string
  /** Reconciles manifests with this version's code, as its operator and `npm run dev` do. */
  readonly tenants: TestTenants
  /** Starts a forwarder, runs `work`, and ends it. */
  withForwarder(work: () => Promise<void>): Promise<void>
  /** Runs `latchkey` with these arguments and returns its standard output. @throws if it fails */
  latchkey(...args: readonly string[]): Promise<string>
  /** For functions of this version: the names of its prepared statements have other texts in the other version. */
  readonly pool: Pool
  /** Imports a file of this version's sources, which has the same exports as this repository's. */
  load<Module>(path: string): Promise<Module>
}

/** Both versions on one schema and one Redis. */
export interface VersionPair {
  readonly previous: RunningVersion
  readonly current: RunningVersion
  readonly pool: Pool
  /** Schema of N−1, before the migration of N. */
  readonly previousSchema: Schema
  close(): Promise<void>
}

/** Tables with what they demand of writers. */
export interface Schema {
  readonly columns: readonly Column[]
  /** Checks, references and unique indexes, each with its table. */
  readonly rules: readonly { readonly table: string; readonly rule: string }[]
}

/** Column of a table. */
export interface Column {
  readonly table: string
  readonly name: string
  readonly type: string
  readonly isRequired: boolean
  readonly hasDefault: boolean
}

/** Reads the schema without partitions. */
export async function readSchema(pool: Pool): Promise<Schema> {
  const tables = `relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`
  const { rows: columns } = await pool.query<Column>(
    `SELECT relname AS table, attname AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS "isRequired",
            atthasdef OR attidentity <> '' AS "hasDefault"
     FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE ${tables} AND attnum > 0 AND NOT attisdropped`,
  )
  const { rows: rules } = await pool.query<Schema['rules'][number]>(
    `SELECT relname AS table, pg_get_constraintdef(pg_constraint.oid) AS rule
     FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid WHERE ${tables} AND contype IN ('c', 'f', 'x')
     UNION ALL
     SELECT relname, regexp_replace(pg_get_indexdef(indexrelid), ' INCLUDE \\([^)]*\\)', '')
     FROM pg_index JOIN pg_class ON pg_class.oid = indrelid WHERE ${tables} AND indisunique`,
  )
  return { columns, rules }
}

/** Settings of all processes. */
interface Env extends Readonly<Record<string, string>> {
  readonly LATCHKEY_DATABASE_URL: string
  readonly LATCHKEY_REDIS_URL: string
}

/** What is stopped at the end. */
interface Started {
  readonly processes: TestProcess[]
  readonly closings: (() => Promise<unknown>)[]
}

/**
 * Migrates a new database with N−1, starts the API of N−1, migrates with N as an upgrade does, and starts everything else. Waits until all
 * are ready. The caller closes the pair.
 */
export async function startVersionPair(manifests: string): Promise<VersionPair> {
  const started: Started = { processes: [], closings: [] }
  const database = await createTestDatabase()
  const { redisUrl } = await testStores()
  const env = {
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: redisUrl,
    LATCHKEY_KEY_RING: keyRingText('test', 7),
    LATCHKEY_OPS_PORT: '0',
    LATCHKEY_SHUTDOWN_GRACE_SECONDS: '4',
  }
  const pool = poolOf(database.url)
  const close = async () => {
    for (const process of started.processes) process.signal('SIGKILL')
    await Promise.all(started.processes.map(({ exited }) => exited))
    for (const closing of started.closings.toReversed()) await closing()
    await pool.end()
    await database.drop()
  }
  try {
    const previous = new Version('N−1', previousSources(), env, started)
    const current = new Version('N', ownSources, env, started)
    await previous.latchkey('migrate')
    const tenants = await previous.openTenants()
    await tenants.apply(manifests)
    const early = await previous.startApi()
    const previousSchema = await readSchema(pool)
    await current.latchkey('migrate')
    const [older, newer] = await Promise.all([previous.start(tenants, early), current.start()])
    return { previous: older, current: newer, pool, previousSchema, close }
  } catch (error) {
    await close()
    throw error
  }
}

function poolOf(url: string): Pool {
  const bounds = { connectionsMax: 2, queryTimeoutMs: 10_000, connectTimeoutMs: 5_000 }
  return createPool({ url, applicationName: 'test', ...bounds })
}

class Version {
  readonly #name: VersionName
  readonly #sources: string
  readonly #program: string
  readonly #env: Env
  readonly #started: Started

  constructor(name: VersionName, sources: string, env: Env, started: Started) {
    this.#name = name
    this.#sources = sources
    this.#program = compiledProgram(sources)
    this.#env = env
    this.#started = started
  }

  async start(
    given?: TestTenants,
    startedApi?: ApiProcess & { readonly postgres: TcpProxy },
  ): Promise<RunningVersion> {
    const [api, backoffice] = await Promise.all([
      startedApi ?? this.startApi(),
      this.#listening('backoffice', { LATCHKEY_BACKOFFICE_PORT: '0' }),
    ])
    const tenants = given ?? (await this.openTenants())
    for (const { opsUrl } of [api, backoffice]) {
      const status = await readiness(opsUrl, 200)
      if (status !== 200)
        throw new Error(`${this.#name} is not ready: ${await (await fetch(`${opsUrl}/readyz`)).text()}`)
    }
    const pool = poolOf(this.#env.LATCHKEY_DATABASE_URL)
    this.#started.closings.push(() => pool.end())
    return {
      pool,
      name: this.#name,
      api,
      apiPostgres: api.postgres,
      backofficeUrl: backoffice.url,
      tenants,
      withForwarder: async (work) => {
        const forwarder = await this.#listening('forwarder', {
          LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8',
          LATCHKEY_CALLBACK_PORTS: 'any',
        })
        try {
          await work()
        } finally {
          forwarder.signal('SIGTERM')
          await forwarder.exited
        }
      },
      latchkey: (...args) => this.latchkey(...args),
      load: (path) => this.#load(path),
    }
  }

  /** Starts the API behind a proxy of Postgres and waits until it listens. */
  async startApi(): Promise<ApiProcess & { readonly postgres: TcpProxy }> {
    const url = new URL(this.#env.LATCHKEY_DATABASE_URL)
    const postgres = await startTcpProxy(Number(url.port || 5432), url.hostname)
    this.#started.closings.push(() => postgres.close())
    url.host = `127.0.0.1:${postgres.port}`
    const own = {
      LATCHKEY_API_PORT: '0',
      LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0',
      LATCHKEY_DATABASE_URL: url.href,
      LATCHKEY_REDIS_SPOOL_DURABLE: 'true',
    }
    return { ...(await this.#listening('api', own)), postgres }
  }

  async openTenants(): Promise<TestTenants> {
    const { openTenants: open } = await this.#load<{ openTenants: typeof openTenants }>('test/support/api.ts')
    const tenants = await open(this.#env.LATCHKEY_DATABASE_URL, this.#env.LATCHKEY_REDIS_URL)
    this.#started.closings.push(() => tenants.close())
    return tenants
  }

  async latchkey(...args: readonly string[]): Promise<string> {
    const { exited, output, errors } = startCommand([this.#program, ...args], this.#env, args.join(' '))
    const code = await exited
    if (code === 0) return output()
    throw new Error(
      `latchkey ${args.join(' ')} of ${this.#name} exited with ${code}:\n${output()}${errors()}`,
    )
  }

  async #listening(name: 'api' | 'forwarder' | 'backoffice', more: Readonly<Record<string, string>>) {
    const process = startCommand([this.#program, name], { ...this.#env, ...more }, `${name} of ${this.#name}`)
    this.#started.processes.push(process)
    const { port, opsPort } = await process.logged('listening')
    return { ...process, url: `http://localhost:${port}`, opsUrl: `http://localhost:${opsPort}` }
  }

  #load<Module>(path: string): Promise<Module> {
    return import(`${this.#sources}/${path}`) as Promise<Module>
  }
}
