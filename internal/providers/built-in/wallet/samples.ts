import type { JsonObject } from '../../normalize.ts'

const createTime = '2026-11-10T13:36:33.120Z'
const api = 'https://api.paypal.com'
const usd = (value: string) => ({ currency_code: 'USD', value })
/** Amount of version 1 of the vendor's payments. */
const total = (value: string) => ({ total: value, currency: 'USD', details: { subtotal: value } })
const link = (rel: string, path: string, method = 'GET') => ({ href: `${api}${path}`, rel, method })
const times = { create_time: '2026-11-10T13:36:28Z', update_time: '2026-11-10T13:36:28Z' }
const payee = { email_address: 'shop@example.com', merchant_id: 'K4TQ2Z8PD7WVE' }
const related = {
  related_ids: { order_id: '7XD41829LK3059432', authorization_id: '3RB60917UX228415J' },
}

const payment = {
  amount: usd('48.50'),
  invoice_id: 'INV-20417',
  custom_id: 'order-8841',
  payee,
  supplementary_data: related,
  ...times,
}
const authorization = {
  id: '3RB60917UX228415J',
  status: 'CREATED',
  ...payment,
  expiration_time: '2026-12-09T13:36:28Z',
  links: [link('self', '/v2/payments/authorizations/3RB60917UX228415J')],
}
const capture = {
  id: '9HN55203WB418762A',
  status: 'COMPLETED',
  final_capture: true,
  ...payment,
  seller_protection: { status: 'ELIGIBLE', dispute_categories: ['ITEM_NOT_RECEIVED'] },
  seller_receivable_breakdown: {
    gross_amount: usd('48.50'),
    paypal_fee: usd('2.18'),
    net_amount: usd('46.32'),
  },
  links: [
    link('self', '/v2/payments/captures/9HN55203WB418762A'),
    link('refund', '/v2/payments/captures/9HN55203WB418762A/refund', 'POST'),
  ],
}
const refund = {
  id: '1JU08902781691411',
  status: 'COMPLETED',
  amount: usd('12.00'),
  ...times,
  invoice_id: 'INV-20417',
  note_to_payer: 'One item was out of stock',
  seller_payable_breakdown: {
    gross_amount: usd('12.00'),
    paypal_fee: usd('0.00'),
    net_amount: usd('12.00'),
    total_refunded_amount: usd('12.00'),
  },
  links: [
    link('self', '/v2/payments/refunds/1JU08902781691411'),
    link('up', '/v2/payments/captures/9HN55203WB418762A'),
  ],
}
const sale = {
  id: '5CP38179XL895402Y',
  state: 'completed',
  amount: total('19.90'),
  payment_mode: 'INSTANT_TRANSFER',
  protection_eligibility: 'ELIGIBLE',
  transaction_fee: { value: '0.99', currency: 'USD' },
  billing_agreement_id: 'I-KV83MD0PXW2R',
  invoice_number: 'INV-20418',
  custom: 'order-8842',
  ...times,
  links: [link('self', '/v1/payments/sale/5CP38179XL895402Y')],
}
const saleRefund = {
  id: '6YX43824R4443062K',
  state: 'completed',
  amount: total('19.90'),
  sale_id: '5CP38179XL895402Y',
  parent_payment: 'PAYID-M5T3KXQ9VJ40122DR672913K',
  ...times,
  links: [link('sale', '/v1/payments/sale/5CP38179XL895402Y')],
}
const order = {
  id: '7XD41829LK3059432',
  status: 'APPROVED',
  intent: 'CAPTURE',
  ...times,
  payer: { payer_id: 'QYR5Z8XDVJNXQ', email_address: 'buyer@example.com', address: { country_code: 'US' } },
  purchase_units: [
    {
      reference_id: 'default',
      custom_id: 'order-8841',
      invoice_id: 'INV-20417',
      amount: usd('48.50'),
      payee,
    },
  ],
  links: [link('self', '/v2/checkout/orders/7XD41829LK3059432')],
}
const paymentOrder = {
  id: 'O-1HE90236LH9332431',
  state: 'pending',
  amount: total('48.50'),
  ...times,
  parent_payment: 'PAYID-M5T3KXQ9VJ40122DR672913K',
  pending_reason: 'order',
  links: [link('self', '/v1/payments/orders/O-1HE90236LH9332431')],
}
const dispute = {
  dispute_id: 'PP-R-KTM-10092468',
  status: 'OPEN',
  reason: 'MERCHANDISE_OR_SERVICE_NOT_RECEIVED',
  ...times,
  disputed_transactions: [
    {
      seller_transaction_id: '9HN55203WB418762A',
      invoice_number: 'INV-20417',
      items: [],
      seller_protection_eligible: true,
      buyer: { name: 'Test Buyer' },
    },
  ],
  dispute_amount: usd('48.50'),
  dispute_life_cycle_stage: 'INQUIRY',
  dispute_channel: 'INTERNAL',
  seller_response_due_date: '2026-11-20T13:36:28Z',
  links: [link('self', '/v1/customer/disputes/PP-R-KTM-10092468')],
}
const resolvedDispute = {
  ...dispute,
  status: 'RESOLVED',
  dispute_life_cycle_stage: 'CHARGEBACK',
  dispute_outcome: { outcome_code: 'RESOLVED_BUYER_FAVOUR' },
}
const payoutBatch = {
  batch_header: {
    payout_batch_id: 'Q8KVJG9TZTNN4',
    batch_status: 'SUCCESS',
    time_created: '2026-11-10T13:30:00Z',
    sender_batch_header: { sender_batch_id: 'payouts-2026-11-10' },
    amount: { currency: 'USD', value: '120.00' },
    fees: { currency: 'USD', value: '0.75' },
    payments: 3,
  },
  links: [link('self', '/v1/payments/payouts/Q8KVJG9TZTNN4')],
}
const payoutItem = {
  payout_item_id: '8AELMXH8UB2P8',
  payout_batch_id: 'Q8KVJG9TZTNN4',
  transaction_id: '0C413693MN970190K',
  transaction_status: 'SUCCESS',
  payout_item_fee: { currency: 'USD', value: '0.25' },
  payout_item: {
    recipient_type: 'EMAIL',
    receiver: 'seller@example.com',
    sender_item_id: 'payout-311',
    amount: { currency: 'USD', value: '40.00' },
    note: 'October sales',
  },
  time_processed: '2026-11-10T13:36:20Z',
  links: [link('self', '/v1/payments/payouts-item/8AELMXH8UB2P8')],
}
const referencedPayout = {
  item_id: 'VUV5QYQ6VJ3S4',
  reference_id: '9HN55203WB418762A',
  reference_type: 'TRANSACTION_ID',
  processing_state: { status: 'SUCCESS' },
  payout_transaction_id: '0C413693MN970190K',
  payout_amount: usd('46.32'),
  payout_destination: 'K4TQ2Z8PD7WVE',
  links: [link('self', '/v1/payments/referenced-payouts-items/VUV5QYQ6VJ3S4')],
}
const subscription = {
  id: 'I-KV83MD0PXW2R',
  plan_id: 'P-3RX65294TB0185427NEQVW7A',
  status: 'ACTIVE',
  quantity: '1',
  custom_id: 'account-311',
  start_time: '2026-10-10T13:30:00Z',
  ...times,
  subscriber: { payer_id: 'QYR5Z8XDVJNXQ', email_address: 'buyer@example.com' },
  billing_info: {
    outstanding_balance: usd('0.00'),
    failed_payments_count: 0,
    last_payment: { amount: usd('19.90'), time: '2026-11-10T13:36:28Z' },
    next_billing_time: '2026-12-10T10:00:00Z',
  },
  links: [link('self', '/v1/billing/subscriptions/I-KV83MD0PXW2R')],
}
const plan = {
  id: 'P-3RX65294TB0185427NEQVW7A',
  product_id: 'PROD-6XB24663H4094933M',
  name: 'Monthly',
  status: 'ACTIVE',
  billing_cycles: [
    {
      tenure_type: 'REGULAR',
      sequence: 1,
      total_cycles: 0,
      frequency: { interval_unit: 'MONTH', interval_count: 1 },
      pricing_scheme: { version: 1, fixed_price: usd('19.90') },
    },
  ],
  payment_preferences: { auto_bill_outstanding: true, payment_failure_threshold: 2 },
  ...times,
  links: [link('self', '/v1/billing/plans/P-3RX65294TB0185427NEQVW7A')],
}
const product = {
  id: 'PROD-6XB24663H4094933M',
  name: 'Video streaming',
  type: 'SERVICE',
  category: 'SOFTWARE',
  ...times,
  links: [link('self', '/v1/catalogs/products/PROD-6XB24663H4094933M')],
}
const invoice = {
  invoice: {
    id: 'INV2-7TQK-V4ZB-93MD-XW2R',
    status: 'PAID',
    detail: {
      invoice_number: 'INV-20419',
      invoice_date: '2026-11-10',
      currency_code: 'USD',
      payment_term: { term_type: 'NET_30', due_date: '2026-12-10' },
    },
    primary_recipients: [{ billing_info: { email_address: 'buyer@example.com' } }],
    amount: usd('250.00'),
    due_amount: usd('0.00'),
    payments: { paid_amount: usd('250.00') },
  },
  links: [link('self', '/v2/invoicing/invoices/INV2-7TQK-V4ZB-93MD-XW2R')],
}
const paymentToken = {
  id: '8kk84516ms9',
  customer: { id: '4029352050' },
  metadata: { order_id: '7XD41829LK3059432' },
  ...times,
  payment_source: {
    paypal: { email_address: 'buyer@example.com', payer_id: 'QYR5Z8XDVJNXQ', usage_type: 'MERCHANT' },
  },
  links: [link('self', '/v3/vault/payment-tokens/8kk84516ms9')],
}
const creditCard = {
  id: 'CARD-5JN24663H4094933MK4TQ2Z8',
  state: 'ok',
  type: 'visa',
  number: 'xxxxxxxxxxxx1111',
  expire_month: '11',
  expire_year: '2029',
  external_customer_id: 'account-311',
  ...times,
  links: [link('self', '/v1/vault/credit-cards/CARD-5JN24663H4094933MK4TQ2Z8')],
}
const merchant = {
  merchant_id: 'FB3H9M68WXE64',
  tracking_id: 'seller-311',
  partner_client_id: 'AbCq7hxfVnUeukJ',
  links: [link('self', '/v1/customer/partners/MNM67HV7V3H8Q/merchant-integrations/FB3H9M68WXE64')],
}
const managedAccount = {
  account_id: 'FB3H9M68WXE64',
  external_id: 'seller-311',
  legal_country_code: 'US',
  primary_currency_code: 'USD',
  organization: 'default',
  links: [link('self', '/v3/customer/managed-accounts/FB3H9M68WXE64')],
}
const limitation = {
  account_id: 'FB3H9M68WXE64',
  external_id: 'seller-311',
  limitations: [
    { name: 'WITHDRAW_FUNDS', restrictions: ['WITHDRAW_MONEY'], reason: 'IDENTITY_VERIFICATION' },
  ],
  links: [link('self', '/v3/customer/managed-accounts/FB3H9M68WXE64')],
}
const v1Payment = {
  id: 'PAYID-M5T3KXQ9VJ40122DR672913K',
  intent: 'sale',
  state: 'created',
  ...times,
  payer: { payment_method: 'paypal', status: 'VERIFIED', payer_info: { payer_id: 'QYR5Z8XDVJNXQ' } },
  transactions: [{ amount: total('48.50'), invoice_number: 'INV-20417' }],
  links: [link('execute', '/v1/payments/payment/PAYID-M5T3KXQ9VJ40122DR672913K/execute', 'POST')],
}
const consent = { payer_id: 'QYR5Z8XDVJNXQ', client_id: 'AbCq7hxfVnUeukJ', scopes: ['openid', 'email'] }

