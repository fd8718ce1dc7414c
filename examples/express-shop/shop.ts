// A shop that charges a card once per order, and receives disputes by webhook.

import { Latchkey } from '@latchkey/client'
import { expressReceiver, idempotency } from '@latchkey/client/express'
import { receiver } from '@latchkey/client/webhooks'
import express, { type Request } from 'express'

const url = process.env['LATCHKEY_URL'] ?? 'http://127.0.0.1:8080'
const apiKey = process.env['LATCHKEY_API_KEY'] ?? 'lk_shop_0000000000000000000000000000'
const secret = process.env['LATCHKEY_SIGNING_SECRET'] ?? 'whsec_c2hvcC1zaWduaW5nLXNlY3JldC1ub3QtcmVhbC0wMDA='

const latchkey = new Latchkey({ url, apiKey })

/** Stands in for the bank: each call takes money. */
const bank = {
  taken: 0,
  async charge(amount: number) {
    await new Promise((resolve) => setTimeout(resolve, 200))
    bank.taken += amount
    return `ch_${bank.taken}`
  },
}
const disputes: unknown[] = []

/** Stands in for your authentication: returns the user. A real app must not trust a header. */
const principal = (request: Request) => request.get('x-user') ?? ''

const app = express()

app.post('/charges', express.json(), idempotency(latchkey, { principal }), async (request, response) => {
  const { amount } = request.body as { amount: number }
  response.status(201).json({ charge: await bank.charge(amount), amount })
})

const receive = receiver({ secrets: [secret], latchkey }, async ({ id, type, payload }) => {
  if (type === 'chargeback.created') disputes.push({ id, payload })
  console.log(`event ${type}`)
})
app.post('/webhooks', expressReceiver(receive))

app.get('/', (_request, response) => {
  response.json({ taken: bank.taken, disputes: disputes.length })
})

const port = Number(process.env['PORT'] ?? 3001)
app.listen(port, '127.0.0.1', () => console.log(`the shop is open: http://127.0.0.1:${port}`))
