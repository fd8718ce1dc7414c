import { hostname } from 'node:os'
import { databaseOf, redisOf } from '#cmd/serving/stores.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { Environment } from '#internal/config/index.ts'
import {
  createPool,
  openRedis,
  type Pool,
  type RedisConnection,
  type StoreAddress,
} from '#internal/storage/index.ts'
import { findLiveTenantId } from '#internal/tenants/index.ts'
import { type Cli, type ExitCode, exitCodes } from './cli.ts'
import { configOf } from './connect.ts'

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

/** Problem of a command when no tenant has the given id or slug. */
export const noTenant = { problem: 'No tenant has that id or slug' } as const

/** Finds the tenant of the option `--tenant`. Returns null without the option, and undefined for an unknown tenant. */
export async function tenantOf(pool: Pool, named: string | undefined): Promise<TenantId | null | undefined> {
  return named === undefined ? null : findLiveTenantId(pool, named)
}

/** Runs `work` with the stores that the environment names. Returns exit code 2 for invalid settings. */
export async function withStores(
  cli: Cli,
  work: (stores: ToolStores) => Promise<ExitCode>,
  sessionSettings: Readonly<Record<string, string>> = {},
): Promise<ExitCode> {
  const config = configOf(cli)
  if (config === undefined) return exitCodes.misused
  const { databaseUrl, redisUrl } = config
  if (databaseUrl === undefined) {
    cli.terminal.complain('LATCHKEY_DATABASE_URL is missing: this command needs it (postgres URL)')
    return exitCodes.misused
  }
  const redis = redisUrl === undefined ? undefined : redisOf({ ...config, redisUrl })
  const pool = createPool({ ...pooled, ...databaseOf({ ...config, databaseUrl }), sessionSettings })
  try {
    return await work({ pool, notify: (publish) => notify(redis, publish) })
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
