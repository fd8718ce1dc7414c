import { type JsonObject, textAt } from '../../event-body.ts'
import { listedType, type TypeTable, typeTable, unlistedType } from '../../event-type.ts'

// What each topic means is from the vendor's pages, read 2026-11: https://shopify.dev/docs/api/webhooks/latest and, for the
// states, https://shopify.dev/docs/api/admin-rest/latest/resources/dispute and …/resources/transaction. Topics with a capital
// letter are those of https://shopify.dev/docs/api/events/unstable.

/** The normalized type of a raw one; one that the table does not list becomes `storefront.<raw>`. */
export function storefrontType(rawType: string, body: JsonObject): string {
  return listedType(storefrontTypes, rawType, body) ?? unlistedType('storefront', rawType)
}

/** Raw types and what they become. */
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
  // Made when the merchant begins it; its money is told of by order_transactions/create.
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

/** A transaction's kind says what was tried, its status how that went. */
function paymentType(body: JsonObject): string | undefined {
  const kind = textAt(body, 'kind')
  const status = textAt(body, 'status')
  if (status === 'failure' || status === 'error')
    return kind === 'refund' ? 'refund.failed' : 'payment.failed'
  if (status === 'pending') return kind === 'refund' ? 'refund.created' : 'payment.processing'
  if (status !== 'success') return undefined
  switch (kind) {
    case 'authorization':
      return 'payment.authorized'
    case 'sale':
    case 'capture':
      return 'payment.succeeded'
    case 'void':
      return 'payment.cancelled'
    case 'refund':
      return 'refund.succeeded'
    default:
      return undefined
  }
}

function disputeType(body: JsonObject): string {
  switch (textAt(body, 'status')) {
    case 'needs_response':
      return 'chargeback.evidence_required'
    case 'under_review':
      return 'chargeback.under_review'
    case 'won':
      return 'chargeback.won'
    case 'lost':
    // The merchant gave in.
    case 'accepted':
      return 'chargeback.lost'
    // Settled by a refund: nobody won or lost.
    case 'charge_refunded':
    case 'prevented':
      return 'chargeback.closed'
    default:
      return 'chargeback.updated'
  }
}
