import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { openConnections, put, testHealthyRedis, untilWorks } from '#test/support/redis-connection.ts'
import { command, type SentinelTopology, startSentinel } from '#test/support/redis-topology.ts'
import { until } from '#test/support/until.ts'
import { RedisUnavailable } from './connection.ts'
import { decideMaster } from './sentinel.ts'

const a = { host: 'a', port: 1 }
const b = { host: 'b', port: 1 }

describe('which master to change to', () => {
  test.each([
    ['the first that is named', [a], undefined, false, a],
    ['none without a vote', [], undefined, false, undefined],
    ['the one with more votes', [b, a, a], undefined, false, a],
    ['none while the present one is named by all', [a, a, a], 'a:1', true, undefined],
    ['none by one vote against two while the present one answers', [a, a, b], 'a:1', true, undefined],
    ['none by one vote against one while the present one answers', [a, b], 'a:1', true, undefined],
    ['the other by two votes against one', [a, b, b], 'a:1', true, b],
    ['the other by one vote while the present one does not answer', [a, a, b], 'a:1', false, b],
    ['the only one named', [b], 'a:1', true, b],
    ['none while all sentinels are away', [], 'a:1', false, undefined],
  ] as const)('%s', (_name, votes, current, answers, expected) => {
    expect(decideMaster(votes, current, answers)).toEqual(expected)
  })
})

describe('a master behind sentinels', () => {
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

  test('a killed master: refused within a second, then the new one is used, within 6 s in all', async () => {
    const { redis, hears } = await connect()
    const killed = await topology.killMaster()
    expect(await untilWorks(redis, 't')).toBeLessThan(6000)
    await hears()
    await until('sentinels that agree on it', async () => (await topology.master()) !== killed || undefined)
    await killed.restart()
    // The sentinels would do the same some ten seconds later.
    await command(killed, ['REPLICAOF', '127.0.0.1', String((await topology.master()).port)])
    await until('the killed one as a replica', async () => {
      const [info] = await command(killed, ['INFO', 'replication'])
      return /master_link_status:up/.test(String(info)) || undefined
    })
    expect(await untilWorks(redis, 't')).toBeLessThan(1000)
  }, 30_000)

  test('a hung master: the new one is used, also after the old one wakes and takes itself for the master', async () => {
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

  test('without a sentinel the master last named stays in use; with a wrong password nothing is', async () => {
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
