import { createHmac } from 'node:crypto'

/** Provider that the demo calls as. */
export type DemoProvider = 'card' | 'storefront' | 'codehost' | 'generic'

/** One event as its provider would send it, before it is signed. */
export interface DemoEvent {
  readonly provider: DemoProvider
  readonly body: string
  /** All headers of the call but the signature's. */
  readonly headers: Readonly<Record<string, string>>
}

/** Returns a number in [0, 1), another one each time. */
type Random = () => number

/** The sample tenant's secrets, as its manifest in `config/samples/dev` has them: public, and of no other use. */
const secrets: Record<DemoProvider, string> = {
  card: 'demo-card-signing-secret',
  storefront: 'demo-storefront-signing-secret',
  codehost: 'demo-codehost-signing-secret',
  generic: 'demo-generic-signing-secret',
}
const buyers = ['Ada Quill', 'Bruno Falk', 'Chiara Lind', 'Dara Osei', 'Emil Novák', 'Fumi Sato'] as const
const goods = [
  ['Enamel mug, 350 ml', 1490],
  ['Linen apron, M', 3900],
  ['Pour-over set', 5450],
  ['Gift card', 5000],
] as const
const repositories = ['demo-shop/storefront', 'demo-shop/checkout', 'demo-shop/infra'] as const
const commits = ['Round prices once, at the end', 'Retry the tax call', 'Explain refused coupons'] as const

/** Response of the demo's callback to an event: 200, 200 after two failures, or always a failure. */
export const demoFates = ['taken', 'flaky', 'failing'] as const
/** One of `demoFates`. */
export type DemoFate = (typeof demoFates)[number]
/** Header of a demo's call that names the fate of its event; the callback gets it with the event. */
export const demoHeader = 'x-demo-traffic'
/** Prefix of the references of the demo's simulations, whose events lack `demoHeader`. */
export const demoReference = 'demo-traffic-'

/** Returns the fate of a demo's event by the body that its callback gets; undefined for all other events. Never fails. */
export function demoFateOf(body: string): DemoFate | undefined {
  const fate = new RegExp(`"${demoHeader}":"(${demoFates.join('|')})"`).exec(body)?.[1]
  if (fate !== undefined) return demoFates.find((each) => each === fate)
  return body.includes(`"reference":"${demoReference}`) ? 'taken' : undefined
}

/** Makes an event of any provider. Names, amounts and ids vary, and no address belongs to anyone. */
export function makeDemoEvent(nowMs: number, random: Random): DemoEvent {
  const makers = [
    cardPayment,
    cardPayment,
    cardRefund,
    storefrontOrder,
    codehostPush,
    codehostBuild,
    genericStock,
  ]
  return pick(makers, random)(nowMs, random)
}

/** Makes a card payment's event, whose provider signs the time too. */
export function cardPayment(nowMs: number, random: Random): DemoEvent {
  const [description, amount] = pick(goods, random)
  const hasFailed = random() < 0.12
  return cardEvent(hasFailed ? 'payment_intent.payment_failed' : 'payment_intent.succeeded', nowMs, {
    ...{ id: hexId('pi_3S', random), object: 'payment_intent', amount, currency: 'eur', description },
    ...{ customer: hexId('cus_T', random), metadata: { order: orderNumber(random) } },
    ...(hasFailed
      ? { status: 'requires_payment_method', last_payment_error: { code: 'card_declined' } }
      : { status: 'succeeded', amount_received: amount }),
  })
}

function cardRefund(nowMs: number, random: Random): DemoEvent {
  return cardEvent('refund.created', nowMs, {
    ...{ id: hexId('re_3S', random), object: 'refund', amount: pick(goods, random)[1], currency: 'eur' },
    ...{ payment_intent: hexId('pi_3S', random), reason: 'requested_by_customer', status: 'pending' },
  })
}

function cardEvent(type: string, nowMs: number, object: object): DemoEvent {
  const id = `evt_1S${crypto.randomUUID().replaceAll('-', '').slice(0, 22)}`
  const event = {
    id,
    object: 'event',
    created: Math.floor(nowMs / 1000),
    livemode: false,
    type,
    data: { object },
  }
  return { provider: 'card', body: JSON.stringify(event), headers: {} }
}

