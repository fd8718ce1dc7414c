import { type JsonObject, listed, memberAt, type TypeTable, textAt, typeTable } from '../../normalize.ts'

// The meaning of each type is from the vendor's pages, read 2026-11: https://docs.stripe.com/api/events/types and, for the statuses,
// https://docs.stripe.com/api/disputes/object and https://docs.stripe.com/api/refunds/object.

const disputeStates: Readonly<Record<string, string>> = {
  needs_response: 'chargeback.evidence_required',
  warning_needs_response: 'chargeback.evidence_required',
  appeal_needs_response: 'chargeback.evidence_required',
  under_review: 'chargeback.under_review',
  warning_under_review: 'chargeback.under_review',
  appeal_under_review: 'chargeback.under_review',
  won: 'chargeback.won',
  lost: 'chargeback.lost',
  // An inquiry that did not become a dispute. No money moved.
  warning_closed: 'chargeback.closed',
  // The merchant refunded the payment before the bank started the dispute.
  prevented: 'chargeback.closed',
  charge_refunded: 'chargeback.closed',
}

const refundStates: Readonly<Record<string, string>> = {
  succeeded: 'refund.succeeded',
  failed: 'refund.failed',
  canceled: 'refund.cancelled',
}

/** Normalized types by raw type. */
export const cardTypes: TypeTable = typeTable({
  'payment_intent.created': 'payment.created',
  'payment_intent.processing': 'payment.processing',
  'payment_intent.requires_action': 'payment.action_required',
  'payment_intent.amount_capturable_updated': 'payment.authorized',
  'payment_intent.succeeded': 'payment.succeeded',
  'payment_intent.payment_failed': 'payment.failed',
  'payment_intent.canceled': 'payment.cancelled',

  'charge.pending': 'payment.processing',
  // A charge that is captured later succeeds twice, first as an authorization.
  'charge.succeeded': (body) =>
    memberAt(body, 'data', 'object', 'captured') === false ? 'payment.authorized' : 'payment.succeeded',
  'charge.captured': 'payment.succeeded',
  'charge.failed': 'payment.failed',
  'charge.expired': 'payment.cancelled',
  'checkout.session.async_payment_succeeded': 'payment.succeeded',
  'checkout.session.async_payment_failed': 'payment.failed',

  'charge.refunded': 'refund.succeeded',
  'refund.created': 'refund.created',
  'refund.updated': (body) => stateOf(body, refundStates) ?? 'refund.updated',
  'refund.failed': 'refund.failed',
  'charge.refund.updated': (body) => stateOf(body, refundStates) ?? 'refund.updated',

  'charge.dispute.created': 'chargeback.created',
  'charge.dispute.updated': (body) => stateOf(body, disputeStates) ?? 'chargeback.updated',
  'charge.dispute.closed': (body) => stateOf(body, disputeStates) ?? 'chargeback.closed',
  'charge.dispute.funds_withdrawn': 'chargeback.funds_withdrawn',
  'charge.dispute.funds_reinstated': 'chargeback.funds_reinstated',

  'payout.created': 'payout.created',
  'payout.updated': 'payout.updated',
  'payout.paid': 'payout.paid',
  'payout.failed': 'payout.failed',
  'payout.canceled': 'payout.cancelled',

  'customer.subscription.created': 'subscription.created',
  'customer.subscription.updated': 'subscription.updated',
  'customer.subscription.paused': 'subscription.paused',
  'customer.subscription.resumed': 'subscription.resumed',
  'customer.subscription.trial_will_end': 'subscription.trial_ending',
  'customer.subscription.deleted': 'subscription.cancelled',

  'customer.created': 'customer.created',
  'customer.updated': 'customer.updated',
  'customer.deleted': 'customer.deleted',

  'product.created': 'product.created',
  'product.updated': 'product.updated',
  'product.deleted': 'product.deleted',
})

function stateOf(body: JsonObject, states: Readonly<Record<string, string>>): string | undefined {
  return listed(states, textAt(body, 'data', 'object', 'status'))
}
