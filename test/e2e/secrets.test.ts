import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { freePort, poll } from '#internal/dev/index.ts'
import { keyRingOf, startTestApi, tenantYaml } from '#test/support/api.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import {
  type ApiProcess,
  readiness,
  startApiProcess,
  startProcess,
} from '#test/support/processes/api-process.ts'
import { openRawRedis, type RawRedis } from '#test/support/stores/raw-redis.ts'
import { createTestRedis, type TestDatabase, type TestRedis } from '#test/support/stores.ts'

const startsMs = 60_000

/** One marker per place of a secret or of personal data; only letters and digits, so that escaping does not hide it. */
const mark = (place: string) => `zq9${place}zq9`
const apiKey = `lk_${mark('ApiKey')}_0123456789abcdef0123456789`
const otherKey = 'lk_other_0123456789abcdef0123456789abcdef'
const keyRingBytes = mark('KeyRing').padEnd(32, 'k')
const planted: Record<string, string> = {
  apiKey: mark('ApiKey'),
  unknownApiKey: mark('UnknownApiKey'),
  scheme: mark('OtherScheme'),
  scope: mark('Scope'),
  key: mark('RecordKey'),
  lockToken: mark('LockToken'),
  attemptId: mark('AttemptId'),
  fingerprint: mark('Fingerprint'),
  savedHeader: mark('SavedHeader'),
  savedBody: mark('SavedBody'),
  unknownValue: mark('UnknownValue'),
  unknownName: mark('UnknownName'),
  brokenJson: mark('BrokenJson'),
  path: mark('Path'),
  requestHeader: mark('RequestHeader'),
  stored: mark('StoredEntry'),
  keyRing: Buffer.from(keyRingBytes).toString('base64'),
  otlpHeader: mark('OtlpHeader'),
  wrongPassword: mark('WrongPassword'),
}
/** Marker that may be in the log: the caller's id of its request. */
const requestId = mark('RequestId')

const address = { scope: mark('Scope'), key: mark('RecordKey') }
const savedParts = {
  status: 200,
  headers: { Authorization: mark('SavedHeader') },
  body: { card: mark('SavedBody') },
}

/** Output of the process, collected while it runs. */
const seen = { log: '', metrics: '', spans: '', health: '', ownErrors: '', otherAnswers: '', misfits: '' }
const issuedTokens = new Set<string>()

let database: TestDatabase
let redis: TestRedis
let behind: RawRedis
let api: ApiProcess
let receiver: Bun.Server<undefined>

beforeAll(async () => {
  database = await createMigratedDatabase()
  redis = await createTestRedis()
  behind = await openRawRedis(redis.url)
  Object.assign(planted, { redisPassword: redis.password, databasePassword: new URL(database.url).password })
  const manifests = tenantYaml('acme', apiKey) + tenantYaml('other', otherKey)
  const keyRing = keyRingOf(`ring:${planted.keyRing}`)
  const seeding = await startTestApi({ databaseUrl: database.url, redisUrl: redis.url, manifests, keyRing })
  await seeding.close()
  receiver = Bun.serve({
    port: 0,
    async fetch(request) {
      seen.spans += await request.text()
      return Response.json({})
    },
  })
  api = await startApiProcess(environment())
  expect(await readiness(api.opsUrl, 200)).toBe(200)
  await callEveryRoute()
  await callBadly()
  await callWithStoreBroken()
  await callAsAnother()
  await gather()
  await runMisfits()
}, startsMs)

afterAll(async () => {
  api.signal('SIGKILL')
  await api.exited
  behind.close()
  await receiver.stop(true)
  await redis.stop()
  await database.drop()
}, startsMs)

function environment(): Record<string, string> {
  return {
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: redis.url,
    LATCHKEY_KEY_RING: `ring:${planted.keyRing}`,
    LATCHKEY_LOG_LEVEL: 'debug',
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${receiver.port}`,
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=${mark('OtlpHeader')}`,
  }
}

