import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { tracingChannel } from 'node:diagnostics_channel'
import { createServer } from 'node:net'
import { createHealth } from '#internal/telemetry/index.ts'
import {
  drop,
  echo,
  get,
  openConnections,
  put,
  refusal,
  testHealthyRedis,
  untilWorks,
} from '#test/support/stores/redis-connection.ts'
import { command, startStandalone } from '#test/support/stores/redis-topology.ts'
import type { TestRedis } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { redisCheck } from '../readiness.ts'
import { completeTracingChannel, defineScript, openRedis } from './client.ts'
import type { RedisFailure } from './session.ts'

const connections = openConnections()
let server: TestRedis

beforeAll(async () => {
  server = await startStandalone()
})
afterEach(() => connections.closeAll())
afterAll(() => server.stop())

async function connect() {
  const redis = connections.open(server.url)
  await untilWorks(redis, 't')
  return redis
}

const call = (redis: Awaited<ReturnType<typeof connect>>) => refusal(redis.evaluate(echo, ['{t}:k'], ['v']))

describe('standalone Redis', () => {
  testHealthyRedis({
    connections,
    url: () => server.url,
    tags: () => ['t'],
    masters: async () => [server],
  })
})

describe('hung Redis', () => {
  afterEach(() => server.signal('SIGCONT'))

  test('Redis connection: rejects calls to a hung server within 1 s, then immediately, and accepts calls after the server resumes', async () => {
    const redis = await connect()
    server.signal('SIGSTOP')
    const first = await Promise.all(Array.from({ length: 50 }, () => call(redis)))
    for (const { reason, ms } of first) {
      expect(reason).toBe('timeout')
      expect(ms).toBeLessThan(1000)
    }
    await until('a refusal at once', async () => (await call(redis)).ms < 20 || undefined, 1500)
    server.signal('SIGCONT')
    expect(await untilWorks(redis, 't')).toBeLessThan(1500)
  })

  test('Redis connection: rejects calls while a server hangs, even after its connection is closed, until the server resumes', async () => {
    const redis = await connect()
    let messages = 0
    await redis.subscribe('{t}:hung', () => {
      messages += 1
    })
    server.signal('SIGSTOP')
    await until('a connection that was given up', async () => {
      const { reason, ms } = await call(redis)
      expect(ms).toBeLessThan(1000)
      return reason === 'disconnected' || undefined
    })
    server.signal('SIGCONT')
    expect(await untilWorks(redis, 't')).toBeLessThan(2000)
    await until('the message', async () => {
      await redis.publish('{t}:hung', 'm')
      return messages > 0 || undefined
    })
  })

  test('Redis readiness: the process stays ready when a server that replied before hangs', async () => {
    const redis = await connect()
    let nowMs = 0
    const health = createHealth({ clock: { now: () => (nowMs += 5_000) } })
    health.addCheck('redis', redisCheck(redis))
    expect((await health.readiness()).ok).toBe(true)
    server.signal('SIGSTOP')
    for (let check = 0; check < 4; check += 1) expect(await health.readiness()).toMatchObject({ ok: true })
    server.signal('SIGCONT')
    await untilWorks(redis, 't')
  })

  test('Redis connection: refuses a call when ten thousand calls are in flight', async () => {
    const redis = await connect()
    server.signal('SIGSTOP')
    const calls = Array.from({ length: 10_001 }, () => call(redis))
    expect((await calls[10_000])?.reason).toBe('overloaded')
    server.signal('SIGCONT')
    await Promise.allSettled(calls)
    await untilWorks(redis, 't')
  })
})

