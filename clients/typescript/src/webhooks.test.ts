// Receivers behind real servers, with real signatures, and deduplication by the real API and real Postgres.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { once } from 'node:events'
import { join } from 'node:path'
import express from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import pgDriver from 'pg'
import { Webhook } from 'standardwebhooks'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import { createTestDatabase, type TestDatabase } from '../../../test/support/stores.ts'
import { expressReceiver } from './express.ts'
import { fastifyReceiver } from './fastify.ts'
import { Latchkey } from './index.ts'
import { pg } from './postgres.ts'
import { type LatchkeyEvent, type Receiver, type ReceiverContext, receiver } from './webhooks.ts'

const secrets = [`whsec_${btoa('a'.repeat(32))}`, `whsec_${btoa('b'.repeat(32))}`] as const

let api: TestApi
let latchkey: Latchkey
let own: TestDatabase
let pool: pgDriver.Pool
beforeAll(async () => {
  api = await startTestApi()
  latchkey = new Latchkey({ url: api.url, apiKey: testApiKey })
  own = await createTestDatabase()
  pool = new pgDriver.Pool({ connectionString: own.url })
  await pool.query(await Bun.file(join(import.meta.dir, '../latchkey-outcomes.sql')).text())
  await pool.query('CREATE TABLE handled (id text)')
})
afterAll(async () => {
  await pool.end()
  await own.drop()
  await api.close()
})

function newEvent(type: LatchkeyEvent['type'] = 'payment.succeeded') {
  const at = '2026-11-10T08:40:00.000Z'
  return {
    ...{ id: `evt_${crypto.randomUUID()}`, type, provider: 'card', providerRawType: 'charge.succeeded' },
    ...{ tenantId: 'ten_1', occurredAt: at, receivedAt: at, payload: { id: 'ü' }, headers: {} },
  }
}

interface Signing {
  readonly secret?: string
  readonly at?: Date
}

/** Returns a signed delivery. */
function sign(event: { id: string }, { secret = secrets[0], at = new Date() }: Signing = {}) {
  const body = JSON.stringify(event)
  return {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json',
      'webhook-id': event.id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(secret).sign(event.id, at, body),
    },
  }
}

type Serve = (receive: Receiver) => Promise<{ url: string; close(): Promise<unknown> }>

const serveExpress =
  (...before: express.RequestHandler[]): Serve =>
  async (receive) => {
    const app = express()
    app.post('/hook', ...before, expressReceiver(receive))
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    return { url: `http://127.0.0.1:${port}/hook`, close: async () => server.close() }
  }

const serveWeb = (fetch: (request: Request) => Response | Promise<Response>) => {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch })
  return { url: `http://127.0.0.1:${server.port}/hook`, close: () => server.stop(true) }
}

const servers: Record<string, Serve> = {
  'Fetch API': async (receive) => serveWeb(receive),
  Hono: async (receive) => {
    const app = new Hono()
    app.post('/hook', (context) => receive(context.req.raw))
    return serveWeb((request) => app.fetch(request))
  },
  Express: serveExpress(),
  'Express after express.raw': serveExpress(express.raw({ type: '*/*', limit: '1mb' })),
  Fastify: async (receive) => {
    const app = fastify()
    await app.register(fastifyReceiver(receive, '/hook'))
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    return { url: `${url}/hook`, close: () => app.close() }
  },
}

