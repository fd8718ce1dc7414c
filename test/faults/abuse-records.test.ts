import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { tenantYaml } from '#test/support/api.ts'
import { command, startStandalone } from '#test/support/stores/redis-topology.ts'
import type { TestRedis } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'
import { type AbuseScene, openAbuseScene } from './abuse-probes.ts'

const mebibyte = 1024 * 1024
const bytesMax = 4 * mebibyte
const keyOf = (tenant: string) => `lk_test_${tenant}_0123456789abcdef0123456789abcdef`

/** Tenants with locks of one size each, whose floods fill the tenant's limit. */
const floods = [
  { tenant: 'short', text: 's', lengths: { scope: 6, attemptId: 0, fingerprint: 0 }, keyLength: 12 },
  { tenant: 'uuid', text: 'u', lengths: { scope: 12, attemptId: 36, fingerprint: 64 }, keyLength: 36 },
  { tenant: 'ascii', text: 'a', lengths: { scope: 128, attemptId: 128, fingerprint: 255 }, keyLength: 255 },
  { tenant: 'widest', text: '😀', lengths: { scope: 128, attemptId: 128, fingerprint: 255 }, keyLength: 255 },
]
type Flood = (typeof floods)[number]

let redis: TestRedis
let scene: AbuseScene

beforeAll(async () => {
  const limits = `limits: {recordBytes: {hard: ${bytesMax}}}`
  const manifests = [
    tenantYaml('plain', keyOf('plain')),
    ...floods.map(({ tenant }) => tenantYaml(tenant, keyOf(tenant), [limits])),
  ]
  redis = await startStandalone()
  scene = await openAbuseScene(manifests.join(''), { LATCHKEY_REDIS_URL: redis.url })
}, 60_000)
afterAll(async () => {
  await scene?.close()
  await redis?.stop()
})

interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly json: Record<string, unknown>
}

