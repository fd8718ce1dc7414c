import type { JsonObject } from '../../normalize.ts'

const timestamp = '2026-11-12T18:23:29Z'
const transaction = {
  id: 'c7kd39vx',
  type: 'sale',
  amount: '250.00',
  'currency-iso-code': 'USD',
  'order-id': 'order-8841',
  'merchant-account-id': 'shop_usd',
  'payment-instrument-type': 'us_bank_account',
  'created-at': '2026-11-08T10:11:12Z',
  'updated-at': timestamp,
}
const dispute = {
  id: 'kq4vz82m7xw9',
  kind: 'chargeback',
  reason: 'fraud',
  amount: '250.00',
  'amount-disputed': '250.00',
  'currency-iso-code': 'USD',
  'received-date': '2026-11-01',
  'reply-by-date': '2026-11-21',
  'date-opened': '2026-11-01',
  transaction: { id: 'c7kd39vx', amount: '250.00' },
}
const subscription = {
  id: '2c4v52',
  'plan-id': 'monthly',
  status: 'Active',
  price: '25.00',
  'payment-method-token': 'h34qj62',
  'billing-day-of-month': '12',
  'current-billing-cycle': '3',
  'next-billing-date': '2026-12-12',
  transactions: [{ id: 'c7kd39vx', status: 'submitted_for_settlement', amount: '25.00' }],
  'add-ons': [],
  discounts: [],
}
const localPayment = {
  'payment-id': 'PAYID-M5T3KXQ9VJ40122DR672913K',
  'payment-method-nonce': 'ee257d98-de40-47e8-96b3-a6954ea7a9a4',
  bic: 'INGBNL2A',
  'iban-last-chars': '4300',
  'payer-id': 'QYR5Z8XDVJNXQ',
  transaction: { id: 'c7kd39vx', status: 'settling', amount: '48.50', 'order-id': 'order-8841' },
}
const localPaymentReference = {
  'payment-id': 'PAYID-M5T3KXQ9VJ40122DR672913K',
  'payment-context-id': 'cGF5bWVudGNvbnRleHRfMQ',
}
const disbursement = {
  id: '456',
  success: 'true',
  retry: 'false',
  amount: '100.00',
  'disbursement-date': '2026-11-10',
  'transaction-ids': ['c7kd39vx', 'kj8hjk'],
  'exception-message': null,
  'follow-up-action': null,
  'merchant-account': { id: 'shop_usd', 'currency-iso-code': 'USD', status: 'active' },
}
const account = {
  token: 'h34qj62',
  'customer-id': '4029352050',
  default: 'true',
  'created-at': '2026-01-10T12:00:00Z',
  'updated-at': timestamp,
  'image-url': 'https://assets.example.com/payment_method.png',
}
const grantedUpdate = {
  'grant-owner-merchant-id': 'vczo7jqrpwrsi2px',
  'grant-recipient-merchant-id': 'cf0i8wgarszuy6hc',
  'payment-method-nonce': {
    nonce: 'ee257d98-de40-47e8-96b3-a6954ea7a9a4',
    consumed: 'false',
    locked: 'false',
  },
  token: 'h34qj62',
  'updated-fields': ['expiration-month', 'expiration-year'],
}
const partnerMerchant = { 'partner-merchant-id': 'shop-311', 'merchant-public-id': 'cf0i8wgarszuy6hc' }
const application = { 'oauth-application-client-id': 'client_id$production$k4tq2z8pd7wve' }

/** Subjects by kind; kinds of disputes and subscriptions have a subject in common. */
const subjects: Readonly<Record<string, JsonObject>> = {
  transaction_settled: { transaction: { ...transaction, status: 'settled' } },
  transaction_settlement_declined: { transaction: { ...transaction, status: 'settlement_declined' } },
  transaction_retried: {
    transaction: { ...transaction, status: 'submitted_for_settlement', 'retried-transaction-id': 'kj8hjk' },
  },
  transaction_reviewed: {
    'transaction-review': {
      'transaction-id': 'c7kd39vx',
      decision: 'approve',
      'reviewer-email': 'reviewer@example.com',
      'reviewer-note': 'Known customer',
      'reviewed-time': timestamp,
    },
  },
  refund_failed: {
    transaction: {
      ...transaction,
      type: 'credit',
      status: 'processor_declined',
      'refunded-transaction-id': 'kj8hjk',
    },
  },
  local_payment_completed: { 'local-payment': localPayment },
  local_payment_expired: { 'local-payment-expired': localPaymentReference },
  local_payment_funded: {
    'local-payment-funded': { ...localPaymentReference, transaction: localPayment.transaction },
  },
  local_payment_reversed: { 'local-payment-reversed': localPaymentReference },
  disbursement: { disbursement },
  payment_method_customer_data_updated: {
    'payment-method-customer-data-updated-metadata': {
      token: 'h34qj62',
      'datetime-updated': timestamp,
      'payment-method': { 'venmo-account': account },
      'enriched-customer-data': {
        'fields-updated': ['email'],
        'profile-data': { email: 'buyer@example.com' },
      },
    },
  },
  payment_method_revoked_by_customer: {
    'paypal-account': {
      ...account,
      email: 'buyer@example.com',
      'billing-agreement-id': 'B-7MB23847HJ510322A',
      'payer-id': 'QYR5Z8XDVJNXQ',
      'revoked-at': timestamp,
    },
  },
  account_updater_daily_report: {
    'account-updater-daily-report': {
      'report-date': '2026-11-11',
      'report-url': 'https://reports.example.com/account-updater-2026-11-11.csv',
    },
  },
  granted_payment_method_revoked: { 'venmo-account': account },
  granted_payment_instrument_update: { 'granted-payment-instrument-update': grantedUpdate },
  grantor_updated_granted_payment_method: { 'granted-payment-instrument-update': grantedUpdate },
  recipient_updated_granted_payment_method: { 'granted-payment-instrument-update': grantedUpdate },
  connected_merchant_status_transitioned: {
    'connected-merchant-status-transitioned': {
      ...application,
      'merchant-public-id': 'cf0i8wgarszuy6hc',
      status: 'approved',
    },
  },
  connected_merchant_paypal_status_changed: {
    'connected-merchant-paypal-status-changed': {
      ...application,
      'merchant-public-id': 'cf0i8wgarszuy6hc',
      action: 'link',
    },
  },
  partner_merchant_connected: { 'partner-merchant': partnerMerchant },
  partner_merchant_disconnected: { 'partner-merchant': partnerMerchant },
  partner_merchant_declined: { 'partner-merchant': partnerMerchant },
  oauth_access_revoked: {
    'oauth-application-revocation': { ...application, 'merchant-id': 'cf0i8wgarszuy6hc' },
  },
}

/** Returns a payload of the vendor's shape for a kind. */
export function gatewaySample(kind: string): JsonObject {
  return { notification: { timestamp, kind, subject: subjects[kind] ?? sharedSubject(kind) } }
}

function sharedSubject(kind: string): JsonObject {
  if (!kind.startsWith('dispute_')) return { subscription }
  const status = kind.slice('dispute_'.length)
  return { dispute: { ...dispute, status: status === 'opened' ? 'open' : status } }
}
