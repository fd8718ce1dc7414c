// Runs version N−1 and version N concurrently on one schema and one Redis, as during an upgrade and a rollback (docs/change-policy.md).
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type EventId, parseTenantId, randomToken, systemClock, type TenantId } from '#internal/base/index.ts'
import { encodeOffer, offersChannelFrom } from '#internal/events/index.ts'
import { Spool } from '#internal/intake/spool.ts'
import type * as OpenApi from '#internal/openapi/index.ts'
import type * as Settings from '#internal/settings/store.ts'
import { openRedis, withTx } from '#internal/storage/index.ts'
import type * as Emissions from '#internal/usage/emissions.ts'
import type * as Overrides from '#internal/usage/overrides.ts'
import { fillPath, openContract } from '#test/support/documents/contract.ts'
import {
  type CallbackReceiver,
  callbackSecret,
  startReceiver,
} from '#test/support/events/callback-receiver.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { genericBody, signGeneric, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { readiness } from '#test/support/processes/api-process.ts'
import {
  type Column,
  type RunningVersion,
  readSchema,
  startVersionPair,
  type VersionPair,
} from '#test/support/processes/version-pair.ts'
import { testStores } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

/** Unique tenant, since meters in Redis outlive a test's database. */
const slug = `pair-${crypto.randomUUID().slice(0, 8)}`
const apiKey = keyOf(slug)
let receiver: CallbackReceiver
let pair: VersionPair
let tenantId: TenantId

beforeAll(async () => {
  receiver = startReceiver()
  pair = await startVersionPair(manifests(slug))
  tenantId = parseTenantId(await valueOf('SELECT id FROM tenants WHERE slug = $1', slug))
}, 90_000)
afterAll(async () => {
  await pair.close()
  await receiver.stop()
}, 30_000)

function keyOf(name: string): string {
  return `lk_${name.replaceAll('-', '_')}_0123456789abcdef0123456789`
}

function manifests(...names: readonly string[]): string {
  return names.map((name) => manifest(name)).join('')
}

function manifest(name: string, spec: readonly string[] = []): string {
  const callback = `callback: {url: "${receiver.url}", allowedCIDRs: [127.0.0.0/8], signingSecretRef: {name: ${name}-signing}}`
  const yaml = webhookTenantYaml(name, keyOf(name), spec)
    .replace(/callback: .*/, callback)
    .replace('scopes: [', 'scopes: [dashboard, ')
  return `${yaml}apiVersion: v1
kind: Secret
metadata: {name: ${name}-signing, namespace: shops}
stringData: {signingSecret: ${callbackSecret}}
---
`
}

const overridesPath = 'internal/usage/overrides.ts'

/** Both orders of the two versions; a getter, since they start later. */
const orders = [
  ['N−1', 'N', () => [pair.previous, pair.current]],
  ['N', 'N−1', () => [pair.current, pair.previous]],
] as const satisfies readonly (readonly [string, string, () => readonly [RunningVersion, RunningVersion]])[]

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly json: Readonly<Record<string, unknown>>
}

async function send(
  url: string,
  method: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json', ...headers },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const json = (await response.json()) as Answer['json']
  return { status: response.status, headers: response.headers, json }
}

const record = (version: RunningVersion, method: string, path: string, body?: unknown) =>
  send(`${version.api.url}/v1/record${path}`, method, body)

/** Acquires a lock on a new key and returns the status. */
const lockStatus = async (version: RunningVersion) =>
  (await record(version, 'POST', '', { scope: 's', key: crypto.randomUUID() })).status

/** Waits until both versions grant locks again. */
async function bothLock(): Promise<void> {
  for (const version of [pair.previous, pair.current])
    await until(`${version.name} grants locks`, async () => (await lockStatus(version)) === 200)
}

const backoffice = (version: RunningVersion, method: string, path: string, body?: unknown) =>
  send(`${version.backofficeUrl}/internal/v1/${path}`, method, body, {
    'Idempotency-Key': crypto.randomUUID(),
  })

