import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { Glob } from 'bun'
import { isJsonObject, type JsonObject } from '#internal/base/index.ts'
import { memberAt } from '../../declared/call.ts'
import { eventTables } from '../tables.ts'

const cardTypes = eventTables.card

const resources = Bun.resolveSync('stripe', import.meta.dir).replace(/stripe\..*$/, 'resources/')
const read = (path: string) => readFileSync(`${resources}${path}`, 'utf8')
const snapshotTypes = [...read('Events.d.ts').matchAll(/^ {4}type: '([^']+)';/gm)].map(
  ([, type = '']) => type,
)
const thinTypes = new Set(
  [...read('V2/Core/Events.d.ts').matchAll(/^ {4}type: '([^']+)';/gm)].map(([, type = '']) => type),
)
const vendorTypes = [...snapshotTypes, ...thinTypes]
const rows = [...new Set(cardTypes.cases.map(({ rawType }) => rawType))]

/** Raw types that have no row and become `card.<raw type>`. An entry that ends in `.` or `_` stands for all types that begin with it. */
const unlisted: Readonly<Record<string, readonly string[]>> = {
  // A thin event only names an object: it lacks the members that decide the type, and the full event of the object is sent as well.
  'thin form of an event': ['v1.'],
  'products that no other provider has': [
    'apps.',
    'climate.',
    'financial_connections.',
    'issuing_',
    'reserve.',
    'sigma.',
    'terminal.',
    'three_d_secure.',
    'treasury.',
    'v2.commerce.',
    'v2.money_management.',
  ],
  'usage-based billing and the vendor’s customer portal': ['billing.', 'billing_portal.'],
  'legacy payments, which the vendor has replaced by payment intents': ['source.'],
  'tools for tests': ['test_helpers.', 'v2.core.event_destination.ping'],
}
const isUnlisted = (type: string) =>
  Object.values(unlisted)
    .flat()
    .some((each) => (/[._]$/.test(each) ? type.startsWith(each) : type === each))

describe('Stripe SDK', () => {
  test('card types: every raw type of the table exists in the SDK', () => {
    expect(rows.filter((type) => !vendorTypes.includes(type))).toEqual([])
    expect(rows.length).toBeGreaterThanOrEqual(150)
  })

  test('card types: every raw type of the SDK is either in the table or in the list of unlisted types', () => {
    expect(snapshotTypes.length).toBeGreaterThan(250)
    expect(thinTypes.size).toBeGreaterThan(250)
    expect(vendorTypes.filter((type) => rows.includes(type) === isUnlisted(type))).toEqual([])
  })

  test('card types: every entry of the list of unlisted types exists in the SDK', () => {
    const entries = Object.values(unlisted).flat()
    expect(entries.filter((each) => !vendorTypes.some((type) => type.startsWith(each)))).toEqual([])
  })

  test('card types: every raw type of webhook endpoints is a raw type of events in the SDK', () => {
    const quoted = [...read('WebhookEndpoints.d.ts').matchAll(/'([a-z_]+(?:\.[a-z_]+)+)'/g)]
    const endpointTypes = new Set(quoted.map(([, type = '']) => type))
    expect([...endpointTypes].sort()).toEqual([...new Set(snapshotTypes)].sort())
  })

  test('card types: members of every example exist in the SDK', () => {
    const members = membersByObject()
    const wrong = cardTypes.cases
      // Skips samples of other API versions, which the SDK does not describe.
      .filter(({ example }) => !example.some(([path]) => path === 'api_version'))
      .flatMap((one) => {
        const object = memberAt(cardTypes.sampleOf(one), 'data', 'object')
        if (!isJsonObject(object)) return one.rawType.startsWith('v2.') ? [] : [one.rawType]
        const known = members.get(String(object['object']))
        return Object.keys(object)
          .filter((name) => known?.has(name) !== true)
          .map((name) => `${one.rawType}: ${name}`)
      })
    expect([...new Set(wrong)]).toEqual([])
  })
})

