import { within } from '#internal/base/index.ts'
import type { Check, CheckResult } from '#internal/telemetry/index.ts'
import { schemaVersion, schemaVersionNeeded } from './postgres/migrate.ts'
import type { Pool } from './postgres/pool.ts'
import type { RedisConnection } from './redis/client.ts'
import { type RedisServerFacts, RedisUnavailable } from './redis/connection.ts'
import { TlsFailure } from './tls.ts'

const redisMajorMin = 7

/**
 * Ready once the database has the schema this build needs. Then it stays so: with Postgres away records still answer, and a
 * pod taken out of the Service would answer nothing.
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

/** Longest wait of one check for Redis; below the bound of a health check, so that a hung Redis is not a late check. */
const lookMsMax = 400

/**
 * Ready while Redis, as it was last seen, is one that keeps what it is given. A Redis that does not answer after that leaves the
 * process ready: calls get a 503 that names what is missing, which a Service without pods could not.
 */
export function redisCheck(redis: RedisConnection): Check {
  let last: CheckResult = { ok: false, reason: 'Redis has not answered yet' }
  const look = async () => {
    try {
      last = judgeRedis(await redis.serverFacts())
    } catch (error) {
      const tls = redis.tlsFailure()
      if (!last.ok && tls !== undefined) last = { ok: false, reason: `redis: ${tls}` }
      // Its absence is counted and logged where it is met.
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

function judgeRedis(servers: readonly RedisServerFacts[]): CheckResult {
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