/** Writes a setting with the code of a version, as its backoffice does for an admin; clears it without a value. */
async function applySetting(
  { load, pool }: RunningVersion,
  { value, ...rest }: Omit<Settings.SettingWriting, 'by'>,
): Promise<void> {
  const { clearSetting, writeSetting } = await load<typeof Settings>('internal/settings/store.ts')
  const parts = { pool, clock: systemClock }
  const change = { ...rest, by: 'test' }
  const { kind } = await (value === undefined
    ? clearSetting(parts, change)
    : writeSetting(parts, { ...change, value }))
  expect(kind).toBe('written')
}

/** Sends a webhook and returns its status and the provider's id. */
async function sendWebhook(
  version: RunningVersion,
): Promise<{ readonly status: number; readonly sourceId: string }> {
  const sourceId = crypto.randomUUID()
  const { body, headers } = signGeneric(genericBody(sourceId))
  const { status } = await send(`${version.api.url}/v1/webhooks/generic`, 'POST', body, headers)
  return { status, sourceId }
}

async function valueOf<Value>(text: string, ...values: readonly unknown[]): Promise<Value> {
  const { rows } = await pair.pool.query<[Value]>({ text, values: [...values], rowMode: 'array' })
  return rows[0]?.[0] as Value
}

const becomes = (expected: unknown, text: string, ...values: readonly unknown[]) =>
  until(`${text} = ${String(expected)}`, async () => (await valueOf(text, ...values)) === expected)

const eventOf = (sourceId: string) =>
  valueOf<EventId>('SELECT id FROM events WHERE source_event_id = $1', sourceId)
const stateOf = 'SELECT state FROM events WHERE source_event_id = $1'

/** Replays an event by a job of this version's backoffice, and waits until a forwarder has completed the job. */
async function replay(version: RunningVersion, eventId: EventId): Promise<string> {
  const from = new Date(systemClock.now() - 60_000).toISOString()
  const { json } = await backoffice(version, 'POST', 'replays', { tenantId, from, ids: [eventId] })
  const { id } = json['replay'] as { id: string }
  await becomes('completed', 'SELECT state FROM replays WHERE id = $1', id)
  return id
}

test('versions: API and backoffice of both N and N−1 are ready on the schema of N', async () => {
  for (const { api } of [pair.previous, pair.current]) expect(await readiness(api.opsUrl, 200)).toBe(200)
})

test('versions: the migrations of N keep everything that N−1 reads, and require nothing that N−1 does not write', async () => {
  const before = pair.previousSchema
  const after = await readSchema(pair.pool)
  const isSame = (one: Column, other: Column) => one.table === other.table && one.name === other.name
  const isKnown = ({ table }: { readonly table: string }) =>
    before.columns.some((each) => each.table === table)
  const changed = before.columns.filter((column) => {
    const now = after.columns.find((each) => isSame(each, column))
    return now?.type !== column.type || (now.isRequired && !column.isRequired)
  })
  const isDemanded = ({ isRequired, hasDefault }: Column) => isRequired && !hasDefault
  const demanded = after.columns.filter(
    (column) => isKnown(column) && isDemanded(column) && !before.columns.some((each) => isSame(each, column)),
  )
  const rules = after.rules.filter(
    (one) => isKnown(one) && !before.rules.some((each) => each.rule === one.rule && each.table === one.table),
  )
  expect({ changed, demanded, rules }).toEqual({ changed: [], demanded: [], rules: [] })
  expect([before.columns.length > 100, before.rules.length > 20]).toEqual([true, true])
})

test('versions: the migration of N−1 does not change the schema of N, as needed for a rollback', async () => {
  const read = () => valueOf<number>('SELECT max(version) FROM schema_migrations')
  const before = await read()
  await pair.previous.latchkey('migrate')
  expect(await read()).toBe(before)
})

test.each(orders)('versions: a tenant reconciled by %s calls the API of %s', async (_one, _other, both) => {
  const [one, other] = both()
  const name = `${slug}-${one.name === 'N' ? 'new' : 'old'}`
  await one.tenants.apply(manifests(slug, name))
  const statusAt = async (version: RunningVersion) =>
    (
      await send(`${version.api.url}/v1/record?scope=s&key=k`, 'GET', undefined, {
        Authorization: `Bearer ${keyOf(name)}`,
      })
    ).status
  await until('the tenant is in force', async () => (await statusAt(other)) !== 403)
  await other.tenants.apply(manifests(slug))
  await until('the tenant is deleted', async () => (await statusAt(one)) === 403)
  expect(await valueOf<string>('SELECT id FROM tenants WHERE slug = $1', slug)).toBe(tenantId)
})

