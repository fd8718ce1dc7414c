import { mkdirSync, realpathSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type FolderLock, lockFolder } from './folder-lock.ts'
import { endLeftPostgres, startPostgres } from './postgres.ts'
import { postgresHome, removePostgres } from './postgres-place.ts'
import { StoreStartError } from './processes.ts'
import { endLeftRedis, startRedis } from './redis.ts'
import type { RunningStore, StoreOptions } from './store.ts'

/** Options of both stores. A URL refers to a store that already runs elsewhere. */
export interface StoresOptions extends Omit<StoreOptions, 'port'> {
  readonly databaseUrl?: string | undefined
  readonly redisUrl?: string | undefined
}

/** Both stores, embedded or configured by URL. */
export interface RunningStores {
  readonly databaseUrl: string
  readonly redisUrl: string
  /** Resolves with the name of an embedded store that ends before `stop`. */
  readonly lost: Promise<string>
  /** Shuts embedded stores down cleanly within about 10 s and releases the folder. Repeating the call is safe. */
  stop(): Promise<void>
}

/**
 * Starts Postgres and Redis on one data folder, which this process locks until `stop` or its own exit. If one store fails to start, the
 * other is stopped.
 * @throws StoreStartError with a remedy, which names the process that locks the folder, if any
 */
export async function startStores(options: StoresOptions): Promise<RunningStores> {
  const { dataDir, durable, onProgress } = options
  const lock = takeFolder(dataDir)
  const started = new Map<string, RunningStore>()
  const { promise: lost, resolve } = Promise.withResolvers<string>()
  let isStopping = false
  const open = async (
    name: string,
    url: string | undefined,
    start: (given: StoreOptions) => Promise<RunningStore>,
  ) => {
    if (url !== undefined) return url
    const startedAt = performance.now()
    const store = await start({ dataDir, durable, ...(onProgress && { onProgress }) })
    started.set(name, store)
    void store.exited.then(() => {
      if (!isStopping) resolve(name)
    })
    const tookMs = Math.round(performance.now() - startedAt)
    onProgress?.(`${name}: ready in ${tookMs} ms (process ${store.pid})`)
    return store.url
  }
  const stop = async () => {
    isStopping = true
    await Promise.all([...started.values()].map((store) => store.stop()))
    lock.release()
  }
  const opened = await Promise.allSettled([
    open('Postgres', options.databaseUrl, startPostgres),
    open('Redis', options.redisUrl, startRedis),
  ])
  const [postgres, redis] = opened
  if (postgres.status === 'fulfilled' && redis.status === 'fulfilled')
    return { databaseUrl: postgres.value, redisUrl: redis.value, lost, stop }
  await stop()
  throw opened.find((each) => each.status === 'rejected')?.reason
}

/** Stops the stores of a data folder and removes the folder. Call it only if no other running process uses the folder. */
export async function removeStores(dataDir: string): Promise<void> {
  await endLeftPostgres(postgresHome(dataDir))
  await endLeftRedis(join(dataDir, 'redis'))
  await removePostgres(dataDir)
  await rm(dataDir, { recursive: true, force: true })
}

function takeFolder(dataDir: string): FolderLock {
  let result: ReturnType<typeof lockFolder>
  try {
    mkdirSync(dataDir, { recursive: true })
    result = lockFolder(realpathSync(dataDir))
  } catch (cause) {
    throw new StoreStartError(
      `The folder ${dataDir} cannot be written; perhaps another user created it: remove it as that user, or set LATCHKEY_DATA_DIR to another folder`,
      { cause },
    )
  }
  if (result.kind === 'locked') return result.lock
  throw new StoreStartError(
    `Another dev server (process ${result.pid ?? 'unknown'}) uses ${dataDir}: stop that server, or set LATCHKEY_DATA_DIR to another folder`,
  )
}
