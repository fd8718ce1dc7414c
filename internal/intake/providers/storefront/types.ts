import { type JsonObject, listed, type TypeTable, textAt, typeTable } from '../../normalize.ts'

// The meaning of each topic is from the vendor's pages, read 2026-11: https://shopify.dev/docs/api/webhooks/latest and, for the states,
// https://shopify.dev/docs/api/admin-rest/latest/resources/dispute and …/resources/transaction. Topics with a capital letter are from
// https://shopify.dev/docs/api/events/unstable.

/** Normalized types by raw type. */
export const storefrontTypes: TypeTable = typeTable({
  'orders/create': 'order.created',
  'orders/updated': 'order.updated',
  'orders/edited': 'order.updated',
  'orders/paid': 'order.paid',
  'orders/fulfilled': 'order.fulfilled',
  'orders/partially_fulfilled': 'order.partially_fulfilled',
  'orders/cancelled': 'order.cancelled',
  'orders/delete': 'order.deleted',

  'order_transactions/create': paymentType,
  // Sent when the merchant starts the refund. The topic order_transactions/create reports the money.
  'refunds/create': 'refund.created',

  'disputes/create': 'chargeback.created',
  'disputes/update': disputeType,

  'customers/create': 'customer.created',
  'customers/update': 'customer.updated',
  'customers/enable': 'customer.enabled',
  'customers/disable': 'customer.disabled',
  'customers/delete': 'customer.deleted',

  'products/create': 'product.created',
  'products/update': 'product.updated',
  'products/delete': 'product.deleted',
  'Product/create': 'product.created',
  'Product/update': 'product.updated',
  'Product/delete': 'product.deleted',

  'subscription_contracts/create': 'subscription.created',
  'subscription_contracts/update': 'subscription.updated',
  'subscription_contracts/activate': 'subscription.resumed',
  'subscription_contracts/pause': 'subscription.paused',
  'subscription_contracts/cancel': 'subscription.cancelled',
  'subscription_contracts/expire': 'subscription.expired',
  'subscription_contracts/fail': 'subscription.failed',
  'subscription_billing_attempts/success': 'payment.succeeded',
  'subscription_billing_attempts/failure': 'payment.failed',
  'subscription_billing_attempts/challenged': 'payment.action_required',
})

/** The kind of a transaction is the operation, and its status is the result. */
function paymentType(body: JsonObject): string | undefined {
  const kind = textAt(body, 'kind')
  const isRefund = kind === 'refund'
  switch (textAt(body, 'status')) {
    case 'failure':
    case 'error':
      return isRefund ? 'refund.failed' : 'payment.failed'
    case 'pending':
      return isRefund ? 'refund.created' : 'payment.processing'
    case 'success':
      return listed(succeededKinds, kind)
    default:
      return undefined
  }
}

const succeededKinds: Readonly<Record<string, string>> = {
  authorization: 'payment.authorized',
  sale: 'payment.succeeded',
  capture: 'payment.succeeded',
  void: 'payment.cancelled',
  refund: 'refund.succeeded',
}

function disputeType(body: JsonObject): string {
  return listed(disputeStates, textAt(body, 'status')) ?? 'chargeback.updated'
}

const disputeStates: Readonly<Record<string, string>> = {
  needs_response: 'chargeback.evidence_required',
  under_review: 'chargeback.under_review',
  won: 'chargeback.won',
  lost: 'chargeback.lost',
  // The merchant accepted the loss.
  accepted: 'chargeback.lost',
  // Settled by a refund: the merchant neither won nor lost.
  charge_refunded: 'chargeback.closed',
  prevented: 'chargeback.closed',
}
