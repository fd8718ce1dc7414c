import { hostname } from 'node:os'
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { databaseOf, redisOf } from '#cmd/serving/stores.ts'
import { type TenantId, toWire } from '#internal/base/index.ts'
import { type Environment, readConfig } from '#internal/config/index.ts'
import {
  createPool,
  openRedis,
  type Pool,
  type RedisConnection,
  type StoreAddress,
  withoutParameters,
} from '#internal/storage/index.ts'
import { findLiveTenantId } from '#internal/tenants/index.ts'

/** Exit code of a command: 0 done, 1 failed, 2 misused. undefined: a process that sets its own. */
export type ExitCode = 0 | 1 | 2 | undefined

/** Environment and output of a command. */
export interface Terminal {
  readonly env: Environment
  /** Prints a line to standard output. */
  say(text: string): void
  /** Prints a line to standard error. */
  complain(text: string): void
}

/** One row of the table of commands. */
export interface Command {
  /** One line for the overview. */
  readonly summary: string
  /** Answer to `--help`. */
  readonly help: string
  /** Runs it with the arguments after its name. Must not throw for anything that can be typed. */
  run(args: readonly string[], terminal: Terminal): Promise<ExitCode | Misuse>
}

/** Stores of a command. */
export interface ToolStores {
  readonly pool: Pool
  /**
   * Publishes in Redis, so that processes need not wait for their next poll. Tries for one second, then gives up, since subscribers poll
   * as well. Never rejects.
   */
  notify(publish: (redis: RedisConnection) => Promise<void>): Promise<void>
}

const pooled = {
  ...{ applicationName: 'latchkey tool', connectionsMax: 2 },
  ...{ queryTimeoutMs: 30_000, connectTimeoutMs: 5_000 },
}
const notifyMsMax = 1_000
const notifyAgainMs = 25
/** Bound of an actor's name in the audit log. */
const actorCharsMax = 200

/** Validation error of a command's arguments. */
export interface Misuse {
  readonly kind: 'misused'
  readonly text: string
}

/** Makes a validation error. */
export function misuse(text: string): Misuse {
  return { kind: 'misused', text }
}

/** Parses arguments as `parseArgs` does, its error included. */
export function parseOptions<Options extends NonNullable<ParseArgsConfig['options']>>(
  args: readonly string[],
  options: Options,
) {
  try {
    return { kind: 'parsed', ...parseArgs({ args: [...args], options, allowPositionals: true }) } as const
  } catch (error) {
    return misuse(error instanceof Error ? error.message : 'The arguments cannot be read')
  }
}

/** Text and JSON of a result, or a problem. Timestamps of the JSON may be in milliseconds. */
export type Result =
  | { readonly text: string; readonly json: unknown }
  /** Default JSON: the problem. */
  | { readonly problem: string; readonly json?: unknown }

/** Prints a result, as text or as JSON; returns its exit code. */
export function answer(result: Result, isJson: boolean, terminal: Terminal): 0 | 1 {
  const isFailure = 'problem' in result
  const json = isFailure ? (result.json ?? { problem: result.problem }) : result.json
  if (isJson) terminal.say(JSON.stringify(toWire(json), null, 2))
  else if (isFailure) terminal.complain(result.problem)
  else terminal.say(result.text)
  return isFailure ? 1 : 0
}

/** Result of a command for an id or slug that no tenant has. */
export const noTenant = { problem: 'There is no tenant of that id or slug' } as const

/** Finds the tenant of an option `--tenant`; null without the option, undefined for an unknown tenant. */
export async function tenantOf(pool: Pool, named: string | undefined): Promise<TenantId | null | undefined> {
  return named === undefined ? null : findLiveTenantId(pool, named)
}

/** Lays out rows of cells as columns of equal width. */
export function columnsText(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_cell, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0))) ?? []
  const line = (row: readonly string[]) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
  return rows.map((row) => line(row).trimEnd()).join('\n')
}

/** Runs `work` on the stores that the environment names. Exit code 2 for wrong settings, 1 when `work` throws. */
export async function withStores(
  terminal: Terminal,
  work: (stores: ToolStores) => Promise<ExitCode>,
  sessionSettings: Readonly<Record<string, string>> = {},
): Promise<ExitCode> {
  const read = readConfig(terminal.env, { process: 'latchkey' })
  if (read.kind === 'invalid') {
    for (const problem of read.problems) terminal.complain(problem)
    return 2
  }
  const { redisUrl } = read.config
  const redis = redisUrl === undefined ? undefined : redisOf({ ...read.config, redisUrl })
  const pool = createPool({ ...pooled, ...databaseOf(read.config), sessionSettings })
  try {
    return await work({ pool, notify: (publish) => notify(redis, publish) })
  } catch (error) {
    return failed(terminal, error)
  } finally {
    await pool.end()
  }
}

async function notify(
  address: StoreAddress | undefined,
  publish: (redis: RedisConnection) => Promise<void>,
): Promise<void> {
  if (address === undefined) return
  const redis = openRedis({ ...address, deadlineMs: notifyMsMax, onError: () => undefined })
  const deadlineMs = performance.now() + notifyMsMax
  // Calls are refused at once until the connection is open.
  for (let isDone = false; !isDone && performance.now() < deadlineMs; ) {
    isDone = await publish(redis).then(
      () => true,
      () => false,
    )
    if (!isDone) await Bun.sleep(notifyAgainMs)
  }
  await redis.close()
}

/** Prints why a command failed; returns the exit code of failure. */
export function failed(terminal: Terminal, error: unknown): 1 {
  terminal.complain(`It did not work: ${textOf(withoutParameters(error))}`)
  return 1
}

/** Text of an error. That of a connection which fails at every address of a name holds its reasons inside. */
function textOf(thrown: unknown): string {
  const error = withoutParameters(thrown)
  if (error instanceof AggregateError && error.errors.length > 0) return textOf(error.errors[0])
  if (!(error instanceof Error)) return 'without a reason'
  const isUnmigrated = 'code' in error && error.code === '42P01'
  return isUnmigrated ? `${error.message}: run latchkey migrate first` : error.message
}

/**
 * Returns user and host of this command for the audit log, at most 200 characters. Without a user in the environment it asks the system;
 * a container's user may have no name there, which leaves its number.
 */
export function whoRuns(env: Environment = process.env): string {
  // Bun 1.4.5's os.userInfo() reads USER alone, and returns "unknown" without it.
  const name =
    env['USER'] || env['LOGNAME'] || nameOfUser() || `uid ${process.getuid?.() ?? 'without number'}`
  return `${name}@${hostname()}`.slice(0, actorCharsMax)
}

/** Returns '' where the system has no name for this user, or no program `id`. */
function nameOfUser(): string {
  const program = Bun.which('id')
  return program === null ? '' : Bun.spawnSync([program, '-un'], { timeout: 1_000 }).stdout.toString().trim()
}
