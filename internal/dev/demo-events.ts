import { createHmac, randomUUID } from 'node:crypto'

/** Event in the format of its provider, before it is signed. */
export interface DemoEvent {
  readonly provider: 'card' | 'storefront' | 'codehost' | 'generic'
  readonly body: string
  /** All request headers except the signature. */
  readonly headers: Readonly<Record<string, string>>
}

/** Returns a number in [0, 1). */
export type Random = () => number

/**
 * Possible responses of the demo's callback to an event: 200 (`taken`), 200 after two failures (`flaky`), or always a failure (`failing`).
 * Two outcomes fail a delivery at once, without retries: `mended` at the first call only, so that a replay delivers the event, and `broken`
 * at each call.
 */
export const demoOutcomes = ['taken', 'flaky', 'failing', 'mended', 'broken'] as const
export type DemoOutcome = (typeof demoOutcomes)[number]
/** Request header with the outcome of a demo event. Callbacks find it in the body, which contains the headers of the event. */
export const demoHeader = 'x-demo-traffic'
/** Prefix of the `reference` of the demo's simulations. It identifies their events, which lack `demoHeader`. */
export const demoReference = 'demo-traffic-'

/** Reads the outcome from the body of a delivery. Undefined for an event without `demoHeader`. Never fails. */
export function demoOutcomeOf(body: string): DemoOutcome | undefined {
  const outcome = demoOutcomes.find((each) => body.includes(`"${demoHeader}":"${each}"`))
  return outcome ?? (body.includes(`"reference":"${demoReference}`) ? 'taken' : undefined)
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

/** Creates an event of a random provider. Names, amounts and ids vary, and no address belongs to a real person. */
export function makeDemoEvent(nowMs: number, random: Random): DemoEvent {
  const makers = [cardPayment, cardPayment, cardRefund, storefrontOrder, codehostPush, genericStock]
  return pick(makers, random)(nowMs, random)
}

/** Creates an event of the provider `card`, whose signatures include a timestamp. */
export function cardPayment(nowMs: number, random: Random): DemoEvent {
  const [description, amount] = pick(goods, random)
  const object = { object: 'payment_intent', amount, currency: 'eur', description }
  return random() < 0.12
    ? cardEvent('payment_intent.payment_failed', nowMs, { ...object, status: 'requires_payment_method' })
    : cardEvent('payment_intent.succeeded', nowMs, { ...object, status: 'succeeded' })
}

function cardRefund(nowMs: number, random: Random): DemoEvent {
  const amount = pick(goods, random)[1]
  const object = { object: 'refund', amount, currency: 'eur', payment_intent: `pi_${hexId()}` }
  return cardEvent('refund.created', nowMs, { ...object, reason: 'requested_by_customer', status: 'pending' })
}

function cardEvent(type: string, nowMs: number, object: object): DemoEvent {
  const event = { id: `evt_${hexId()}`, object: 'event', created: secondsOf(nowMs), livemode: false, type }
  const body = JSON.stringify({ ...event, data: { object: { id: `pi_${hexId()}`, ...object } } })
  return { provider: 'card', body, headers: {} }
}

function storefrontOrder(nowMs: number, random: Random): DemoEvent {
  const [name, price] = pick(goods, random)
  const [first_name = '', last_name] = pick(buyers, random).split(' ')
  const money = (price / 100).toFixed(2)
  const order = {
    id: 5e9 + Math.floor(random() * 1e9),
    created_at: isoTime(nowMs),
    currency: 'EUR',
    total_price: money,
    email: `${first_name.toLowerCase()}@shop.example`,
    financial_status: 'paid',
    customer: { first_name, last_name },
    line_items: [{ name, price: money, quantity: 1, sku: `SKU-${price}` }],
  }
  const headers = {
    'x-shopify-topic': pick(['orders/create', 'orders/paid', 'orders/fulfilled'], random),
    'x-shopify-webhook-id': randomUUID(),
    'x-shopify-shop-domain': 'demo-shop.example',
    'x-shopify-triggered-at': isoTime(nowMs),
  }
  return { provider: 'storefront', body: JSON.stringify(order), headers }
}

function codehostPush(nowMs: number, random: Random): DemoEvent {
  const author = { name: pick(buyers, random) }
  const body = JSON.stringify({
    ref: 'refs/heads/main',
    before: hexId(),
    after: hexId(),
    forced: false,
    pusher: author,
    commits: [{ id: hexId(), message: pick(commits, random), timestamp: isoTime(nowMs), author }],
    repository: { full_name: pick(repositories, random), private: true },
  })
  return {
    provider: 'codehost',
    body,
    headers: { 'x-github-event': 'push', 'x-github-delivery': randomUUID() },
  }
}

function genericStock(nowMs: number, random: Random): DemoEvent {
  const [name, price] = pick(goods, random)
  const body = JSON.stringify({
    id: `stock-${randomUUID()}`,
    type: pick(['stock.low', 'invoice.approved'], random),
    occurredAt: isoTime(nowMs),
    data: { sku: `SKU-${price}`, name, left: 3 },
  })
  return { provider: 'generic', body, headers: {} }
}

/**
 * Returns a random element.
 * @throws RangeError when the array is empty
 */
export function pick<T>(from: readonly T[], random: Random): T {
  const picked = from[Math.floor(random() * from.length)]
  if (picked === undefined) throw new RangeError('the array to pick from is empty')
  return picked
}

/**
 * Returns the headers that sign a body.
 * @param secret default: the sample tenant's secret from `config/samples/dev`, which is public and used nowhere else
 */
export function demoSignature(
  { provider, body }: DemoEvent,
  atMs: number,
  secret = `demo-${provider}-signing-secret`,
): Record<string, string> {
  const digest = (text: string) => createHmac('sha256', secret).update(text)
  const time = secondsOf(atMs)
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

function secondsOf(ms: number): number {
  return Math.floor(ms / 1000)
}

function hexId(): string {
  return randomUUID().replaceAll('-', '')
}
