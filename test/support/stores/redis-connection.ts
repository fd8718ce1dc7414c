import { expect, test } from 'bun:test'
import {
  defineScript,
  openRedis,
  type RedisConnection,
  type RedisFailure,
  RedisUnavailable,
} from '#internal/storage/index.ts'
import type { TestRedis } from '../stores.ts'
import { until } from '../until.ts'
import { command } from './redis-topology.ts'

/** Script that returns its key and its argument. */
export const echo = defineScript('echo', 'no-writes', ['return {KEYS[1], ARGV[1]}'])
/** Script that writes its argument. */
export const put = defineScript('put', '', ["redis.call('SET', KEYS[1], ARGV[1])", 'return ARGV[1]'])
/** Script that returns the value written by `put`, or null. */
export const get = defineScript('get', 'no-writes', ["return redis.call('GET', KEYS[1])"])
/** Script that deletes it; also works on a full server. */
export const drop = defineScript('drop', 'allow-oom', ["return redis.call('DEL', KEYS[1])"])

/** Connections of one test file, to be closed after each test. */
export interface OpenConnections {
  open(url: string, options?: { deadlineMs?: number }): RedisConnection
  /** Errors passed to `onError` since the last `closeAll`. */
  readonly errors: unknown[]
  closeAll(): Promise<void>
}

/** Tracks the connections that tests of a file open. */
export function openConnections(): OpenConnections {
  const connections: RedisConnection[] = []
  const errors: unknown[] = []
  return {
    errors,
    open: (url, options = {}) => {
      const connection = openRedis({ url, ...options, onError: (error) => errors.push(error) })
      connections.push(connection)
      return connection
    },
    closeAll: async () => {
      errors.length = 0
      for (const connection of connections.splice(0)) await connection.close()
    },
  }
}

/** Returns the duration and the reason of a refused call. @throws if it was not refused */
export async function refusal(call: Promise<unknown>): Promise<{ reason: RedisFailure; ms: number }> {
  const startedMs = performance.now()
  try {
    await call
  } catch (error) {
    if (error instanceof RedisUnavailable) return { reason: error.reason, ms: performance.now() - startedMs }
    throw error
  }
  throw new Error('the call was answered')
}

/** Waits until a write under `tag` succeeds and returns the time in ms. Every refusal until then must come within a second. */
export async function untilWorks(redis: RedisConnection, tag: string, deadlineMs = 15_000): Promise<number> {
  const startedMs = performance.now()
  await until(
    `an answer for ${tag}`,
    async () => {
      const writeMs = performance.now()
      try {
        await redis.evaluate(put, [`{${tag}}:works`], ['yes'])
        return true
      } catch (error) {
        if (!(error instanceof RedisUnavailable)) throw error
        expect(performance.now() - writeMs).toBeLessThan(1000)
        return undefined
      }
    },
    deadlineMs,
  )
  return performance.now() - startedMs
}

/** Redis under test. */
export interface RedisUnderTest {
  readonly connections: OpenConnections
  url(): string
  /** One hash tag per master. */
  tags(): readonly string[]
  masters(): Promise<readonly TestRedis[]>
}

