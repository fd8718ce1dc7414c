import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startTestApi, type TestApi, tenantYaml, testApiKey } from '#test/support/api.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { command, startStandalone } from '#test/support/stores/redis-topology.ts'
import type { TestRedis } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import {
  acquire,
  type Caller,
  callEveryRoute,
  expectAway,
  expectRefused,
  fetchRecord,
  readiness,
  save,
  send,
  untilLocks,
  untilReadiness,
} from './record-calls.ts'
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts'

describe('records on one Redis', () => {
  let redis: TestRedis
  let api: TestApi
  let caller: Caller

  beforeAll(async () => {
    redis = await startStandalone()
    api = await startTestApi({ redisUrl: redis.url })
    caller = { api, apiKey: testApiKey }
    await untilReadiness(api, 200)
    await untilLocks(caller, 'start')
  }, 30_000)
  afterAll(async () => {
    redis.signal('SIGCONT')
    await api.close()
    await redis.stop()
  })

  test('records: calls are refused within a second while Redis hangs, and resume without loss', async () => {
    await save(caller, 'kept')
    redis.signal('SIGSTOP')
    await expectAway(caller, 'hung')
    expect(api.logs()).toContain('"checks":"store_unavailable 2"')
    const metrics = await (await fetch(`${api.opsUrl}/metrics`)).text()
    expect(metrics).toMatch(/^latchkey_records_checks_total\{outcome="store_unavailable"\} [3-9]/m)
    expect(metrics).toMatch(/^latchkey_storage_redis_failures_total\{reason="timeout"\} [1-9]/m)
    // The process stays ready after its first success: without Ready pods, callers would not get an error that names the cause.
    expect((await readiness(api)).status).toBe(200)
    redis.signal('SIGCONT')
    await untilLocks(caller, 'hung')
    expect((await fetchRecord(caller, 'kept')).answer.json).toMatchObject({
      cached: true,
      record: { status: 201, body: { saved: 'kept' } },
    })
  })

  test('records: after the reply to an acquisition was lost, only the same attempt id re-enters the lock', async () => {
    await untilLocks(caller, 'attempt')
    redis.signal('SIGSTOP')
    expectRefused(await acquire(caller, 'lost-reply', { attemptId: 'first' }))
    redis.signal('SIGCONT')
    await untilLocks(caller, 'attempt')
    const others = await acquire(caller, 'lost-reply', { attemptId: 'second' })
    expect(others.answer.json).toMatchObject({ cached: false, locked: false })
    const own = await acquire(caller, 'lost-reply', { attemptId: 'first' })
    expect(own.answer.json).toMatchObject({ cached: false, locked: true })
  })

  test('records: a caller that waits while Redis hangs gets a response within its wait plus a second', async () => {
    await untilLocks(caller, 'wait')
    await acquire(caller, 'waited-for')
    const waiting = Promise.all([1, 2, 3].map(() => acquire(caller, 'waited-for', { waitMs: 1200 })))
    await until('three waiting callers', async () => {
      const [clients] = await command(redis, ['PUBSUB', 'SHARDNUMSUB', ...((await channels(redis)) ?? [])])
      return /wake/.test(String(clients)) || undefined
    })
    redis.signal('SIGSTOP')
    for (const { answer, ms } of await waiting) {
      expect(ms).toBeLessThan(2200)
      expect(answer.status).toBe(503)
      expect(answer.text).not.toContain('cached')
    }
    redis.signal('SIGCONT')
    await untilLocks(caller, 'wait')
  })

  test('records: after Redis is killed and loses its data, calls find no record, and metrics report the loss', async () => {
    await save(caller, 'forgotten')
    redis.signal('SIGKILL')
    await until(
      'a refusal',
      async () => (await fetchRecord(caller, 'forgotten')).answer.status === 503 || undefined,
    )
    await expectAway(caller, 'gone')
    await redis.restart()
    await untilLocks(caller, 'gone')
    expect((await fetchRecord(caller, 'forgotten')).answer.json).toEqual({ cached: false })
    await until('the loss in the metrics', async () => {
      const text = await (await fetch(`${api.opsUrl}/metrics`)).text()
      return /epoch[a-z_]*total\S* [1-9]/.test(text) || undefined
    })
  })

  test('records: after Redis is emptied, calls are answered as on a new Redis, seeded from Postgres', async () => {
    await save(caller, 'emptied')
    await command(redis, ['FLUSHALL'])
    const answers = await callEveryRoute(caller, 'emptied')
    expect(answers.map(({ answer }) => answer.status)).toEqual([200, 200, 200, 200, 409])
    expect(answers[0]?.answer.json).toMatchObject({ cached: false, locked: true })
  })

  test('records: a full Redis refuses locks and saves, serves reads, and recovers when a record is deleted', async () => {
    const key = 'full'
    await save(caller, key, 'x'.repeat(200_000))
    await save(caller, `${key}-2`, 'x'.repeat(200_000))
    const [info] = await command(redis, ['INFO', 'memory'])
    const used = Number(/used_memory:(\d+)/.exec(String(info))?.[1])
    await command(redis, ['CONFIG', 'SET', 'maxmemory', String(used - 150_000)])
    expectRefused(await acquire(caller, 'full-lock'))
    expectRefused(await save(caller, 'full-put'))
    expect((await fetchRecord(caller, key)).answer.json).toMatchObject({ cached: true })
    const removed = await send(caller, 'DELETE', `/v1/record?scope=faults&key=${key}`)
    expect(removed.answer.json).toEqual({ ok: true, existed: true })
    await untilLocks(caller, key)
    await command(redis, ['CONFIG', 'SET', 'maxmemory', '256mb'])
  })

  test('records: the process is not ready and names the eviction policy if Redis may drop records', async () => {
    await command(redis, ['CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru'])
    expect(await untilReadiness(api, 503)).toContain('allkeys-lru')
    expect((await fetch(`${api.opsUrl}/livez`)).status).toBe(200)
    await command(redis, ['CONFIG', 'SET', 'maxmemory-policy', 'noeviction'])
    await untilReadiness(api, 200)
  })
})

