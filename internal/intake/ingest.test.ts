import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { ReceivedEvent } from '#internal/events/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { type DirectoryTenant, emptyDeclarations, parseProviderName } from '#internal/tenants/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import { directoryTenant } from '#test/support/tenants/directory-tenant.ts'
import { type IngestRequest, ingestEvent } from './ingest.ts'

let database: TestDatabase
let pool: Pool
beforeAll(async () => {
  database = await createMigratedDatabase()
  const bounds = { connectionsMax: 8, queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 }
  pool = createPool({ url: database.url, applicationName: 'test hand-in', ...bounds })
})
afterAll(async () => {
  await pool.end()
  await database.drop()
})

const tenantWith = (fields: Partial<DirectoryTenant> = {}) =>
  directoryTenant({ providers: [{ name: 'card' }, { name: 'wallet' }, { name: 'gateway' }], ...fields })

function handIn(
  fields: Partial<IngestRequest> = {},
  log: { before?: ReceivedEvent[]; stored?: ReceivedEvent[] } = {},
) {
  const request: IngestRequest = {
    tenant: tenantWith(),
    provider: 'card',
    sourceEventId: 'one',
    type: 'a.b',
    rawType: 'a.b',
    occurredAtMs: undefined,
    headers: {},
    payload: '{}',
    actor: 'user:importer',
    ...fields,
  }
  return ingestEvent(
    {
      storing: {
        pool,
        wake: () => undefined,
        onError: () => undefined,
        onStored: (events) => void log.stored?.push(...events),
      },
      retentionDefaults: () => ({ payloadDays: 30, eventDays: 90 }),
      declarations: () => emptyDeclarations,
      beforeStored: async (event) => void log.before?.push(event),
    },
    request,
    Date.now(),
  )
}

test('ingestEvent: forty concurrent calls with one id store one event, and all calls return this event', async () => {
  const stored: ReceivedEvent[] = []
  const tenant = tenantWith()
  const results = await Promise.all(Array.from({ length: 40 }, () => handIn({ tenant }, { stored })))
  const ids = new Set(results.map((result) => ('id' in result ? result.id : result.kind)))
  expect([ids.size, stored.length]).toEqual([1, 1])
  expect(results.filter(({ kind }) => kind === 'stored')).toHaveLength(1)
  const { rows } = await pool.query('SELECT state FROM events WHERE tenant_id = $1', [tenant.id])
  expect(rows).toEqual([{ state: 'accepted' }])
})

test('ingestEvent: returns a known event unchanged, even if its delivery failed, and does not call `beforeStored`', async () => {
  const tenant = tenantWith()
  const first = await handIn({ tenant, payload: '{"n":1}' })
  await pool.query(`UPDATE events SET state = 'delivery_failed' WHERE tenant_id = $1`, [tenant.id])
  const before: ReceivedEvent[] = []
  const again = await handIn({ tenant, payload: '{"n":2}' }, { before })
  expect([again, before]).toEqual([{ kind: 'known', id: 'id' in first ? first.id : '' } as never, []])
  const { rows } = await pool.query(
    `SELECT e.state, p.payload FROM events e JOIN event_payloads p ON p.event_id = e.id WHERE tenant_id = $1`,
    [tenant.id],
  )
  expect(rows).toEqual([{ state: 'delivery_failed', payload: '{"n":1}' }])
})

test('ingestEvent: accepts a declared provider by name and by alias, whichever of them the tenant’s spec contains', async () => {
  const [slack, alias, own] = ['slack', 'facebook', 'meta'].map((name) => parseProviderName(name))
  if (!slack || !alias || !own) throw new Error('a name has another form')
  const tenant = tenantWith({ providers: [{ name: slack }, { name: alias }] })
  const kinds = []
  for (const provider of [slack, alias, own]) kinds.push((await handIn({ tenant, provider })).kind)
  expect(kinds).toEqual(['stored', 'stored', 'known'])
  const { rows } = await pool.query('SELECT provider FROM events WHERE tenant_id = $1 ORDER BY id', [
    tenant.id,
  ])
  expect(rows).toEqual([{ provider: 'slack' }, { provider: 'meta' }])
  const unknown = parseProviderName('nosuch')
  const none =
    unknown && (await handIn({ tenant: tenantWith({ providers: [{ name: unknown }] }), provider: unknown }))
  expect(none).toMatchObject({ kind: 'notTaken', problem: expect.stringContaining('"nosuch"') })
})