/** Resources by the beginning of an event name; the first that fits applies. */
const resources: readonly (readonly [prefix: string, resourceType: string, resource: JsonObject])[] = [
  ['PAYMENT.AUTHORIZATION.', 'authorization', authorization],
  ['PAYMENT.CAPTURE.REFUNDED', 'refund', refund],
  ['PAYMENT.CAPTURE.', 'capture', capture],
  ['PAYMENT.REFUND.', 'refund', refund],
  ['PAYMENT.SALE.REFUNDED', 'refund', saleRefund],
  ['PAYMENT.SALE.', 'sale', sale],
  ['PAYMENT.ORDER.', 'order', paymentOrder],
  ['PAYMENT.PAYOUTSBATCH.', 'payouts', payoutBatch],
  ['PAYMENT.PAYOUTS-ITEM.', 'payouts_item', payoutItem],
  ['PAYMENT.REFERENCED-PAYOUT-ITEM.', 'referenced_payout_item', referencedPayout],
  ['PAYMENTS.PAYMENT.', 'payment', v1Payment],
  ['CHECKOUT.CHECKOUT.', 'payment', v1Payment],
  ['CHECKOUT.', 'checkout-order', order],
  ['CUSTOMER.DISPUTE.RESOLVED', 'dispute', resolvedDispute],
  ['CUSTOMER.DISPUTE.', 'dispute', dispute],
  ['RISK.DISPUTE.', 'dispute', dispute],
  ['BILLING.SUBSCRIPTION.', 'subscription', subscription],
  ['BILLING.PLAN.', 'plan', plan],
  ['CATALOG.PRODUCT.', 'product', product],
  ['INVOICING.', 'invoices', invoice],
  ['VAULT.PAYMENT-TOKEN.', 'payment_token', paymentToken],
  ['VAULT.CREDIT-CARD.', 'credit_card', creditCard],
  ['CUSTOMER.MANAGED-ACCOUNT.', 'managed-account', managedAccount],
  ['CUSTOMER.ACCOUNT-LIMITATION.', 'account-limitation', limitation],
  ['CUSTOMER.MERCHANT-INTEGRATION.', 'merchant-integration', merchant],
  ['MERCHANT.PARTNER-CONSENT.', 'partner-consent', merchant],
  ['MERCHANT.', 'merchant-onboarding', merchant],
  ['IDENTITY.', 'authorization_consent_revoked', consent],
]