async function call(tenant: string, method: string, path: string, body?: object): Promise<Answered> {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${keyOf(tenant)}` }
  const answer = await fetch(`${scene.api.url}/v1/record${path}`, {
    method,
    headers,
    ...(body && { body: JSON.stringify(body) }),
  })
  return {
    status: answer.status,
    headers: answer.headers,
    json: (await answer.json()) as Record<string, unknown>,
  }
}

/** Reads Redis' clock, which decides about locks. */
async function redisMs(): Promise<number> {
  const [reply] = await command(redis, ['TIME'])
  const [seconds, micros] = (reply as string[]).map(Number)
  return (seconds ?? 0) * 1000 + (micros ?? 0) / 1000
}

async function usedMemory(): Promise<number> {
  const [info] = await command(redis, ['INFO', 'memory'])
  return Number(/used_memory:(\d+)/.exec(String(info))?.[1])
}

test('abuse, records: a lock with lockSeconds 1 and ttlSeconds 1 is reported as taken over 2.6 s later', async () => {
  const lock = { scope: 'abuse', key: 'crashed', ttlSeconds: 1, lockSeconds: 1 }
  expect((await call('plain', 'POST', '', lock)).json).toMatchObject({ locked: true })
  const takenMs = await redisMs()
  await until('2.6 s on the clock of Redis', async () => (await redisMs()) > takenMs + 2600)
  const { json } = await call('plain', 'POST', '', lock)
  expect(json).toMatchObject({ cached: false, locked: true, takenOver: true })
  console.log('lock of 1 s, ttl of 1 s, acquired again after 2.6 s: takenOver true')
}, 20_000)

test.each([
  ['a line break and another header in a name', { 'a\r\nSet-Cookie': 'session=1' }, 'a\\r\\nSet-Cookie'],
  ['a line break and another header in a value', { 'X-Note': 'x\r\nSet-Cookie: a=1' }, 'headers.X-Note'],
  ['a blank name', { '': 'x' }, '""'],
  ['a name of a space', { ' ': 'x' }, '" "'],
  ['NUL in a value', { 'X-Note': 'x\0' }, 'headers.X-Note'],
  ['an escape in a value', { 'X-Note': '\x1b[2J' }, 'headers.X-Note'],
])(
  'abuse, records: a save whose headers contain %s gets a 400 error that names the header, and the lock is kept',
  async (what, headers, named) => {
    const address = { scope: 'abuse', key: crypto.randomUUID() }
    const { lockToken } = (await call('plain', 'POST', '', address)).json
    const record = { ...address, lockToken, status: 200, body: 1 }
    const refused = await call('plain', 'PUT', '', { ...record, headers })
    console.log(`saved headers, ${what}: ${refused.status} ${refused.json['message']}`)
    expect(refused.json).toMatchObject({ statusCode: 400, code: 'invalid_request' })
    expect(refused.json['message']).toContain(named)
    expect((await call('plain', 'POST', '', address)).json).toMatchObject({ cached: false, locked: false })
    expect((await call('plain', 'PUT', '', { ...record, headers: { 'X-Note': 'x' } })).json).toEqual({
      ok: true,
    })
  },
)

const checksEach = 100
const batchesMax = 400
const sendersEach = 4

function checkOf({ text, lengths, keyLength }: Flood, number: number) {
  const key = `${number}`.padStart(9, '0') + text.repeat(keyLength - 9)
  const fields = Object.entries(lengths).map(([name, length]) => [name, text.repeat(length)])
  return { ...Object.fromEntries(fields.filter(([, value]) => value !== '')), key, lockSeconds: 900 }
}

interface FloodResult {
  readonly granted: number
  readonly refused: number
  /** Answer of the last granted lock. */
  readonly lockToken: string
  readonly number: number
  readonly otherCodes: readonly unknown[]
}

/** Acquires locks of new keys until a whole batch is refused, four batches at a time. */
async function floodLocks(flood: Flood): Promise<FloodResult> {
  const found = { granted: 0, refused: 0, lockToken: '', number: 0, otherCodes: [] as unknown[] }
  let batches = 0
  let isFull = false
  const oneSender = async () => {
    while (!isFull && batches < batchesMax) {
      const from = batches * checksEach
      batches += 1
      const checks = Array.from({ length: checksEach }, (_none, at) => checkOf(flood, from + at))
      const { json } = await call(flood.tenant, 'POST', '/batch', { checks })
      const results = json['results'] as Record<string, unknown>[]
      results.forEach(({ locked, lockToken, code }, at) => {
        if (locked === true) {
          Object.assign(found, { granted: found.granted + 1, lockToken, number: from + at })
        } else if (code === 'limit_exceeded') found.refused += 1
        else found.otherCodes.push(code)
      })
      if (results.every(({ code }) => code === 'limit_exceeded')) isFull = true
    }
  }
  await Promise.all(Array.from({ length: sendersEach }, oneSender))
  expect(isFull).toBe(true)
  return found
}

describe('flood of locks', () => {
  test.each(floods)(
    'abuse, records: a flood of locks by tenant $tenant ends with 429 for recordBytes close to the memory limit',
    async (flood) => {
      const { tenant } = flood
      // Makes a first call, which creates meters and loads scripts before memory is compared.
      await call(tenant, 'DELETE', '?scope=abuse&key=none')
      const before = await usedMemory()
      const { granted, refused, lockToken, number, otherCodes } = await floodLocks(flood)
      const grown = (await usedMemory()) - before
      console.log(
        `flood of locks, ${tenant}: granted ${granted}, refused ${refused}; limit ${bytesMax} bytes, used_memory grew by ${grown} (${(grown / bytesMax).toFixed(2)} x), ${(grown / granted).toFixed(0)} bytes a lock`,
      )
      expect(otherCodes).toEqual([])
      expect(grown).toBeLessThan(1.25 * bytesMax)
      expect(grown).toBeGreaterThan(0.75 * bytesMax)

      const fresh = checkOf(flood, 0.5)
      const over = await call(tenant, 'POST', '', fresh)
      expect(over.json).toMatchObject({ statusCode: 429, code: 'limit_exceeded' })
      expect(over.headers.get('RateLimit')).toStartWith('"record-bytes";r=0')
      expect(Number(over.headers.get('Retry-After'))).toBeGreaterThan(0)

      // Existing locks still work (busy, re-entry, extend, release), and so do other tenants.
      const held = checkOf(flood, number)
      const { attemptId: _own, ...stranger } = held as { attemptId?: string; scope: string; key: string }
      expect((await call(tenant, 'POST', '', stranger)).json).toMatchObject({ cached: false, locked: false })
      const { scope, key } = stranger
      expect((await call(tenant, 'POST', '/extend', { scope, key, lockToken })).status).toBe(200)
      const query = `?${new URLSearchParams({ scope, key, lockToken })}`
      expect((await call(tenant, 'DELETE', query)).json).toMatchObject({ existed: true })
      const room = await call(tenant, 'POST', '', fresh)
      expect(room.json).toMatchObject({ cached: false, locked: true })
      expect((await call('plain', 'POST', '', fresh)).json).toMatchObject({ locked: true })

      // Saves are never refused, and records can be read although there is no room for another lock.
      const record = { scope, key: fresh.key, status: 200, body: 'x'.repeat(4096) }
      const saved = await call(tenant, 'PUT', '', { ...record, lockToken: room.json['lockToken'] })
      expect(saved.json).toEqual({ ok: true })
      expect((await call(tenant, 'POST', '', fresh)).json).toMatchObject({ cached: true })
      expect((await call(tenant, 'POST', '', checkOf(flood, 0.25))).status).toBe(429)
    },
    60_000,
  )
})