test('versions: limits that N reconciled, of locks and of an emitted kind, are in force at both N and N−1', async () => {
  const { previous, current } = pair
  const limits = 'limits: {locksPerMinute: {hard: 0}, emitted: [{kind: exports.rows, hard: 5}]}'
  await current.tenants.apply(manifest(slug, [limits]))
  await until('N−1 applies the limit', async () => (await lockStatus(previous)) === 429)
  expect(await lockStatus(current)).toBe(429)
  const { json } = await backoffice(previous, 'GET', `tenants/${tenantId}`)
  expect(JSON.stringify(json)).toContain('exports.rows')
  await current.tenants.apply(manifests(slug))
  await bothLock()
})

test.each(orders)(
  'versions: a key locked by %s can be re-entered, extended, saved and read by %s',
  async (_one, _other, both) => {
    const [one, other] = both()
    const key = { scope: 'payments', key: crypto.randomUUID() }
    const attempt = { ...key, attemptId: 'a-1', fingerprint: 'f-1' }
    const { json: lock } = await record(one, 'POST', '', attempt)
    expect(lock).toMatchObject({ locked: true })
    const { lockToken, fence } = lock
    expect((await record(other, 'POST', '', { ...key, fingerprint: 'f-1' })).json).toMatchObject({
      locked: false,
    })
    expect((await record(other, 'POST', '', attempt)).json).toMatchObject({ locked: true, lockToken })
    const { json: extended } = await record(other, 'POST', '/extend', {
      ...key,
      lockToken,
      lockSeconds: 120,
    })
    expect(extended).toMatchObject({ ok: true, fence })
    const waiting = record(one, 'POST', '', { ...key, fingerprint: 'f-1', waitMs: 10_000 })
    const saved = { status: 201, headers: { Location: '/charges/7' }, body: { id: 7 } }
    expect((await record(other, 'PUT', '', { ...key, lockToken, ...saved })).json).toEqual({ ok: true })
    expect((await waiting).json).toEqual({ cached: true, record: saved })
    expect((await record(one, 'POST', '', { ...key, fingerprint: 'f-2' })).status).toBe(422)
    const query = `?scope=${key.scope}&key=${key.key}`
    expect((await record(one, 'GET', query)).json).toMatchObject({ cached: true })
    expect((await record(one, 'DELETE', query)).json).toEqual({ ok: true, existed: true })
    expect((await record(other, 'GET', query)).json).toEqual({ cached: false })
  },
)

test.each(orders)(
  'versions: a record that %s saved in Postgres is returned by %s',
  async (_one, _other, both) => {
    const [one, other] = both()
    const name = `durable-${crypto.randomUUID().slice(0, 8)}`
    const call = (version: RunningVersion, method: string, body: object) =>
      send(`${version.api.url}/v1/record`, method, body, { Authorization: `Bearer ${keyOf(name)}` })
    const key = { scope: 'payments', key: crypto.randomUUID() }
    await one.tenants.apply(manifests(slug) + manifest(name, ['records: {durability: postgres}']))
    const lockToken = await until(
      'the tenant is in force',
      async () => (await call(one, 'POST', key)).json['lockToken'],
    )
    const saved = { status: 201, headers: {}, body: { id: 7 } }
    await call(one, 'PUT', { ...key, lockToken, ...saved })
    const again = await until('the tenant is in force', async () => {
      const { status, json } = await call(other, 'POST', key)
      return status === 200 && json
    })
    expect(again).toEqual({ cached: true, record: saved })
    await one.tenants.apply(manifests(slug))
  },
)