interface Sent {
  readonly status: number
  readonly text: string
}

async function call(method: string, path: string, body?: unknown, headers: object = {}): Promise<Sent> {
  const response = await fetch(`${api.url}${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${apiKey}`,
      'User-Agent': mark('RequestHeader'),
      Cookie: mark('RequestHeader'),
      tracestate: `a=${mark('RequestHeader')}`,
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  for (const [, token] of text.matchAll(/"lockToken":"([^"]+)"/g)) if (token) issuedTokens.add(token)
  if (response.status >= 400) seen.ownErrors += `${text}\n`
  return { status: response.status, text }
}

const query = (fields: Record<string, string>) => `/v1/record?${new URLSearchParams(fields)}`

async function callEveryRoute(): Promise<void> {
  const asked = { ...address, attemptId: mark('AttemptId'), fingerprint: mark('Fingerprint') }
  const { text } = await call('POST', '/v1/record', asked)
  const { lockToken } = JSON.parse(text) as { lockToken: string }
  const statuses = [
    await call('POST', '/v1/record', { ...address, waitMs: 20 }),
    await call('POST', '/v1/record/batch', { checks: [asked, { ...address, key: mark('RecordKey') + 2 }] }),
    await call('POST', '/v1/record/extend', { ...address, lockToken }),
    await call('PUT', '/v1/record', { ...address, ...savedParts, lockToken }),
    await call('POST', '/v1/record', address),
    await call('GET', query(address)),
    await call('DELETE', query({ ...address, lockToken: mark('LockToken') })),
    await call('GET', '/v1/openapi.json'),
  ]
  expect(statuses.map(({ status }) => status)).toEqual(statuses.map(() => 200))
}

async function callBadly(): Promise<void> {
  const token = { lockToken: mark('LockToken') }
  const unknown = { [mark('UnknownName')]: mark('UnknownValue') }
  const calls: readonly [number, string, string, unknown?, object?][] = [
    [409, 'PUT', '/v1/record', { ...address, ...savedParts, ...token }],
    [409, 'PUT', '/v1/record', { ...address, ...savedParts, status: 500 }],
    [409, 'POST', '/v1/record/extend', { ...address, ...token }],
    [422, 'POST', '/v1/record', { ...address, fingerprint: `${mark('Fingerprint')}2` }],
    [400, 'POST', '/v1/record', { ...address, scope: `${mark('Scope')}\n` }],
    [400, 'POST', '/v1/record', { ...address, attemptId: [mark('AttemptId')] }],
    [400, 'PUT', '/v1/record', { ...address, ...savedParts, headers: { a: [mark('SavedHeader')] } }],
    [400, 'PUT', '/v1/record', { ...address, ...savedParts, body: mark('SavedBody').repeat(30_000) }],
    [400, 'PUT', '/v1/record', { ...address, ...savedParts, ...token, lockSeconds: mark('UnknownValue') }],
    [400, 'POST', '/v1/record', `{"scope":"${mark('BrokenJson')}`],
    [400, 'POST', '/v1/record/batch', `{"checks":${mark('BrokenJson')}}`],
    [400, 'GET', `${query(address)}&scope=${mark('UnknownValue')}`],
    [400, 'DELETE', `${query({ ...address, ...token })}&key=%ff${mark('UnknownValue')}`],
    [404, 'GET', `/v1/${mark('Path')}?a=${mark('UnknownValue')}`],
    [405, 'PATCH', query(address), { ...address, ...savedParts }],
    [
      403,
      'GET',
      query(address),
      undefined,
      { Authorization: `Bearer lk_${mark('UnknownApiKey')}_0123456789abcdef` },
    ],
    [403, 'GET', query(address), undefined, { Authorization: `Basic ${mark('OtherScheme')}` }],
    [400, 'GET', '/v1/record', undefined, { 'X-Request-Id': requestId }],
    [400, 'GET', '/v1/record', undefined, { 'X-Request-Id': `"${mark('RequestHeader')}"` }],
    [400, 'GET', '/v1/record', undefined, { traceparent: mark('RequestHeader') }],
  ]
  for (const [status, method, path, body, headers] of calls) {
    expect([path, (await call(method, path, body, headers)).status]).toEqual([path, status])
  }
  // The name of an unknown field appears only in the response to its sender.
  const named = await fetch(`${api.url}/v1/record`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${apiKey}` },
    body: JSON.stringify({ ...address, ...unknown }),
  })
  expect(await named.text()).toContain(mark('UnknownName'))
}

/** Redis with a corrupt entry, full, hanging, unavailable, and emptied. */
async function callWithStoreBroken(): Promise<void> {
  const everywhere = async () => {
    const fresh = { ...address, key: `${mark('RecordKey')}${crypto.randomUUID()}` }
    const answers = [
      await call('POST', '/v1/record', { ...fresh, fingerprint: mark('Fingerprint') }),
      await call('PUT', '/v1/record', { ...fresh, ...savedParts }),
      await call('POST', '/v1/record/batch', { checks: [fresh] }),
    ]
    return answers.map(({ status }) => status)
  }
  const keys = await behind.keys(`*${mark('RecordKey')}`)
  expect(keys.length).toBe(1)
  for (const spoil of [`L\n${mark('StoredEntry')}\n`, `R\n${mark('StoredEntry')}`]) {
    for (const key of keys) await behind.set(key, spoil)
    expect(
      (await call('POST', '/v1/record/extend', { ...address, lockToken: mark('LockToken') })).status,
    ).not.toBe(200)
    await call('DELETE', query(address))
  }
  for (const key of keys) {
    await behind.del(key)
    await behind.rpush(key, mark('StoredEntry'))
  }
  expect((await call('GET', query(address))).status).toBeGreaterThanOrEqual(500)
  await behind.send('CONFIG', ['SET', 'maxmemory', '1'])
  expect(await everywhere()).toEqual([503, 503, 200])
  await behind.send('CONFIG', ['SET', 'maxmemory', '0'])
  redis.signal('SIGSTOP')
  expect(await everywhere()).toEqual([503, 503, 200])
  redis.signal('SIGCONT')
  await redis.stop()
  expect(await everywhere()).toEqual([503, 503, 200])
  await redis.restart()
  const back = await poll(async () => ((await everywhere())[0] === 200 ? true : undefined), {
    deadlineMs: 10_000,
  })
  expect(back).toBe(true)
}

/** Calls as another tenant, with the same scope and key and the first tenant's tokens. */
async function callAsAnother(): Promise<void> {
  const as = { Authorization: `Bearer ${otherKey}` }
  const answers = [
    await call('PUT', '/v1/record', { ...address, ...savedParts, lockToken: [...issuedTokens][0] }, as),
    await call('GET', query(address), undefined, as),
    await call('POST', '/v1/record', { ...address, fingerprint: 'f' }, as),
    await call('POST', '/v1/record', { ...address, fingerprint: 'g' }, as),
    await call('PUT', '/v1/record', { ...address, ...savedParts, lockToken: [...issuedTokens][0] }, as),
  ]
  expect(answers.map(({ status }) => status)).toEqual([409, 200, 200, 422, 409])
  // Excludes successful answers, since the tenant's own lock has a different token.
  seen.otherAnswers = answers.map(({ status, text }) => (status === 200 ? '' : text)).join('\n')
}

async function gather(): Promise<void> {
  for (const path of ['/metrics', '/readyz', '/livez']) {
    const text = await (await fetch(`${api.opsUrl}${path}`)).text()
    if (path === '/metrics') seen.metrics = text
    else seen.health += text
  }
  api.signal('SIGTERM')
  expect(await api.exited).toBe(0)
  seen.log = api.output() + api.errors()
}

/** Runs processes with unreachable stores or invalid settings. */
async function runMisfits(): Promise<void> {
  const nowhere = `127.0.0.1:${await freePort()}`
  const wrong = mark('WrongPassword')
  const ports = { LATCHKEY_API_PORT: '0', LATCHKEY_OPS_PORT: '0' }
  const away = await startApiProcess({
    ...environment(),
    LATCHKEY_DATABASE_URL: `postgres://latchkey:${wrong}@${nowhere}/latchkey`,
    LATCHKEY_REDIS_URL: redis.url.replace(redis.password, wrong),
  })
  await away.logged('Redis connection failed')
  const health = await (await fetch(`${away.opsUrl}/readyz`)).text()
  away.signal('SIGTERM')
  expect(await away.exited).toBe(0)
  const refused = startProcess('api', {
    ...environment(),
    ...ports,
    LATCHKEY_DATABASE_URL: `postgres://latchkey:${wrong}@@host/latchkey`,
    LATCHKEY_REDIS_URL: `http://:${wrong}@host`,
    LATCHKEY_KEY_RING: `ring:${wrong}`,
  })
  const unmigrated = startProcess('migrate', {
    LATCHKEY_DATABASE_URL: `postgres://latchkey:${wrong}@${nowhere}/latchkey`,
  })
  expect(await refused.exited).toBe(2)
  expect(await unmigrated.exited).toBe(1)
  const texts = [away, refused, unmigrated].map((each) => each.output() + each.errors())
  expect(texts.every((text) => text.length > 0)).toBe(true)
  seen.misfits = [...texts, health].join('\n')
}

