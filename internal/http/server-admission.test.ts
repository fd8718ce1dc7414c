import { afterEach, describe, expect, test } from 'bun:test'
import { apiError } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { holding } from '#test/support/intake/body-holding.ts'
import { BodyBudget } from './body-budget.ts'
import { type Listening, listen } from './listen.ts'
import type { AdmittingRoute, Answer } from './route.ts'
import { createServer, type RequestEvent } from './server.ts'

const open: Listening[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.stop(true)
})

interface Shop {
  readonly slug: string
  readonly provider: string
}

const refusal: Answer = {
  kind: 'answer',
  status: 403,
  body: '{"message":"tenant not allowed"}',
  outcome: 'tenant_not_allowed',
  log: { reason: 'slug unknown' },
}

const echoed: string[] = []
const asked: string[] = []
let mayEnter = Promise.withResolvers<string>()
const route: AdmittingRoute<Shop> = {
  method: 'POST',
  path: '/t/:slug/webhooks/:provider',
  access: {
    admit({ request, params: { slug = '', provider = '' } }) {
      if (provider === 'nobody') return apiError('provider_unknown')
      if (slug !== 'shop é' || request.headers.get('x-stop') !== null) return refusal
      const bodyBytesMax = provider === 'codehost' ? 20 : 10
      const admitted = { slug, provider }
      const log = { provider }
      if (provider !== 'later') return { kind: 'admitted', admitted, tenant: slug, bodyBytesMax, log }
      asked.push(provider)
      return mayEnter.promise.then((owner) => ({ kind: 'admitted', admitted, owner, bodyBytesMax, log }))
    },
  },
  handle({ body, params, peerAddress }, shop) {
    if (body.length === 0) throw new Error('nothing to do')
    echoed.push(Buffer.from(body).toString('hex'))
    return {
      kind: 'answer',
      status: 200,
      body: JSON.stringify({ shop, params, from: peerAddress() }),
      outcome: 'accepted',
      log: { eventId: 'evt_1', replayed: false },
    }
  },
}

function start(budget = new BodyBudget({ bytesMax: 1000 })) {
  const events: RequestEvent[] = []
  const app = createServer<never, 'read'>({
    routes: [route],
    authorize: () => apiError('api_key_invalid'),
    nameOf: () => 'nobody',
    explain: () => undefined,
    onAnswered: (event) => events.push(event),
    budgets: { keyed: new BodyBudget({ bytesMax: 0 }), anonymous: budget },
  })
  const server = listen(app, 0, '127.0.0.1')
  open.push(server)
  const { port } = server
  const url = `http://127.0.0.1:${port}`
  const send = (
    path: string,
    body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> = 'x',
    headers: Record<string, string> = {},
  ) => fetch(`${url}${path}`, { method: 'POST', body, headers })
  return { port, events, send }
}

const shop = '/t/shop%20%C3%A9/webhooks'

