import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { createPool, migrate, type Pool } from '#internal/storage/index.ts'
import { startTestApi, type TestApi, testApiKey } from '#test/support/api.ts'
import { genericBody, signGeneric, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import {
  createTestPostgres,
  createTestRedis,
  type TestPostgres,
  type TestRedis,
} from '#test/support/stores.ts'

let postgres: TestPostgres
let durable: TestRedis
let volatile: TestRedis
let apis: { readonly spooling: TestApi; readonly lossy: TestApi }
let pool: Pool

beforeAll(async () => {
  ;[postgres, durable, volatile] = await Promise.all([
    createTestPostgres(),
    createTestRedis({ durable: true, extraArgs: ['--appendfsync', 'always'] }),
    createTestRedis({ durable: true, extraArgs: ['--appendfsync', 'everysec'] }),
  ])
  const bounds = { connectionsMax: 3, queryTimeoutMs: 30_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: postgres.url, applicationName: 'test', ...bounds })
  await migrate(pool, { log: { info: () => undefined, warn: () => undefined } })
  const manifests = webhookTenantYaml('acme', testApiKey)
  const databaseUrl = postgres.url
  apis = {
    spooling: await startTestApi({ databaseUrl, redisUrl: durable.url, manifests }),
    lossy: await startTestApi({ databaseUrl, redisUrl: volatile.url, manifests }),
  }
}, 60_000)
afterAll(async () => {
  durable.signal('SIGCONT')
  await apis?.spooling.close()
  await apis?.lossy.close()
  await pool.end()
  await Promise.all([postgres.stop(), durable.stop(), volatile.stop()])
})
beforeEach(async () => {
  const healthy = await poll(
    async () => (await send(apis.spooling, genericBody())).status === 200 || undefined,
    {
      deadlineMs: 20_000,
    },
  )
  expect(healthy).toBe(true)
})

/** Kills Postgres and waits until its backends have ended, shortly after the first process. */
async function crashPostgres(): Promise<void> {
  const { rows } = await pool.query<{ pid: number }>('SELECT pid FROM pg_stat_activity')
  postgres.signal('SIGKILL')
  const gone = () => rows.every(({ pid }) => !isRunning(pid)) || undefined
  expect(await poll(async () => gone(), { deadlineMs: 5_000 })).toBe(true)
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

async function send(api: TestApi, body: string) {
  const startedAtMs = performance.now()
  const response = await fetch(`${api.url}/v1/t/acme/webhooks/generic`, {
    method: 'POST',
    ...signGeneric(body),
  })
  const answer = (await response.json()) as Record<string, unknown>
  return {
    status: response.status,
    answer,
    headers: response.headers,
    tookMs: performance.now() - startedAtMs,
  }
}

/** Counts the events with this id in Postgres, and their deliveries. */
async function stored(id: string): Promise<readonly [events: number, deliveries: number]> {
  const { rows } = await pool.query<{ events: number; deliveries: number }>(
    `SELECT count(*) AS events, count(d.event_id) AS deliveries
     FROM events e LEFT JOIN deliveries_due d ON d.event_id = e.id WHERE source_event_id = $1`,
    [id],
  )
  return [rows[0]?.events ?? -1, rows[0]?.deliveries ?? -1]
}

async function untilStored(ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await poll(async () => (await stored(id))[0] > 0 || undefined, { deadlineMs: 20_000 })
    expect(await stored(id)).toEqual([1, 1])
  }
}

const newIds = (count: number) => Array.from({ length: count }, () => crypto.randomUUID())

describe('intake, Postgres unavailable', () => {
  test('intake: while Postgres is unavailable, events are spooled, answered with 202 and later stored exactly once', async () => {
    const ids = newIds(30)
    await crashPostgres()
    const answers = await Promise.all(ids.map((id) => send(apis.spooling, genericBody(id))))
    for (const { status, answer } of answers) {
      expect(answer).toEqual({ ok: true, queued: true })
      expect(status).toBe(202)
    }
    // Sends the events again, as providers may.
    for (const id of ids.slice(0, 5)) expect((await send(apis.spooling, genericBody(id))).status).toBe(202)
    await postgres.restart()
    await untilStored(ids)
    // Redeliveries are spooled until a probe closes the circuit breaker, within a second.
    const again = await poll(
      async () => {
        const { status, answer } = await send(apis.spooling, genericBody(ids[0]))
        return status === 202 ? undefined : answer
      },
      { deadlineMs: 5_000 },
    )
    expect(again).toEqual({ ok: true, cached: true })
  }, 60_000)

  test('intake: events are spooled if Postgres takes over 2 s, and an insert that completes late is not repeated', async () => {
    const ids = newIds(8)
    const client = await pool.connect()
    await client.query('BEGIN; LOCK TABLE dedupe_keys IN ACCESS EXCLUSIVE MODE')
    const answers = await Promise.all(ids.map((id) => send(apis.spooling, genericBody(id))))
    await client.query('ROLLBACK')
    client.release()
    for (const { status, tookMs } of answers) {
      expect(status).toBe(202)
      expect(tookMs).toBeLessThan(4_500)
    }
    await untilStored(ids)
  }, 60_000)

  test('intake: returns 503 with Retry-After and stores nothing if Postgres is unavailable and Redis is not durable', async () => {
    const id = crypto.randomUUID()
    await crashPostgres()
    const refused = await send(apis.lossy, genericBody(id))
    expect(refused).toMatchObject({ status: 503, answer: { code: 'queue_unavailable', statusCode: 503 } })
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    // Waits until no statement waits for a connection any more: such a statement would get one from the restarted Postgres.
    await Bun.sleep(6_500)
    await postgres.restart()
    expect(await stored(id)).toEqual([0, 0])
  }, 60_000)

  test('intake: returns 503 within its time limit if Postgres and Redis are unavailable', async () => {
    const id = crypto.randomUUID()
    await crashPostgres()
    durable.signal('SIGSTOP')
    const refused = await send(apis.spooling, genericBody(id))
    expect(refused.status).toBe(503)
    expect(refused.tookMs).toBeLessThan(8_000)
    durable.signal('SIGCONT')
    await postgres.restart()
  }, 60_000)
})

test('intake: events are stored as usual while Redis is unavailable', async () => {
  const id = crypto.randomUUID()
  durable.signal('SIGSTOP')
  expect((await send(apis.spooling, genericBody(id))).answer).toEqual({ ok: true })
  durable.signal('SIGCONT')
  expect(await stored(id)).toEqual([1, 1])
}, 30_000)