function storefrontOrder(nowMs: number, random: Random): DemoEvent {
  const [name, price] = pick(goods, random)
  const [first_name = '', last_name] = pick(buyers, random).split(' ')
  const quantity = 1 + Math.floor(random() * 3)
  const money = (cents: number) => (cents / 100).toFixed(2)
  const order = {
    ...{ id: 5_000_000_000 + Math.floor(random() * 999_999_999), name: `#${orderNumber(random)}` },
    ...{ created_at: isoTime(nowMs), currency: 'EUR', total_price: money(price * quantity) },
    ...{ email: `${first_name.toLowerCase()}@shop.example`, financial_status: 'paid' },
    customer: { first_name, last_name },
    line_items: [{ name, price: money(price), quantity, sku: `SKU-${price}` }],
  }
  const headers = {
    'x-shopify-topic': pick(['orders/create', 'orders/paid', 'orders/fulfilled'], random),
    'x-shopify-webhook-id': crypto.randomUUID(),
    'x-shopify-shop-domain': 'demo-shop.example',
    'x-shopify-triggered-at': isoTime(nowMs),
  }
  return { provider: 'storefront', body: JSON.stringify(order), headers }
}

function codehostPush(nowMs: number, random: Random): DemoEvent {
  const after = hexId('', random, 40)
  const author = { name: pick(buyers, random) }
  return codehostEvent('push', {
    ...{ ref: 'refs/heads/main', before: hexId('', random, 40), after, forced: false, pusher: author },
    commits: [{ id: after, message: pick(commits, random), timestamp: isoTime(nowMs), author }],
    repository: { full_name: pick(repositories, random), private: true },
  })
}

function codehostBuild(_nowMs: number, random: Random): DemoEvent {
  const conclusion = random() < 0.8 ? 'success' : 'failure'
  return codehostEvent('check_run', {
    action: 'completed',
    check_run: { id: Math.floor(random() * 1e10), name: 'build', status: 'completed', conclusion },
    repository: { full_name: pick(repositories, random), private: true },
  })
}

function codehostEvent(name: string, body: object): DemoEvent {
  const headers = { 'x-github-event': name, 'x-github-delivery': crypto.randomUUID() }
  return { provider: 'codehost', body: JSON.stringify(body), headers }
}

function genericStock(nowMs: number, random: Random): DemoEvent {
  const [name, price] = pick(goods, random)
  const body = {
    ...{ id: `stock-${crypto.randomUUID()}`, type: pick(['stock.low', 'invoice.approved'], random) },
    ...{ occurredAt: isoTime(nowMs), data: { sku: `SKU-${price}`, name, left: 3 } },
  }
  return { provider: 'generic', body: JSON.stringify(body), headers: {} }
}

/** Returns one of some values. @throws RangeError when there are none */
export function pick<T>(from: readonly T[], random: Random): T {
  const picked = from[Math.floor(random() * from.length)]
  if (picked === undefined) throw new RangeError('nothing to pick from')
  return picked
}

/** Time and secret of a signature; default the sample tenant's secret. */
export interface DemoSigning {
  readonly atMs: number
  readonly secret?: string
}

/** Returns the header by which a provider signs a body. */
export function demoSignature(
  { provider, body }: DemoEvent,
  { atMs, secret = secrets[provider] }: DemoSigning,
): Record<string, string> {
  const time = Math.floor(atMs / 1000)
  const digest = (text: string) => createHmac('sha256', secret).update(text)
  const timed = () => `t=${time},v1=${digest(`${time}.${body}`).digest('hex')}`
  switch (provider) {
    case 'card':
      return { 'stripe-signature': timed() }
    case 'storefront':
      return { 'x-shopify-hmac-sha256': digest(body).digest('base64') }
    case 'codehost':
      return { 'x-hub-signature-256': `sha256=${digest(body).digest('hex')}` }
    case 'generic':
      return { 'x-service-signature': timed() }
  }
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}

function orderNumber(random: Random): string {
  return String(1000 + Math.floor(random() * 9000))
}

function hexId(prefix: string, random: Random, digits = 20): string {
  return prefix + Array.from({ length: digits }, () => Math.floor(random() * 16).toString(16)).join('')
}