/** Returns the places whose marker is in a text. */
function placesIn(text: string): string[] {
  const plain = text.toLowerCase()
  const tokens = [...issuedTokens].map((token, index): [string, string] => [`issued token ${index}`, token])
  const all = [...Object.entries(planted), ...tokens]
  return all
    .filter(([, value]) => value !== '' && plain.includes(value.toLowerCase()))
    .map(([place]) => place)
}

describe('planted secrets and personal data', () => {
  test('secrets: all test secrets are planted, and public values are found where expected', () => {
    expect(placesIn(Object.values(planted).join(' ')).toSorted()).toEqual(Object.keys(planted).toSorted())
    expect(issuedTokens.size).toBeGreaterThanOrEqual(4)
    expect(seen.log).toContain(requestId)
    expect(seen.ownErrors).toContain(requestId)
    expect(placesIn(`${seen.log} ${planted.savedBody}`)).toEqual(['savedBody'])
  })

  test('secrets: no secret appears in the log at any level, although every call is logged', () => {
    for (const level of ['debug', 'info', 'warn', 'error']) expect(seen.log).toContain(`"level":"${level}"`)
    for (const outcome of [
      'hit',
      'busy',
      'lock_lost',
      'invalid_request',
      'api_key_invalid',
      'store_unavailable',
    ]) {
      expect(seen.log).toContain(`"outcome":"${outcome}"`)
    }
    expect(placesIn(seen.log)).toEqual([])
  })

  test('secrets: no secret appears in the metrics', () => {
    expect(seen.metrics).toContain('latchkey_http_requests_total')
    expect(placesIn(seen.metrics)).toEqual([])
  })

  test('secrets: no secret appears in the traces', () => {
    expect(seen.spans).toContain('POST /v1/record')
    expect(placesIn(seen.spans)).toEqual([])
  })

  test('secrets: no secret appears in the health responses of the ops port', () => {
    expect(seen.health).toContain('redis')
    expect(placesIn(seen.health)).toEqual([])
  })

  test('secrets: no secret appears in an error response', () => {
    expect(seen.ownErrors).toContain('store_unavailable')
    expect(placesIn(seen.ownErrors)).toEqual([])
    expect(seen.otherAnswers).toContain('lock_lost')
    expect(placesIn(seen.otherAnswers)).toEqual([])
  })

  test('secrets: a process with unreachable stores or invalid settings prints no secret', () => {
    expect(seen.misfits).toContain('LATCHKEY_KEY_RING')
    expect(placesIn(seen.misfits)).toEqual([])
  })
})
