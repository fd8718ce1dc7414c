import { describe, expect, test } from 'bun:test'
import { unlistedType } from '../../declared/event.ts'
import { eventTables } from '../tables.ts'

const walletTypes = eventTables.wallet

type Report = readonly [eventType: string, resource: unknown, type: string]

const typeOf = (eventType: string, resource: unknown) =>
  walletTypes.typeOf(eventType, { resource }) ?? unlistedType('wallet', eventType)

const outcome = (outcome_code: string) => ({ status: 'RESOLVED', dispute_outcome: { outcome_code } })
const subscriptionId = { billing_agreement_id: 'I-KV83MD0PXW2R' }

test.each<Report>([
  ['CUSTOMER.DISPUTE.UPDATED', { status: 'OPEN' }, 'chargeback.updated'],
  ['CUSTOMER.DISPUTE.UPDATED', { status: 'WAITING_FOR_SELLER_RESPONSE' }, 'chargeback.evidence_required'],
  ['CUSTOMER.DISPUTE.UPDATED', { status: 'WAITING_FOR_BUYER_RESPONSE' }, 'chargeback.updated'],
  ['CUSTOMER.DISPUTE.UPDATED', { status: 'UNDER_REVIEW' }, 'chargeback.under_review'],
  ['CUSTOMER.DISPUTE.UPDATED', outcome('RESOLVED_BUYER_FAVOUR'), 'chargeback.updated'],
  ['CUSTOMER.DISPUTE.UPDATED', { status: 'constructor' }, 'chargeback.updated'],
  ['CUSTOMER.DISPUTE.RESOLVED', outcome('RESOLVED_BUYER_FAVOUR'), 'chargeback.lost'],
  ['CUSTOMER.DISPUTE.RESOLVED', outcome('ACCEPTED'), 'chargeback.lost'],
  ['CUSTOMER.DISPUTE.RESOLVED', outcome('RESOLVED_SELLER_FAVOUR'), 'chargeback.won'],
  ['CUSTOMER.DISPUTE.RESOLVED', outcome('DENIED'), 'chargeback.won'],
  ['CUSTOMER.DISPUTE.RESOLVED', outcome('RESOLVED_WITH_PAYOUT'), 'chargeback.closed'],
  ['CUSTOMER.DISPUTE.RESOLVED', outcome('CANCELED_BY_BUYER'), 'chargeback.closed'],
  ['CUSTOMER.DISPUTE.RESOLVED', outcome('NONE'), 'chargeback.closed'],
  ['CUSTOMER.DISPUTE.RESOLVED', outcome('SOMETHING_NEW'), 'chargeback.closed'],
  ['CUSTOMER.DISPUTE.RESOLVED', outcome('toString'), 'chargeback.closed'],
  ['PAYMENT.CAPTURE.REFUNDED', { status: 'COMPLETED' }, 'refund.succeeded'],
  ['PAYMENT.CAPTURE.REFUNDED', { status: 'PENDING' }, 'refund.updated'],
  ['PAYMENT.CAPTURE.REFUNDED', { status: 'FAILED' }, 'refund.updated'],
  ['PAYMENT.CAPTURE.REFUNDED', { status: 'CANCELLED' }, 'refund.cancelled'],
  ['PAYMENT.CAPTURE.REFUNDED', { state: 'completed' }, 'refund.succeeded'],
  ['PAYMENT.CAPTURE.REFUNDED', { state: 'pending' }, 'refund.updated'],
  ['PAYMENT.CAPTURE.REFUNDED', { state: 'failed' }, 'refund.updated'],
  ['PAYMENT.CAPTURE.REFUNDED', { state: 'cancelled' }, 'refund.cancelled'],
  ['PAYMENT.SALE.REFUNDED', { state: 'completed' }, 'refund.succeeded'],
  ['PAYMENT.SALE.REFUNDED', { state: 'pending' }, 'refund.created'],
  ['PAYMENT.SALE.REFUNDED', { state: 'failed' }, 'refund.failed'],
  ['PAYMENT.SALE.REFUNDED', { state: 'cancelled' }, 'refund.cancelled'],
  ['PAYMENT.SALE.COMPLETED', subscriptionId, 'payment.succeeded'],
  ['PAYMENT.SALE.COMPLETED', { billing_agreement_id: null }, 'payment.succeeded'],
  ['INVOICING.INVOICE.PAID', { invoice: { status: 'PAID' } }, 'invoice.paid'],
  ['INVOICING.INVOICE.PAID', { invoice: { status: 'MARKED_AS_PAID' } }, 'invoice.paid'],
  ['INVOICING.INVOICE.PAID', { invoice: { status: 'PARTIALLY_PAID' } }, 'invoice.partially_paid'],
  ['INVOICING.INVOICE.PAID', { status: 'PAYMENT_PENDING' }, 'invoice.payment_processing'],
])('wallet: event %s with resource %j becomes %s', (eventType, resource, type) => {
  expect(typeOf(eventType, resource)).toBe(type)
})

