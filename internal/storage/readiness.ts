import { within } from '#internal/base/index.ts'
import type { Check, CheckResult } from '#internal/telemetry/index.ts'
import { schemaVersion, schemaVersionNeeded } from './postgres/migrate.ts'
import type { Pool } from './postgres/pool.ts'
import type { RedisConnection } from './redis/client.ts'
import { type RedisServerFacts, RedisUnavailable } from './redis/session.ts'
import { TlsFailure } from './tls.ts'

const redisMajorMin = 7

/** Passes permanently once the schema is current: idempotency records work without Postgres, and a pod that is not ready serves nothing. */
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
      reason: `the database schema has version ${version}, but this build needs version ${schemaVersionNeeded}: run latchkey migrate`,
    }
  }
}

/** Maximum wait for Redis. Below the time limit of a health check, so that the check returns its last result while Redis hangs. */
const lookMsMax = 400

/**
 * Passes if the last reply of Redis showed a supported version and the eviction policy `noeviction`. If Redis stops replying later, the
 * process stays ready, so that callers get a 503 with a specific error, which a Service without ready pods could not send.
 * @param mayStartWithout returns whether the process is useful without Redis; if so before the first reply, the check passes permanently
 */
export function redisCheck(redis: RedisConnection, mayStartWithout: () => boolean = () => false): Check {
  let last: CheckResult = { ok: false, reason: 'Redis has not replied yet' }
  let hasReplied = false
  let startedWithout = false
  const look = async () => {
    try {
      last = validateRedis(await redis.serverFacts())
      hasReplied = true
    } catch (error) {
      const tls = redis.tlsFailure()
      if (!last.ok && tls !== undefined) last = { ok: false, reason: `redis: ${tls}` }
      // Other failures, except for TLS, leave the last result unchanged; each failed call is already counted and logged.
      if (!last.ok && error instanceof RedisUnavailable && error.reason === 'refused')
        last = {
          ok: false,
          reason:
            'Redis refuses INFO: the server is still loading, or the Redis user lacks the permission +info',
        }
    }
    return last
  }
  return async () => {
    const result = await within(lookMsMax, look(), () => last)
    if (!hasReplied) startedWithout ||= mayStartWithout()
    return !hasReplied && startedWithout ? { ok: true } : result
  }
}

function validateRedis(servers: readonly RedisServerFacts[]): CheckResult {
  for (const server of servers) {
    if (Number.parseInt(server.version, 10) < redisMajorMin) {
      return {
        ok: false,
        reason: `Redis has version ${server.version}, but version ${redisMajorMin}.0 or newer is needed`,
      }
    }
    if (server.maxmemoryPolicy !== 'noeviction') {
      const policy = server.maxmemoryPolicy
      return {
        ok: false,
        reason: `Redis has maxmemory-policy ${policy} and would evict records: set maxmemory-policy noeviction`,
      }
    }
  }
  return { ok: true }
}
