import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { slotCount, slotOf } from '#internal/storage/redis/slot-map.ts'
import { startTestApi, type TestApi, testApiKey } from '#test/support/api.ts'
import {
  type ClusterTopology,
  command,
  type SentinelTopology,
  startCluster,
  startSentinel,
} from '#test/support/redis-topology.ts'
import type { TestRedis } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { printCounts } from './event-ledger.ts'
import { startOperations } from './operations.ts'
import { untilReadiness } from './record-calls.ts'

/** What was answered so long before a failover may be lost with it; a replica on the same machine is far less behind. */
const behindMsMax = 1_000

interface Failover {
  readonly fault: string
  readonly api: TestApi
  readonly master: TestRedis
  /** Lets it die, or hang and come back when another one has taken over. */
  readonly signal: 'SIGKILL' | 'SIGSTOP'
}

/** Operations run on while the master is lost; then each is asked for once more. */
async function failOver({ fault, api, master, signal }: Failover): Promise<void> {
  await until('a replica that follows', () => isFollowed(master))
  const load = startOperations({ api, apiKey: testApiKey }, fault)
  await load.untilDone(300)
  const brokenAtMs = performance.now()
  master.signal(signal)
  await until('refusals', () => load.refusals() > 0)
  await load.untilDone(300)
  const healedMs = performance.now() - brokenAtMs
  if (signal === 'SIGSTOP') master.signal('SIGCONT')
  else await master.restart()
  await load.untilDone(100)
  await load.end()
  const { counts, lostAtMs, secondRunsAtMs, fencesBack } = await load.lookAgain()
  printCounts(fault, counts, `300 more operations ${(healedMs / 1000).toFixed(1)} s later`)
  expect(counts.acknowledged).toBeGreaterThan(600)
  // Redis answers before it replicates, so the last moments may go, and no more than those.
  const before = (atMs: number) => atMs < brokenAtMs - behindMsMax
  expect([...lostAtMs, ...secondRunsAtMs].filter(before)).toEqual([])
  expect(fencesBack).toBe(0)
}

async function isFollowed(master: TestRedis): Promise<boolean> {
  const [info] = await command(master, ['INFO', 'replication'])
  return /role:master/.test(String(info)) && /slave0:.*state=online/.test(String(info))
}

async function masterOf(pair: readonly TestRedis[]): Promise<TestRedis> {
  return until('a master', async () => {
    for (const redis of pair) if (await isFollowed(redis)) return redis
    return undefined
  })
}

const faults = [
  ['hung', 'SIGSTOP'],
  ['killed', 'SIGKILL'],
] as const

describe('behind Sentinel', () => {
  let topology: SentinelTopology
  let api: TestApi

  beforeAll(async () => {
    topology = await startSentinel()
    api = await startTestApi({ redisUrl: topology.url })
    await untilReadiness(api, 200)
  }, 60_000)
  afterAll(async () => {
    for (const redis of topology.data) redis.signal('SIGCONT')
    await api.close()
    await topology.stop()
  })

  test.each(faults)(
    'a master that is %s under load: what was saved a moment before runs once',
    async (how, signal) => {
      await failOver({
        fault: `Sentinel failover, master ${how}`,
        api,
        master: await topology.master(),
        signal,
      })
    },
    120_000,
  )
})

describe('on a Cluster', () => {
  let cluster: ClusterTopology
  let api: TestApi
  let pair: readonly TestRedis[]

  beforeAll(async () => {
    cluster = await startCluster({ replicas: true })
    api = await startTestApi({ redisUrl: cluster.url })
    await untilReadiness(api, 200)
    const tenant = api.directory.findTenantBySlug('acme')
    const shard = cluster.shards[Math.floor((slotOf(`{${tenant?.id}}`) * 3) / slotCount)]
    if (!tenant || !shard?.replica) throw new Error('the tenant has a shard of two')
    pair = [shard.master, shard.replica]
  }, 60_000)
  afterAll(async () => {
    for (const redis of pair ?? []) redis.signal('SIGCONT')
    await api.close()
    await cluster.stop()
  })

  test.each(faults)(
    'a master that is %s under load: what was saved a moment before runs once',
    async (how, signal) => {
      await failOver({ fault: `Cluster failover, master ${how}`, api, master: await masterOf(pair), signal })
    },
    120_000,
  )
})
