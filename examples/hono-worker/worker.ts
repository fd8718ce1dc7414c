// A worker on Hono: accepts orders over HTTP, and ships each order once, although its queue delivers each message twice.
import { idempotent, Latchkey } from '@latchkey/client'
import { idempotency } from '@latchkey/client/fetch'
import { Hono } from 'hono'

interface Order {
  readonly id: string
  readonly item: string
}

const latchkey = new Latchkey({
  url: process.env['LATCHKEY_URL'] ?? 'http://127.0.0.1:8080',
  apiKey: process.env['LATCHKEY_API_KEY'] ?? 'lk_demo_0000000000000000000000000000',
})
let parcels = 0
const orders: Order[] = []

/** Ships an order once per id. A duplicate returns the parcel number of the first call. */
const ship = idempotent(
  latchkey,
  { scope: 'ship', key: (order: Order) => order.id },
  async (_order: Order) => {
    parcels += 1
    return { parcel: parcels }
  },
)

const app = new Hono()

app.post('/orders', idempotency(latchkey, { principal: 'none' }), async (context) => {
  const { item } = await context.req.json<{ item: string }>()
  const order = { id: crypto.randomUUID(), item }
  orders.push(order)
  return context.json(order, 201)
})

// Stands in for a queue that delivers every message twice.
app.post('/queue', async (context) => {
  const results = []
  for (const order of [...orders, ...orders]) results.push(await ship(order))
  return context.json({ deliveries: results.length, parcels })
})

export default { port: Number(process.env['PORT'] ?? 3003), hostname: '127.0.0.1', fetch: app.fetch }
