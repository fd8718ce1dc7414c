// Tests the providers `wallet` and `gateway` through the real API: each rollout stage and every cause of a refusal.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createHash, createHmac } from 'node:crypto'
import { poll } from '#internal/dev/index.ts'
import { testCa, testCertificate } from '#internal/egress/fixtures/servers.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startTestApi, type TestApi, tenantYaml } from '#test/support/api.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import {
  createTestAuthority,
  signWallet,
  type WalletCall,
  walletBody,
  webhookId,
} from '#test/support/intake/wallet-calls.ts'

const dayMs = 86_400_000
const path = '/v1/notifications/certs/'
const publicKey = 'integration_public_key'
const privateKey = 'integration_private_key'
const authority = createTestAuthority()
const stranger = createTestAuthority()
const signer = authority.issue()
const review = 'review: {approvedBy: ana, approvedAt: "2026-11-01T00:00:00Z"}'

let api: TestApi
let sandbox: TestApi
let pool: Pool
let certificates: Bun.Server<undefined>
let asked: string[] = []
let served: Record<string, () => Response>

function walletTenant(name: string, stage: string): string {
  const providers = `providers: [{name: wallet, wallet: {webhookId: ${webhookId}, environment: live}}]`
  const rollout = `walletRollout: {stage: "${stage}", ${review}}`
  return tenantYaml(name, keyOf(name), [providers, rollout], 'webhooks')
}
const keyOf = (name: string) => `lk_${name}_0123456789abcdef0123456789abcdef`

/** Configures `gateway` at every stage of the wallet rollout. */
const gatewayTenant = `${tenantYaml(
  'gated',
  keyOf('gated'),
  [
    `providers: [{name: gateway, gateway: {publicKey: ${publicKey}}, secretRef: {name: gated-provider}}]`,
    `walletRollout: {stage: enabled, ${review}}`,
  ],
  'webhooks',
)}apiVersion: v1
kind: Secret
metadata: {name: gated-provider, namespace: shops}
stringData: {privateKey: ${privateKey}}
---
`
const manifests = (moved = 'verify') =>
  [
    walletTenant('resting', 'off'),
    walletTenant('trying', 'verify'),
    walletTenant('running', 'enabled'),
    walletTenant('moving', moved),
    gatewayTenant,
  ].join('')

beforeAll(async () => {
  certificates = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    tls: testCertificate,
    fetch(request) {
      const name = new URL(request.url).pathname
      asked.push(name)
      return served[name.slice(path.length)]?.() ?? new Response(null, { status: 404 })
    },
  })
  const origin = (host: string) => `https://${host}:${certificates.port}`
  const options = {
    certificates: {
      sources: {
        live: { origins: [origin('hooks.example')], path },
        sandbox: { origins: [origin('other.example')], path },
      },
      roots: [authority.pem],
      serverCa: testCa,
      resolve: async (name: string) => [name === 'hooks.example' ? '127.0.0.1' : '10.0.0.1'],
      cidrs: ['127.0.0.0/8'],
    },
  }
  api = await startTestApi({ ...options, manifests: manifests() })
  sandbox = await startTestApi({
    ...options,
    manifests: manifests(),
    databaseUrl: api.databaseUrl,
    gatewaySandbox: true,
  })
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
  await sandbox.close()
  await api.close()
  await certificates.stop(true)
})
beforeEach(async () => {
  asked = []
  served = { good: () => new Response(signer.pem) }
  await truncateEvents(pool, 'refused_calls')
})

const urlOf = (name: string, host = 'hooks.example') => `https://${host}:${certificates.port}${path}${name}`

async function post(
  slug: string,
  body: string,
  headers: Record<string, string>,
  provider = 'wallet',
  to = api,
) {
  const response = await fetch(`${to.url}/v1/t/${slug}/webhooks/${provider}`, {
    method: 'POST',
    body,
    headers,
  })
  return { status: response.status, body: await response.json(), headers: response.headers }
}
const send = (
  slug: string,
  body: string,
  call: Partial<WalletCall> = {},
  more: Record<string, string> = {},
) => post(slug, body, { ...signWallet(body, { ...signer, certificateUrl: urlOf('good'), ...call }), ...more })

/** Events of a tenant by its name, with what is due of them. */
async function stored(name: string) {
  const { rows } = await pool.query(
    `SELECT e.provider, e.type, e.state, d.event_id IS NOT NULL AS due FROM events e JOIN tenants t ON t.id = e.tenant_id
      LEFT JOIN deliveries_due d ON d.event_id = e.id WHERE t.name = $1 ORDER BY e.id`,
    [name],
  )
  return rows
}
const notAllowed = { status: 403, body: { message: 'tenant not allowed' } }
const fresh = { status: 200, body: { ok: true } }
const cached = { status: 200, body: { ok: true, cached: true } }
const captured = { provider: 'wallet', type: 'payment.succeeded' }

