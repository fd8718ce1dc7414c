import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { openConnections, put, testHealthyRedis, untilWorks } from '#test/support/stores/redis-connection.ts'
import { command, type SentinelTopology, startSentinel } from '#test/support/stores/redis-topology.ts'
import { until } from '#test/support/until.ts'
import { decideMaster } from './sentinel.ts'
import { RedisUnavailable } from './session.ts'

const a = { host: 'a', port: 1 }
const b = { host: 'b', port: 1 }

describe('decideMaster', () => {
  test.each([
    ['switches to the first master named', [a], undefined, false, a],
    ['chooses no master without votes', [], undefined, false, undefined],
    ['switches to the master with more votes', [b, a, a], undefined, false, a],
    ['stays while all votes name the current master', [a, a, a], 'a:1', true, undefined],
    ['stays by one vote against two while the current master answers', [a, a, b], 'a:1', true, undefined],
    ['stays by one vote against one while the current master answers', [a, b], 'a:1', true, undefined],
    ['switches by two votes against one', [a, b, b], 'a:1', true, b],
    ['switches by one vote while the current master does not answer', [a, a, b], 'a:1', false, b],
    ['switches to the only master named', [b], 'a:1', true, b],
    ['stays while all Sentinels are unavailable', [], 'a:1', false, undefined],
  ] as const)('decideMaster: %s', (_name, votes, current, answers, expected) => {
    expect(decideMaster(votes, current, answers)).toEqual(expected)
  })
})

describe('Redis Sentinel', () => {
  const connections = openConnections()
  let topology: SentinelTopology

  beforeAll(async () => {
    topology = await startSentinel()
  }, 30_000)
  afterEach(() => connections.closeAll())
  afterAll(() => topology.stop())

  testHealthyRedis({
    connections,
    url: () => topology.url,
    tags: () => ['t'],
    masters: async () => [await topology.master()],
  })

  async function connect() {
    const redis = connections.open(topology.url)
    let messages = 0
    await untilWorks(redis, 't')
    await redis.subscribe('{t}:failover', () => {
      messages += 1
    })
    const hears = async () => {
      const before = messages
      await until('a message', async () => {
        await redis.publish('{t}:failover', 'm').catch(() => undefined)
        return messages > before || undefined
      })
    }
    return { redis, hears }
  }

  test('Redis Sentinel: the client uses the new master within 6 s after the old master was killed', async () => {
    const { redis, hears } = await connect()
    const killed = await topology.killMaster()
    expect(await untilWorks(redis, 't')).toBeLessThan(6000)
    await hears()
    await until('sentinels that agree on it', async () => (await topology.master()) !== killed || undefined)
    await killed.restart()
    // Makes the old master a replica now; the sentinels would do so about ten seconds later.
    await command(killed, ['REPLICAOF', '127.0.0.1', String((await topology.master()).port)])
    await until('the killed one as a replica', async () => {
      const [info] = await command(killed, ['INFO', 'replication'])
      return /master_link_status:up/.test(String(info)) || undefined
    })
    expect(await untilWorks(redis, 't')).toBeLessThan(1000)
  }, 30_000)

  test('Redis Sentinel: the client uses the new master after the old master hangs, even if the old master resumes as a master', async () => {
    const { redis, hears } = await connect()
    await until('a replica that is fit to be promoted', async () => {
      const [facts] = await command(await topology.master(), ['INFO', 'replication'])
      return /state=online/.test(String(facts)) || undefined
    })
    const hung = await topology.master()
    hung.signal('SIGSTOP')
    expect(await untilWorks(redis, 't')).toBeLessThan(8000)
    const master = topology.data.find((redis) => redis !== hung)
    if (!master) throw new Error('there are two data servers')
    hung.signal('SIGCONT')
    await redis.evaluate(put, ['{t}:woken'], ['new'])
    expect(await command(master, ['GET', '{t}:woken'])).toEqual(['new'])
    await hears()
  }, 40_000)

  test('Redis Sentinel: the last master stays in use while no Sentinel replies; with a wrong Sentinel password none is found', async () => {
    const { redis, hears } = await connect()
    const wrong = connections.open(topology.url.replace(/sentinelPassword=.*/, 'sentinelPassword=wrong'))
    await until('a refused sign-in', () => String(connections.errors).includes('WRONGPASS') || undefined)
    await expect(wrong.evaluate(put, ['{t}:k'], ['v'])).rejects.toBeInstanceOf(RedisUnavailable)
    for (const sentinel of topology.sentinels) sentinel.signal('SIGKILL')
    await until('sentinels that are gone', () => connections.errors.length > 3 || undefined)
    expect(await untilWorks(redis, 't')).toBeLessThan(1000)
    await hears()
  })
})
