import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { publicContract } from '#internal/openapi/index.ts'
import { startTestApi, type TestApi, testLimits } from '#test/support/api.ts'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import {
  dashboardKey,
  dashboardTenantYaml,
  type SeededTenant,
  seedTenant,
} from '#test/support/dashboard/backoffice-tenants.ts'
import { publicEventRoutes } from './http.ts'

/** Tenants by name, with the scopes of their key. */
const scopesOf = {
  acme: '[events, "payloads:read"]',
  rival: '[events, "payloads:read"]',
  reader: '["events:read"]',
  auditor: '["events:read", "payloads:read"]',
  plain: '[records, "payloads:read"]',
  office: '[dashboard]',
}
type Name = keyof typeof scopesOf

let backoffice: TestBackoffice
let api: TestApi
const seeded = {} as Record<Name, SeededTenant>

beforeAll(async () => {
  const names = Object.keys(scopesOf) as Name[]
  const manifests = names.map((name) => dashboardTenantYaml(name, { scopes: scopesOf[name] })).join('')
  backoffice = await startTestBackoffice(manifests)
  api = await startTestApi({ databaseUrl: backoffice.databaseUrl, manifests })
  for (const name of names) seeded[name] = await seedTenant(backoffice, name)
}, 30_000)
afterAll(async () => {
  await api.close()
  await backoffice.close()
})

interface Row {
  readonly method: string
  readonly path: string
  /** Sentence of the documentation about the scopes. */
  readonly requires: string
}

const operations = publicContract(testLimits).paths
const rows: readonly Row[] = publicEventRoutes.map(({ method, path }) => {
  const { description = '' } =
    operations[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()] ?? ({} as { description?: string })
  return { method, path, requires: /Requires an API key of (.*)\.$/.exec(description)?.[1] ?? '' }
})

const bodies: Readonly<Record<string, object>> = {
  '/v1/event-searches': { from: '2026-01-01T00:00:00Z', text: 'payment' },
  '/v1/replay-previews': { from: '2026-01-01T00:00:00Z' },
  '/v1/replays': { from: '2026-01-01T00:00:00Z' },
  '/v1/subscriptions/:subscriptionName/ack': { ackToken: 'unknown' },
  '/v1/subscriptions/:subscriptionName/nack': { ackToken: 'unknown' },
  '/v1/subscriptions/:subscriptionName/extend': { ackToken: 'unknown' },
}

/** Calls a route as a tenant's key, about the objects of `owner`. */
function call(
  as: Name,
  { method, path }: Pick<Row, 'method' | 'path'>,
  owner: Partial<SeededTenant> = seeded[as],
) {
  const ids: Readonly<Record<string, string | undefined>> = {
    eventId: owner.failedId,
    replayId: owner.replayId,
    subscriptionName: owner.subscription,
  }
  const filled = path.replaceAll(/:(\w+)/g, (_whole, name: string) => ids[name] ?? '')
  return api.call(method, filled, ['POST', 'PUT'].includes(method) ? (bodies[path] ?? {}) : undefined, {
    Authorization: `Bearer ${dashboardKey(as)}`,
    'Idempotency-Key': 'test',
  })
}

/** Returns the rows of a tenant that calls can change. Its simulation adds events meanwhile, which are left out. */
async function traceOf(name: Name): Promise<unknown> {
  const { tenantId, failedId } = seeded[name]
  const { rows: found } = await backoffice.pool.query(
    `SELECT (SELECT cycle FROM events WHERE id = $2) AS cycle,
       (SELECT json_agg(r.state ORDER BY r.id) FROM replays r WHERE tenant_id = $1) AS replays,
       (SELECT json_agg(s ORDER BY s.name) FROM subscriptions s WHERE tenant_id = $1) AS subscriptions,
       (SELECT count(*) FROM audit WHERE tenant_id = $1) AS audit`,
    [tenantId, failedId],
  )
  return found[0]
}

const named = rows.map((row) => [`${row.method} ${row.path}`, row] as const)
const reads = rows.filter(({ requires }) => requires === 'scope `events` or `events:read`')

describe('scopes of event calls', () => {
  test('event calls: the documentation of each call names the scopes that the call requires', () => {
    expect(rows.filter(({ requires }) => requires === '')).toEqual([])
    expect(reads.length).toBeGreaterThan(5)
  })

  test.each(named)(
    'event calls: %s returns 403 for keys with the scopes of the dashboard or of records',
    async (_name, row) => {
      for (const name of ['plain', 'office'] as const) {
        const answer = await call(name, row)
        expect([answer.status, answer.json['code']]).toEqual([403, 'api_key_scope'])
        expect(answer.json['message']).toContain(
          'the scope events or events:read: add it to spec.apiKeys[].scopes',
        )
      }
    },
  )

  test.each(named)('event calls: %s obeys the scopes of its documentation', async (_name, row) => {
    const before = await traceOf('reader')
    const answer = await call('reader', row)
    if (reads.includes(row)) expect(answer.status).toBe(200)
    else {
      expect([answer.status, answer.json['code']]).toEqual([403, 'api_key_scope'])
      expect(answer.json['message']).toStartWith(
        `This call needs an API key with the ${row.requires.replaceAll('`', '')}: add `,
      )
    }
    expect(await traceOf('reader')).toEqual(before)
  })

  test('event calls: a key with `payloads:read` and `events:read` can read payloads and cannot replay events', async () => {
    const payload = await call('auditor', { method: 'GET', path: '/v1/events/:eventId/payload' })
    expect([payload.status, payload.text]).toEqual([200, expect.stringContaining('820982911946154508')])
    const replay = await call('auditor', { method: 'POST', path: '/v1/events/:eventId/replay' })
    expect(replay.status).toBe(403)
  })

  test('event calls: a key with only event scopes is refused by the internal API', async () => {
    const answer = await backoffice.call('GET', '/internal/v1/events', { token: dashboardKey('acme') })
    expect([answer.status, answer.json['code']]).toEqual([403, 'api_key_scope'])
  })
})

