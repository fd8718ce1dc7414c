import { within } from '#internal/base/index.ts'
import type { Check, CheckResult } from '#internal/telemetry/index.ts'
import { schemaVersion, schemaVersionNeeded } from './postgres/migrate.ts'
import type { Pool } from './postgres/pool.ts'
import type { RedisConnection } from './redis/client.ts'
import { type RedisServerFacts, RedisUnavailable } from './redis/connection.ts'
import { TlsFailure } from './tls.ts'

const redisMajorMin = 7

/**
 * Ready once the database has the schema that this build needs, then for good: without Postgres, records still answer, and a
 * pod outside the Service would answer nothing.
 */
export function schemaCheck(pool: Pool): Check {
  let reached = false
  return async () => {
    if (reached) return { ok: true }
    const version = await schemaVersion(pool).catch((error: unknown) => {
      if (error instanceof TlsFailure) return error
      throw error
    })
    if (version instanceof TlsFailure) return { ok: false, reason: `postgres: ${version.message}` }
    reached = version >= schemaVersionNeeded
    if (reached) return { ok: true }
    return {
      ok: false,
      reason: `the schema is at version ${version}, ${schemaVersionNeeded} is needed: run migrate`,
    }
  }
}

/** Maximum wait for Redis, below the bound of a health check, so that a hung Redis is not a failed check. */
const lookMsMax = 400

/**
 * Ready while Redis, as last seen, has a supported version and evicts nothing. If it stops answering later, the process stays
 * ready: calls get a specific 503, which a Service without pods could not give.
 */
export function redisCheck(redis: RedisConnection): Check {
  let last: CheckResult = { ok: false, reason: 'Redis has not answered yet' }
  const look = async () => {
    try {
      last = validateRedis(await redis.serverFacts())
    } catch (error) {
      const tls = redis.tlsFailure()
      if (!last.ok && tls !== undefined) last = { ok: false, reason: `redis: ${tls}` }
      // Callers count and log an unavailable Redis.
      if (!last.ok && error instanceof RedisUnavailable && error.reason === 'refused')
        last = {
          ok: false,
          reason: 'Redis refuses INFO: is it loading, or may this user not call it (+info)?',
        }
    }
    return last
  }
  return () => within(lookMsMax, look(), () => last)
}

function validateRedis(servers: readonly RedisServerFacts[]): CheckResult {
  for (const server of servers) {
    if (Number.parseInt(server.version, 10) < redisMajorMin) {
      return { ok: false, reason: `Redis is ${server.version}, ${redisMajorMin}.0 or newer is needed` }
    }
    if (server.maxmemoryPolicy !== 'noeviction') {
      const policy = server.maxmemoryPolicy
      return {
        ok: false,
        reason: `Redis has maxmemory-policy ${policy} and would drop records: set noeviction`,
      }
    }
  }
  return { ok: true }
}