describe('admission', () => {
  test('admission: `admit` receives the decoded path parameters, and the handler receives the result of `admit`', async () => {
    const { send, events } = start()
    const response = await send(`${shop}/card?from=vendor`)
    const params = { slug: 'shop é', provider: 'card' }
    expect(await response.json()).toEqual({ shop: params, params, from: '127.0.0.1' })
    expect(events).toEqual([
      {
        requestId: expect.any(String),
        method: 'POST',
        route: '/t/:slug/webhooks/:provider',
        status: 200,
        outcome: 'accepted',
        durationMs: expect.any(Number),
        tenant: 'shop é',
        fields: { provider: 'card', eventId: 'evt_1', replayed: false },
      },
    ])
  })

  test('admission: the handler receives the body bytes as sent, even if they are not text', async () => {
    const { send } = start()
    echoed.length = 0
    const bytes = new Uint8Array([0xef, 0xbb, 0xbf, 0x00, 0xff, 0x0d, 0x0a])
    expect((await send(`${shop}/card`, bytes)).status).toBe(200)
    expect((await send(`${shop}/card`, new Blob([bytes]).stream())).status).toBe(200)
    expect(echoed).toEqual(['efbbbf00ff0d0a', 'efbbbf00ff0d0a'])
  })

  test('admission: the body is charged only after an asynchronous `admit` resolves, to the owner that `admit` returns', async () => {
    mayEnter = Promise.withResolvers()
    const budget = new BodyBudget({ bytesMax: 10 })
    const { send, events } = start(budget)
    const sent = send(`${shop}/later`, 'xxxxxxxxxx')
    await poll(() => asked.length > 0 || undefined, { deadlineMs: 5_000 })
    expect((await send(`${shop}/card`, 'yyyyyyyyyy')).status).toBe(200)
    mayEnter.resolve('user:ada')
    expect((await sent).status).toBe(200)
    expect(events.map(({ tenant }) => tenant)).toEqual(['shop é', undefined])
  })

  test('admission: `admit` can respond instead of the handler, with a response or an error', async () => {
    const { send, events } = start()
    const refused = await send(`${shop}/card`, 'x', { 'x-stop': '1' })
    expect([refused.status, await refused.text()]).toEqual([403, refusal.body])
    expect(await (await send(`${shop}/nobody`)).json()).toMatchObject({ code: 'provider_unknown' })
    expect(events.map(({ outcome, tenant, fields }) => ({ outcome, tenant, fields }))).toEqual([
      { outcome: 'tenant_not_allowed', tenant: undefined, fields: { reason: 'slug unknown' } },
      { outcome: 'provider_unknown', tenant: undefined, fields: undefined },
    ])
  })

  test('admission: `admit` runs before the body is read', async () => {
    const { port } = start()
    let received = ''
    const socket = await Bun.connect({
      hostname: '127.0.0.1',
      port,
      socket: {
        data: (_socket, chunk) => {
          received += chunk.toString()
        },
      },
    })
    socket.write('POST /t/other/webhooks/card HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhal')
    expect(await poll(() => received.includes('tenant not allowed') || undefined, { deadlineMs: 5000 })).toBe(
      true,
    )
    socket.end()
  })

  test.each([
    ['card', 10],
    ['codehost', 20],
  ])(
    'admission: a body of %s is read up to its own limit, declared or not, and a longer body causes 413',
    async (provider, bytesMax) => {
      const { send, events } = start()
      const path = `${shop}/${provider}`
      for (const body of [(length: number) => 'x'.repeat(length), streamOf]) {
        expect((await send(path, body(bytesMax))).status).toBe(200)
        const refused = await send(path, body(bytesMax + 1))
        expect(refused.status).toBe(413)
        expect(await refused.json()).toMatchObject({ code: 'body_too_large', error: 'Content Too Large' })
      }
      expect(events.at(-1)).toMatchObject({ tenant: 'shop é', fields: { provider } })
    },
  )

  test('admission: the body is charged to the admitted owner', async () => {
    const budget = new BodyBudget({ bytesMax: 40 })
    const { send } = start(budget)
    const held = holding('shop é')
    budget.grow(held, 10, 0)
    expect((await send(`${shop}/card`)).status).toBe(503)
    budget.free(held)
    expect((await send(`${shop}/card`)).status).toBe(200)
    expect(budget.taken).toBe(0)
  })

  test('admission: the log fields that `admit` returns are logged even if the handler throws', async () => {
    const { send, events } = start()
    expect((await send(`${shop}/card`, '')).status).toBe(500)
    expect(events).toEqual([expect.objectContaining({ outcome: 'internal', fields: { provider: 'card' } })])
  })

  test.each([
    ['that is empty', '/t//webhooks/card'],
    ['that is too long', `/t/${'x'.repeat(129)}/webhooks/card`],
    ['that is not UTF-8', '/t/a%ff/webhooks/card'],
    ['that is not percent-encoding', '/t/50%/webhooks/card'],
    ['with a control character', '/t/a%00/webhooks/card'],
  ])('admission: a parameter %s causes 404 without a call of `admit`', async (_case, path) => {
    const { send } = start()
    const response = await send(path)
    expect(response.status).toBe(404)
    expect(await response.json()).toMatchObject({ code: 'route_unknown' })
  })
})

function streamOf(length: number): ReadableStream<Uint8Array> {
  return new Blob(['x'.repeat(length)]).stream()
}
