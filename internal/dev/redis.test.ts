import { afterEach, describe, expect, test } from 'bun:test'
import { statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createClient } from '@redis/client'
import { scratchFolder } from '#test/support/scratch.ts'
import { freePort } from './ports.ts'
import { listProcesses } from './processes.ts'
import { type RedisStartOptions, startRedis } from './redis.ts'
import { removeStores } from './stores.ts'

const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await removeStores(folder)
})

function folder(): string {
  const path = scratchFolder()
  folders.push(path)
  return path
}

function start(dataDir: string, options: Partial<RedisStartOptions> = {}) {
  return startRedis({ dataDir, durable: true, ...options })
}

async function ask(url: string, ...command: string[]): Promise<unknown> {
  const client = createClient({ url, socket: { reconnectStrategy: false } })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await client.sendCommand(command)
  } finally {
    client.destroy()
  }
}

test('redis: durable data survive a stop', async () => {
  const dataDir = folder()
  const first = await start(dataDir)
  await ask(first.url, 'SET', 'kept', 'yes')
  await first.stop()
  const second = await start(dataDir)
  expect(await ask(second.url, 'GET', 'kept')).toBe('yes')
  await second.stop()
})

test('redis: durable data survive a kill -9', async () => {
  const dataDir = folder()
  const first = await start(dataDir)
  await ask(first.url, 'SET', 'kept', 'yes')
  first.signal('SIGKILL')
  await first.exited
  const second = await start(dataDir)
  expect(await ask(second.url, 'GET', 'kept')).toBe('yes')
  await second.stop()
})

test('redis: a start stops the server that a killed process left running, and keeps its data', async () => {
  const dataDir = folder()
  const told: string[] = []
  const left = await start(dataDir)
  await ask(left.url, 'SET', 'kept', 'yes')
  const next = await start(dataDir, { onProgress: (line) => told.push(line) })
  expect(told).toEqual(['Redis: stopped the server that a killed run had left running'])
  expect((await listProcesses()).some(({ pid }) => pid === left.pid)).toBe(false)
  expect(await ask(next.url, 'GET', 'kept')).toBe('yes')
  await next.stop()
})

test('redis: evicts nothing, appends to a log only when durable, and listens on the loopback address only', async () => {
  const [durable, volatile] = await Promise.all([start(folder()), start(folder(), { durable: false })])
  const setting = async (url: string, name: string) =>
    ((await ask(url, 'CONFIG', 'GET', name)) as Record<string, string>)[name]
  expect(await setting(durable.url, 'maxmemory-policy')).toBe('noeviction')
  expect(await setting(durable.url, 'bind')).toBe('127.0.0.1')
  expect(await setting(durable.url, 'appendonly')).toBe('yes')
  expect(await setting(durable.url, 'appendfsync')).toBe('always')
  expect(await setting(volatile.url, 'appendonly')).toBe('no')
  await Promise.all([durable.stop(), volatile.stop()])
})

describe('redis password', () => {
  test('redis: requires its password, which only its owner may read and no command line contains', async () => {
    const dataDir = folder()
    const redis = await start(dataDir)
    expect(ask(`redis://127.0.0.1:${redis.port}`, 'PING')).rejects.toThrow('NOAUTH')
    expect(statSync(join(dataDir, 'redis', 'redis.conf')).mode & 0o777).toBe(0o600)
    const own = (await listProcesses()).find(({ pid }) => pid === redis.pid)
    expect(own?.command).not.toContain(redis.password)
    await redis.stop()
  })
})

test('redis: a configured port that is taken causes an error with the log', async () => {
  const port = await freePort()
  const taker = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => taker.listen(port, '127.0.0.1', resolve))
  const starting = start(folder(), { port, password: 'p' })
  expect(starting).rejects.toThrow('Redis did not start')
  await starting.catch(() => undefined)
  await new Promise((resolve) => taker.close(resolve))
})

test('redis: a stop ends a suspended server, and a second stop does nothing', async () => {
  const redis = await start(folder())
  redis.signal('SIGSTOP')
  await redis.stop()
  await redis.stop()
  expect((await listProcesses()).some(({ pid }) => pid === redis.pid)).toBe(false)
})