describe('wallet rollout off', () => {
  test('wallet stage `off`: a call is refused, fetches no certificate and stores nothing', async () => {
    expect(await send('resting', walletBody())).toMatchObject(notAllowed)
    expect(await stored('resting')).toEqual([])
    expect(asked).toEqual([])
    await refusedFor('provider_not_enabled')
  })
})

describe('wallet rollout verify', () => {
  test('wallet stage `verify`: an event is stored and not delivered', async () => {
    const body = walletBody('WH-1')
    expect(await send('trying', body)).toMatchObject(fresh)
    expect(await stored('trying')).toEqual([{ ...captured, state: 'verified', due: false }])
    const { rows } = await pool.query('SELECT count(*)::int AS n FROM tenant_queues')
    expect(rows).toEqual([{ n: 0 }])
    const payloads = await pool.query('SELECT payload FROM event_payloads')
    expect(payloads.rows).toEqual([{ payload: body }])
  })

  test('wallet stage `verify`: concurrent duplicates are stored as one event', async () => {
    const body = walletBody('WH-1')
    const answers = await Promise.all(Array.from({ length: 20 }, () => send('trying', body)))
    const bodies = answers.map((answer) => JSON.stringify(answer.body)).sort()
    expect(bodies).toEqual(['{"ok":true}', ...Array(19).fill('{"ok":true,"cached":true}')].sort())
    expect(await stored('trying')).toHaveLength(1)
  })

  test('wallet stage `verify`: calls that the vendor did not sign are refused', async () => {
    const changed = { ...signWallet(walletBody('WH-1'), { ...signer, certificateUrl: urlOf('good') }) }
    expect(await post('trying', walletBody('WH-2'), changed)).toMatchObject({
      status: 400,
      body: { error: 'invalid signature' },
    })
    expect(await stored('trying')).toEqual([])
  })
})

describe('wallet rollout enabled', () => {
  test('wallet stage `enabled`: an event is stored and delivered, sent by slug or by API key, under the neutral or the vendor’s name', async () => {
    const body = walletBody('WH-1')
    const headers = signWallet(body, { ...signer, certificateUrl: urlOf('good') })
    expect(await post('running', body, headers, 'paypal')).toMatchObject(fresh)
    expect(await stored('running')).toEqual([{ ...captured, state: 'accepted', due: true }])
    const byKey = await fetch(`${api.url}/v1/webhooks/wallet`, {
      method: 'POST',
      body,
      headers: { ...headers, Authorization: `Bearer ${keyOf('running')}` },
    })
    expect(await byKey.json()).toEqual(cached.body)
  })

  test('wallet stage `enabled`: signature headers are not kept', async () => {
    await send('running', walletBody())
    const { rows } = await pool.query<{ headers: string }>('SELECT headers FROM events')
    const headers = JSON.parse(rows[0]?.headers ?? '{}')
    expect(headers).toHaveProperty('paypal-transmission-id')
    expect(headers).toHaveProperty('paypal-cert-url')
    expect(headers).not.toHaveProperty('paypal-transmission-sig')
  })
})

test('wallet: an event accepted in one stage is a duplicate in another stage', async () => {
  const [early, late] = [walletBody('WH-early'), walletBody('WH-late')]
  expect(await send('moving', early)).toMatchObject(fresh)
  await moveTo('enabled')
  expect(await send('moving', early)).toMatchObject(cached)
  expect(await send('moving', late)).toMatchObject(fresh)
  const both = [
    { ...captured, state: 'verified', due: false },
    { ...captured, state: 'accepted', due: true },
  ]
  expect(await stored('moving')).toEqual(both)
  await moveTo('verify')
  expect(await send('moving', late)).toMatchObject(cached)
  expect(await stored('moving')).toEqual(both)
  await moveTo('off')
  expect(await send('moving', early)).toMatchObject(notAllowed)
})

async function moveTo(stage: string): Promise<void> {
  await api.applyManifests(manifests(stage))
  const isThere = () => api.directory.findTenantBySlug('moving')?.walletStage === stage || undefined
  await poll(async () => isThere(), { deadlineMs: 5_000 })
}

/** Returns the number of wallet calls refused for a cause. */
async function countOf(cause: string): Promise<number> {
  const metrics = await (await fetch(`${api.opsUrl}/metrics`)).text()
  const line = new RegExp(`^latchkey_intake_calls_total{provider="wallet",outcome="${cause}"} (\\d+)$`, 'm')
  return Number(line.exec(metrics)?.[1] ?? 0)
}

