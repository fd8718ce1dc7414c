import { databaseOf, redisOf } from '#cmd/serving/stores.ts'
import { readConfig } from '#internal/config/index.ts'
import {
  createPool,
  openRedis,
  type Pool,
  type RedisConnection,
  type StoreAddress,
} from '#internal/storage/index.ts'
import type { ExitCode, Terminal } from './command.ts'

/** What a tool works on. */
export interface ToolStores {
  readonly pool: Pool
  /**
   * Has something said in Redis, so that processes need not wait for their poll. Tries for a second and then lets it be: whoever
   * listens polls as well. Never rejects.
   */
  tell(say: (redis: RedisConnection) => Promise<void>): Promise<void>
}

const pooled = {
  applicationName: 'latchkey tool',
  connectionsMax: 2,
  queryTimeoutMs: 30_000,
  connectTimeoutMs: 5_000,
}
const tellMsMax = 1_000
const tellAgainMs = 25

/** Runs a tool with the stores that the environment names; says what is wrong with it (2), or why the work failed (1). */
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
    return await work({ pool, tell: (say) => tell(redis, say) })
  } catch (error) {
    terminal.complain(`It did not work: ${textOf(error)}`)
    return 1
  } finally {
    await pool.end()
  }
}

async function tell(
  address: StoreAddress | undefined,
  say: (redis: RedisConnection) => Promise<void>,
): Promise<void> {
  if (address === undefined) return
  const redis = openRedis({ ...address, deadlineMs: tellMsMax, onError: () => undefined })
  const deadlineMs = performance.now() + tellMsMax
  // Until the connection stands every call is refused at once.
  for (let told = false; !told && performance.now() < deadlineMs; ) {
    told = await say(redis).then(
      () => true,
      () => false,
    )
    if (!told) await Bun.sleep(tellAgainMs)
  }
  await redis.close()
}

/** A connection that fails at every address of a name has its reasons inside and no text of its own. */
function textOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return textOf(error.errors[0])
  if (!(error instanceof Error)) return 'for no reason that was told'
  const isUnmigrated = 'code' in error && error.code === '42P01'
  return isUnmigrated ? `${error.message}: run latchkey migrate first` : error.message
}