describe('tenants of event calls', () => {
  const unknown = {
    failedId: 'evt_06gw979vs1d9q6mddfvvx375s4',
    replayId: 'rpl_06gw979vs1d9q6mddfvvx375s4',
    subscription: 'unknown',
  } as SeededTenant

  // Skipped: with the name of another tenant's subscription, these routes create a subscription of the caller, or delete nothing.
  const ownNames = ['PUT /v1/subscriptions/:subscriptionName', 'DELETE /v1/subscriptions/:subscriptionName']

  test.each(named.filter(([name]) => name.includes(':') && !ownNames.includes(name)))(
    'event calls: %s with another tenant’s id returns 404, the same as for a missing object',
    async (_name, row) => {
      const before = await traceOf('rival')
      const [refused, missing] = [await call('acme', row, seeded.rival), await call('acme', row, unknown)]
      const { requestId: _one, ...said } = refused.json
      const { requestId: _other, ...saidOfMissing } = missing.json
      expect([refused.status, said]).toEqual([404, saidOfMissing])
      expect(await traceOf('rival')).toEqual(before)
    },
  )

  test.each(['/v1/events', '/v1/replays', '/v1/refused-calls', '/v1/usage', '/v1/subscriptions'])(
    'event calls: %s covers only the tenant of the key, and refuses the parameter `tenantId`',
    async (path) => {
      const answer = await call('acme', { method: 'GET', path })
      expect(answer.status).toBe(200)
      for (const name of Object.keys(seeded) as Name[])
        if (name !== 'acme') expect(answer.text).not.toContain(seeded[name].tenantId)
      const chosen = await call('acme', { method: 'GET', path: `${path}?tenantId=${seeded.rival.tenantId}` })
      expect([chosen.status, chosen.json['message']]).toEqual([
        400,
        expect.stringContaining('is not a parameter of this call'),
      ])
    },
  )

  test('event calls: a replay preview that names a tenant returns 400, and without a tenant covers the tenant of the key', async () => {
    const filter = { from: '2026-01-01T00:00:00Z', state: 'delivery_failed' }
    const headers = { Authorization: `Bearer ${dashboardKey('acme')}` }
    const path = '/v1/replay-previews'
    const other = await api.call('POST', path, { ...filter, tenantId: seeded.rival.tenantId }, headers)
    expect(other.status).toBe(400)
    const own = await api.call('POST', path, filter, headers)
    expect([own.status, own.text]).toEqual([200, expect.stringContaining(seeded.acme.failedId)])
    expect(own.text).not.toContain(seeded.rival.failedId)
  })
})

describe('effects of event calls', () => {
  test('event calls: reading a payload leaves an audit entry with the name of the key', async () => {
    await call('acme', { method: 'GET', path: '/v1/events/:eventId/payload' })
    const { rows: found } = await backoffice.pool.query<{ actor: string }>(
      `SELECT actor FROM audit WHERE tenant_id = $1 AND action = 'payloads.read'`,
      [seeded.acme.tenantId],
    )
    expect(found.map(({ actor }) => actor)).toContain(`key:${seeded.acme.tenantId}/default`)
  })

  test('event calls: a replay starts one more delivery cycle, and a repeated request with the same cycle starts none', async () => {
    const path = `/v1/events/${seeded.acme.failedId}/replay`
    const headers = { Authorization: `Bearer ${dashboardKey('acme')}` }
    const first = await api.call('POST', path, { cycle: 1 }, headers)
    expect([first.status, first.json]).toEqual([202, expect.objectContaining({ isNew: true, cycle: 2 })])
    const again = await api.call('POST', path, { cycle: 1 }, headers)
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([202, 'true'])
  })

  test('event calls: a tenant can have at most eight calls in progress, and calls of other tenants continue', async () => {
    const lock = await backoffice.pool.connect()
    try {
      await lock.query('BEGIN')
      await lock.query('LOCK TABLE refused_calls IN ACCESS EXCLUSIVE MODE')
      const list = (name: Name) => call(name, { method: 'GET', path: '/v1/refused-calls' })
      const waiting = Array.from({ length: 8 }, () => list('acme'))
      await Bun.sleep(100)
      const ninth = await list('acme')
      expect([ninth.status, ninth.json['code'], ninth.headers.get('retry-after')]).toEqual([
        503,
        'overloaded',
        '1',
      ])
      const other = list('rival')
      await lock.query('ROLLBACK')
      expect((await Promise.all([...waiting, other])).map(({ status }) => status)).toEqual(Array(9).fill(200))
    } finally {
      lock.release()
    }
  })
})