/** Returns the recorded row of a refused call; rows are written once a second. */
function refusedFor(cause: string) {
  const text = 'SELECT cause, sample FROM refused_calls WHERE cause = $1'
  return poll(async () => (await pool.query(text, [cause])).rows[0], { deadlineMs: 5_000 })
}

describe('wallet refused calls', () => {
  const pem = (parts: Parameters<typeof authority.issue>[0]) => () => new Response(authority.issue(parts).pem)
  const nowMs = Date.now()
  const invalid = { status: 400, body: { error: 'invalid signature' } }

  test.each<[string, string, () => Response]>([
    ['expired', 'certificate_outside_dates', pem({ validToMs: nowMs - 1000 })],
    ['not yet valid', 'certificate_outside_dates', pem({ validFromMs: nowMs + dayMs })],
    ['issued to another subject', 'certificate_subject_mismatch', pem({ subject: 'www.paypal.com' })],
    ['below another root', 'certificate_untrusted', () => new Response(stranger.issue().pem)],
    ['signed with SHA-1', 'certificate_weak', pem({ hash: 'sha1' })],
  ])('wallet: a call with a certificate that is %s is refused', async (what, cause, answer) => {
    const name = what.replaceAll(/[^a-z]/gi, '-')
    served = { [name]: answer }
    const before = await countOf(cause)
    expect(await send('running', walletBody(), { certificateUrl: urlOf(name) })).toMatchObject(invalid)
    expect(await countOf(cause)).toBe(before + 1)
    expect(asked).toEqual([`${path}${name}`])
  })

  test('wallet: a refused call is recorded with its cause and the start of its body', async () => {
    await send('running', walletBody('WH-7'), { certificateUrl: urlOf('good', 'evil.example') })
    expect((await refusedFor('certificate_url_refused')).sample).toBe(walletBody('WH-7'))
  })

  test.each<[string, string, () => Partial<WalletCall>]>([
    ['of another host', 'certificate_url_refused', () => ({ certificateUrl: urlOf('good', 'evil.example') })],
    ['of the sandbox', 'certificate_url_refused', () => ({ certificateUrl: urlOf('good', 'other.example') })],
    [
      'over http',
      'certificate_url_refused',
      () => ({ certificateUrl: urlOf('good').replace('https:', 'http:') }),
    ],
    ['for another webhook', 'signature_mismatch', () => ({ webhookId: '9ZZ9999999999999Z' })],
    ['by another key', 'signature_mismatch', () => ({ privateKey: stranger.issue().privateKey })],
    ['of last week', 'timestamp_outside_window', () => ({ atMs: Date.now() - 5 * dayMs })],
  ])('wallet: a call signed %s is refused', async (_what, cause, call) => {
    const before = await countOf(cause)
    expect(await send('running', walletBody(), call())).toMatchObject(invalid)
    expect(await countOf(cause)).toBe(before + 1)
    expect(await stored('running')).toEqual([])
  })

  test.each(['TRANSMISSION-ID', 'TRANSMISSION-TIME', 'TRANSMISSION-SIG', 'AUTH-ALGO', 'CERT-URL'])(
    'wallet: a call without PAYPAL-%s is refused',
    async (name) => {
      const body = walletBody()
      const { [`PAYPAL-${name}`]: _, ...headers } = signWallet(body, {
        ...signer,
        certificateUrl: urlOf('good'),
      })
      const before = await countOf('signature_missing')
      expect(await post('running', body, headers)).toMatchObject(invalid)
      expect(await countOf('signature_missing')).toBe(before + 1)
    },
  )
})