/** Defines the tests that every Redis topology passes without faults. */
export function testHealthyRedis(under: RedisUnderTest): void {
  const connect = async () => {
    const redis = under.connections.open(under.url())
    for (const tag of under.tags()) await untilWorks(redis, tag)
    return redis
  }
  const sever = async (type: string) => {
    for (const master of await under.masters())
      await command(master, ['CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes'])
  }

  test('Redis connection: a script runs on every master, also after SCRIPT FLUSH', async () => {
    const redis = await connect()
    for (const forget of [false, true]) {
      if (forget) for (const master of await under.masters()) await command(master, ['SCRIPT', 'FLUSH'])
      for (const tag of under.tags())
        expect(await redis.evaluate(echo, [`{${tag}}:k`], ['v'])).toEqual([`{${tag}}:k`, 'v'])
    }
  })

  test('Redis connection: concurrent calls get their own replies', async () => {
    const redis = await connect()
    const tags = under.tags()
    const call = async (index: number) => {
      const key = `{${tags[index % tags.length]}}:${index}`
      expect(await redis.evaluate(echo, [key], [`v${index}`])).toEqual([key, `v${index}`])
    }
    await Promise.all(Array.from({ length: 1000 }, (_, index) => call(index)))
  })

  test('Redis connection: reads the server information of every master', async () => {
    const redis = await connect()
    const facts = await redis.serverFacts()
    expect(facts.map((fact) => fact.maxmemoryPolicy)).toEqual(under.tags().map(() => 'noeviction'))
    for (const fact of facts) expect(fact.version).toMatch(/^\d+\.\d+\.\d+$/)
  })

  test('Redis connection: a channel delivers its messages until unsubscribe, and no others', async () => {
    const redis = await connect()
    const heard: string[] = []
    const channels = under.tags().map((tag) => `{${tag}}:channel`)
    for (const channel of channels) await redis.subscribe(channel, (message) => heard.push(message))
    for (const channel of channels) await redis.publish(channel, channel)
    await until('a message on every channel', () => heard.length === channels.length || undefined)
    expect(heard.toSorted()).toEqual(channels.toSorted())
    for (const channel of channels) await redis.unsubscribe(channel)
    for (const channel of channels) await redis.publish(channel, 'after')
    await redis.subscribe('{other}:channel', (message) => heard.push(message))
    await redis.publish('{other}:channel', 'last')
    await until('the last message', () => heard.includes('last') || undefined)
    expect(heard).not.toContain('after')
  })

  test('Redis connection: a channel delivers a message once to each listener, even if the listener was added twice', async () => {
    const redis = await connect()
    const channel = `{${under.tags()[0]}}:several`
    const heard: string[] = []
    const one = (message: string) => void heard.push(`one ${message}`)
    for (const listener of [one, one, (message: string) => void heard.push(`other ${message}`)])
      await redis.subscribe(channel, listener)
    await redis.publish(channel, 'a')
    await until('both listeners', () => heard.length >= 2 || undefined)
    await redis.unsubscribe(channel)
    await redis.publish(channel, 'b')
    await redis.subscribe(channel, one)
    await redis.publish(channel, 'c')
    await until('the last message', () => heard.includes('one c') || undefined)
    expect(heard).toEqual(['one a', 'other a', 'one c'])
  })

  test('Redis connection: of consecutive subscribe and unsubscribe calls, the last call takes effect', async () => {
    const redis = await connect()
    const heard: string[] = []
    const [tag = ''] = under.tags()
    const channel = `{${tag}}:wishes`
    const listen = () => redis.subscribe(channel, (message) => heard.push(message))
    await Promise.all([listen(), redis.unsubscribe(channel), listen(), redis.unsubscribe(channel), listen()])
    await redis.publish(channel, 'once')
    await until('the message', () => heard.length > 0 || undefined)
    await Promise.all([listen(), redis.unsubscribe(channel), listen(), redis.unsubscribe(channel)])
    await redis.publish(channel, 'twice')
    await redis.evaluate(echo, [channel], ['a round trip later'])
    expect(heard).toEqual(['once'])
  })

  test('Redis connection: calls and channels recover after all connections were cut', async () => {
    const redis = await connect()
    const heard = new Set<string>()
    const channels = under.tags().map((tag) => `{${tag}}:cut`)
    for (const channel of channels) await redis.subscribe(channel, () => heard.add(channel))
    for (const type of ['pubsub', 'normal']) await sever(type)
    for (const tag of under.tags()) await untilWorks(redis, tag, 3000)
    await until('a message on every channel', async () => {
      for (const channel of channels) await redis.publish(channel, 'again')
      return heard.size === channels.length || undefined
    })
  })

  test('Redis connection: a script error is thrown unchanged', async () => {
    const redis = await connect()
    const broken = defineScript('broken', '', ["return redis.error_reply('ERR a mistake')"])
    const thrown = redis.evaluate(broken, [`{${under.tags()[0]}}:k`], [])
    await expect(thrown).rejects.toThrow('a mistake')
    await expect(thrown).rejects.not.toBeInstanceOf(RedisUnavailable)
  })

  test('Redis connection: close rejects calls in flight and leaves no connection', async () => {
    const redis = await connect()
    for (const tag of under.tags()) await redis.subscribe(`{${tag}}:close`, () => undefined)
    const calls = under.tags().map((tag) => refusal(redis.evaluate(echo, [`{${tag}}:k`], ['v'])))
    await redis.close()
    await redis.close()
    for (const call of calls) expect((await call).reason).toBe('disconnected')
    expect((await refusal(redis.publish('{x}', 'm'))).reason).toBe('disconnected')
    await redis.unsubscribe('{x}')
    for (const master of await under.masters())
      await until(
        'a server without our connections',
        async () => (await ourClients(master)) === 0 || undefined,
      )
    expect(await endsByItself(under.url(), under.tags())).toBe('works, closed, ended')
  })
}

/** Returns the number of connections, without those of sentinels and of this query. */
async function ourClients(server: TestRedis): Promise<number> {
  const [list] = await command(server, ['CLIENT', 'LIST'])
  const theirs = /name=sentinel-|cmd=client\|list|flags=[MS] /
  return String(list)
    .trim()
    .split('\n')
    .filter((line) => !theirs.test(line)).length
}

/** Runs a process that opens, uses and closes a connection; nothing may then keep it alive. */
async function endsByItself(url: string, tags: readonly string[]): Promise<string> {
  const child = Bun.spawn([process.execPath, `${import.meta.dir}/redis-close.main.ts`, url, ...tags], {
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const kill = setTimeout(() => child.kill('SIGKILL'), 10_000)
  const said = (await new Response(child.stdout).text()).trim()
  const code = await child.exited
  clearTimeout(kill)
  return `${said}, ${code === 0 ? 'ended' : `exit code ${code}`}`
}