test.each(orders)(
  'versions: locks acquired at %s and %s are counted in the same usage and listed in the same history',
  async (_one, _other, both) => {
    const [one, other] = both()
    const used = async (version: RunningVersion) => {
      const { json } = await backoffice(version, 'GET', `tenants/${tenantId}/limits`)
      const limits = json['limits'] as { limit: string; used: number }[]
      return limits.find(({ limit }) => limit === 'locksPerMonth')?.used
    }
    const before = await used(one)
    const scope = crypto.randomUUID()
    for (const version of [one, other, one])
      await record(version, 'POST', '', { scope, key: crypto.randomUUID() })
    expect(await used(one)).toBe(Number(before) + 3)
    expect(await used(other)).toBe(Number(before) + 3)
    await until('the history of the locks', async () => {
      const { json } = await backoffice(other, 'GET', `tenants/${tenantId}/executions?scope=${scope}`)
      return (json['items'] as unknown[]).length === 3
    })
  },
)

interface Emission {
  readonly id: string
  readonly kind: string
  readonly amount: number
  readonly at: number
}

const emissionsPath = 'internal/usage/emissions.ts'

/** Records usage that another service counted with the code of a version, and returns the kind of the result. */
async function recordAt(version: RunningVersion, emission: Emission): Promise<string> {
  const { recordUsage } = await version.load<typeof Emissions>(emissionsPath)
  const terms = { bounds: { soft: null, hard: null }, nowMs: emission.at, by: 'x' }
  return (
    await withTx(version.pool, (client) =>
      recordUsage(client, { ...emission, tenantId, occurredAtMs: emission.at }, terms),
    )
  ).kind
}

test.each(orders)(
  'versions: usage that another service reported at %s is known at %s',
  async (_one, _other, both) => {
    const [one, other] = both()
    const emission = { id: crypto.randomUUID(), kind: 'exports.rows', amount: 3, at: systemClock.now() }
    expect(await recordAt(one, emission)).toBe('recorded')
    expect(await recordAt(other, emission)).toBe('known')
    expect(await recordAt(other, { ...emission, amount: 4 })).toBe('conflict')
  },
)

test.each(orders)(
  'versions: an override written by %s applies at %s, which can clear it',
  async (_one, _other, both) => {
    const [one, other] = both()
    const [setter, clearer] = await Promise.all(
      [one, other].map((version) => version.load<typeof Overrides>(overridesPath)),
    )
    const override = { tenantId, limit: 'locksPerMinute', by: 'test' } as const
    await setter?.setLimitOverride(
      { pool: one.pool, clock: systemClock },
      { ...override, hard: 0, expiresAtMs: systemClock.now() + 600_000, reason: 'Test' },
    )
    await until('the override applies', async () => (await lockStatus(other)) === 429)
    await clearer?.clearLimitOverride({ pool: other.pool, clock: systemClock }, override)
    await bothLock()
  },
)

test('versions: a limit on an emitted kind that N enforces includes usage that N−1 records', async () => {
  const { previous, current } = pair
  const [nowMs, kind] = [systemClock.now(), `kind_${crypto.randomUUID().slice(0, 8)}`]
  const { commitUsage } = await current.load<typeof Emissions>(emissionsPath)
  const commit = (id: string, amount: number) =>
    withTx(current.pool, (client) =>
      commitUsage(
        client,
        { tenantId, id, kind, amount },
        { bounds: { soft: null, hard: 10 }, nowMs, by: 'x', isSuspended: false },
      ),
    )
  const recordByPrevious = (id: string, amount: number) => recordAt(previous, { id, kind, amount, at: nowMs })
  const [first, second] = [crypto.randomUUID(), crypto.randomUUID()]
  await applySetting(current, { name: `limits.${kind}PerMonth.hard`, value: 10, tenantId: null })
  expect(await commit(first, 4)).toMatchObject({ kind: 'committed' })
  expect(await recordByPrevious(first, 4)).toBe('known')
  expect(await recordByPrevious(second, 5)).toBe('recorded')
  expect(await commit(second, 5)).toMatchObject({ kind: 'repeat', used: 9 })
  expect(await commit(crypto.randomUUID(), 2)).toMatchObject({ kind: 'denied', used: 9 })
})

