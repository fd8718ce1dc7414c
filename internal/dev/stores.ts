import { mkdirSync, realpathSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type FolderLock, type LockResult, lockFolder } from './folder-lock.ts'
import { startPostgres } from './postgres.ts'
import { endLeftPostgres } from './postgres-data.ts'
import { postgresHome, removePostgres } from './postgres-place.ts'
import { endLeftRedis, startRedis } from './redis.ts'
import { StoreStartError } from './start-error.ts'
import type { RunningStore, StoreOptions } from './store.ts'

/** Which stores to start; a given URL stands for one that already runs elsewhere. */
export interface StoresOptions extends StoreOptions {
  readonly databaseUrl?: string
  readonly redisUrl?: string
}

/** Both stores, embedded or given. */
export interface RunningStores {
  readonly databaseUrl: string
  readonly redisUrl: string
  /** Settles with a store's name when an embedded one ends before `stop`; never when there is none. */
  readonly lost: Promise<string>
  /** Ends the embedded ones in good order within about 10 s and gives the folder back. Repeating it is safe. */
  stop(): Promise<void>
}

/**
 * Starts Postgres and Redis side by side on one data folder, which this process then holds until `stop` or its own end.
 * When one fails, the other is stopped again.
 * @throws StoreStartError with what to do; naming the holder when another process holds the folder
 */
export async function startStores(options: StoresOptions): Promise<RunningStores> {
  const lock = takeFolder(options.dataDir)
  const [postgres, redis] = await Promise.allSettled([
    options.databaseUrl === undefined ? timed('Postgres', startPostgres, options) : undefined,
    options.redisUrl === undefined ? timed('Redis', startRedis, options) : undefined,
  ])
  const started = [postgres, redis].map((result) =>
    result.status === 'fulfilled' ? result.value : undefined,
  )
  let stopping = false
  const stop = async () => {
    stopping = true
    await Promise.all(started.map((store) => store?.stop()))
    lock.release()
  }
  for (const result of [postgres, redis]) {
    if (result.status === 'fulfilled') continue
    await stop()
    throw result.reason
  }
  const { promise: lost, resolve } = Promise.withResolvers<string>()
  for (const [index, store] of started.entries())
    void store?.exited.then(() => {
      if (!stopping) resolve(index === 0 ? 'Postgres' : 'Redis')
    })
  return {
    databaseUrl: started[0]?.url ?? options.databaseUrl ?? '',
    redisUrl: started[1]?.url ?? options.redisUrl ?? '',
    lost,
    stop,
  }
}

/**
 * Ends what runs on a data folder's stores and removes the folder. Only for a folder that this process holds or whose holder
 * is gone.
 */
export async function removeStores(dataDir: string): Promise<void> {
  await endLeftPostgres(postgresHome(dataDir))
  await endLeftRedis(join(dataDir, 'redis'))
  await removePostgres(dataDir)
  await rm(dataDir, { recursive: true, force: true })
}

function takeFolder(dataDir: string): FolderLock {
  const result = tryFolder(dataDir)
  if (result.kind === 'locked') return result.lock
  throw new StoreStartError(
    `Another dev server (process ${result.pid ?? 'unknown'}) uses ${dataDir}: end it, or set LATCHKEY_DATA_DIR to another folder`,
  )
}

function tryFolder(dataDir: string): LockResult {
  try {
    mkdirSync(dataDir, { recursive: true })
    return lockFolder(realpathSync(dataDir))
  } catch (cause) {
    throw new StoreStartError(
      `${dataDir} cannot be written; perhaps another user made it: remove it as that user, or set LATCHKEY_DATA_DIR to another folder`,
      { cause },
    )
  }
}

async function timed<T extends RunningStore>(
  name: string,
  start: (options: StoresOptions) => Promise<T>,
  options: StoresOptions,
): Promise<T> {
  const startedAt = performance.now()
  const store = await start(options)
  options.onProgress?.(
    `${name}: ready in ${Math.round(performance.now() - startedAt)} ms (process ${store.pid})`,
  )
  return store
}
