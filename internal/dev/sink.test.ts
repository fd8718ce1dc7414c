import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { callbackField, type DirectoryTenant, parseKeyRing } from '#internal/tenants/index.ts'
import { directoryTenant, someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { poll } from './processes.ts'
import { type RunningSink, type SinkOptions, startSink } from './sink.ts'
import type { Delivery } from './sink-deliveries.ts'

const parsed = parseKeyRing(`test:${Buffer.alloc(32, 7).toString('base64')}`)
if (parsed.kind !== 'ok') throw new Error(parsed.message)
const { keyRing } = parsed
const secretOf = (seed: number) => `whsec_${Buffer.alloc(24, seed).toString('base64')}`

function tenantWith(slug: string | null, name: string, secrets: readonly string[]): DirectoryTenant {
  const id = someTenantId()
  const sealed = secrets.map((secret) => {
    const { keyId, nonce, ciphertext } = keyRing.seal({ tenantId: id, field: callbackField }, secret)
    return {
      field: callbackField,
      keyId,
      sealedBase64: Buffer.concat([nonce, ciphertext]).toString('base64'),
    }
  })
  return directoryTenant({ id, slug, name, secrets: sealed })
}

const demo = tenantWith('demo', 'demo', [secretOf(1), secretOf(2)])
const other = tenantWith(null, 'other', [secretOf(3)])
const bare = tenantWith('bare', 'bare', [])
const tenants = new Map([demo, other, bare].map((tenant) => [String(tenant.id), tenant]))

let sink: RunningSink
let said: string[] = []
const sinks: RunningSink[] = []

function start(options: Partial<SinkOptions> = {}): RunningSink {
  const started = startSink({
    port: 0,
    keyRing,
    findTenant: (id) => tenants.get(id),
    say: (line) => said.push(line),
    ...options,
  })
  sinks.push(started)
  return started
}

beforeEach(() => {
  said = []
  sink = start()
})
afterEach(async () => {
  for (const each of sinks.splice(0)) await each.stop()
})

interface Sent {
  readonly path?: string
  readonly id?: string
  readonly secret?: string
  readonly body?: string
  readonly headers?: Record<string, string>
  readonly to?: RunningSink
}

function eventOf(fields: object = {}): string {
  const event = {
    id: 'evt_1',
    provider: 'card',
    type: 'chargeback.under_review',
    tenantId: demo.id,
    payload: {},
  }
  return JSON.stringify({ ...event, ...fields })
}

function send({
  path = '',
  id = 'evt_1',
  secret = secretOf(1),
  body = eventOf(),
  headers,
  to = sink,
}: Sent = {}) {
  const now = new Date()
  const signed = {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign(id, now, body),
  }
  return fetch(`${to.url}${path}`, { method: 'POST', headers: { ...signed, ...headers }, body })
}

async function deliveries(): Promise<readonly Delivery[]> {
  const answer = await fetch(`${sink.url}deliveries.json`)
  return ((await answer.json()) as { deliveries: readonly Delivery[] }).deliveries
}

async function list(): Promise<string> {
  return await (await fetch(sink.url)).text()
}

describe('sink delivery', () => {
  test('sink: a delivery is answered with 200, printed to the terminal and listed in full', async () => {
    const answer = await send({ path: 'hooks/a?b=1', headers: { traceparent: '00-1' } })
    expect(answer.status).toBe(200)
    expect(await answer.json()).toEqual({ number: 1, attempt: 1, signature: 'ok' })
    expect(said).toHaveLength(1)
    expect(said[0]).toMatch(/^\d\d:\d\d:\d\d card chargeback.under_review → demo {2}evt_1 {2}signature ok$/)
    const [listed] = await deliveries()
    expect(listed).toMatchObject({
      number: 1,
      path: '/hooks/a?b=1',
      webhookId: 'evt_1',
      eventId: 'evt_1',
      attempt: 1,
      tenant: 'demo',
      provider: 'card',
      type: 'chargeback.under_review',
      signature: { kind: 'ok' },
      status: 200,
      body: eventOf(),
      bodyBytes: eventOf().length,
    })
    expect(listed?.headers).toContainEqual(['traceparent', '00-1'])
  })

  test('sink: a demo delivery gets the response that its header asks for, and is neither printed nor listed', async () => {
    const statuses = async (id: string, fields: object) => {
      const body = eventOf(fields)
      return [await send({ id, body }), await send({ id, body }), await send({ id, body })].map(
        ({ status }) => status,
      )
    }
    const marked = (outcome: string) => ({ headers: { 'x-demo-traffic': outcome } })
    expect(await statuses('evt_1', marked('taken'))).toEqual([200, 200, 200])
    expect(await statuses('evt_2', marked('flaky'))).toEqual([500, 500, 200])
    expect(await statuses('evt_3', marked('failing'))).toEqual([500, 500, 500])
    expect(await statuses('evt_5', marked('mended'))).toEqual([500, 200, 200])
    expect(await statuses('evt_6', marked('broken'))).toEqual([500, 500, 500])
    expect(await statuses('evt_4', { payload: { metadata: { reference: 'demo-traffic-1' } } })).toEqual([
      200, 200, 200,
    ])
    expect([said, await deliveries()]).toEqual([[], []])
    await send({ body: eventOf(marked('something else')) })
    expect((await deliveries()).length).toBe(1)
  })

  test('sink: a repeated webhook-id counts as the next attempt', async () => {
    await send()
    await send({ id: 'evt_2' })
    expect(await (await send()).json()).toMatchObject({ attempt: 2 })
    expect((await deliveries()).map(({ webhookId, attempt }) => [webhookId, attempt])).toEqual([
      ['evt_1', 2],
      ['evt_2', 1],
      ['evt_1', 1],
    ])
    expect(await list()).toContain('signature ok, attempt 2\n')
  })

  test('sink: a delivery is verified with the live secrets of the tenant that its body names', async () => {
    const noTenant = 'its tenantId names no active tenant'
    const wrong = 'No matching signature found'
    const cases: [Sent, string][] = [
      [{ secret: secretOf(2) }, 'ok'],
      [{ secret: secretOf(3) }, wrong],
      [{ secret: secretOf(3), body: eventOf({ tenantId: other.id }) }, 'ok'],
      [{ body: eventOf({ tenantId: bare.id }) }, 'the tenant has no signing secret'],
      [{ body: eventOf({ tenantId: someTenantId() }) }, noTenant],
      [{ body: eventOf({ tenantId: 7 }) }, noTenant],
      [{ body: 'no JSON' }, noTenant],
      [{ body: 'null' }, noTenant],
      [{ body: '' }, noTenant],
      [{ headers: { 'webhook-signature': '' } }, 'Missing required headers'],
      [{ headers: { 'webhook-timestamp': '1' } }, 'Message timestamp too old'],
    ]
    for (const [sent, signature] of cases) {
      const answer = await send(sent)
      expect([answer.status, ((await answer.json()) as { signature: string }).signature]).toEqual([
        200,
        signature,
      ])
    }
    expect((await deliveries()).map(({ tenant }) => tenant)).toContain('other')
  })

  test('sink: secrets of a tenant that are encrypted with an unknown key are reported as unreadable', async () => {
    const elsewhere = parseKeyRing(`new:${Buffer.alloc(32, 8).toString('base64')}`)
    if (elsewhere.kind !== 'ok') throw new Error(elsewhere.message)
    const to = start({ keyRing: elsewhere.keyRing })
    const answer = await send({ to })
    expect(await answer.json()).toMatchObject({ signature: 'the tenant’s secrets cannot be opened' })
  })

  test('sink: a body of 2 MiB is verified completely and stored partly, and a body over 26 MiB is refused', async () => {
    const body = eventOf({ payload: { text: 'ü'.repeat(1024 * 1024) } })
    expect(await (await send({ body })).json()).toMatchObject({ signature: 'ok' })
    const [listed] = await deliveries()
    expect(listed?.bodyBytes).toBe(Buffer.byteLength(body))
    expect(body.startsWith(listed?.body ?? '')).toBe(true)
    expect(Buffer.byteLength(listed?.body ?? '')).toBeGreaterThan(256 * 1024 - 4)
    expect(Buffer.byteLength(listed?.body ?? '')).toBeLessThanOrEqual(256 * 1024)
    const refused = await fetch(sink.url, { method: 'POST', body: new Uint8Array(26 * 1024 * 1024 + 1) })
    expect(refused.status).toBe(413)
    expect(await deliveries()).toHaveLength(1)
  })
})

describe('sink trial', () => {
  test.each([
    ['fail', [500, 500, 500, 500]],
    ['gone', [410, 410, 410, 410]],
    ['flaky', [500, 500, 200, 200]],
    ['flaky/below', [500, 500, 200, 200]],
    ['failure', [200, 200, 200, 200]],
  ])('sink trial: /%s responds with %j', async (path, statuses) => {
    const seen: number[] = []
    for (const _ of statuses) seen.push((await send({ path })).status)
    expect(seen).toEqual(statuses)
    expect((await deliveries()).map(({ status }) => status).toReversed()).toEqual(statuses)
  })

  test('sink trial: /flaky counts each webhook-id separately, and only calls to /flaky', async () => {
    await send({ id: 'a' })
    const statuses: number[] = []
    for (const id of ['a', 'b', 'a', 'b', 'a', 'b']) statuses.push((await send({ path: 'flaky', id })).status)
    expect(statuses).toEqual([500, 500, 500, 500, 200, 200])
  })

  test('sink trial: a call to /slow is listed immediately and answered later', async () => {
    const to = start({ slowMs: 20 })
    expect((await send({ path: 'slow', to })).status).toBe(200)
    const waiting = send({ path: 'slow' }).then(
      () => 'answered',
      () => 'ended',
    )
    await poll(async () => (await deliveries())[0], { deadlineMs: 5000 })
    expect(await Promise.race([waiting, Promise.resolve('waits')])).toBe('waits')
    await sink.stop()
    expect(await waiting).toMatch(/answered|ended/)
  })

  test('sink trial: the list names every trial path', async () => {
    const text = await list()
    for (const path of ['/fail', '/flaky', '/slow', '/gone']) expect(text).toContain(`  ${path} `)
  })
})

describe('sink list', () => {
  test('sink list: shows the newest delivery first, as a line of plain text without control characters', async () => {
    expect(await list()).toContain('\nNone yet.\n')
    await send()
    await send({ id: 'evt_2', body: eventOf({ type: '<b>\n\u001b[2J' }) })
    const lines = (await list()).split('\n').filter((line) => line.includes('→ demo'))
    expect(lines).toEqual([expect.stringContaining('card <b>[2J → demo  evt_2'), said[0]])
  })

  test('sink list: reloads itself in a browser, runs no script of a delivery, and is served only under this machine’s names', async () => {
    const { headers } = await fetch(sink.url)
    expect([headers.get('content-type'), headers.get('refresh')]).toEqual(['text/plain; charset=utf-8', '2'])
    expect(headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    for (const [host, status] of [
      ['evil.example', 421],
      ['localhost.evil.example', 421],
      ['sink.localhost', 200],
    ] as const) {
      const named = { Host: `${host}:${sink.port}` }
      expect((await fetch(`${sink.url}deliveries.json`, { headers: named })).status).toBe(status)
    }
  })

  test('sink list: unknown paths return 404, other methods return 405, and HEAD returns no body', async () => {
    expect((await fetch(`${sink.url}other`)).status).toBe(404)
    const put = await fetch(sink.url, { method: 'PUT', body: 'x' })
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST'])
    const head = await fetch(sink.url, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
  })
})

test('sink: listens on the loopback address only', async () => {
  const outside = await new Promise<string>((resolve) => {
    const socket = connect({ host: '127.0.0.2', port: sink.port })
    socket.once('connect', () => resolve('connected'))
    socket.once('error', (error) => resolve(error.message))
  })
  expect(outside).toContain('ECONNREFUSED')
})

test('sink: throws an error if its port is taken', () => {
  expect(() => start({ port: sink.port })).toThrow()
})