describe.each(Object.entries(servers))('receiver, %s', (name, serve) => {
  test(`${name}: the handler gets the event of a delivery that any of the secrets signed, once`, async () => {
    const handled: LatchkeyEvent[] = []
    const server = await serve(receiver({ secrets, latchkey, name }, (event) => handled.push(event)))
    const event = newEvent()
    for (const secret of [...secrets, secrets[0]])
      expect((await fetch(server.url, sign(event, { secret }))).status).toBe(204)
    expect(handled as object[]).toEqual([event])
    await server.close()
  })

  const hour = 3_600_000
  const refused: [
    what: string,
    change: (delivery: ReturnType<typeof sign>) => RequestInit,
    status: number,
  ][] = [
    ['another body', (delivery) => ({ ...delivery, body: `${delivery.body} ` }), 400],
    ['another secret', () => sign(newEvent(), { secret: `whsec_${btoa('c'.repeat(32))}` }), 400],
    ['a signature of an hour ago', () => sign(newEvent(), { at: new Date(Date.now() - hour) }), 400],
    ['a signature of the next hour', () => sign(newEvent(), { at: new Date(Date.now() + hour) }), 400],
    ['no signature', ({ body, method }) => ({ body, method }), 400],
    ['a signed text that is no event', () => sign({ id: 'evt_1' }), 400],
    ['a body over the maximum', () => sign({ ...newEvent(), id: 'x'.repeat(2000) }), 413],
  ]
  test.each(refused)(
    `${name}: %s is refused, and the handler does not run`,
    async (_what, change, status) => {
      const handled: object[] = []
      const server = await serve(
        receiver({ secrets, latchkey, name, bodyBytesMax: 1500 }, (event) => handled.push(event)),
      )
      expect((await fetch(server.url, change(sign(newEvent())))).status).toBe(status)
      expect(handled).toEqual([])
      await server.close()
    },
  )
})

test('receiver: Express after a parser that keeps no bytes answers 500', async () => {
  const handled: object[] = []
  const receive = receiver({ secrets, latchkey }, (event) => handled.push(event))
  const server = await serveExpress(express.json())(receive)
  expect((await fetch(server.url, sign(newEvent()))).status).toBe(500)
  expect(handled).toEqual([])
  await server.close()
})

const deliver = async (receive: Receiver, event: { id: string }) => {
  const { status, headers } = await receive(new Request('http://localhost/', sign(event)))
  return { status, retryAfter: headers.get('retry-after'), delivery: headers.get('webhook-delivery') }
}

type Ways = Pick<ReceiverContext, 'gone' | 'disable' | 'abort'>
/** Receivers whose handler inserts the event's id in the transaction, if there is one, and then does `then`. */
const deduplications: Record<string, (then: (ways: Ways) => unknown, errors: unknown[]) => Receiver> = {
  'by Latchkey': (then, errors) =>
    receiver({ secrets, latchkey, onError: (error) => errors.push(error) }, (_event, context) =>
      then(context),
    ),
  'by a transaction': (then, errors) =>
    receiver(
      { secrets, transaction: pg<pgDriver.PoolClient>(pool), onError: (error) => errors.push(error) },
      async ({ id }, { tx, ...ways }) => {
        await tx.query('INSERT INTO handled VALUES ($1)', [id])
        return then(ways)
      },
    ),
}

describe.each(Object.entries(deduplications))('receiver, deduplication %s', (name, create) => {
  const rejections: [way: keyof Ways, status: number, delivery: string | null][] = [
    ['gone', 410, null],
    ['disable', 422, 'disable'],
    ['abort', 422, 'abort-message'],
  ]
  test.each(rejections)(
    `${name}: %s answers %d and leaves the event unhandled`,
    async (way, status, delivery) => {
      const errors: unknown[] = []
      const event = newEvent()
      const rejecting = create((ways) => ways[way](), errors)
      const catching = create((ways) => {
        try {
          ways[way]()
        } catch {
          return 'caught'
        }
        return 'not thrown'
      }, errors)
      for (const receive of [rejecting, catching])
        expect(await deliver(receive, event)).toEqual({ status, delivery, retryAfter: null })
      let count = 0
      expect(
        (
          await deliver(
            create(() => (count += 1), errors),
            event,
          )
        ).status,
      ).toBe(204)
      expect([count, errors]).toEqual([1, []])
    },
  )

  test(`${name}: an exception answers 500, and the next delivery runs`, async () => {
    const errors: unknown[] = []
    const event = newEvent()
    const error = new Error('broken')
    const failing = create(() => {
      throw error
    }, errors)
    expect((await deliver(failing, event)).status).toBe(500)
    expect(errors).toEqual([error])
    let count = 0
    const working = create(() => (count += 1), errors)
    for (const status of [204, 204]) {
      let delivered = await deliver(working, event)
      // The lock of the exception ends after a second.
      for (let tries = 0; delivered.status === 409 && tries < 30; tries += 1) {
        await Bun.sleep(100)
        delivered = await deliver(working, event)
      }
      expect(delivered.status).toBe(status)
    }
    expect(count).toBe(1)
  })
})