test.each(orders)(
  'versions: a setting written by %s applies at the API of %s',
  async (_one, _other, both) => {
    const [one, other] = both()
    const setting = { name: 'providers.generic.paused', tenantId }
    await applySetting(one, { ...setting, value: true })
    await until('the provider is paused', async () => (await sendWebhook(other)).status === 503)
    const { json } = await backoffice(other, 'GET', `tenants/${tenantId}/settings`)
    expect(json['items']).toContainEqual(
      expect.objectContaining({ name: setting.name, value: true, updatedBy: 'test' }),
    )
    await applySetting(other, { ...setting, value: undefined })
    for (const each of [one, other])
      await until('the provider is resumed', async () => (await sendWebhook(each)).status === 200)
  },
)

test.each(orders)(
  'versions: an event accepted by %s is a duplicate at %s, whose backoffice shows it',
  async (_one, _other, both) => {
    const [one, other] = both()
    const { body, headers } = signGeneric(genericBody())
    const { id: sourceId } = JSON.parse(body) as { id: string }
    const call = (version: RunningVersion) =>
      send(`${version.api.url}/v1/webhooks/generic`, 'POST', body, headers)
    expect(await call(one)).toMatchObject({ status: 200, json: { ok: true } })
    expect(await call(other)).toMatchObject({ status: 200, json: { ok: true, cached: true } })
    const id = await eventOf(sourceId)
    const { json } = await backoffice(other, 'GET', 'events?limit=1')
    expect(json['items']).toMatchObject([{ id }])
    expect((await backoffice(other, 'GET', `events/${id}`)).status).toBe(200)
    const payload = await backoffice(other, 'GET', `events/${id}/payload`)
    expect(JSON.stringify(payload.json)).toContain(sourceId)
  },
)

test.each(orders)(
  'versions: a call refused by %s is listed by the backoffice of %s',
  async (_one, _other, both) => {
    const [one, other] = both()
    const mark = crypto.randomUUID()
    const { headers } = signGeneric('{}')
    const sent = { ...headers, 'User-Agent': mark }
    expect((await send(`${one.api.url}/v1/webhooks/generic`, 'POST', genericBody(), sent)).status).toBe(400)
    await until('the refused call is listed', async () => {
      const { json } = await backoffice(other, 'GET', `tenants/${tenantId}/refused-calls`)
      return JSON.stringify(json).includes(mark)
    })
  },
)

test.each(orders)(
  'versions: an event accepted by %s is delivered and replayed by the forwarder of %s',
  async (_one, _other, both) => {
    const [one, other] = both()
    const { sourceId } = await sendWebhook(one)
    const callsOf = (id: string) => receiver.calls.filter((call) => call.id === id && call.verified)
    await other.withForwarder(async () => {
      await becomes('processed', stateOf, sourceId)
      const id = await eventOf(sourceId)
      expect(callsOf(id)).toHaveLength(1)
      expect(JSON.parse(callsOf(id)[0]?.body ?? '')).toMatchObject({
        id,
        provider: 'generic',
        type: 'order.created',
      })
      const replayId = await replay(one, id)
      await until('the event is delivered again', () => callsOf(id).length === 2)
      await becomes('processed', stateOf, sourceId)
      expect((await backoffice(one, 'GET', `replays/${replayId}`)).json).toMatchObject({
        state: 'completed',
      })
    })
  },
)

test('versions: an event that N stored with a lease for a forwarder that has ended is delivered by the forwarder of N−1', async () => {
  const { redisUrl } = await testStores()
  const redis = openRedis({ url: redisUrl, onError: () => undefined })
  try {
    await pair.pool.query(
      `INSERT INTO tenant_queues (tenant_id, destination, next_due_at) VALUES ($1, 'callback', 'infinity')
      ON CONFLICT (tenant_id, destination) DO UPDATE SET next_due_at = 'infinity', idle_checks = 0`,
      [tenantId],
    )
    const leaseToken = randomToken()
    const offer = encodeOffer({ leaseToken, number: 1, leaseMs: 3_500, refused: [] })
    const channel = await offersChannelFrom(pair.pool)()
    // Rejects until the connection is open.
    const publish = () => redis.publish(channel, offer).catch(() => 0)
    await until('an offer that the API got', async () => (await publish()) > 0)
    const { sourceId } = await sendWebhook(pair.current)
    const id = await eventOf(sourceId)
    expect(await valueOf('SELECT lease FROM deliveries_due WHERE event_id = $1', id)).toBe(leaseToken)
    await pair.previous.withForwarder(async () => {
      await becomes('processed', stateOf, sourceId)
    })
    expect(receiver.calls.filter((call) => call.id === id)).toHaveLength(1)
  } finally {
    await redis.close()
  }
})

