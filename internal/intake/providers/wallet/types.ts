import { type JsonObject, listed, type TypeTable, textAt, typeTable } from '../../normalize.ts'

// The meaning of each type is from the vendor's pages, read 2026-11: https://developer.paypal.com/api/rest/webhooks/event-names/ and, for a
// dispute's states, https://developer.paypal.com/docs/api/customer-disputes/v1/ (status, dispute_outcome.outcome_code).

/** A dispute that was withdrawn, paid by the vendor or merged into another dispute counts as closed: the merchant neither won nor lost. */
const disputeOutcomes: Readonly<Record<string, string>> = {
  RESOLVED_BUYER_FAVOUR: 'chargeback.lost',
  ACCEPTED: 'chargeback.lost',
  RESOLVED_SELLER_FAVOUR: 'chargeback.won',
  DENIED: 'chargeback.won',
  RESOLVED_WITH_PAYOUT: 'chargeback.closed',
  CANCELED_BY_BUYER: 'chargeback.closed',
  NONE: 'chargeback.closed',
}

const disputeStates: Readonly<Record<string, string>> = {
  WAITING_FOR_SELLER_RESPONSE: 'chargeback.evidence_required',
  UNDER_REVIEW: 'chargeback.under_review',
}

/** Normalized types by raw type. */
export const walletTypes: TypeTable = typeTable({
  'PAYMENT.AUTHORIZATION.CREATED': 'payment.authorized',
  'PAYMENT.AUTHORIZATION.VOIDED': 'payment.cancelled',
  'PAYMENT.CAPTURE.PENDING': 'payment.processing',
  'PAYMENT.CAPTURE.COMPLETED': 'payment.succeeded',
  'PAYMENT.CAPTURE.DECLINED': 'payment.failed',
  'PAYMENT.CAPTURE.DENIED': 'payment.failed',
  'PAYMENT.CAPTURE.REFUNDED': 'refund.succeeded',
  'PAYMENT.CAPTURE.REVERSED': 'payment.reversed',
  // Version 1 of the vendor's payment events.
  'PAYMENT.SALE.PENDING': 'payment.processing',
  'PAYMENT.SALE.COMPLETED': 'payment.succeeded',
  'PAYMENT.SALE.DENIED': 'payment.failed',
  'PAYMENT.SALE.REFUNDED': 'refund.succeeded',
  'PAYMENT.SALE.REVERSED': 'payment.reversed',

  'CHECKOUT.ORDER.APPROVED': 'order.approved',
  'CHECKOUT.ORDER.COMPLETED': 'order.paid',
  'CHECKOUT.PAYMENT-APPROVAL.REVERSED': 'order.approval_reversed',
  'PAYMENT.ORDER.CREATED': 'order.created',
  'PAYMENT.ORDER.CANCELLED': 'order.cancelled',

  'CUSTOMER.DISPUTE.CREATED': 'chargeback.created',
  'CUSTOMER.DISPUTE.UPDATED': disputeType,
  'CUSTOMER.DISPUTE.RESOLVED': (body) => outcomeType(body) ?? 'chargeback.closed',
  'RISK.DISPUTE.CREATED': 'chargeback.created',

  // A batch contains many payouts, each with its own events.
  'PAYMENT.PAYOUTSBATCH.PROCESSING': 'payout.batch_processing',
  'PAYMENT.PAYOUTSBATCH.SUCCESS': 'payout.batch_paid',
  'PAYMENT.PAYOUTSBATCH.DENIED': 'payout.batch_failed',
  'PAYMENT.PAYOUTS-ITEM.SUCCEEDED': 'payout.paid',
  'PAYMENT.PAYOUTS-ITEM.BLOCKED': 'payout.failed',
  'PAYMENT.PAYOUTS-ITEM.DENIED': 'payout.failed',
  'PAYMENT.PAYOUTS-ITEM.FAILED': 'payout.failed',
  'PAYMENT.PAYOUTS-ITEM.CANCELED': 'payout.cancelled',
  'PAYMENT.PAYOUTS-ITEM.HELD': 'payout.held',
  'PAYMENT.PAYOUTS-ITEM.REFUNDED': 'payout.refunded',
  'PAYMENT.PAYOUTS-ITEM.RETURNED': 'payout.returned',
  'PAYMENT.PAYOUTS-ITEM.UNCLAIMED': 'payout.unclaimed',

  'BILLING.SUBSCRIPTION.CREATED': 'subscription.created',
  'BILLING.SUBSCRIPTION.ACTIVATED': 'subscription.activated',
  'BILLING.SUBSCRIPTION.UPDATED': 'subscription.updated',
  'BILLING.SUBSCRIPTION.SUSPENDED': 'subscription.paused',
  'BILLING.SUBSCRIPTION.RE-ACTIVATED': 'subscription.resumed',
  'BILLING.SUBSCRIPTION.EXPIRED': 'subscription.expired',
  'BILLING.SUBSCRIPTION.CANCELLED': 'subscription.cancelled',
  'BILLING.SUBSCRIPTION.PAYMENT.FAILED': 'subscription.payment_failed',

  'CATALOG.PRODUCT.CREATED': 'product.created',
  'CATALOG.PRODUCT.UPDATED': 'product.updated',
})

/** The vendor sends an update for every change of a dispute, including its end. */
function disputeType(body: JsonObject): string {
  const status = textAt(body, 'resource', 'status')
  if (status === 'RESOLVED') return outcomeType(body) ?? 'chargeback.closed'
  return listed(disputeStates, status) ?? 'chargeback.updated'
}

function outcomeType(body: JsonObject): string | undefined {
  return listed(disputeOutcomes, textAt(body, 'resource', 'dispute_outcome', 'outcome_code'))
}
