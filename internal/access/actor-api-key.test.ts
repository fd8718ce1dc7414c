import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { systemClock } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { createPool } from '#internal/storage/index.ts'
import { Directory } from '#internal/tenants/index.ts'
import { startTestApi, type TestApi, tenantYaml, testApiKey } from '#test/support/api.ts'
import { authenticateApiKey } from './actor.ts'

const otherScopeKey = 'lk_scope_0123456789abcdef0123456789abcdef'
const suspendedKey = 'lk_suspended_0123456789abcdef0123456789'
const endedKey = 'lk_ended_0123456789abcdef0123456789abcdef'
const laterKey = 'lk_later_0123456789abcdef0123456789abcdef'

const expiring = (name: string, key: string, expiresAt: string) =>
  tenantYaml(name, key).replace('name: default,', `name: default, expiresAt: "${expiresAt}",`)

const manifests = [
  tenantYaml('acme', testApiKey),
  tenantYaml('hooks', otherScopeKey, [], 'webhooks, simulations, dashboard'),
  tenantYaml('asleep', suspendedKey, ['suspended: true']),
  expiring('ended', endedKey, '2020-01-01T00:00:00Z'),
  expiring('later', laterKey, '2999-01-01T00:00:00Z'),
].join('')

let api: TestApi

beforeAll(async () => {
  api = await startTestApi({ manifests })
}, 30_000)
afterAll(() => api.close())

const routes = [
  ['POST', '/v1/record'],
  ['PUT', '/v1/record'],
  ['GET', '/v1/record?scope=s&key=k'],
  ['DELETE', '/v1/record?scope=s&key=k'],
  ['POST', '/v1/record/extend'],
  ['POST', '/v1/record/batch'],
] as const

describe.each(routes)('API key of %s %s', (method, path) => {
  test.each([
    ['no Authorization', undefined, 'api_key_invalid'],
    ['an empty Authorization', '', 'api_key_invalid'],
    ['no scheme', testApiKey, 'api_key_invalid'],
    ['another scheme', `Basic ${testApiKey}`, 'api_key_invalid'],
    ['no key', 'Bearer ', 'api_key_invalid'],
    ['a key without our prefix', 'Bearer 0123456789abcdef0123456789abcdef', 'api_key_invalid'],
    ['an unknown key', 'Bearer lk_unknown_0123456789abcdef0123456789', 'api_key_invalid'],
    ['the start of a key', `Bearer ${testApiKey.slice(0, -1)}`, 'api_key_invalid'],
    ['a key with a suffix', `Bearer ${testApiKey}0`, 'api_key_invalid'],
    ['a key in upper case', `Bearer lk_${testApiKey.slice(3).toUpperCase()}`, 'api_key_invalid'],
    ['two keys', `Bearer ${testApiKey}, Bearer ${testApiKey}`, 'api_key_invalid'],
    ['a key over the length limit', `Bearer lk_${'k'.repeat(8000)}`, 'api_key_invalid'],
    ['an expired key', `Bearer ${endedKey}`, 'api_key_invalid'],
    ['a key of another scope', `Bearer ${otherScopeKey}`, 'api_key_scope'],
    ['a suspended tenant', `Bearer ${suspendedKey}`, 'tenant_suspended'],
  ])('API key: a request with %s gets 403', async (_name, authorization, code) => {
    const response = await fetch(`${api.url}${path}`, {
      method,
      headers: authorization === undefined ? {} : { Authorization: authorization },
      // Sends a body that is not JSON, since the caller is authenticated before the body is parsed.
      ...((method === 'POST' || method === 'PUT') && { body: 'not JSON' }),
    })
    expect(response.status).toBe(403)
    expect(await response.json()).toEqual({
      message: expect.stringMatching(/\w/),
      error: 'Forbidden',
      statusCode: 403,
      code,
      requestId: response.headers.get('x-request-id'),
    })
  })
})

test.each([
  ['Bearer', `Bearer ${testApiKey}`],
  ['bearer in lower case', `bearer ${testApiKey}`],
  ['several spaces', `Bearer    ${testApiKey}`],
  ['a key that expires later', `Bearer ${laterKey}`],
])('API key: a request with %s is accepted', async (_name, authorization) => {
  const response = await fetch(`${api.url}/v1/record?scope=s&key=k`, {
    headers: { Authorization: authorization },
  })
  expect(response.status).toBe(200)
})

test('API key: requests are refused while the tenant is suspended and accepted afterwards', async () => {
  const statusOf = async () => (await api.call('GET', '/v1/record?scope=s&key=k')).status
  const becomes = (status: number) =>
    poll(async () => ((await statusOf()) === status ? true : undefined), { deadlineMs: 5000 })
  await api.applyManifests(manifests.replace('slug: acme', 'slug: acme\n  suspended: true'))
  expect(await becomes(403)).toBe(true)
  await api.applyManifests(manifests)
  expect(await becomes(200)).toBe(true)
})

test('API key: requests get 503 with Retry-After before the directory is read', async () => {
  const pool = createPool({
    url: api.databaseUrl,
    applicationName: 'access test',
    connectionsMax: 1,
    queryTimeoutMs: 1000,
    connectTimeoutMs: 1000,
  })
  const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }
  const directory = new Directory({ pool, clock: systemClock, log: silent })
  const authenticate = () => authenticateApiKey(directory, `Bearer ${testApiKey}`, 'records')
  expect(authenticate()).toEqual({ kind: 'error', code: 'starting', headers: { 'Retry-After': '1' } })
  await directory.start()
  expect(authenticate()).toMatchObject({ tenant: { name: 'acme' }, key: { name: 'default' } })
  await directory.stop()
  await pool.end()
})
