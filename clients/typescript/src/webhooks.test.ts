// Beside the conformance cases: reported exceptions, types, and concurrent transactions.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { once } from 'node:events'
import { join } from 'node:path'
import express from 'express'
import pgDriver from 'pg'
import { Webhook } from 'standardwebhooks'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import { createTestDatabase, type TestDatabase } from '../../../test/support/stores.ts'
import { expressReceiver } from './express.ts'
import { Latchkey } from './index.ts'
import { pg } from './postgres.ts'
import { type LatchkeyEvent, type Receiver, receiver } from './webhooks.ts'

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

/** Returns a signed delivery. */
function sign(event: { id: string }) {
  const at = new Date()
  const body = JSON.stringify(event)
  return {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json',
      'webhook-id': event.id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(secrets[0]).sign(event.id, at, body),
    },
  }
}

test('receiver: Express after a parser that keeps no bytes answers 500', async () => {
  const handled: object[] = []
  const app = express()
  app.post('/hook', express.json(), expressReceiver(receiver({ secrets }, (event) => handled.push(event))))
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  expect((await fetch(`http://127.0.0.1:${port}/hook`, sign(newEvent()))).status).toBe(500)
  expect(handled).toEqual([])
  server.close()
})

const deliver = async (receive: Receiver, event: { id: string }) => {
  const { status, headers } = await receive(new Request('http://localhost/', sign(event)))
  return { status, retryAfter: headers.get('retry-after'), delivery: headers.get('webhook-delivery') }
}

test('receiver: the handler gets the whole event', async () => {
  const handled: object[] = []
  const event = newEvent()
  await deliver(
    receiver({ secrets }, (each) => handled.push(each)),
    event,
  )
  expect(handled).toEqual([event])
})

test('receiver: an exception of the handler is reported', async () => {
  const errors: unknown[] = []
  const error = new Error('broken')
  const receive = receiver({ secrets, latchkey, onError: (each) => errors.push(each) }, () => {
    throw error
  })
  expect((await deliver(receive, newEvent())).status).toBe(500)
  expect(errors).toEqual([error])
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