/** Returns the members of the SDK's types by the value of their member `object`. */
function membersByObject(): ReadonlyMap<string, ReadonlySet<string>> {
  const members = new Map<string, Set<string>>()
  for (const path of new Glob('**/*.d.ts').scanSync(resources)) {
    for (const [, indent = '', body = ''] of read(path).matchAll(
      /^( *)export interface \w+(?: extends \w+)? \{\n(.*?)^\1\}/gms,
    )) {
      const lines = [...body.matchAll(/^( *)(\w+)\??: (.*)/gm)].filter(
        ([, own = '']) => own.length === indent.length + 4,
      )
      const object = lines.find(([, , name]) => name === 'object')?.[3]?.match(/^'(.+)'/)?.[1]
      if (object === undefined) continue
      const known = members.get(object) ?? new Set<string>()
      for (const [, , name = ''] of lines) known.add(name)
      members.set(object, known)
    }
  }
  return members
}

test('card types: an example has 0.3 to 3 KiB and no value that looks like a secret', () => {
  for (const one of cardTypes.cases) {
    const text = JSON.stringify(cardTypes.sampleOf(one))
    expect(text.length).toBeGreaterThan(300)
    expect(text.length).toBeLessThan(3 * 1024)
    expect(text).not.toMatch(/secret|[rs]k_(live|test)_|whsec_/)
  }
})

const reachedAt: Readonly<Record<string, readonly string[]>> = {
  draft: [],
  open: ['finalized_at'],
  paid: ['finalized_at', 'paid_at'],
  void: ['finalized_at', 'voided_at'],
  uncollectible: ['finalized_at', 'marked_uncollectible_at'],
  accepted: ['finalized_at', 'accepted_at'],
  canceled: ['finalized_at', 'canceled_at'],
}

test('card types: the example of an invoice or quote has the transition times of its status, and consistent amounts', () => {
  for (const one of cardTypes.cases.filter(({ rawType }) => /^(invoice|quote)\./.test(rawType))) {
    const object = memberAt(cardTypes.sampleOf(one), 'data', 'object') as Invoice
    const reached = Object.entries(object.status_transitions).filter(([, at]) => at !== null)
    const expected = reachedAt[object.status] ?? ['a known status']
    expect([one.rawType, reached.map(([name]) => name).sort()]).toEqual([one.rawType, expected.toSorted()])
    if (object.object === 'quote') continue
    const { amount_paid: paid, amount_remaining: remaining, amount_overpaid: overpaid } = object
    expect([one.rawType, paid + remaining - overpaid]).toEqual([one.rawType, object.amount_due])
    expect([one.rawType, remaining === 0]).toEqual([one.rawType, object.status === 'paid'])
  }
})

interface Invoice extends Readonly<Record<`amount_${'due' | 'paid' | 'remaining' | 'overpaid'}`, number>> {
  readonly object: string
  readonly status: string
  readonly status_transitions: Readonly<Record<string, number | null>>
}

/** Raw event: its type, its object, and the members of the object before an update. */
type Raw = readonly [rawType: string, object?: JsonObject, before?: JsonObject]

const typeOf = ([rawType, object = {}, before]: Raw) =>
  cardTypes.typeOf(rawType, {
    data: { object, ...(before !== undefined && { previous_attributes: before }) },
  })

const intent = { payment_intent: 'pi_1' }
const ofSubscription = {
  parent: { type: 'subscription_details', subscription_details: { subscription: 'sub_1' } },
}
const ofSubscriptionBefore2025 = { subscription: 'sub_1' }
const ofQuote = {
  parent: { type: 'quote_details', quote_details: { quote: 'qt_1' }, subscription_details: null },
}

/** Types of which one sequence has at most one event each. */
const facts =
  /^(payment|refund)\.(succeeded|cancelled|failed|authorized)$|^chargeback\.(created|won|lost|closed|under_review)$|^subscription\.(?!updated)/

