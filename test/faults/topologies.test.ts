import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { slotOf } from '#internal/storage/redis/slot-map.ts'
import { startTestApi, type TestApi, tenantYaml, testApiKey } from '#test/support/api.ts'
import {
  type ClusterTopology,
  command,
  type SentinelTopology,
  startCluster,
  startSentinel,
} from '#test/support/stores/redis-topology.ts'
import { until } from '#test/support/until.ts'
import {
  acquire,
  type Caller,
  expectAway,
  fetchRecord,
  readiness,
  save,
  untilLocks,
  untilReadiness,
} from './record-calls.ts'

/**
 * Expects that a save wakes a caller that waits for the key: without the notification it would poll nearly a second later. Tries
 * several times, since a slow machine may delay one.
 */
async function expectWoken(caller: Caller, key: string): Promise<void> {
  let round = 0
  await until('a caller woken by the save', async () => {
    round += 1
    return (await wakeUpMs(caller, `${key}-${round}`)) < wokenMsMax || undefined
  })
}

const wokenMsMax = 700

/** Saves a key that a caller waits for; returns the time from the save to the caller's answer. */
async function wakeUpMs(caller: Caller, key: string): Promise<number> {
  await acquire(caller, key)
  const waiting = acquire(caller, key, { waitMs: 10_000 })
  await until('a waiter', async () => {
    const text = await (await fetch(`${caller.api.opsUrl}/metrics`)).text()
    return /^latchkey_records_waiters_count [1-9]/m.test(text) || undefined
  })
  const savedMs = performance.now()
  await save(caller, key)
  const { answer } = await waiting
  expect(answer.json).toMatchObject({ cached: true, record: { status: 201 } })
  return performance.now() - savedMs
}

describe('records on Sentinel', () => {
  let topology: SentinelTopology
  let api: TestApi
  let caller: Caller

  beforeAll(async () => {
    topology = await startSentinel()
    api = await startTestApi({ redisUrl: topology.url })
    caller = { api, apiKey: testApiKey }
    await untilReadiness(api, 200)
    await untilLocks(caller, 'start')
  }, 30_000)
  afterAll(async () => {
    for (const redis of topology.data) redis.signal('SIGCONT')
    await api.close()
    await topology.stop()
  })

  test('records on Sentinel: while the master hangs, calls are refused until the failover, and no restart is needed', async () => {
    await expectWoken(caller, 'before')
    const hung = await topology.master()
    hung.signal('SIGSTOP')
    await expectAway(caller, 'hung')
    await untilLocks(caller, 'hung')
    hung.signal('SIGCONT')
    await expectWoken(caller, 'after')
    expect((await readiness(api)).status).toBe(200)
  }, 30_000)

  test('records on Sentinel: calls are refused while no server is left, and served once a server is back', async () => {
    for (const redis of topology.data) redis.signal('SIGKILL')
    await until('a refusal', async () => (await fetchRecord(caller, 'x')).answer.status === 503 || undefined)
    await expectAway(caller, 'gone')
    await Promise.all(topology.data.map((redis) => redis.restart()))
    await untilLocks(caller, 'gone')
  }, 30_000)
})

describe('records on a Cluster', () => {
  let cluster: ClusterTopology
  let api: TestApi
  /** Callers, one per master. */
  let callers: readonly Caller[]

  beforeAll(async () => {
    cluster = await startCluster()
    const names = Array.from({ length: 12 }, (_, index) => `tenant-${index}`)
    const keyOf = (name: string) => `lk_test_${name}_0123456789abcdef`
    const manifests = names.map((name) => tenantYaml(name, keyOf(name))).join('')
    api = await startTestApi({ redisUrl: cluster.url, manifests })
    await untilReadiness(api, 200)
    callers = [0, 1, 2].map((third) => {
      const name = names.find((each) => {
        const tenant = api.directory.findTenantBySlug(each)
        return tenant && Math.floor((slotOf(`{${tenant.id}}`) * 3) / 16_384) === third
      })
      if (!name) throw new Error('none of the twelve tenants is on this master: add more')
      return { api, apiKey: keyOf(name) }
    })
    for (const caller of callers) await untilLocks(caller, 'start')
  }, 30_000)
  afterAll(async () => {
    for (const { master } of cluster.shards) master.signal('SIGCONT')
    await api.close()
    await cluster.stop()
  })

  function at(shard: number) {
    const caller = callers[shard]
    const master = cluster.shards[shard]?.master
    if (!caller || !master) throw new Error('the Cluster has fewer than three shards')
    return { caller, master }
  }

  test('records on a Cluster: the process is not ready if one master may evict records, and names that master', async () => {
    const { master } = at(2)
    await command(master, ['CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl'])
    expect(await untilReadiness(api, 503)).toContain('volatile-ttl')
    await command(master, ['CONFIG', 'SET', 'maxmemory-policy', 'noeviction'])
    await untilReadiness(api, 200)
  })

  test('records on a Cluster: every tenant can lock, save, read and wait on its own master', async () => {
    for (const caller of callers) await expectWoken(caller, 'woken')
  })

  test.each([
    ['hung', 'SIGSTOP'],
    ['killed', 'SIGKILL'],
  ] as const)(
    'records on a Cluster: while one master is %s, only its tenants are refused, and service recovers without a restart',
    async (name, signal) => {
      const { caller, master } = at(0)
      await untilLocks(caller, name)
      master.signal(signal)
      await until(
        'a refusal',
        async () => (await fetchRecord(caller, 'x')).answer.status === 503 || undefined,
      )
      await expectAway(caller, name)
      for (const other of [at(1).caller, at(2).caller]) {
        const { answer, ms } = await acquire(other, `${name}-other`)
        expect(answer.json).toMatchObject({ cached: false, locked: true })
        expect(ms).toBeLessThan(1000)
      }
      expect((await readiness(api)).status).toBe(200)
      if (signal === 'SIGSTOP') master.signal('SIGCONT')
      else await master.restart()
      await untilLocks(caller, name)
      await expectWoken(caller, `${name}-woken`)
    },
    30_000,
  )
})
