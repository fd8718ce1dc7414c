import { eventReadSettings } from '#internal/events/index.ts'
import {
  createPool,
  openRedis,
  type Pool,
  type PoolOptions,
  type RedisConnection,
  type RedisOptions,
  type StoreAddress,
  type StoreTls,
  schemaCheck,
} from '#internal/storage/index.ts'
import type { Host } from './telemetry.ts'

export interface DatabaseSettings {
  readonly databaseUrl: string
  readonly databaseTlsCaFile?: string | undefined
  readonly databaseTlsCertFile?: string | undefined
  readonly databaseTlsKeyFile?: string | undefined
  readonly databaseTlsServerName?: string | undefined
}

export interface RedisSettings {
  readonly redisUrl: string
  readonly redisTlsCaFile?: string | undefined
  readonly redisTlsCertFile?: string | undefined
  readonly redisTlsKeyFile?: string | undefined
  readonly redisTlsServerName?: string | undefined
}

export function databaseOf(settings: DatabaseSettings): StoreAddress {
  return {
    url: settings.databaseUrl,
    tls: tlsOf({
      caFile: settings.databaseTlsCaFile,
      certFile: settings.databaseTlsCertFile,
      keyFile: settings.databaseTlsKeyFile,
      serverName: settings.databaseTlsServerName,
    }),
  }
}

export function redisOf(settings: RedisSettings): StoreAddress {
  return {
    url: settings.redisUrl,
    tls: tlsOf({
      caFile: settings.redisTlsCaFile,
      certFile: settings.redisTlsCertFile,
      keyFile: settings.redisTlsKeyFile,
      serverName: settings.redisTlsServerName,
    }),
  }
}

function tlsOf(tls: StoreTls): StoreTls | undefined {
  return Object.values(tls).some((value) => value !== undefined) ? tls : undefined
}

export interface Stores {
  readonly pool: Pool
  readonly redis: RedisConnection
}

export type PostgresOptions = Omit<PoolOptions, 'connectTimeoutMs' | 'onIdleError'>

const connectMsMax = 2_000

/**
 * Options of a pool that reads events. A session caches one plan per partition that it has read, so connections are replaced after an hour
 * to limit that cache.
 */
export const eventReads = { sessionSettings: eventReadSettings, lifetimeMsMax: 3_600_000 }

/**
 * Opens Postgres and Redis until the scope closes. The stores need not be reachable yet; the process is not ready until Postgres has the
 * schema of this version.
 */
export async function openStores(
  host: Host,
  settings: DatabaseSettings & RedisSettings,
  options: Omit<PostgresOptions, 'url' | 'tls'>,
): Promise<Stores> {
  const pool = await openPostgres(host, 'postgres', { ...options, ...databaseOf(settings) })
  host.health.addCheck('schema', schemaCheck(pool))
  return { pool, redis: await openRedisOf(host, 'redis', redisOf(settings)) }
}

/** `name` appears in logs and metrics. */
export function openPostgres(
  { log, connectionBroke, watchPool, scope }: Host,
  name: string,
  options: PostgresOptions,
): Promise<Pool> {
  const onIdleError = (error: Error) => {
    connectionBroke(name)
    log.warn({ cause: error.message }, 'idle Postgres connection broke')
  }
  return scope.open({
    name,
    open: () => {
      const pool = createPool({ ...options, connectTimeoutMs: connectMsMax, onIdleError })
      watchPool(name, pool, options.connectionsMax)
      return pool
    },
    close: (pool) => pool.end(),
  })
}

/** `name` appears in logs. */
export function openRedisOf(
  { redisError, redisRefused, scope }: Host,
  name: string,
  options: Pick<RedisOptions, 'url' | 'tls' | 'deadlineMs'>,
): Promise<RedisConnection> {
  return scope.open({
    name,
    open: () => openRedis({ ...options, onError: redisError, onRefused: redisRefused }),
    close: (redis) => redis.close(),
  })
}
