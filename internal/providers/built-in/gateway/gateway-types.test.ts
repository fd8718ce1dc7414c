import { describe, expect, test } from 'bun:test'
import { BraintreeGateway, Environment } from 'braintree'
import { braintreeKinds } from '#test/support/intake/braintree-kinds.ts'
import { unlistedType } from '../../declared/event.ts'
import { eventTables } from '../tables.ts'
import { gateway } from './provider.ts'

const gatewayTypes = eventTables.gateway

type Report = readonly [kind: string, subject: Record<string, unknown>, type: string]

const typeOf = (kind: string, subject: Record<string, unknown>) =>
  gatewayTypes.typeOf(kind, { notification: { kind, subject } }) ?? unlistedType('gateway', kind)

/** Kinds that are left to `gateway.<kind>` on purpose. */
const fallbackKinds = [
  // Only checks that the URL works, and reports no fact.
  'check',
  // Deprecated by the vendor: `disbursement` reports the payout with its transactions.
  'transaction_disbursed',
]

describe('Braintree SDK', () => {
  const listed = new Set(gatewayTypes.cases.map(({ rawType }) => rawType))

  test('gateway: each kind of Braintree’s SDK is mapped to a type or listed as untyped, and no other kind occurs', () => {
    expect(braintreeKinds.length).toBeGreaterThan(40)
    expect([...listed, ...fallbackKinds].sort()).toEqual([...braintreeKinds].sort())
  })

  const vendor = new BraintreeGateway({
    environment: Environment.Sandbox,
    merchantId: 'integration_merchant_id',
    publicKey: 'public_key',
    privateKey: 'private_key',
  })
  /** The SDK has no sample of its own for these. */
  const unsampled = new Set<string>(['granted_payment_instrument_update'])
  const sampled = braintreeKinds.filter((kind) => listed.has(kind) && !unsampled.has(kind))

  test.each(sampled)('gateway: the example of %s has the `subject` of the SDK’s sample', async (kind) => {
    const sample = await vendor.webhookTesting.sampleNotification(kind, 'my_id')
    const event = gateway.normalize({
      body: Buffer.from(new URLSearchParams({ ...sample }).toString()),
      headers: new Headers(),
      settings: {},
      nowMs: 0,
      signatureAgeMsMax: 0,
    })
    const payload = event.kind === 'event' ? JSON.parse(event.payload) : event
    const samples = gatewayTypes.cases.filter(({ rawType }) => rawType === kind).map(gatewayTypes.sampleOf)
    expect(samples.map(subjectNames)).toEqual(samples.map(() => subjectNames(payload)))
  })
})

function subjectNames(payload: unknown): string[] {
  const { notification } = payload as { notification: { subject: object } }
  return Object.keys(notification.subject)
}

const succeeded = (success: string) => ({ disbursement: { success } })
const transaction = (type: string) => ({ transaction: { type } })
const renewal = { transaction: { type: 'sale', 'subscription-id': '2c4v52' } }

test.each<Report>([
  ['transaction_settled', transaction('sale'), 'payment.succeeded'],
  ['transaction_settled', { transaction: { type: 'sale', 'subscription-id': null } }, 'payment.succeeded'],
  ['transaction_settled', transaction('credit'), 'refund.succeeded'],
  [
    'transaction_settled',
    { transaction: { type: 'credit', 'subscription-id': '2c4v52' } },
    'refund.succeeded',
  ],
  ['transaction_settlement_declined', transaction('sale'), 'payment.failed'],
  ['transaction_settlement_declined', transaction('credit'), 'refund.failed'],
])('gateway: kind %s with subject %j becomes %s', (kind, subject, type) => {
  expect(typeOf(kind, subject)).toBe(type)
})

describe.each<[name: string, once: string, reports: readonly Report[]]>([
  [
    'a payment by direct debit',
    'payment.succeeded',
    [
      ['transaction_settled', transaction('sale'), 'payment.succeeded'],
      ['disbursement', succeeded('true'), 'payout.paid'],
      ['transaction_disbursed', {}, 'gateway.transaction_disbursed'],
    ],
  ],
  ['an instant local payment', 'payment.succeeded', [['local_payment_completed', {}, 'payment.succeeded']]],
  ['a local payment by voucher', 'payment.succeeded', [['local_payment_funded', {}, 'payment.succeeded']]],
  [
    'a renewal by card',
    'payment.succeeded',
    [['subscription_charged_successfully', {}, 'payment.succeeded']],
  ],
  [
    'a renewal by direct debit',
    'payment.succeeded',
    [
      ['subscription_charged_successfully', {}, 'payment.succeeded'],
      ['transaction_settled', renewal, 'payment.settled'],
    ],
  ],
  [
    'a renewal by direct debit whose settlement is declined',
    'payment.reversed',
    [
      ['subscription_charged_successfully', {}, 'payment.succeeded'],
      ['transaction_settlement_declined', renewal, 'payment.reversed'],
    ],
  ],
  [
    'a failed renewal',
    'subscription.payment_failed',
    [
      ['subscription_charged_unsuccessfully', {}, 'subscription.payment_failed'],
      ['subscription_went_past_due', {}, 'subscription.past_due'],
    ],
  ],
  [
    'a lost dispute',
    'chargeback.lost',
    [
      ['dispute_opened', {}, 'chargeback.created'],
      ['dispute_disputed', {}, 'chargeback.evidence_submitted'],
      ['dispute_under_review', {}, 'chargeback.under_review'],
      ['dispute_lost', {}, 'chargeback.lost'],
    ],
  ],
])('gateway: %s', (name, once, reports) => {
  test(`gateway: the events of ${name} get the expected types, with exactly one ${once}`, () => {
    const types = reports.map(([kind, subject]) => typeOf(kind, subject))
    expect(types).toEqual(reports.map(([, , type]) => type))
    expect(types.filter((type) => type === once)).toHaveLength(1)
  })
})
