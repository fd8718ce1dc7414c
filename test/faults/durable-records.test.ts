import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { tenantYaml } from '#test/support/api.ts'
import { genericBody, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { readiness } from '#test/support/processes/api-process.ts'
import { testSeed } from '#test/support/seed.ts'
import { command } from '#test/support/stores/redis-topology.ts'
import { createTestPostgres, type TestPostgres } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { DurableLoad, printReport } from './durable-load.ts'
import { type DurableScene, durableTenantYaml, openDurableScene } from './durable-scene.ts'
import { loadApiKey } from './event-scene.ts'

const seed = testSeed()
/** 900 ms plus a margin for a busy machine. */
const refusalMsMax = 2_000
const hangMs = 3_000

/** Runs a load during a fault, and expects that no saved operation is lost and none runs twice without an announcement. */
async function runFault(
  fault: string,
  scene: DurableScene,
  { statuses, during }: Fault,
): Promise<DurableLoad> {
  const load = new DurableLoad(scene.urls, crypto.randomUUID().slice(0, 8), seed)
  await load.untilSaved(200)
  load.begin()
  await during(load, scene)
  await load.untilSaved(200)
  const answers = load.answers()
  await load.end()
  const report = await load.report()
  printReport(fault, report, `during the fault ${answers.text}`)
  const { lost, doubled, fencesBack, strangers, violations } = report
  expect({ seed, lost, doubled, fencesBack, strangers, violations }).toEqual({
    seed,
    lost: 0,
    doubled: 0,
    fencesBack: 0,
    strangers: 0,
    violations: [],
  })
  expect([...statuses, 200, 409]).toEqual(expect.arrayContaining([...answers.byStatus.keys()]))
  for (const status of statuses) expect(answers.byStatus.get(status) ?? 0).toBeGreaterThan(0)
  expect(answers.slowestRefusalMs).toBeLessThan(refusalMsMax)
  return load
}

interface Fault {
  /** Answers that the fault causes, besides 200 and 409; 0: none. */
  readonly statuses: readonly number[]
  during(load: DurableLoad, scene: DurableScene): Promise<unknown>
}

/** Waits until calls are refused, and then until operations are saved again. */
const untilRefused = (load: DurableLoad) => until('a refusal', () => load.answers().byStatus.has(503))

const faults: Readonly<Record<string, Fault>> = {
  'Redis emptied': {
    statuses: [],
    async during(load, { redis }) {
      for (let times = 0; times < 3; times += 1) {
        await command(redis, ['FLUSHALL'])
        await load.untilSaved(100)
      }
    },
  },
  'Redis hung for 3 s': {
    statuses: [],
    async during(load, { redis }) {
      redis.signal('SIGSTOP')
      await Bun.sleep(hangMs)
      await load.untilSaved(100)
      redis.signal('SIGCONT')
    },
  },
  'Redis killed, an empty one in its place': {
    statuses: [],
    async during(load, { redis }) {
      redis.signal('SIGKILL')
      await load.untilSaved(300)
      await redis.restart()
    },
  },
  'Postgres stopped immediately': {
    statuses: [503],
    async during(load, { postgres }) {
      postgres.signal('SIGQUIT')
      await untilRefused(load)
      await postgres.restart()
    },
  },
  'Postgres killed': {
    statuses: [503],
    async during(load, { postgres }) {
      postgres.signal('SIGKILL')
      await untilRefused(load)
      await postgres.restart()
    },
  },
  'Postgres hung for 3 s': {
    statuses: [503],
    async during(_load, { postgres }) {
      await postgres.hang()
      await Bun.sleep(hangMs)
      postgres.wake()
    },
  },
  'network to Postgres hung for 3 s': {
    statuses: [503],
    async during(_load, { proxy }) {
      proxy.hang()
      await Bun.sleep(hangMs)
      proxy.heal()
    },
  },
  'an API killed': {
    statuses: [0],
    during: (_load, scene) => scene.restartApi(0),
  },
  'Redis hung for 3 s, then killed for the rest, and an API killed and started without it': {
    statuses: [0],
    async during(load, scene) {
      scene.redis.signal('SIGSTOP')
      await Bun.sleep(hangMs)
      await load.untilSaved(100)
      scene.redis.signal('SIGKILL')
      await load.untilSaved(100)
      await scene.restartApi(0)
    },
  },
}

describe('records in Postgres', () => {
  let scene: DurableScene
  let pool: Pool

  beforeAll(async () => {
    scene = await openDurableScene()
    pool = openAdmin(scene.postgres.url)
  }, 60_000)
  afterAll(async () => {
    await pool?.end()
    await scene?.close()
  })

  test('records in Postgres: no operation is lost or run twice while the clock of Postgres jumps by minutes', async () => {
    const setShift = (minutes: number) =>
      pool.query(
        `CREATE OR REPLACE FUNCTION record_clock() RETURNS bigint LANGUAGE sql VOLATILE AS
         $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + ${minutes * 60_000_000} $$`,
      )
    await runFault('clock of records 3 min ahead, 4 min behind, and right again', scene, {
      statuses: [],
      async during(load) {
        for (const minutes of [3, -4, 0]) {
          await load.moveClock(minutes * 60_000, () => setShift(minutes))
          await load.untilSaved(200)
        }
      },
    })
  }, 60_000)

  test.each(Object.entries(faults))(
    'records in Postgres: under load, no operation is lost or run twice after this fault: %s',
    async (name, fault) => {
      await runFault(name, scene, fault)
    },
    60_000,
  )

  // Redis is still stopped from the test before.
  test('records in Postgres: a process that starts without Redis becomes ready, and refuses only calls of tenants with records in Redis', async () => {
    const acquireAt = (url: string, apiKey: string) =>
      fetch(`${url}/v1/record`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${apiKey}` },
        body: JSON.stringify({ scope: 'faults', key: crypto.randomUUID() }),
      })
    const started = await scene.startApi()
    try {
      expect(await readiness(started.opsUrl, 200)).toBe(200)
      const event = await fetch(`${started.url}/v1/t/acme/webhooks/generic`, {
        method: 'POST',
        ...signGeneric(genericBody()),
      })
      expect(event.status).toBe(200)
      const otherKey = 'lk_test_other_0123456789abcdef0123456789abcdef'
      await scene.tenants.apply(durableTenantYaml + tenantYaml('other', otherKey))
      await until('the new tenant', async () => (await acquireAt(started.url, otherKey)).status === 503)
      expect((await acquireAt(started.url, loadApiKey)).status).toBe(200)
      expect(await readiness(started.opsUrl, 200)).toBe(200)
      const later = await scene.startApi()
      try {
        expect(await (await fetch(`${later.opsUrl}/readyz`)).text()).toContain('Redis has not replied yet')
        expect((await acquireAt(later.url, loadApiKey)).status).toBe(200)
        await scene.redis.restart()
        expect(await readiness(later.opsUrl, 200)).toBe(200)
        await until('a lock in Redis', async () => (await acquireAt(later.url, otherKey)).status === 200)
      } finally {
        later.signal('SIGKILL')
      }
    } finally {
      started.signal('SIGKILL')
    }
  }, 60_000)
})

/** Starts a primary that waits for its standby before it answers a commit, and the standby. */
async function startPair(): Promise<{ primary: TestPostgres; standby: TestPostgres; admin: Pool }> {
  const settings = { wal_level: 'replica', max_wal_senders: '4' }
  const primary = await createTestPostgres({ settings })
  const { hostname, port, username, password } = new URL(primary.url)
  await primary.stop()
  const standby = createTestPostgres({
    standbyOf: primary,
    settings: {
      ...settings,
      primary_conninfo: `host=${hostname} port=${port} user=${username} password=${password} application_name=standby`,
    },
  })
  await primary.restart()
  const admin = openAdmin(primary.url)
  await until('a standby that follows', async () => {
    const { rowCount } = await admin.query("SELECT FROM pg_stat_replication WHERE state = 'streaming'")
    return rowCount === 1
  })
  await admin.query("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
  await admin.query('SELECT pg_reload_conf()')
  await until('a synchronous standby', async () => {
    const { rowCount } = await admin.query("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")
    return rowCount === 1
  })
  return { primary, standby: await standby, admin }
}

describe('records in Postgres with a synchronous standby', () => {
  let pair: Awaited<ReturnType<typeof startPair>>
  let scene: DurableScene

  beforeAll(async () => {
    pair = await startPair()
    scene = await openDurableScene(pair.primary)
  }, 60_000)
  afterAll(async () => {
    pair?.standby.wake()
    await pair?.admin.end()
    await scene?.close()
    await pair?.standby.stop()
  })

  test('records in Postgres: no operation is lost or run twice after a failover to a synchronous standby', async () => {
    const { primary, standby } = pair
    await runFault('standby hung for 3 s, then the primary killed and the standby promoted', scene, {
      statuses: [503],
      async during(load, { proxy }) {
        await standby.hang()
        await untilRefused(load)
        // Waits for calls in flight, none of which may be acknowledged: the standby does not have their changes.
        const refusedAtMs = performance.now()
        await Bun.sleep(hangMs)
        expect(load.changesSince(refusedAtMs)).toEqual([])
        standby.wake()
        await load.untilSaved(100)
        primary.signal('SIGKILL')
        const promoting = openAdmin(standby.url)
        await promoting.query('SELECT pg_promote()')
        await promoting.end()
        proxy.redirect(Number(new URL(standby.url).port))
      },
    })
  }, 60_000)
})

function openAdmin(url: string): Pool {
  return createPool({
    url,
    applicationName: 'latchkey test admin',
    connectionsMax: 1,
    queryTimeoutMs: 10_000,
    connectTimeoutMs: 5_000,
  })
}
