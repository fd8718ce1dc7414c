import { describe, expect, test } from 'bun:test'
import { unlistedType } from '../../declared/event.ts'
import { eventTables } from '../tables.ts'

const storefrontTypes = eventTables.storefront

type Report = readonly [topic: string, members: Record<string, unknown>, type: string]

const typeOf = (topic: string, body: Record<string, unknown>) =>
  storefrontTypes.typeOf(topic, body) ?? unlistedType('storefront', topic)

const transaction = 'order_transactions/create'

test.each<Report>([
  ['disputes/create', { status: 'needs_response' }, 'chargeback.created'],
  ['disputes/update', { status: 'needs_response' }, 'chargeback.evidence_required'],
  ['disputes/update', { status: 'under_review' }, 'chargeback.under_review'],
  ['disputes/update', { status: 'won' }, 'chargeback.won'],
  ['disputes/update', { status: 'lost' }, 'chargeback.lost'],
  ['disputes/update', { status: 'accepted' }, 'chargeback.lost'],
  ['disputes/update', { status: 'charge_refunded' }, 'chargeback.closed'],
  ['disputes/update', { status: 'prevented' }, 'chargeback.closed'],
  ['disputes/update', {}, 'chargeback.updated'],
  [transaction, { kind: 'authorization', status: 'success' }, 'payment.authorized'],
  [transaction, { kind: 'authorization', status: 'failure' }, 'payment.failed'],
  [transaction, { kind: 'emv_authorization', status: 'success' }, 'payment.authorized'],
  [transaction, { kind: 'sale', status: 'success' }, 'payment.succeeded'],
  [transaction, { kind: 'sale', status: 'error' }, 'payment.failed'],
  [transaction, { kind: 'sale', status: 'pending' }, 'payment.processing'],
  [transaction, { kind: 'capture', status: 'success' }, 'payment.succeeded'],
  [transaction, { kind: 'capture', status: 'failure' }, 'payment.failed'],
  [transaction, { kind: 'void', status: 'success' }, 'payment.cancelled'],
  [transaction, { kind: 'void', status: 'failure' }, 'storefront.order_transactions.create'],
  [transaction, { kind: 'refund', status: 'success' }, 'refund.succeeded'],
  [transaction, { kind: 'refund', status: 'failure' }, 'refund.failed'],
  [transaction, { kind: 'refund', status: 'pending' }, 'refund.updated'],
  [transaction, { kind: 'change', status: 'success' }, 'storefront.order_transactions.create'],
  [transaction, {}, 'storefront.order_transactions.create'],
  ['fulfillments/update', { status: 'cancelled' }, 'fulfillment.cancelled'],
  ['fulfillments/update', { status: 'error' }, 'fulfillment.failed'],
  ['fulfillments/update', { status: 'success' }, 'fulfillment.updated'],
  ['fulfillment_events/create', { status: 'delivered' }, 'shipment.delivered'],
  ['fulfillment_events/create', { status: 'failure' }, 'shipment.failed'],
  ['fulfillment_events/create', { status: 'in_transit' }, 'shipment.updated'],
  ['bulk_operations/finish', { status: 'completed' }, 'bulk_operation.completed'],
  ['bulk_operations/finish', { status: 'expired' }, 'bulk_operation.failed'],
  ['bulk_operations/finish', { status: 'running' }, 'storefront.bulk_operations.finish'],
])('storefront: topic %s with %j becomes %s', (topic, body, type) => {
  expect(typeOf(topic, body)).toBe(type)
})

describe.each<[name: string, once: string, reports: readonly Report[]]>([
  [
    'a paid order',
    'payment.succeeded',
    [
      ['checkouts/create', {}, 'checkout.created'],
      ['checkouts/update', {}, 'checkout.updated'],
      ['orders/create', { financial_status: 'pending' }, 'order.created'],
      [transaction, { kind: 'sale', status: 'success' }, 'payment.succeeded'],
      ['tender_transactions/create', { amount: '55.37' }, 'tender_transaction.created'],
      ['orders/paid', { financial_status: 'paid' }, 'order.paid'],
      ['orders/updated', { financial_status: 'paid' }, 'order.updated'],
    ],
  ],
  [
    'an order that is captured after its authorization',
    'payment.succeeded',
    [
      ['orders/create', { financial_status: 'authorized' }, 'order.created'],
      [transaction, { kind: 'authorization', status: 'success' }, 'payment.authorized'],
      [transaction, { kind: 'capture', status: 'success' }, 'payment.succeeded'],
      ['tender_transactions/create', { amount: '55.37' }, 'tender_transaction.created'],
      ['orders/paid', { financial_status: 'paid' }, 'order.paid'],
    ],
  ],
  [
    'a refund',
    'refund.succeeded',
    [
      ['refunds/create', { transactions: [{ kind: 'refund', status: 'success' }] }, 'refund.created'],
      [transaction, { kind: 'refund', status: 'success' }, 'refund.succeeded'],
      ['tender_transactions/create', { amount: '-27.69' }, 'tender_transaction.created'],
      ['orders/updated', { financial_status: 'partially_refunded' }, 'order.updated'],
    ],
  ],
  [
    'a refund whose money is pending at first',
    'refund.succeeded',
    [
      ['refunds/create', { transactions: [{ kind: 'refund', status: 'pending' }] }, 'refund.created'],
      [transaction, { kind: 'refund', status: 'pending' }, 'refund.updated'],
      [transaction, { kind: 'refund', status: 'success' }, 'refund.succeeded'],
    ],
  ],
  [
    'a renewal of a subscription',
    'subscription.payment_succeeded',
    [
      ['subscription_billing_attempts/success', { order_id: 1 }, 'subscription.payment_succeeded'],
      ['orders/create', {}, 'order.created'],
      [transaction, { kind: 'sale', status: 'success' }, 'payment.succeeded'],
      ['orders/paid', {}, 'order.paid'],
      ['subscription_contracts/update', { status: 'active' }, 'subscription.updated'],
    ],
  ],
  [
    'a failed renewal',
    'subscription.payment_failed',
    [
      ['subscription_billing_attempts/challenged', {}, 'subscription.payment_action_required'],
      [
        'subscription_billing_attempts/failure',
        { error_code: 'insufficient_funds' },
        'subscription.payment_failed',
      ],
      ['subscription_contracts/update', { status: 'active' }, 'subscription.updated'],
    ],
  ],
  [
    'a lost dispute',
    'chargeback.lost',
    [
      ['disputes/create', { status: 'needs_response' }, 'chargeback.created'],
      ['disputes/update', { status: 'under_review' }, 'chargeback.under_review'],
      ['disputes/update', { status: 'lost' }, 'chargeback.lost'],
    ],
  ],
  [
    'an edited order',
    'order.edited',
    [
      ['orders/edited', {}, 'order.edited'],
      ['orders/updated', {}, 'order.updated'],
    ],
  ],
])('storefront: %s', (name, once, reports) => {
  test(`storefront: the events of ${name} get the expected types, with exactly one ${once}`, () => {
    const types = reports.map(([topic, body]) => typeOf(topic, body))
    expect(types).toEqual(reports.map(([, , type]) => type))
    expect(types.filter((type) => type === once)).toHaveLength(1)
  })
})

test('storefront: the table has at least 180 topics in Shopify’s form', () => {
  const topics = new Set(storefrontTypes.cases.map(({ rawType }) => rawType))
  expect(topics.size).toBeGreaterThanOrEqual(180)
  const odd = [...topics].filter((topic) => !/^([a-z_]+|[A-Z][A-Za-z]+)[/.][a-z_]+$/.test(topic))
  expect(odd).toEqual([])
})
