/** A provider that the demo calls as. */
export type DemoProvider = 'card' | 'storefront' | 'codehost' | 'generic'

/** One event as its provider would send it, before it is signed. */
export interface DemoEvent {
  readonly provider: DemoProvider
  readonly body: string
  /** All headers of the call but the signature's. */
  readonly headers: Readonly<Record<string, string>>
}

/** What chance and time give. */
export interface DemoMoment {
  readonly nowMs: number
  /** In [0, 1), another one each time. */
  readonly random: () => number
}

const buyers = ['Ada Quill', 'Bruno Falk', 'Chiara Lind', 'Dara Osei', 'Emil Novák', 'Fumi Sato'] as const
const goods = [
  ['Enamel mug, 350 ml', 1490],
  ['Linen apron, M', 3900],
  ['Pour-over set', 5450],
  ['Beans “Huila”, 1 kg', 2650],
  ['Gift card', 5000],
] as const
const repositories = ['demo-shop/storefront', 'demo-shop/checkout', 'demo-shop/infra'] as const
const commits = [
  'Round prices once, at the end',
  'Retry the tax call',
  'Say why a coupon is refused',
] as const

/** Makes an event of any kind, as real as a made-up one can be: names, amounts and ids vary, and no address is anybody's. */
export function makeDemoEvent(moment: DemoMoment): DemoEvent {
  const { random } = moment
  const make = pick(
    [cardPayment, cardPayment, cardRefund, storefrontOrder, codehostPush, codehostBuild, genericStock],
    random,
  )
  return make(moment)
}

/** One of some things. */
export function pick<T>(from: readonly [T, ...T[]] | readonly T[], random: () => number): T {
  const picked = from[Math.floor(random() * from.length)]
  if (picked === undefined) throw new RangeError('nothing to pick from')
  return picked
}

function cardPayment({ nowMs, random }: DemoMoment): DemoEvent {
  const [name, price] = pick(goods, random)
  const hasFailed = random() < 0.12
  return cardEvent(hasFailed ? 'payment_intent.payment_failed' : 'payment_intent.succeeded', nowMs, {
    ...{ id: idOf('pi_3S', random), object: 'payment_intent', amount: price, currency: 'eur' },
    ...{ amount_received: hasFailed ? 0 : price, customer: idOf('cus_T', random), description: name },
    ...{ livemode: false, metadata: { order: orderNumber(random) } },
    status: hasFailed ? 'requires_payment_method' : 'succeeded',
    ...(hasFailed && { last_payment_error: { code: 'card_declined', decline_code: 'insufficient_funds' } }),
  })
}

function cardRefund({ nowMs, random }: DemoMoment): DemoEvent {
  const [, price] = pick(goods, random)
  return cardEvent('refund.created', nowMs, {
    ...{ id: idOf('re_3S', random), object: 'refund', amount: price, currency: 'eur' },
    ...{ payment_intent: idOf('pi_3S', random), reason: 'requested_by_customer', status: 'pending' },
  })
}

function cardEvent(type: string, nowMs: number, object: object): DemoEvent {
  const body = {
    ...{ id: `evt_1S${crypto.randomUUID().replaceAll('-', '').slice(0, 22)}`, object: 'event' },
    ...{ api_version: '2026-10-28.endive', created: Math.floor(nowMs / 1000), livemode: false },
    ...{ pending_webhooks: 1, type, data: { object } },
  }
  return { provider: 'card', body: JSON.stringify(body), headers: {} }
}

function storefrontOrder({ nowMs, random }: DemoMoment): DemoEvent {
  const [name, price] = pick(goods, random)
  const buyer = pick(buyers, random)
  const quantity = 1 + Math.floor(random() * 3)
  const topic = pick(['orders/create', 'orders/paid', 'orders/fulfilled'], random)
  const money = (cents: number) => (cents / 100).toFixed(2)
  const body = {
    ...{ id: 5_000_000_000 + Math.floor(random() * 999_999_999), name: `#${orderNumber(random)}` },
    ...{ created_at: new Date(nowMs).toISOString(), currency: 'EUR', total_price: money(price * quantity) },
    ...{ email: `${buyer.split(' ')[0]?.toLowerCase()}@shop.example`, financial_status: 'paid' },
    customer: { first_name: buyer.split(' ')[0], last_name: buyer.split(' ')[1] },
    line_items: [{ name, price: money(price), quantity, sku: `SKU-${price}` }],
  }
  const headers = {
    'x-shopify-topic': topic,
    'x-shopify-webhook-id': crypto.randomUUID(),
    'x-shopify-shop-domain': 'demo-shop.example',
    'x-shopify-triggered-at': new Date(nowMs).toISOString(),
  }
  return { provider: 'storefront', body: JSON.stringify(body), headers }
}

function codehostPush({ nowMs, random }: DemoMoment): DemoEvent {
  const after = hex(40, random)
  const author = pick(buyers, random)
  const commit = {
    ...{ id: after, message: pick(commits, random), timestamp: new Date(nowMs).toISOString() },
    author: { name: author, email: `${author.split(' ')[0]?.toLowerCase()}@shop.example` },
  }
  return codehostEvent('push', {
    ...{ ref: 'refs/heads/main', before: hex(40, random), after, forced: false, commits: [commit] },
    ...{ repository: { full_name: pick(repositories, random), private: true }, pusher: { name: author } },
  })
}

function codehostBuild({ random }: DemoMoment): DemoEvent {
  return codehostEvent('check_run', {
    action: 'completed',
    check_run: {
      ...{ id: Math.floor(random() * 1e10), name: 'build', head_sha: hex(40, random), status: 'completed' },
      conclusion: random() < 0.8 ? 'success' : 'failure',
    },
    repository: { full_name: pick(repositories, random), private: true },
  })
}

function codehostEvent(name: string, body: object): DemoEvent {
  const headers = { 'x-github-event': name, 'x-github-delivery': crypto.randomUUID() }
  return { provider: 'codehost', body: JSON.stringify(body), headers }
}

function genericStock({ nowMs, random }: DemoMoment): DemoEvent {
  const [name, price] = pick(goods, random)
  const body = {
    ...{ id: `stock-${crypto.randomUUID()}`, type: pick(['stock.low', 'invoice.approved'], random) },
    ...{ occurredAt: new Date(nowMs).toISOString(), data: { sku: `SKU-${price}`, name, left: 3 } },
  }
  return { provider: 'generic', body: JSON.stringify(body), headers: {} }
}

function orderNumber(random: () => number): string {
  return String(1000 + Math.floor(random() * 9000))
}

function idOf(prefix: string, random: () => number): string {
  return prefix + hex(20, random)
}

function hex(length: number, random: () => number): string {
  return Array.from({ length }, () => Math.floor(random() * 16).toString(16)).join('')
}