test('receiver: an event that is being handled is 409 with Retry-After', async () => {
  const { promise: answered, resolve: finish } = Promise.withResolvers<void>()
  const { promise: started, resolve: start } = Promise.withResolvers<void>()
  const receive = receiver({ secrets, latchkey }, async () => {
    start()
    await answered
  })
  const event = newEvent()
  const first = deliver(receive, event)
  await started
  expect(await deliver(receive, event)).toEqual({ status: 409, retryAfter: '1', delivery: null })
  finish()
  expect((await first).status).toBe(204)
})

test('receiver: without Latchkey the delivery is 503 with Retry-After, and the handler does not run', async () => {
  const unreachable = new Latchkey({ url: 'http://127.0.0.1:9', apiKey: 'x' })
  let count = 0
  const receive = receiver({ secrets, latchkey: unreachable }, () => (count += 1))
  expect(await deliver(receive, newEvent())).toEqual({ status: 503, retryAfter: '1', delivery: null })
  expect(count).toBe(0)
})

test('receiver: a refused API key is 503 and reported', async () => {
  const errors: unknown[] = []
  const refused = new Latchkey({ url: api.url, apiKey: 'wrong' })
  const receive = receiver(
    { secrets, latchkey: refused, onError: (error) => errors.push(error) },
    () => undefined,
  )
  expect((await deliver(receive, newEvent())).status).toBe(503)
  expect(errors).toMatchObject([{ code: 'api_key_invalid' }])
})

test('receiver: two receivers of other names both handle an event', async () => {
  const handled: string[] = []
  const event = newEvent()
  for (const name of ['one', 'two', 'one'])
    await deliver(
      receiver({ secrets, latchkey, name }, () => handled.push(name)),
      event,
    )
  expect(handled).toEqual(['one', 'two'])
})

test('receiver: in a transaction, the effect and the event are committed together, once', async () => {
  const receive = receiver({ secrets, transaction: pg<pgDriver.PoolClient>(pool) }, ({ id }, { tx }) =>
    tx.query('INSERT INTO handled VALUES ($1)', [id]),
  )
  const event = newEvent()
  const answers = await Promise.all(Array.from({ length: 5 }, () => deliver(receive, event)))
  expect(answers.map(({ status }) => status)).toEqual([204, 204, 204, 204, 204])
  const { rows } = await pool.query('SELECT id FROM handled WHERE id = $1', [event.id])
  expect(rows).toEqual([{ id: event.id }])
})

test.each([[[]], [['whsec_']], [['not base64!']]])(
  'receiver: the secrets %j are refused at the start',
  (wrong) => {
    expect(() => receiver({ secrets: wrong }, () => undefined)).toThrow()
  },
)

test('receiver: the type of an event narrows its providers and raw types', () => {
  const read = (event: LatchkeyEvent) => {
    if (event.type === 'order.paid') return event.provider satisfies 'storefront' | 'wallet' | 'generic'
    if (event.type === 'payment.succeeded' && event.provider === 'card')
      return event.providerRawType satisfies
        | 'charge.captured'
        | 'charge.succeeded'
        | 'payment_intent.succeeded'
    return event.type satisfies string
  }
  expect(read(newEvent('latchkey.test') as LatchkeyEvent)).toBe('latchkey.test')
})