describe('unavailable certificate', () => {
  /** Until it is in force there. */
  const environmentOf = ({ directory }: TestApi, environment: string) => {
    const own = () => directory.findTenantBySlug('running')?.providers[0]?.wallet?.environment
    return poll(async () => own() === environment || undefined, { deadlineMs: 5_000 })
  }

  test.each<[string, () => Response]>([
    ['in-trouble', () => new Response(signer.pem, { status: 500 })],
    ['elsewhere', () => Response.redirect(urlOf('good'), 302)],
    ['endless', () => new Response(`${signer.pem}${'\n'.repeat(65_536)}`)],
    ['none', () => new Response('<html>Sign in</html>')],
  ])(
    'wallet: a failed certificate fetch (%s) returns 503, so that the vendor retries',
    async (name, answer) => {
      served = { ...served, [name]: answer }
      const before = await countOf('certificate_unavailable')
      const answered = await send('running', walletBody(), { certificateUrl: urlOf(name) })
      expect(answered).toMatchObject({
        status: 503,
        body: { statusCode: 503, error: 'Service Unavailable', code: 'certificate_unavailable' },
      })
      expect(answered.headers.get('retry-after')).toBe('10')
      expect(asked).toEqual([`${path}${name}`])
      expect(await countOf('certificate_unavailable')).toBe(before + 1)
      expect(await stored('running')).toEqual([])
    },
  )

  test.each([404, 410])(
    'wallet: a call gets 400 if the vendor responds %d for its certificate',
    async (status) => {
      const name = `made-up-${status}`
      served = { ...served, [name]: () => new Response(null, { status }) }
      const before = await countOf('certificate_not_found')
      for (let call = 0; call < 3; call += 1)
        expect(await send('running', walletBody(), { certificateUrl: urlOf(name) })).toMatchObject({
          status: 400,
          body: { error: 'invalid signature' },
        })
      expect(asked).toEqual([`${path}${name}`])
      expect(await countOf('certificate_not_found')).toBe(before + 3)
      expect(await stored('running')).toEqual([])
    },
  )

  test('wallet: a certificate at a private address is not fetched', async () => {
    await sandbox.applyManifests(manifests().replaceAll('environment: live', 'environment: sandbox'))
    await environmentOf(sandbox, 'sandbox')
    const body = walletBody()
    const headers = signWallet(body, { ...signer, certificateUrl: urlOf('good', 'other.example') })
    expect(await post('running', body, headers, 'wallet', sandbox)).toMatchObject({ status: 503 })
    expect(asked).toEqual([])
    await sandbox.applyManifests(manifests())
    await Promise.all([environmentOf(sandbox, 'live'), environmentOf(api, 'live')])
  })

  test('wallet: certificate fetches and expiry are exported as metrics', async () => {
    await send('running', walletBody())
    const metrics = await (await fetch(`${api.opsUrl}/metrics`)).text()
    expect(metrics).toMatch(/latchkey_intake_certificate_fetches_total\{outcome="failed"\} [1-9]/)
    expect(metrics).toMatch(/latchkey_intake_certificate_fetches_total\{outcome="refused"\} [1-9]/)
    expect(metrics).toMatch(/latchkey_intake_calls_total\{provider="wallet",outcome="certificate_weak"\} 1/)
    const seconds = /^latchkey_intake_certificate_expiry_seconds (\S+)$/m.exec(metrics)?.[1]
    expect(Number(seconds) / 86_400).toBeWithin(364, 365.1)
  })
})

describe('gateway', () => {
  const xml =
    '<notification><timestamp>2026-11-10T00:00:00Z</timestamp><kind>dispute_won</kind><subject/></notification>'
  const payload = `${Buffer.from(xml).toString('base64')}\n`
  const hex = createHmac('sha1', createHash('sha1').update(privateKey).digest()).update(payload).digest('hex')
  const form = new URLSearchParams({ bt_signature: `${publicKey}|${hex}`, bt_payload: payload }).toString()
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }

  test.each(['gateway', 'braintree'])(
    'gateway: a call to the provider name %s is refused even if the tenant’s spec contains the provider',
    async (name) => {
      expect(await post('gated', form, headers, name)).toMatchObject(notAllowed)
      expect(await stored('gated')).toEqual([])
    },
  )

  test('gateway: a call is accepted if `LATCHKEY_GATEWAY_SANDBOX` is set', async () => {
    expect(await post('gated', form, headers, 'gateway', sandbox)).toMatchObject(fresh)
    expect(await post('gated', form, headers, 'braintree', sandbox)).toMatchObject(cached)
    expect(await stored('gated')).toEqual([
      { provider: 'gateway', type: 'chargeback.won', state: 'accepted', due: true },
    ])
    const { rows } = await pool.query<{ payload: string }>('SELECT payload FROM event_payloads')
    expect(JSON.parse(rows[0]?.payload ?? '')).toEqual({
      notification: { timestamp: '2026-11-10T00:00:00Z', kind: 'dispute_won', subject: '' },
    })
    const forged = form.replace(/[0-9a-f]{40}/, '0'.repeat(40))
    expect(await post('gated', forged, headers, 'gateway', sandbox)).toMatchObject({ status: 400 })
  })

  test('gateway: its calls are not accepted for the provider `wallet`, nor for a tenant without the provider `gateway`', async () => {
    expect(await post('gated', form, headers, 'wallet', sandbox)).toMatchObject(notAllowed)
    expect(await post('running', form, headers, 'gateway', sandbox)).toMatchObject(notAllowed)
    expect(await post('running', form, headers, 'wallet', sandbox)).toMatchObject({ status: 400 })
  })
})