test.each(orders)(
  'versions: a callback that the forwarder of %s suspended stays suspended at %s, which can resume it',
  async (_one, _other, both) => {
    const [one, other] = both()
    receiver.answer(() => new Response(null, { status: 410 }))
    const first = await sendWebhook(one)
    await one.withForwarder(async () => {
      await becomes('delivery_failed', stateOf, first.sourceId)
    })
    receiver.answer(() => new Response(null, { status: 204 }))
    const second = await sendWebhook(one)
    const id = await eventOf(first.sourceId)
    await other.withForwarder(async () => {
      expect(
        await valueOf<boolean>(
          'SELECT suspended_at IS NOT NULL FROM tenant_queues WHERE tenant_id = $1',
          tenantId,
        ),
      ).toBe(true)
      expect(await valueOf<string>(stateOf, second.sourceId)).toBe('accepted')
      const resumed = await backoffice(other, 'POST', `tenants/${tenantId}/callback/resume`)
      expect(resumed).toMatchObject({ status: 200 })
      await becomes('processed', stateOf, second.sourceId)
      await replay(other, id)
      await becomes('processed', stateOf, first.sourceId)
    })
  },
)

test.each(orders)('versions: a simulation started by %s is continued by %s', async (_one, _other, both) => {
  const [one] = both()
  const { json } = await send(`${one.api.url}/v1/simulate/chargeback`, 'POST', {
    amount: 4200,
    currency: 'EUR',
    outcome: 'won',
    stepSeconds: 3_600,
  })
  const id = String(json['simulationId'])
  await becomes(true, 'SELECT cardinality(sent_at) = 1 AND lease IS NULL FROM simulations WHERE id = $1', id)
  one.api.signal('SIGSTOP')
  try {
    const dueNow =
      'UPDATE simulations SET next_at = now(), due_at = array_fill(now(), ARRAY[3]) WHERE id = $1'
    await pair.pool.query(dueNow, [id])
    await becomes('completed', 'SELECT state FROM simulations WHERE id = $1', id)
  } finally {
    one.api.signal('SIGCONT')
  }
  const listed = await backoffice(one, 'GET', `simulations/${id}`)
  expect(listed.json).toMatchObject({ state: 'completed' })
})

test('versions: events simulated at N whose delivery fails at N−1 are listed with their origin at N', async () => {
  const [one, other] = [pair.current, pair.previous]
  other.api.signal('SIGSTOP')
  let simulationId = ''
  try {
    const asked = { amount: 4200, currency: 'EUR', outcome: 'won', stepSeconds: 0 }
    const { json } = await send(`${one.api.url}/v1/simulate/chargeback`, 'POST', asked)
    simulationId = String(json['simulationId'])
    await becomes('completed', 'SELECT state FROM simulations WHERE id = $1', simulationId)
  } finally {
    other.api.signal('SIGCONT')
  }
  const abort = { status: 500, headers: { 'webhook-delivery': 'abort-message' } }
  receiver.answer(() => new Response(null, abort))
  const listed =
    'SELECT count(*) = 3 FROM failed_deliveries f JOIN events e USING (id) WHERE e.origin_by = $1'
  await other.withForwarder(async () => {
    await becomes(true, listed, simulationId)
  })
  receiver.answer(() => new Response(null, { status: 204 }))
  const { json } = await backoffice(one, 'GET', 'events?state=delivery_failed&origin=simulation')
  // The events can include events of other tests' simulations.
  const origins = (json['items'] as { origin: { simulationId?: string } }[]).map(({ origin }) => origin)
  const origin = { kind: 'simulation', simulationId }
  expect(origins.filter((each) => each.simulationId === simulationId)).toEqual([origin, origin, origin])
})

