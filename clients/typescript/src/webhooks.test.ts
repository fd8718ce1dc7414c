// Cases that the conformance cases do not cover: reported exceptions, types, and concurrent transactions.
import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test'
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
import { InvalidDelivery, type LatchkeyEvent, type Receiver, receiver } from './webhooks.ts'

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
    id: `evt_${crypto.randomUUID()}`,
    type,
    provider: 'card',
    providerRawType: 'charge.succeeded',
    tenantId: 'ten_1',
    occurredAt: at,
    receivedAt: at,
    payload: { id: 'ü' },
    headers: {},
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

const otherSecret = `whsec_${btoa('c'.repeat(32))}`
const lateBy = (seconds: number) => String(Math.floor(Date.now() / 1000) - seconds)

test.each<[string, InvalidDelivery['reason'], (signed: ReturnType<typeof sign>) => RequestInit]>([
  [
    'without a signature',
    'headers_missing',
    ({ headers, ...rest }) => ({ ...rest, headers: { ...headers, 'webhook-signature': '' } }),
  ],
  ['without a header', 'headers_missing', ({ body, method }) => ({ body, method })],
  [
    'of an hour ago',
    'timestamp',
    ({ headers, ...rest }) => ({ ...rest, headers: { ...headers, 'webhook-timestamp': lateBy(3600) } }),
  ],
  [
    'of another secret',
    'signature',
    ({ headers, ...rest }) => ({ ...rest, headers: { ...headers, 'webhook-signature': 'v1,AAAA' } }),
  ],
  ['whose body was changed', 'signature', (signed) => ({ ...signed, body: '{}' })],
])('receiver: a delivery %s is refused with the reason `%s`', async (_case, reason, change) => {
  const refusals: InvalidDelivery[] = []
  const receive = receiver({ secrets, onInvalid: (error) => refusals.push(error) }, () => undefined)
  expect((await receive(new Request('http://receiver/', change(sign(newEvent()))))).status).toBe(400)
  expect(refusals.map((error) => [error instanceof InvalidDelivery, error.name, error.reason])).toEqual([
    [true, 'InvalidDelivery', reason],
  ])
})

test('receiver: a signed body that is not an event is refused with the reason `body`', async () => {
  const refusals: string[] = []
  const receive = receiver({ secrets, onInvalid: ({ reason }) => refusals.push(reason) }, () => undefined)
  expect((await receive(new Request('http://receiver/', sign({ id: 'evt_1' })))).status).toBe(400)
  expect(refusals).toEqual(['body'])
})

test('receiver: a wrong secret is logged at a limited rate, without the secret and the signature', async () => {
  const receive = receiver({ secrets: [otherSecret] }, () => undefined)
  const warned = spyOn(console, 'warn').mockImplementation(() => undefined)
  try {
    const signed = sign(newEvent())
    for (let nth = 0; nth < 3; nth += 1) await receive(new Request('http://receiver/', signed))
    expect(warned).toHaveBeenCalledTimes(1)
    const text = String(warned.mock.calls[0]?.[0])
    expect(text).toContain('none of the signing secrets of this receiver made its signature')
    for (const hidden of [otherSecret.slice(6), signed.headers['webhook-signature'], 'payment'])
      expect(text).not.toContain(hidden)
  } finally {
    warned.mockRestore()
  }
})

test('receiver: in Express, after a parser that does not keep the raw bytes, responds 500', async () => {
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

test('receiver: the handler gets the complete event', async () => {
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

test('receiver: a refused API key causes 503 and is reported', async () => {
  const errors: unknown[] = []
  const refused = new Latchkey({ url: api.url, apiKey: 'wrong' })
  const receive = receiver(
    { secrets, latchkey: refused, onError: (error) => errors.push(error) },
    () => undefined,
  )
  expect((await deliver(receive, newEvent())).status).toBe(503)
  expect(errors).toMatchObject([{ code: 'api_key_invalid' }])
})

test('receiver: in a transaction, the effect and the record of the event are committed together, once', async () => {
  const receive = receiver({ secrets, transaction: pg<pgDriver.PoolClient>(pool) }, ({ id }, { tx }) =>
    tx.query('INSERT INTO handled VALUES ($1)', [id]),
  )
  const event = newEvent()
  const answers = await Promise.all(Array.from({ length: 5 }, () => deliver(receive, event)))
  expect(answers.map(({ status }) => status)).toEqual([204, 204, 204, 204, 204])
  const { rows } = await pool.query('SELECT id FROM handled WHERE id = $1', [event.id])
  expect(rows).toEqual([{ id: event.id }])
})

const missing = 'is missing (undefined): pass the signing secret of the tenant'
test.each<[string, unknown, string]>([
  ['no list', undefined, '`secrets` must be a list'],
  ['an empty list', [], '`secrets` must be a list'],
  ['an unset variable', [undefined], `\`secrets[0]\` ${missing}`],
  ['an unset variable after a secret', [secrets[0], undefined], `\`secrets[1]\` ${missing}`],
  ['an empty text', [''], '`secrets[0]` is missing (empty)'],
  ['only the prefix', ['whsec_'], '`secrets[0]` is malformed: a signing secret is `whsec_` and base64'],
  ['a text that is not base64', ['abc'], '`secrets[0]` is malformed'],
  ['a number', [7], '`secrets[0]` is malformed'],
])(
  'receiver: %s as `secrets` is refused at startup with an error that names the option',
  (_name, wrong, message) => {
    expect(() => receiver({ secrets: wrong as string[] }, () => undefined)).toThrow(`Latchkey: ${message}`)
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