const sequences: Readonly<Record<string, readonly (readonly [raw: Raw, type: string])[]>> = {
  'a payment': [
    [['payment_intent.created'], 'payment.created'],
    [['payment_intent.requires_action'], 'payment.action_required'],
    [['charge.succeeded', { ...intent, captured: true }], 'charge.succeeded'],
    [['payment_intent.succeeded'], 'payment.succeeded'],
    [['charge.updated', intent, { balance_transaction: null }], 'charge.updated'],
  ],
  'a payment that is captured later': [
    [['payment_intent.created'], 'payment.created'],
    [['charge.succeeded', { ...intent, captured: false }], 'charge.succeeded'],
    [['payment_intent.amount_capturable_updated'], 'payment.authorized'],
    [['charge.captured', { ...intent, captured: true }], 'charge.captured'],
    [['payment_intent.succeeded'], 'payment.succeeded'],
  ],
  'an authorization that expires': [
    [['charge.succeeded', { ...intent, captured: false }], 'charge.succeeded'],
    [['payment_intent.amount_capturable_updated'], 'payment.authorized'],
    [['charge.expired', intent], 'charge.expired'],
    [['payment_intent.canceled'], 'payment.cancelled'],
  ],
  'a declined payment': [
    [['charge.failed', intent], 'charge.failed'],
    [['payment_intent.payment_failed'], 'payment.failed'],
  ],
  'a direct charge without a payment intent': [
    [['charge.pending', { payment_intent: null }], 'payment.processing'],
    [['charge.succeeded', { payment_intent: null, captured: true }], 'payment.succeeded'],
  ],
  'a direct charge that is captured later': [
    [['charge.succeeded', { captured: false }], 'payment.authorized'],
    [['charge.captured', { captured: true }], 'payment.succeeded'],
  ],
  'a direct charge that is declined': [[['charge.failed', { payment_intent: null }], 'payment.failed']],
  'a direct charge whose authorization expires': [
    [['charge.succeeded', { payment_intent: null, captured: false }], 'payment.authorized'],
    [['charge.expired', { payment_intent: null }], 'payment.cancelled'],
  ],
  'a checkout with a delayed payment': [
    [['payment_intent.created'], 'payment.created'],
    [['checkout.session.completed', { payment_status: 'unpaid' }], 'checkout.completed'],
    [['charge.pending', intent], 'charge.pending'],
    [['payment_intent.processing'], 'payment.processing'],
    [['charge.succeeded', intent], 'charge.succeeded'],
    [['payment_intent.succeeded'], 'payment.succeeded'],
    [['checkout.session.async_payment_succeeded'], 'checkout.payment_succeeded'],
  ],
  'a refund of a card': [
    [['refund.created', { status: 'succeeded' }], 'refund.succeeded'],
    [['charge.refunded', {}, { amount_refunded: 0 }], 'refund.updated'],
    [['refund.updated', { status: 'succeeded' }, { destination_details: null }], 'refund.updated'],
    [['charge.refund.updated', { status: 'succeeded' }, { destination_details: null }], 'refund.updated'],
  ],
  'a refund that is pending first': [
    [['refund.created', { status: 'pending' }], 'refund.created'],
    [['charge.refunded', {}, { amount_refunded: 0 }], 'refund.updated'],
    [['refund.updated', { status: 'succeeded' }, { status: 'pending' }], 'refund.succeeded'],
    [['charge.refund.updated', { status: 'succeeded' }, { status: 'pending' }], 'refund.updated'],
  ],
  'a refund that fails after its success': [
    [['refund.created', { status: 'succeeded' }], 'refund.succeeded'],
    [['charge.refunded'], 'refund.updated'],
    [['refund.updated', { status: 'failed' }, { status: 'succeeded' }], 'refund.updated'],
    [['refund.failed', { status: 'failed' }], 'refund.failed'],
    [['charge.refund.updated', { status: 'failed' }, { status: 'succeeded' }], 'refund.updated'],
  ],
  'a refund that is cancelled': [
    [['refund.created', { status: 'requires_action' }], 'refund.created'],
    [['refund.updated', { status: 'canceled' }, { status: 'requires_action' }], 'refund.cancelled'],
    [['charge.refund.updated', { status: 'canceled' }, { status: 'requires_action' }], 'refund.updated'],
  ],
  'a dispute that is won': [
    [['charge.dispute.created', { status: 'needs_response' }], 'chargeback.created'],
    [['charge.dispute.funds_withdrawn', { status: 'needs_response' }], 'chargeback.funds_withdrawn'],
    [['charge.dispute.updated', { status: 'needs_response' }, { evidence: {} }], 'chargeback.updated'],
    [
      ['charge.dispute.updated', { status: 'under_review' }, { status: 'needs_response' }],
      'chargeback.under_review',
    ],
    [['charge.dispute.updated', { status: 'under_review' }, { metadata: {} }], 'chargeback.updated'],
    [['charge.dispute.updated', { status: 'won' }, { status: 'under_review' }], 'chargeback.updated'],
    [['charge.dispute.closed', { status: 'won' }], 'chargeback.won'],
    [['charge.dispute.funds_reinstated', { status: 'won' }], 'chargeback.funds_reinstated'],
  ],
  'a dispute that is lost': [
    [['charge.dispute.created', { status: 'needs_response' }], 'chargeback.created'],
    [['charge.dispute.closed', { status: 'lost' }], 'chargeback.lost'],
    [['charge.dispute.updated', { status: 'lost' }, { status: 'needs_response' }], 'chargeback.updated'],
  ],
  'an inquiry that becomes a dispute': [
    [['charge.dispute.created', { status: 'warning_needs_response' }], 'chargeback.created'],
    [
      ['charge.dispute.updated', { status: 'needs_response' }, { status: 'warning_needs_response' }],
      'chargeback.evidence_required',
    ],
    [['charge.dispute.closed', { status: 'lost' }], 'chargeback.lost'],
  ],
  'an inquiry that ends': [
    [['charge.dispute.created', { status: 'warning_needs_response' }], 'chargeback.created'],
    [
      ['charge.dispute.updated', { status: 'warning_under_review' }, { status: 'warning_needs_response' }],
      'chargeback.under_review',
    ],
    [['charge.dispute.closed', { status: 'warning_closed' }, { status: 'x' }], 'chargeback.closed'],
  ],
  'a new subscription whose first payment needs the customer': [
    [['customer.subscription.created', { status: 'incomplete' }], 'subscription.created'],
    [['invoice.created', ofSubscription], 'invoice.created'],
    [['invoice.finalized', ofSubscription], 'invoice.finalized'],
    [['invoice.payment_action_required', ofSubscription], 'subscription.payment_action_required'],
    [['payment_intent.requires_action'], 'payment.action_required'],
    [['charge.succeeded', intent], 'charge.succeeded'],
    [['payment_intent.succeeded'], 'payment.succeeded'],
    [['invoice_payment.paid'], 'invoice_payment.paid'],
    [['invoice.updated', ofSubscription, { status: 'open' }], 'invoice.updated'],
    [['invoice.paid', ofSubscription], 'subscription.payment_succeeded'],
    [['invoice.payment_succeeded', ofSubscription], 'invoice.payment_succeeded'],
    [
      ['customer.subscription.updated', { status: 'active' }, { status: 'incomplete' }],
      'subscription.activated',
    ],
  ],
  'a renewal under an API version before 2025-03-31': [
    [['invoice.upcoming', ofSubscriptionBefore2025], 'invoice.upcoming'],
    [
      ['customer.subscription.updated', { status: 'active' }, { current_period_end: 1 }],
      'subscription.updated',
    ],
    [['charge.succeeded', intent], 'charge.succeeded'],
    [['payment_intent.succeeded'], 'payment.succeeded'],
    [['invoice.paid', ofSubscriptionBefore2025], 'subscription.payment_succeeded'],
    [['invoice.payment_succeeded', ofSubscriptionBefore2025], 'invoice.payment_succeeded'],
  ],
  'a renewal that fails until the subscription is cancelled': [
    [['charge.failed', intent], 'charge.failed'],
    [['payment_intent.payment_failed'], 'payment.failed'],
    [['invoice.payment_failed', ofSubscription], 'subscription.payment_failed'],
    [
      ['customer.subscription.updated', { status: 'past_due' }, { status: 'active' }],
      'subscription.past_due',
    ],
    [
      ['customer.subscription.updated', { status: 'past_due' }, { default_payment_method: null }],
      'subscription.updated',
    ],
    [['customer.subscription.updated', { status: 'unpaid' }, { status: 'past_due' }], 'subscription.unpaid'],
    [['customer.subscription.updated', { status: 'canceled' }, { status: 'unpaid' }], 'subscription.updated'],
    [['customer.subscription.deleted', { status: 'canceled' }], 'subscription.cancelled'],
  ],
  'a subscription whose first payment is never made': [
    [['customer.subscription.created', { status: 'incomplete' }], 'subscription.created'],
    [['invoice.payment_failed', ofSubscription], 'subscription.payment_failed'],
    [
      ['customer.subscription.updated', { status: 'incomplete_expired' }, { status: 'incomplete' }],
      'subscription.expired',
    ],
  ],
  'a trial that ends in a pause, and the end of the pause': [
    [['customer.subscription.trial_will_end', { status: 'trialing' }], 'subscription.trial_ending'],
    [['customer.subscription.updated', { status: 'paused' }, { status: 'trialing' }], 'subscription.updated'],
    [['customer.subscription.paused', { status: 'paused' }], 'subscription.paused'],
    [['customer.subscription.updated', { status: 'active' }, { status: 'paused' }], 'subscription.updated'],
    [['customer.subscription.resumed', { status: 'active' }], 'subscription.resumed'],
  ],
  'an invoice of a quote': [
    [['quote.accepted'], 'quote.accepted'],
    [['invoice.payment_action_required', ofQuote], 'invoice.payment_action_required'],
    [['invoice.payment_failed', ofQuote], 'invoice.payment_failed'],
    [['invoice.paid', ofQuote], 'invoice.paid'],
    [['invoice.payment_succeeded', ofQuote], 'invoice.payment_succeeded'],
  ],
  'a payout that fails': [
    [['payout.created', { status: 'in_transit' }], 'payout.created'],
    [['payout.paid', { status: 'paid' }], 'payout.paid'],
    [['payout.reconciliation_completed'], 'payout.reconciled'],
    [['payout.updated', { status: 'failed' }, { status: 'paid' }], 'payout.updated'],
    [['payout.failed', { status: 'failed' }], 'payout.failed'],
  ],
  'a review for fraud': [
    [['review.opened'], 'fraud_review.opened'],
    [['radar.early_fraud_warning.created'], 'fraud_warning.created'],
    [['review.closed', { reason: 'refunded_as_fraud' }], 'fraud_review.closed'],
  ],
}