test('ingestEvent: no event is stored if `beforeStored` fails', async () => {
  const tenant = tenantWith()
  const beforeStored = () => Promise.reject(new Error('the audit log is unavailable'))
  const storing = { pool, wake: () => undefined, onError: () => undefined }
  const parts = { storing, beforeStored }
  const request: IngestRequest = {
    tenant,
    provider: 'card',
    sourceEventId: 'one',
    type: 'a.b',
    rawType: 'a.b',
    occurredAtMs: undefined,
    headers: {},
    payload: '{}',
    actor: 'user:importer',
  }
  const retentionDefaults = () => ({ payloadDays: 30, eventDays: 90 })
  const declarations = () => emptyDeclarations
  expect(ingestEvent({ ...parts, retentionDefaults, declarations }, request, Date.now())).rejects.toThrow(
    'audit log',
  )
  const { rowCount } = await pool.query('SELECT FROM events WHERE tenant_id = $1', [tenant.id])
  expect(rowCount).toBe(0)
})

test.each([
  ['a suspended tenant', { tenant: tenantWith({ suspended: true }) }],
  ['a provider that the tenant does not use', { provider: 'codehost' }],
  ['the reserved provider', { provider: 'gateway' }],
  ['the wallet provider in stage off', { provider: 'wallet' }],
] as const)('ingestEvent: returns `notTaken` for %s', async (_what, fields) => {
  expect((await handIn(fields)).kind).toBe('notTaken')
})

test.each([
  ['verify', 'verified'],
  ['enabled', 'accepted'],
] as const)('ingestEvent: an event of `wallet` in stage %s gets the state %s', async (walletStage, state) => {
  const tenant = tenantWith({ walletStage })
  expect((await handIn({ tenant, provider: 'wallet' })).kind).toBe('stored')
  const { rows } = await pool.query('SELECT state FROM events WHERE tenant_id = $1', [tenant.id])
  expect(rows).toEqual([{ state }])
})

test.each([
  ['an id with a line feed', { sourceEventId: 'a\nb' }],
  ['no id', { sourceEventId: '' }],
  ['a type without a dot', { type: 'paid' }],
  ['a raw type that is too long', { rawType: 'x'.repeat(256) }],
  ['a payload that is a list', { payload: '[]' }],
  ['a payload with a repeated name', { payload: '{"a":1,"a":2}' }],
  ['a payload that is not JSON', { payload: '{' }],
])('ingestEvent: returns `invalid` for %s', async (_what, fields) => {
  expect((await handIn(fields)).kind).toBe('invalid')
})

test('ingestEvent: drops credentials, signatures and latchkey headers', async () => {
  const tenant = tenantWith()
  const headers = {
    Authorization: 'Bearer x',
    Cookie: 'a=b',
    'Stripe-Signature': 't=1',
    'Latchkey-Hops': '0',
    'Latchkey-Simulation': 'sim_1',
    'Latchkey-Origin': 'test',
    'X-Trace': 'kept',
  }
  await handIn({ tenant, headers })
  const { rows } = await pool.query<{ headers: string }>('SELECT headers FROM events WHERE tenant_id = $1', [
    tenant.id,
  ])
  expect(JSON.parse(rows[0]?.headers ?? '')).toEqual({
    'x-trace': 'kept',
    'latchkey-hops': '1',
    'latchkey-origin': 'service',
  })
})