/** Versions of resources that have one. */
const versions: Readonly<Record<string, string>> = {
  authorization: '2.0',
  capture: '2.0',
  'checkout-order': '2.0',
  invoices: '2.0',
  payment_token: '3.0',
  plan: '2.0',
  subscription: '2.0',
}

/** Status that the vendor gives a resource with an event. */
const statuses: Readonly<Record<string, JsonObject>> = {
  'PAYMENT.AUTHORIZATION.VOIDED': { status: 'VOIDED' },
  'PAYMENT.CAPTURE.PENDING': { status: 'PENDING', status_details: { reason: 'ECHECK' } },
  'PAYMENT.CAPTURE.DECLINED': { status: 'DECLINED' },
  'PAYMENT.CAPTURE.DENIED': { status: 'DECLINED' },
  'PAYMENT.REFUND.PENDING': { status: 'PENDING', status_details: { reason: 'ECHECK' } },
  'PAYMENT.REFUND.FAILED': { status: 'FAILED' },
  'PAYMENT.SALE.PENDING': { state: 'pending', payment_mode: 'ECHECK', reason_code: 'ECHECK' },
  'PAYMENT.SALE.DENIED': { state: 'denied' },
  'PAYMENT.SALE.REVERSED': { state: 'reversed' },
  'PAYMENT.ORDER.CANCELLED': { state: 'voided' },
  'CHECKOUT.ORDER.PROCESSED': { status: 'COMPLETED' },
  'CHECKOUT.ORDER.COMPLETED': { status: 'COMPLETED' },
  'CHECKOUT.ORDER.VOIDED': { status: 'VOIDED' },
  'PAYMENT.PAYOUTS-ITEM.BLOCKED': { transaction_status: 'BLOCKED' },
  'PAYMENT.PAYOUTS-ITEM.DENIED': { transaction_status: 'DENIED' },
  'PAYMENT.PAYOUTS-ITEM.FAILED': { transaction_status: 'FAILED' },
  'PAYMENT.PAYOUTS-ITEM.CANCELED': { transaction_status: 'RETURNED' },
  'PAYMENT.PAYOUTS-ITEM.HELD': { transaction_status: 'ONHOLD' },
  'PAYMENT.PAYOUTS-ITEM.REFUNDED': { transaction_status: 'REFUNDED' },
  'PAYMENT.PAYOUTS-ITEM.RETURNED': { transaction_status: 'RETURNED' },
  'PAYMENT.PAYOUTS-ITEM.UNCLAIMED': { transaction_status: 'UNCLAIMED' },
  'PAYMENT.PAYOUTSBATCH.PROCESSING': batchStatus('PROCESSING'),
  'PAYMENT.PAYOUTSBATCH.DENIED': batchStatus('DENIED'),
  'PAYMENT.REFERENCED-PAYOUT-ITEM.FAILED': {
    processing_state: { status: 'FAILED', reason: 'INTERNAL_ERROR' },
  },
  'BILLING.SUBSCRIPTION.CREATED': { status: 'APPROVAL_PENDING' },
  'BILLING.SUBSCRIPTION.SUSPENDED': { status: 'SUSPENDED' },
  'BILLING.SUBSCRIPTION.EXPIRED': { status: 'EXPIRED' },
  'BILLING.SUBSCRIPTION.CANCELLED': { status: 'CANCELLED' },
  'BILLING.PLAN.CREATED': { status: 'CREATED' },
  'BILLING.PLAN.DEACTIVATED': { status: 'INACTIVE' },
  'INVOICING.INVOICE.CREATED': invoiceStatus('DRAFT'),
  'INVOICING.INVOICE.SCHEDULED': invoiceStatus('SCHEDULED'),
  'INVOICING.INVOICE.SENT': invoiceStatus('SENT'),
  'INVOICING.INVOICE.UPDATED': invoiceStatus('SENT'),
  'INVOICING.INVOICE.REFUNDED': invoiceStatus('REFUNDED'),
  'INVOICING.INVOICE.CANCELLED': invoiceStatus('CANCELLED'),
}

function batchStatus(batch_status: string): JsonObject {
  return { batch_header: { ...payoutBatch.batch_header, batch_status } }
}

function invoiceStatus(status: string): JsonObject {
  return { invoice: { ...invoice.invoice, status } }
}

function summaryOf(eventType: string): string {
  const words = eventType.toLowerCase().replaceAll(/[.-]/g, ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** Returns a payload of the vendor's shape for an event name. */
export function walletSample(eventType: string): JsonObject {
  const [, resource_type = '', resource = {}] =
    resources.find(([prefix]) => eventType.startsWith(prefix)) ?? []
  const id = 'WH-4XJ65703T8214935K-7PB08452HC9316240'
  return {
    id,
    event_version: '1.0',
    create_time: createTime,
    resource_type,
    ...(Object.hasOwn(versions, resource_type) && { resource_version: versions[resource_type] }),
    event_type: eventType,
    summary: summaryOf(eventType),
    resource: { ...resource, ...statuses[eventType] },
    links: [link('self', `/v1/notifications/webhooks-events/${id}`)],
  }
}
