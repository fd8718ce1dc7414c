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

/** Exit code of a command: 0 on success, 1 on failure, 2 for wrong arguments. Undefined for a process that sets its own exit code. */
export type ExitCode = 0 | 1 | 2 | undefined

/** Environment and output of a command. */
export interface Terminal {
  readonly env: Environment
  /** Prints a line to standard output. */
  say(text: string): void
  /** Prints a line to standard error. */
  complain(text: string): void
}

/** A command in the table of commands. */
export interface Command {
  /** Description of the command in the overview, one line long. */
  readonly summary: string
  /** Text that `--help` prints. */
  readonly help: string
  /** Runs the command with the arguments that follow its name. Must not throw, whatever the arguments are. */
  run(args: readonly string[], terminal: Terminal): Promise<ExitCode | Misuse>
}

/** Stores that a command can use. */
export interface ToolStores {
  readonly pool: Pool
  /**
   * Publishes a message in Redis, so that other processes need not wait for their next poll. Gives up after one second, because subscribers
   * also poll. Never rejects.
   */
  notify(publish: (redis: RedisConnection) => Promise<void>): Promise<void>
}

const pooled = {
  ...{ applicationName: 'latchkey tool', connectionsMax: 2 },
  ...{ queryTimeoutMs: 30_000, connectTimeoutMs: 5_000 },
}
const notifyMsMax = 1_000
const notifyAgainMs = 25
/** Maximum number of characters of an actor's name in the audit log. */
const actorCharsMax = 200

/** Validation error of a command's arguments. */
export interface Misuse {
  readonly kind: 'misused'
  readonly text: string
}

/** Returns a validation error of a command's arguments. */
export function misuse(text: string): Misuse {
  return { kind: 'misused', text }
}

/** Parses arguments with `parseArgs`. Returns an error of `parseArgs` as a validation error. */
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

/** Result of a command as text and JSON, or a problem. Timestamps in the JSON are in milliseconds. */
export type Result =
  | { readonly text: string; readonly json: unknown }
  /** `json` defaults to an object with the problem. */
  | { readonly problem: string; readonly json?: unknown }

/** Prints a result as text or JSON, and returns the exit code. */
export function answer(result: Result, isJson: boolean, terminal: Terminal): 0 | 1 {
  const isFailure = 'problem' in result
  const json = isFailure ? (result.json ?? { problem: result.problem }) : result.json
  if (isJson) terminal.say(JSON.stringify(toWire(json), null, 2))
  else if (isFailure) terminal.complain(result.problem)
  else terminal.say(result.text)
  return isFailure ? 1 : 0
}

/** Problem of a command when no tenant has the given id or slug. */
export const noTenant = { problem: 'No tenant has that id or slug' } as const

/** Finds the tenant of the option `--tenant`. Returns null without the option, and undefined for an unknown tenant. */
export async function tenantOf(pool: Pool, named: string | undefined): Promise<TenantId | null | undefined> {
  return named === undefined ? null : findLiveTenantId(pool, named)
}

/** Formats rows of cells as a table with aligned columns. */
export function columnsText(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_cell, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0))) ?? []
  const line = (row: readonly string[]) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
  return rows.map((row) => line(row).trimEnd()).join('\n')
}

/** Runs `work` with the stores that the environment names. Returns exit code 2 for invalid settings, and 1 if `work` throws. */
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
  // Retries, because every Redis command fails until the connection is open.
  for (let isDone = false; !isDone && performance.now() < deadlineMs; ) {
    isDone = await publish(redis).then(
      () => true,
      () => false,
    )
    if (!isDone) await Bun.sleep(notifyAgainMs)
  }
  await redis.close()
}

/** Prints the reason why a command failed, and returns exit code 1. */
export function failed(terminal: Terminal, error: unknown): 1 {
  terminal.complain(`The command failed: ${textOf(error)}`)
  return 1
}

/** Returns the text of an error. If a host name has several addresses and all fail, returns the first address's error. */
function textOf(thrown: unknown): string {
  const error = withoutParameters(thrown)
  if (error instanceof AggregateError && error.errors.length > 0) return textOf(error.errors[0])
  if (!(error instanceof Error)) return 'without a reason'
  const isUnmigrated = 'code' in error && error.code === '42P01'
  return isUnmigrated ? `${error.message}: run latchkey migrate first` : error.message
}

/**
 * Returns the user and host of this command for the audit log, at most 200 characters. If the environment names no user, asks the operating
 * system. If the user has no name, as in some containers, returns the user id.
 */
export function whoRuns(env: Environment = process.env): string {
  // In Bun 1.4.5, os.userInfo() reads only USER, and returns "unknown" if USER is not set.
  const name =
    env['USER'] || env['LOGNAME'] || nameOfUser() || `uid ${process.getuid?.() ?? 'without number'}`
  return `${name}@${hostname()}`.slice(0, actorCharsMax)
}

/** Returns the user name that the program `id` prints. Returns an empty string if the user has no name, or without this program. */
function nameOfUser(): string {
  const program = Bun.which('id')
  return program === null ? '' : Bun.spawnSync([program, '-un'], { timeout: 1_000 }).stdout.toString().trim()
}
