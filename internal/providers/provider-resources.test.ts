// Tests declared providers from the manifest file to the response to a call: the controller, the directory and intake on real stores.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { parseAllDocuments } from 'yaml'
import { poll } from '#internal/dev/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startTestApi, type TestApi, tenantYaml, testApiKey } from '#test/support/api.ts'
import { declarationRules } from './declared/rules.ts'
import { findProviderName } from './known-providers.ts'

const secret = 'a-signing-secret-of-tests'
let api: TestApi
let pool: Pool

beforeAll(async () => {
  api = await startTestApi()
  pool = createPool({
    url: api.databaseUrl,
    applicationName: 'test',
    connectionsMax: 2,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
})
afterAll(async () => {
  await pool.end()
  await api.close()
})

interface Declared {
  readonly name?: string
  readonly prefix?: string
  readonly spec?: string
  /** Signature of the vector; default: the right one. */
  readonly vector?: string
}

const sign = (body: string, key = secret) => createHmac('sha256', key).update(body).digest('hex')
const vectorBody = '{"id":"v1","kind":"door.opened"}'

function providerYaml({ name = 'doors', prefix = 'v1=', spec = '', vector }: Declared = {}): string {
  return `apiVersion: latchkey.dev/v1alpha1
kind: Provider
metadata: {name: ${name}}
spec:
  body: {bytesMax: 65536, json: {}}
  headers: {signature: {names: [X-Doors-Signature]}}
  signature:
    schemes:
      - {algorithm: hmac-sha256, signature: {header: signature, prefix: ${prefix}}, encoding: hex, signs: '{body}'}
  event: {id: [{json: id}], type: {from: [{json: kind}]}}
  vectors:
    - name: opened
      secrets: [${secret}]
      at: '2026-11-26T09:00:00Z'
      headers: {X-Doors-Signature: '${vector ?? prefix + sign(vectorBody)}'}
      body: '${vectorBody}'
      expect: {id: v1, rawType: door.opened, type: ${name}.door.opened}
${spec}---
`
}

const specOf = (yaml: string): unknown => parseAllDocuments(yaml)[0]?.toJS().spec

const using = (...providers: readonly string[]) => `${tenantYaml('acme', testApiKey, [
  `providers: [${providers.map((each) => `{${each}, secretRef: {name: acme-provider}}`).join(', ')}]`,
])}apiVersion: v1
kind: Secret
metadata: {name: acme-provider, namespace: shops}
stringData: {signingSecret: ${secret}}
---
`

let count = 0
async function call(prefix: string, provider = 'doors'): Promise<number> {
  count += 1
  const body = JSON.stringify({ id: `d${count}`, kind: 'door.opened' })
  const headers = { 'X-Doors-Signature': prefix + sign(body) }
  return (await fetch(`${api.url}/v1/t/acme/webhooks/${provider}`, { method: 'POST', body, headers })).status
}

/** Waits until a call gets a status: directories read changes within a second. */
async function until(status: number, prefix: string, provider = 'doors'): Promise<void> {
  const seen = await poll(async () => ((await call(prefix, provider)) === status ? status : undefined), {
    deadlineMs: 2_000,
  })
  expect(seen).toBe(status)
}

async function stored(): Promise<Record<string, unknown>[]> {
  const { rows } = await pool.query(
    'SELECT name, aliases, is_unverified, declaration FROM providers WHERE declaration IS NOT NULL ORDER BY name',
  )
  return rows
}

async function conditionOfTenant(): Promise<{ status: string; reason: string; message: string }> {
  const { rows } = await pool.query('SELECT conditions FROM tenants WHERE deleted_at IS NULL')
  return rows[0].conditions.find(({ type }: { type: string }) => type === 'ProvidersAccepted')
}

test('Provider: calls are verified under the name and the aliases of the resource, and its vectors are not stored', async () => {
  await api.applyManifests(providerYaml({ spec: '  aliases: [door-keeper]\n' }) + using('name: doors'))
  await until(200, 'v1=')
  expect([await call('v1=', 'door-keeper'), await call('v2=')]).toEqual([200, 400])
  const [row] = await stored()
  expect(row).toMatchObject({ name: 'doors', aliases: ['door-keeper'], is_unverified: false })
  expect(row?.['declaration']).not.toContain(secret)
  const { rows } = await pool.query('SELECT DISTINCT provider, type FROM events')
  expect(rows).toEqual([{ provider: 'doors', type: 'doors.door.opened' }])
})

test('Provider: a tenant can refer to a Provider by an alias', async () => {
  await api.applyManifests(providerYaml({ spec: '  aliases: [door-keeper]\n' }) + using('name: door-keeper'))
  await until(200, 'v1=')
  expect(await call('v1=', 'door-keeper')).toBe(200)
})

test('Provider: a change of the manifest takes effect within 2 s', async () => {
  await api.applyManifests(providerYaml() + using('name: doors'))
  await until(200, 'v1=')
  const startedAtMs = performance.now()
  await api.applyManifests(providerYaml({ prefix: 'v2=' }) + using('name: doors'))
  await until(200, 'v2=')
  expect(performance.now() - startedAtMs).toBeLessThan(2_000)
  expect(await call('v1=')).toBe(400)
})

test.each([
  ['whose vectors fail', { vector: 'v3=00' }],
  ['that is invalid', { spec: '  bodyy: {}\n' }],
  ['with a built-in name as alias', { spec: '  aliases: [stripe]\n' }],
  ['with the name of notifications as alias', { spec: '  aliases: [latchkey]\n' }],
  ['with the first word of event types as alias', { spec: '  aliases: [payment]\n' }],
  ['with the name of a shipped declaration as alias', { spec: '  aliases: [slack]\n' }],
])('Provider: after an update %s, the previous version stays in force', async (_what, change) => {
  await api.applyManifests(providerYaml() + using('name: doors'))
  await until(200, 'v1=')
  await api.applyManifests(providerYaml({ prefix: 'v3=', ...change }) + using('name: doors'))
  expect([await call('v1='), await call('v3=')]).toEqual([200, 400])
})

test('Provider: a resource whose vectors fail is not put in force, and the tenant’s condition reports an unknown provider', async () => {
  await api.applyManifests(providerYaml({ name: 'gates', vector: 'v1=00' }) + using('name: gates'))
  expect(await call('v1=', 'gates')).toBe(404)
  expect(await conditionOfTenant()).toMatchObject({ status: 'False', reason: 'ProviderUnknown' })
})

test.each([
  ['latchkey', 'which is reserved for notifications'],
  ['declared', 'a word of event types or metrics'],
  ['payment', 'a word of event types or metrics'],
  ['card', 'which is a built-in provider'],
  ['stripe', 'which is a built-in provider'],
  ['facebook', 'which is a name of the shipped declaration meta'],
])('Provider: a resource with the name %s is not put in force: %s', async (name, why) => {
  await api.applyManifests(providerYaml({ name }) + using('name: generic'))
  expect(await stored()).toEqual([])
  const validated = declarationRules.validate(name, specOf(providerYaml({ name })))
  expect(validated).toMatchObject({ kind: 'invalid', reason: 'NameReserved' })
  expect(validated).toHaveProperty('message', expect.stringContaining(`metadata.name is ${name}, ${why}`))
})

test.each([
  ['stripe', 'which is a built-in provider'],
  ['slack', 'which is a name of the shipped declaration slack'],
  ['facebook', 'which is a name of the shipped declaration meta'],
])('Provider: a resource with the alias %s is not put in force: %s', async (alias, why) => {
  const yaml = providerYaml({ spec: `  aliases: [${alias}]\n` })
  await api.applyManifests(yaml + using('name: generic'))
  expect(await stored()).toEqual([])
  const message = expect.stringContaining(`spec.aliases[0] is ${alias}, ${why}`)
  expect(declarationRules.validate('doors', specOf(yaml))).toMatchObject({ reason: 'NameReserved', message })
})

test('Provider: a resource in force keeps its names when a later version of Latchkey ships a declaration with one of these names', () => {
  const own = { name: 'doors', aliases: ['facebook'], isUnverified: false, text: '{}' }
  const inForce = new Map([
    ['doors', own],
    ['facebook', own],
  ])
  expect(findProviderName('facebook', inForce) as string).toBe('doors')
  expect(findProviderName('meta', inForce) as string).toBe('meta')
  const replacing = new Map([['meta', { ...own, name: 'meta', aliases: [] }]])
  expect([findProviderName('meta', replacing) as string, findProviderName('facebook', replacing)]).toEqual([
    'meta',
    undefined,
  ])
})

test.each([
  ['of a vendor', 'strpe', 'stripe'],
  ['of a shipped declaration', 'slak', 'slack'],
  ['of a Provider', 'doorz', 'doors'],
  ['of a Provider’s alias', 'door-keper', 'door-keeper'],
])('tenant: the condition for a misspelt name %s suggests the right one', async (_what, wrong, right) => {
  await api.applyManifests(
    providerYaml({ spec: '  aliases: [door-keeper]\n' }) + using('name: doors', `name: ${wrong}`),
  )
  const { status, reason, message } = await conditionOfTenant()
  expect([status, reason]).toEqual(['False', 'ProviderUnknown'])
  expect(message).toStartWith(
    `there is no provider ${wrong} (did you mean ${right}?) in force: its calls are 404`,
  )
})

test('Provider: a deleted resource still verifies calls while a tenant uses it, and is removed afterwards', async () => {
  await api.applyManifests(providerYaml() + using('name: doors'))
  await until(200, 'v1=')
  await api.applyManifests(using('name: doors'))
  expect(await call('v1=')).toBe(200)
  await api.applyManifests(using('name: generic'))
  await api.applyManifests(using('name: generic'))
  expect(await stored()).toEqual([])
  await until(404, 'v1=')
})

test('Provider: a resource with the name of a shipped declaration replaces this declaration until the resource is deleted', async () => {
  await api.applyManifests(providerYaml({ name: 'slack' }) + using('name: slack'))
  await until(200, 'v1=', 'slack')
  await api.applyManifests(using('name: generic'))
  await api.applyManifests(using('name: slack'))
  await until(400, 'v1=', 'slack')
})

test('Provider: if two resources claim the same name, the resource already in force keeps the name', async () => {
  const first = providerYaml({ spec: '  aliases: [portal]\n' })
  await api.applyManifests(first + using('name: portal'))
  await until(200, 'v1=', 'portal')
  await api.applyManifests(first + providerYaml({ name: 'portal', prefix: 'v2=' }) + using('name: portal'))
  expect([await call('v1=', 'portal'), await call('v2=', 'portal')]).toEqual([200, 400])
  expect((await stored()).map(({ name }) => name)).toEqual(['doors'])
})

test('unverified Provider: calls are refused until the tenant accepts the unverified declaration', async () => {
  const yaml = providerYaml({ spec: '  unverified: true\n' })
  await api.applyManifests(yaml + using('name: doors'))
  await until(403, 'v1=')
  expect(await conditionOfTenant()).toMatchObject({ status: 'False', reason: 'ProviderUnverified' })
  await api.applyManifests(yaml + using('name: doors, acceptUnverified: true'))
  await until(200, 'v1=')
  expect(await conditionOfTenant()).toMatchObject({ status: 'True', reason: 'Known' })
})

test('tenant: a provider that is listed under two names is reported', async () => {
  await api.applyManifests(
    providerYaml({ spec: '  aliases: [portal]\n' }) + using('name: doors', 'name: portal'),
  )
  expect(await conditionOfTenant()).toMatchObject({ status: 'False', reason: 'ProviderRepeated' })
})