test.each(orders)('versions: a session of the dashboard of %s is valid at %s', async (_one, _other, both) => {
  const [one, other] = both()
  const signedIn = await fetch(`${one.backofficeUrl}/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    headers: { Origin: one.backofficeUrl },
    body: new URLSearchParams({ token: apiKey, next: '/' }),
  })
  expect(signedIn.status).toBe(303)
  const Cookie = signedIn.headers
    .getSetCookie()
    .map((each) => each.split(';')[0])
    .join('; ')
  const page = await fetch(`${other.backofficeUrl}/events`, { redirect: 'manual', headers: { Cookie } })
  expect(page.status).toBe(200)
})

test.each(orders)(
  'versions: an event spooled by %s while Postgres is unavailable is stored by %s',
  async (_one, _other, both) => {
    const [one, other] = both()
    one.apiPostgres.cut()
    try {
      const { status, sourceId } = await sendWebhook(one)
      expect(status).toBe(202)
      await becomes(1, 'SELECT count(*)::int FROM events WHERE source_event_id = $1', sourceId)
      const { json } = await backoffice(other, 'GET', `events/${await eventOf(sourceId)}`)
      expect(JSON.stringify(json)).toContain(sourceId)
    } finally {
      one.apiPostgres.heal()
    }
    await until('the API stores events again', async () => (await sendWebhook(one)).status === 200)
  },
)

test('versions: an event that N spooled is stored by N−1 with its origin', async () => {
  const { previous, current } = pair
  const { redisUrl } = await testStores()
  const redis = openRedis({ url: redisUrl, onError: () => undefined })
  await until('a connection', () => redis.serverFacts().catch(() => undefined))
  current.apiPostgres.cut()
  try {
    const spool = new Spool({ redis, vouched: true, onRefused: () => undefined })
    const simulationId = 'sim_06gzx3byyxdccqxb8v47jbp37g'
    const event = receivedEvent({ tenantId, origin: { kind: 'simulation', simulationId } })
    expect(await spool.append(event)).toBe('queued')
    await becomes(event.id, 'SELECT id FROM events WHERE source_event_id = $1', event.sourceEventId)
    expect((await backoffice(previous, 'GET', `events/${event.id}`)).status).toBe(200)
    const { json } = await backoffice(current, 'GET', `events/${event.id}`)
    expect(JSON.stringify(json)).toContain(`"simulationId":"${simulationId}"`)
  } finally {
    current.apiPostgres.heal()
    await redis.close()
  }
  await until('the API stores events again', async () => (await sendWebhook(current)).status === 200)
})

/** The tests above left data of both versions. */
test.each([
  ['N−1', () => pair.previous],
  ['N', () => pair.current],
] as const)(
  'versions: with data of both versions, every response of the internal API of %s matches its OpenAPI document',
  async (_name, of) => {
    const version = of()
    const { internalDocument } = await version.load<typeof OpenApi>('internal/openapi/index.ts')
    const { operations, expectDocumented } = openContract(internalDocument())
    const idsOf = async (table: string) => {
      const { rows } = await pair.pool.query<{ id: string }>(
        `SELECT id FROM ${table} WHERE tenant_id = $1 LIMIT 200`,
        [tenantId],
      )
      return rows.map(({ id }) => id)
    }
    const values: Readonly<Record<string, readonly string[]>> = {
      tenantId: [tenantId],
      eventId: await idsOf('events'),
      replayId: await idsOf('replays'),
      simulationId: await idsOf('simulations'),
      name: ['providers.generic.paused'],
    }
    let answered = 0
    for (const { path } of operations.filter(({ method }) => method === 'GET')) {
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, each = '']) => each)
      const name = names.find((each) => each !== 'tenantId') ?? 'tenantId'
      for (const value of values[name] ?? []) {
        const answer = await send(
          `${version.backofficeUrl}${fillPath(path, { tenantId, [name]: value })}`,
          'GET',
        )
        expectDocumented('GET', path, answer)
        if (answer.status === 200) answered += 1
      }
    }
    expect(answered).toBeGreaterThan(30)
  },
)
