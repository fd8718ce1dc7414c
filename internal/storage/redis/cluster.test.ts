import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import {
  echo,
  get,
  openConnections,
  put,
  refusal,
  testHealthyRedis,
  untilWorks,
} from '#test/support/stores/redis-connection.ts'
import { type ClusterTopology, command, startCluster } from '#test/support/stores/redis-topology.ts'
import type { TestRedis } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { slotOf } from './slot-map.ts'

const connections = openConnections()
let cluster: ClusterTopology

beforeAll(async () => {
  cluster = await startCluster({ replicas: true })
}, 30_000)
afterEach(() => connections.closeAll())
afterAll(() => cluster.stop())

/** One tag in each third of the slots, as the topology deals them out. */
const tags = [0, 1, 2].map((third) => {
  for (let n = 0; ; n += 1) if (Math.floor((slotOf(`t${n}`) * 3) / 16_384) === third) return `t${n}`
})
const [firstTag = '', secondTag = '', thirdTag = ''] = tags

function master(index: number): TestRedis {
  const shard = cluster.shards[index]
  if (!shard) throw new Error('a cluster has three shards')
  return shard.master
}

async function connect() {
  const redis = connections.open(cluster.url)
  for (const tag of tags) await untilWorks(redis, tag)
  return redis
}

describe('Redis Cluster', () => {
  testHealthyRedis({
    connections,
    url: () => cluster.url,
    tags: () => tags,
    masters: async () => [0, 1, 2].map(master),
  })

  test('Redis Cluster: the client computes the same slots as the servers', async () => {
    for (const key of ['a', '{t}:b', '{}x', 'a{b}c{d}', '{ten_ü}:r:s\nk'])
      expect(await command(master(0), ['CLUSTER', 'KEYSLOT', key])).toEqual([slotOf(key)])
  })

  test('Redis Cluster: the client connects if the URL contains only one node, whichever it is', async () => {
    const [head = '', hosts = ''] = cluster.url.split('@')
    const redis = connections.open(`${head}@127.0.0.1:1,${hosts.split(',')[1]}`)
    for (const tag of tags) expect(await untilWorks(redis, tag)).toBeLessThan(2000)
  })
})

test('Redis Cluster: the client follows a migrating slot and its channel by ASK, then by MOVED', async () => {
  const redis = await connect()
  const heard: string[] = []
  const channel = `{${firstTag}}:moving`
  await redis.subscribe(channel, (message) => heard.push(message))
  await redis.evaluate(put, [`{${firstTag}}:there`], ['old'])
  const [from, to] = [master(0), master(1)]
  const [fromId] = await command(from, ['CLUSTER', 'MYID'])
  const [toId] = await command(to, ['CLUSTER', 'MYID'])
  const slot = String(slotOf(firstTag))
  await command(to, ['CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(fromId)])
  await command(from, ['CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(toId)])
  // The source node still serves keys that it has, and redirects calls for other keys with ASK.
  await redis.evaluate(put, [`{${firstTag}}:new`], ['asked'])
  expect(await redis.evaluate(get, [`{${firstTag}}:there`], [])).toBe('old')
  expect(await redis.evaluate(get, [`{${firstTag}}:new`], [])).toBe('asked')
  const keep = (value: string) => redis.evaluateKept(put, [`{${firstTag}}:kept`], [value], 500)
  const kept = { replicasReached: 1, durability: { syncsFirst: false, replicas: 1 } }
  expect(await keep('asked')).toEqual({ reply: 'asked', ...kept })
  const [keys] = await command(from, ['CLUSTER', 'GETKEYSINSLOT', slot, '100'])
  const password = new URL(cluster.url.replace('redis+cluster', 'http').replace(/,.*/, '')).password
  await command(from, [
    'MIGRATE',
    '127.0.0.1',
    String(to.port),
    '',
    '0',
    '2000',
    'AUTH2',
    'latchkey',
    password,
    'KEYS',
    ...(keys as string[]),
  ])
  await Promise.all(
    [to, from].map((node) => command(node, ['CLUSTER', 'SETSLOT', slot, 'NODE', String(toId)])),
  )
  expect(await keep('moved')).toEqual({ reply: 'moved', ...kept })
  expect(await redis.evaluate(get, [`{${firstTag}}:there`], [])).toBe('old')
  await until('the message', async () => {
    await redis.publish(channel, 'm').catch(() => undefined)
    return heard.length > 0 || undefined
  })
}, 20_000)

test('Redis Cluster: calls to a killed master are refused within 1 s and served by its replica within 8 s; others are unaffected', async () => {
  const redis = await connect()
  let messages = 0
  await redis.subscribe(`{${secondTag}}:failover`, () => {
    messages += 1
  })
  master(1).signal('SIGKILL')
  let answered = 0
  let tookOver = false
  const others = async () => {
    while (!tookOver) {
      expect(await redis.evaluate(echo, [`{${thirdTag}}:k`], ['v'])).toEqual([`{${thirdTag}}:k`, 'v'])
      answered += 1
    }
  }
  const going = others()
  expect(await untilWorks(redis, secondTag)).toBeLessThan(8000)
  tookOver = true
  await going
  expect(answered).toBeGreaterThan(10)
  await until('a message by the new master', async () => {
    await redis.publish(`{${secondTag}}:failover`, 'm').catch(() => undefined)
    return messages > 0 || undefined
  })
}, 30_000)

test('Redis Cluster: calls to a killed master without a replica are refused until its restart; others are unaffected', async () => {
  const alone = cluster.shards[1]?.replica
  if (!alone) throw new Error('the test before left the replica as the only server of its shard')
  const redis = await connect()
  alone.signal('SIGKILL')
  await until('a refusal', async () =>
    (await refusal(redis.evaluate(echo, [`{${secondTag}}:k`], ['v'])).catch(() => undefined))
      ? true
      : undefined,
  )
  for (let turn = 0; turn < 20; turn += 1) {
    const { reason, ms } = await refusal(redis.evaluate(echo, [`{${secondTag}}:k`], ['v']))
    expect(['disconnected', 'refused']).toContain(reason)
    expect(ms).toBeLessThan(1000)
    expect(await redis.evaluate(echo, [`{${thirdTag}}:k`], ['v'])).toHaveLength(2)
  }
  expect(await redis.serverFacts()).toHaveLength(2)
  const late = connections.open(cluster.url)
  expect(await untilWorks(late, thirdTag)).toBeLessThan(3000)
  await alone.restart()
  for (const each of [redis, late]) expect(await untilWorks(each, secondTag)).toBeLessThan(8000)
}, 30_000)