test('wallet: a dispute without a status or an outcome still has a type', () => {
  for (const resource of [undefined, null, [], 'a', { status: 1 }, { dispute_outcome: [] }]) {
    expect(typeOf('CUSTOMER.DISPUTE.UPDATED', resource)).toBe('chargeback.updated')
    expect(typeOf('CUSTOMER.DISPUTE.RESOLVED', resource)).toBe('chargeback.closed')
  }
})

describe.each<[name: string, once: string, reports: readonly Report[]]>([
  [
    'a payment',
    'payment.succeeded',
    [
      ['CHECKOUT.ORDER.APPROVED', { status: 'APPROVED' }, 'order.approved'],
      ['PAYMENT.CAPTURE.COMPLETED', { status: 'COMPLETED' }, 'payment.succeeded'],
      ['CHECKOUT.ORDER.COMPLETED', { status: 'COMPLETED' }, 'order.paid'],
    ],
  ],
  [
    'a payment that is captured after its authorization and pending at first',
    'payment.succeeded',
    [
      ['PAYMENT.AUTHORIZATION.CREATED', { status: 'CREATED' }, 'payment.authorized'],
      ['PAYMENT.CAPTURE.PENDING', { status: 'PENDING' }, 'payment.processing'],
      ['PAYMENT.CAPTURE.COMPLETED', { status: 'COMPLETED' }, 'payment.succeeded'],
    ],
  ],
  [
    'a payment of version 1',
    'payment.succeeded',
    [
      ['PAYMENTS.PAYMENT.CREATED', { state: 'created' }, 'payment.created'],
      ['PAYMENT.SALE.PENDING', { state: 'pending' }, 'payment.processing'],
      ['PAYMENT.SALE.COMPLETED', { state: 'completed' }, 'payment.succeeded'],
    ],
  ],
  [
    'a refund',
    'refund.succeeded',
    [['PAYMENT.CAPTURE.REFUNDED', { status: 'COMPLETED' }, 'refund.succeeded']],
  ],
  [
    'a refund that is pending at first',
    'refund.succeeded',
    [
      ['PAYMENT.REFUND.PENDING', { status: 'PENDING' }, 'refund.created'],
      ['PAYMENT.CAPTURE.REFUNDED', { status: 'PENDING' }, 'refund.updated'],
      ['PAYMENT.CAPTURE.REFUNDED', { status: 'COMPLETED' }, 'refund.succeeded'],
    ],
  ],
  [
    'a refund that fails',
    'refund.failed',
    [
      ['PAYMENT.REFUND.PENDING', { status: 'PENDING' }, 'refund.created'],
      ['PAYMENT.REFUND.FAILED', { status: 'FAILED' }, 'refund.failed'],
      ['PAYMENT.CAPTURE.REFUNDED', { status: 'FAILED' }, 'refund.updated'],
    ],
  ],
  [
    'a new subscription with its first charge',
    'payment.succeeded',
    [
      ['BILLING.SUBSCRIPTION.CREATED', { status: 'APPROVAL_PENDING' }, 'subscription.created'],
      ['BILLING.SUBSCRIPTION.ACTIVATED', { status: 'ACTIVE' }, 'subscription.activated'],
      ['PAYMENT.SALE.COMPLETED', subscriptionId, 'payment.succeeded'],
    ],
  ],
  [
    'a renewal that is pending at first',
    'payment.succeeded',
    [
      ['PAYMENT.SALE.PENDING', subscriptionId, 'payment.processing'],
      ['PAYMENT.SALE.COMPLETED', subscriptionId, 'payment.succeeded'],
    ],
  ],
  [
    'a failed renewal',
    'subscription.payment_failed',
    [
      ['PAYMENT.SALE.PENDING', subscriptionId, 'payment.processing'],
      ['PAYMENT.SALE.DENIED', subscriptionId, 'payment.failed'],
      ['BILLING.SUBSCRIPTION.PAYMENT.FAILED', {}, 'subscription.payment_failed'],
      ['BILLING.SUBSCRIPTION.SUSPENDED', { status: 'SUSPENDED' }, 'subscription.paused'],
    ],
  ],
  [
    'a lost dispute',
    'chargeback.lost',
    [
      ['CUSTOMER.DISPUTE.CREATED', { status: 'OPEN' }, 'chargeback.created'],
      ['RISK.DISPUTE.CREATED', { status: 'OPEN' }, 'chargeback.updated'],
      ['CUSTOMER.DISPUTE.UPDATED', { status: 'WAITING_FOR_SELLER_RESPONSE' }, 'chargeback.evidence_required'],
      ['CUSTOMER.DISPUTE.UPDATED', { status: 'UNDER_REVIEW' }, 'chargeback.under_review'],
      ['CUSTOMER.DISPUTE.UPDATED', outcome('RESOLVED_BUYER_FAVOUR'), 'chargeback.updated'],
      ['CUSTOMER.DISPUTE.RESOLVED', outcome('RESOLVED_BUYER_FAVOUR'), 'chargeback.lost'],
    ],
  ],
  [
    'a batch of payouts',
    'payout.paid',
    [
      ['PAYMENT.PAYOUTSBATCH.PROCESSING', {}, 'payout.batch_processing'],
      ['PAYMENT.PAYOUTS-ITEM.SUCCEEDED', {}, 'payout.paid'],
      ['PAYMENT.PAYOUTSBATCH.SUCCESS', {}, 'payout.batch_paid'],
    ],
  ],
  [
    'a connected seller',
    'app.authorized',
    [
      ['CUSTOMER.MERCHANT-INTEGRATION.SELLER-ONBOARDING-INITIATED', {}, 'account.onboarding_started'],
      ['CUSTOMER.MERCHANT-INTEGRATION.SELLER-CONSENT-GRANTED', {}, 'app.authorized'],
      ['MERCHANT.ONBOARDING.COMPLETED', {}, 'account.onboarded'],
    ],
  ],
])('wallet: %s', (name, once, reports) => {
  test(`wallet: the events of ${name} get the expected types, with exactly one ${once}`, () => {
    const types = reports.map(([eventType, resource]) => typeOf(eventType, resource))
    expect(types).toEqual(reports.map(([, , type]) => type))
    expect(types.filter((type) => type === once)).toHaveLength(1)
  })
})

test('wallet: the table has at least 80 event names in PayPal’s form', () => {
  const names = new Set(walletTypes.cases.map(({ rawType }) => rawType))
  expect(names.size).toBeGreaterThanOrEqual(80)
  expect([...names].filter((name) => !/^[A-Z]+(\.[A-Z-]+){2,3}$/.test(name))).toEqual([])
})