/** Stops this whole process' work, as a long collection of garbage would. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

test.each([
  ['a second', 1000],
  ['longer than the time limit for a silent server', 2500],
])('Redis connection: survives a pause of this process that lasts %s', async (_name, ms) => {
  const redis = await connect()
  const before = redis.evaluate(echo, ['{t}:k'], ['v']).catch(() => undefined)
  block(ms)
  expect(await redis.evaluate(echo, ['{t}:k'], ['after'])).toEqual(['{t}:k', 'after'])
  await before
  expect(connections.errors).toEqual([])
})

test('Redis connection: reports each refused call once, with its reason', async () => {
  const refused: RedisFailure[] = []
  const redis = openRedis({
    url: server.url,
    deadlineMs: 100,
    onError: () => undefined,
    onRefused: (reason) => refused.push(reason),
  })
  await untilWorks(redis, 't')
  refused.length = 0
  server.signal('SIGSTOP')
  const late = await Promise.all([1, 2, 3].map(() => call(redis)))
  expect(late.map(({ reason }) => reason)).toEqual(['timeout', 'timeout', 'timeout'])
  expect(refused.splice(0)).toEqual(['timeout', 'timeout', 'timeout'])
  // The connection ends with its pending replies, whose callers were already refused and are not counted again.
  await until(
    'a connection that was given up',
    async () => (await call(redis)).reason === 'disconnected' || undefined,
  )
  expect(new Set(refused.slice(0, -1))).toEqual(new Set(['timeout']))
  expect(refused.at(-1)).toBe('disconnected')
  server.signal('SIGCONT')
  await redis.close()
})

test('Redis connection: rejects calls within 1 s to a server that accepts the connection and never replies', async () => {
  const mute = createServer((socket) => socket.on('error', () => undefined))
  await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve))
  const address = mute.address()
  const port = address !== null && typeof address === 'object' ? address.port : 0
  const redis = connections.open(`redis://127.0.0.1:${port}`)
  expect((await refusal(redis.subscribe('{t}:c', () => undefined))).ms).toBeLessThan(1000)
  await until('two attempts given up', async () => {
    expect((await call(redis)).ms).toBeLessThan(1000)
    return connections.errors.length >= 2 || undefined
  })
  mute.close()
})

test('Redis connection: uses a killed server again after its restart', async () => {
  const redis = await connect()
  const underWay = Promise.allSettled(
    Array.from({ length: 20 }, () => redis.evaluate(echo, ['{t}:k'], ['v'])),
  )
  server.signal('SIGKILL')
  await underWay
  await until('a refusal', async () => ((await call(redis).catch(() => undefined)) ? true : undefined))
  expect(await call(redis)).toMatchObject({ reason: 'disconnected' })
  await server.restart()
  expect(await untilWorks(redis, 't')).toBeLessThan(2000)
})

test('Redis connection: connects to a server that starts later', async () => {
  await server.stop()
  const redis = connections.open(server.url)
  await until('a failed attempt', () => connections.errors.length > 0 || undefined)
  expect(await call(redis)).toMatchObject({ reason: 'disconnected' })
  await server.restart()
  expect(await untilWorks(redis, 't')).toBeLessThan(2000)
})

test('Redis connection: a server out of memory rejects writes as full, serves reads, and accepts writes after a deletion', async () => {
  const redis = await connect()
  await redis.evaluate(put, ['{t}:big'], ['x'.repeat(600_000)])
  const [info] = await command(server, ['INFO', 'memory'])
  const used = Number(/used_memory:(\d+)/.exec(String(info))?.[1])
  await command(server, ['CONFIG', 'SET', 'maxmemory', String(used - 200_000)])
  expect(await refusal(redis.evaluate(put, ['{t}:k'], ['v']))).toMatchObject({ reason: 'full' })
  expect(await redis.evaluate(echo, ['{t}:k'], ['v'])).toEqual(['{t}:k', 'v'])
  expect(await redis.evaluate(get, ['{t}:big'], [])).toHaveLength(600_000)
  expect(await redis.evaluate(drop, ['{t}:big'], [])).toBe(1)
  expect(await untilWorks(redis, 't')).toBeLessThan(1000)
  await command(server, ['CONFIG', 'SET', 'maxmemory', '256mb'])
})

test('Redis connection: a wrong password is rejected and is in no error text, and calls succeed once it is corrected', async () => {
  const wrong = 'not-the-password'
  const redis = connections.open(server.url.replace(server.password, wrong))
  await until('a failed attempt', () => connections.errors.length > 0 || undefined)
  expect(await call(redis)).toMatchObject({ reason: 'disconnected' })
  expect(String(connections.errors[0])).toContain('WRONGPASS')
  expect(Bun.inspect(connections.errors)).not.toContain(wrong)
  await command(server, ['ACL', 'SETUSER', 'default', `>${wrong}`])
  expect(await untilWorks(redis, 't')).toBeLessThan(2500)
  await command(server, ['ACL', 'SETUSER', 'default', `<${wrong}`])
})

test('Redis connection: does not use a replica until it becomes a master', async () => {
  const redis = await connect()
  await command(server, ['REPLICAOF', '127.0.0.1', '1'])
  expect(await refusal(redis.evaluate(put, ['{t}:k'], ['v']))).toMatchObject({ reason: 'refused' })
  await until('reads refused as well', async () =>
    (await call(redis).catch(() => undefined)) ? true : undefined,
  )
  const late = connections.open(server.url)
  expect((await call(late)).reason).toBe('disconnected')
  await command(server, ['REPLICAOF', 'NO', 'ONE'])
  for (const each of [redis, late]) expect(await untilWorks(each, 't')).toBeLessThan(2500)
})

test('Redis connection: rejects calls to a server that is blocked by an endless script', async () => {
  await command(server, ['CONFIG', 'SET', 'busy-reply-threshold', '100'])
  const redis = await connect()
  const endless = defineScript('endless', 'no-writes', ['while true do end'])
  const started = refusal(redis.evaluate(endless, ['{t}:k'], []))
  const other = connections.open(server.url)
  expect((await started).ms).toBeLessThan(1000)
  expect((await call(other)).ms).toBeLessThan(1000)
  await command(server, ['SCRIPT', 'KILL'])
  for (const each of [redis, other]) expect(await untilWorks(each, 't')).toBeLessThan(2500)
})

test('tracing channel: `hasSubscribers` reports whether the channel has subscribers', () => {
  completeTracingChannel()
  completeTracingChannel()
  const channel = tracingChannel('latchkey:test')
  expect(channel.hasSubscribers).toBe(false)
  const listeners = { start() {}, end() {}, asyncStart() {}, asyncEnd() {}, error() {} }
  channel.subscribe(listeners)
  expect(channel.hasSubscribers).toBe(true)
  channel.unsubscribe(listeners)
  expect(channel.hasSubscribers).toBe(false)
})
