import { expect, test } from 'bun:test'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { schemaVersionNeeded } from './postgres/migrate.ts'
import { createPool } from './postgres/pool.ts'
import { redisCheck, schemaCheck } from './readiness.ts'
import { openRedis } from './redis/client.ts'

test('schema readiness: fails below the required schema version, and passes permanently once the check has seen this version', async () => {
  const database = await createMigratedDatabase()
  const bounds = { connectionsMax: 1, queryTimeoutMs: 10_000, connectTimeoutMs: 5_000 }
  const pool = createPool({ url: database.url, applicationName: 'latchkey test readiness', ...bounds })
  const signal = new AbortController().signal
  try {
    const { rows } = await pool.query<{ name: string; checksum: string }>(
      'DELETE FROM schema_migrations WHERE version = $1 RETURNING name, checksum',
      [schemaVersionNeeded],
    )
    const check = schemaCheck(pool)
    expect(await check(signal)).toEqual({
      ok: false,
      reason: expect.stringContaining(
        `version ${schemaVersionNeeded - 1}, but this build needs version ${schemaVersionNeeded}`,
      ),
    })
    await pool.query('INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)', [
      schemaVersionNeeded,
      rows[0]?.name,
      rows[0]?.checksum,
    ])
    expect(await check(signal)).toEqual({ ok: true })
    // The check keeps passing, since records in Redis are served even while Postgres is unavailable.
    await pool.query('DELETE FROM schema_migrations')
    expect(await check(signal)).toEqual({ ok: true })
  } finally {
    await pool.end()
    await database.drop()
  }
})

test('Redis readiness: passes permanently after the first reply, and before it only for a process that may start without Redis', async () => {
  // No server listens on this port.
  const redis = openRedis({ url: 'redis://127.0.0.1:1', onError: () => undefined })
  const { signal } = new AbortController()
  let mayStart = false
  const check = redisCheck(redis, () => mayStart)
  try {
    expect(await check(signal)).toEqual({ ok: false, reason: 'Redis has not replied yet' })
    mayStart = true
    expect(await check(signal)).toEqual({ ok: true })
    mayStart = false
    expect(await check(signal)).toEqual({ ok: true })
  } finally {
    await redis.close()
  }
})