test.each(Object.entries(sequences))(
  'card types: the events of %s get the expected types, and no type that states a fact occurs twice',
  (_what, events) => {
    const types = events.map(([raw]) => typeOf(raw) ?? 'unlisted')
    expect(types).toEqual(events.map(([, type]) => type))
    const single = types.filter((type) => facts.test(type))
    expect(single).toEqual([...new Set(single)])
  },
)

test.each([
  ['charge.dispute.updated', 'needs_response', 'chargeback.evidence_required'],
  ['charge.dispute.updated', 'warning_needs_response', 'chargeback.evidence_required'],
  ['charge.dispute.updated', 'appeal_needs_response', 'chargeback.evidence_required'],
  ['charge.dispute.updated', 'under_review', 'chargeback.under_review'],
  ['charge.dispute.updated', 'warning_under_review', 'chargeback.under_review'],
  ['charge.dispute.updated', 'appeal_under_review', 'chargeback.under_review'],
  ['charge.dispute.updated', 'lost', 'chargeback.updated'],
  ['charge.dispute.updated', 'something_new', 'chargeback.updated'],
  ['charge.dispute.updated', 'constructor', 'chargeback.updated'],
  ['charge.dispute.closed', 'prevented', 'chargeback.closed'],
  ['refund.created', 'failed', 'refund.created'],
  ['refund.updated', 'succeeded', 'refund.updated'],
  ['customer.subscription.updated', 'past_due', 'subscription.updated'],
])('card types: %s with status %s and without `previous_attributes` becomes %s', (rawType, status, type) => {
  expect(typeOf([rawType, { status }])).toBe(type)
})