test('records: until Redis is up after process start, calls are refused and the process is not ready', async () => {
  const redis = await startStandalone()
  await redis.stop()
  const api = await startTestApi({ redisUrl: redis.url })
  const caller = { api, apiKey: testApiKey }
  try {
    await expectAway(caller)
    expect(await untilReadiness(api, 503)).toContain('Redis has not replied yet')
    await redis.restart()
    await untilLocks(caller, 'started')
    await untilReadiness(api, 200)
  } finally {
    await api.close()
    await redis.stop()
  }
})

async function channels(redis: TestRedis): Promise<string[]> {
  const [names] = await command(redis, ['PUBSUB', 'SHARDCHANNELS', '*wake'])
  return (names as string[]) ?? []
}

describe('records, Postgres unavailable', () => {
  let redis: TestRedis
  let postgres: TcpProxy
  let database: { url: string; drop(): Promise<void> }
  let api: TestApi
  let caller: Caller

  beforeAll(async () => {
    redis = await startStandalone()
    database = await createMigratedDatabase()
    const url = new URL(database.url)
    postgres = await startTcpProxy(Number(url.port))
    url.port = String(postgres.port)
    api = await startTestApi({
      redisUrl: redis.url,
      databaseUrl: url.href,
      manifests: tenantYaml('acme', testApiKey),
    })
    caller = { api, apiKey: testApiKey }
    await untilReadiness(api, 200)
    await untilLocks(caller, 'start')
  }, 30_000)
  afterAll(async () => {
    postgres.heal()
    await api.close()
    await postgres.close()
    await database.drop()
    await redis.stop()
  })

  test.each([
    ['gone', () => postgres.cut()],
    ['hung', () => postgres.hang()],
  ])(
    'records: responses stay the same for a tenant with meters in Redis while Postgres is %s',
    async (name, fail) => {
      await untilLocks(caller, name)
      const before = await callEveryRoute(caller, `${name}-before`)
      fail()
      const during = await callEveryRoute(caller, `${name}-during`)
      const shape = (answers: typeof before) =>
        answers.map(({ answer }) => [answer.status, Object.keys(answer.json).toSorted()])
      expect(shape(during)).toEqual(shape(before))
      for (const { ms } of during) expect(ms).toBeLessThan(1000)
      expect((await readiness(api)).status).toBe(200)
      postgres.heal()
    },
  )

  test.each([
    ['gone', () => postgres.cut()],
    ['hung', () => postgres.hang()],
  ] as const)(
    'records: while Postgres is %s and Redis emptied, locks are refused, since usage is unknown',
    async (name, fail) => {
      await untilLocks(caller, name)
      fail()
      await command(redis, ['FLUSHALL'])
      const [lock, saved] = await callEveryRoute(caller, `${name}-empty`)
      for (const timed of [lock, saved]) if (timed) expectRefused(timed, 1000)
      expect(await command(redis, ['DBSIZE'])).toEqual([0])
      postgres.heal()
      await untilLocks(caller, name)
    },
  )
})
