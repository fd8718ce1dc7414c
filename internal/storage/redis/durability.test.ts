import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { get, openConnections, put, refusal, untilWorks } from '#test/support/stores/redis-connection.ts'
import { replicatedArgs, startReplicaOf } from '#test/support/stores/redis-replica.ts'
import { command, startStandalone } from '#test/support/stores/redis-topology.ts'
import type { TestRedis } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { defineScript } from './client.ts'

const connections = openConnections()
let server: TestRedis

beforeAll(async () => {
  server = await startStandalone({ durable: true, extraArgs: replicatedArgs })
})
afterEach(async () => {
  await connections.closeAll()
  await command(server, ['CONFIG', 'SET', 'appendfsync', 'always', 'no-appendfsync-on-rewrite', 'no'])
})
afterAll(() => server.stop())

async function connect(url = server.url) {
  const redis = connections.open(url)
  await untilWorks(redis, 't')
  return redis
}

describe('Redis that syncs before it replies', () => {
  test('Redis durability: reports a server that syncs each write as syncing, by `durability` and with the reply to a write', async () => {
    const redis = await connect()
    const durability = { syncsFirst: true, replicas: 0 }
    expect(await redis.durability('{t}:k')).toEqual(durability)
    const kept = await redis.evaluateKept(put, ['{t}:k'], ['v'], 0)
    expect(kept).toEqual({ reply: 'v', replicasReached: 0, durability })
  })

  test.each([
    ['appendfsync', 'everysec'],
    ['appendfsync', 'no'],
    ['no-appendfsync-on-rewrite', 'yes'],
  ])(
    'Redis durability: a server whose %s is %s is not reported as syncing each write',
    async (name, value) => {
      const redis = await connect()
      await command(server, ['CONFIG', 'SET', name, value])
      expect(await redis.durability('{t}:k')).toEqual({ syncsFirst: false, replicas: 0 })
      expect((await redis.evaluateKept(put, ['{t}:k'], ['v'], 0)).durability.syncsFirst).toBe(false)
    },
  )
})

test('Redis durability: a server without an append-only file is reported as not syncing', async () => {
  const volatile = await startStandalone()
  const redis = await connect(volatile.url)
  expect((await redis.durability('{t}:k')).syncsFirst).toBe(false)
  await volatile.stop()
})

test('Redis durability: is unknown where CONFIG or INFO is forbidden, and the write still succeeds', async () => {
  const redis = await connect()
  await command(server, ['ACL', 'SETUSER', 'default', '-config'])
  expect(await redis.durability('{t}:k')).toEqual({ syncsFirst: false, replicas: 0 })
  expect(await redis.evaluateKept(put, ['{t}:k'], ['v'], 0)).toMatchObject({
    reply: 'v',
    durability: { syncsFirst: false, replicas: 0 },
  })
  await command(server, ['ACL', 'SETUSER', 'default', '-info'])
  expect((await refusal(redis.durability('{t}:k'))).reason).toBe('refused')
  expect(await redis.evaluateKept(put, ['{t}:k'], ['v'], 0)).toMatchObject({
    reply: 'v',
    durability: { syncsFirst: false, replicas: undefined },
  })
  await command(server, ['ACL', 'SETUSER', 'default', '+config', '+info'])
})

test('Redis durability: a script that is missing from the server’s cache runs exactly once', async () => {
  const redis = await connect()
  const count = defineScript('count', '', ["return redis.call('INCR', KEYS[1])"])
  for (const expected of [1, 2]) {
    await command(server, ['SCRIPT', 'FLUSH'])
    expect((await redis.evaluateKept(count, ['{t}:count'], [], 0)).reply).toBe(expected)
  }
})

test('Redis durability: an error of the script is thrown', async () => {
  const redis = await connect()
  const broken = defineScript('broken', '', ["return redis.error_reply('ERR a mistake')"])
  await expect(redis.evaluateKept(broken, ['{t}:k'], [], 0)).rejects.toThrow('a mistake')
})

test('Redis durability: a call is refused while the server is unavailable', async () => {
  const redis = connections.open('redis://127.0.0.1:1')
  expect((await refusal(redis.evaluateKept(put, ['{t}:k'], ['v'], 0))).reason).toBe('disconnected')
  expect((await refusal(redis.durability('{t}:k'))).reason).toBe('disconnected')
})

test('Redis durability: a write waits for one replica, and also succeeds if the replica hangs', async () => {
  const redis = await connect()
  const replica = await startReplicaOf(server)
  // Repeats the write, because a replica that has just started to replicate may confirm late.
  const first = await until('a replica that confirms', async () => {
    const one = await redis.evaluateKept(put, ['{t}:k'], ['first'], 500)
    return one.replicasReached === 1 ? one : undefined
  })
  expect(first).toEqual({
    reply: 'first',
    replicasReached: 1,
    durability: { syncsFirst: true, replicas: 1 },
  })
  replica.signal('SIGSTOP')
  const startedMs = performance.now()
  const kept = await redis.evaluateKept(put, ['{t}:k'], ['second'], 200)
  expect(performance.now() - startedMs).toBeWithin(200, 3_000)
  expect(kept).toMatchObject({ reply: 'second', replicasReached: 0, durability: { replicas: 1 } })
  expect(await redis.evaluate(get, ['{t}:k'], [])).toBe('second')
  replica.signal('SIGKILL')
  await until(
    'a server without replicas',
    async () => (await redis.durability('{t}:k')).replicas === 0 || undefined,
  )
  await replica.stop()
})
