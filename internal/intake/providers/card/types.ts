import { type JsonObject, memberAt, textAt } from '../../event-body.ts'
import { listedType, type TypeTable, typeTable, unlistedType } from '../../event-type.ts'

// What each type means is from the vendor's pages, read 2026-11: https://docs.stripe.com/api/events/types and, for the
// statuses, https://docs.stripe.com/api/disputes/object and https://docs.stripe.com/api/refunds/object.

const disputeStates: Readonly<Record<string, string>> = {
  needs_response: 'chargeback.evidence_required',
  warning_needs_response: 'chargeback.evidence_required',
  appeal_needs_response: 'chargeback.evidence_required',
  under_review: 'chargeback.under_review',
  warning_under_review: 'chargeback.under_review',
  appeal_under_review: 'chargeback.under_review',
  won: 'chargeback.won',
  lost: 'chargeback.lost',
  // An inquiry that ended without becoming a dispute: no money moved, so that nobody won or lost.
  warning_closed: 'chargeback.closed',
  // Settled by a refund before the bank took it up.
  prevented: 'chargeback.closed',
  charge_refunded: 'chargeback.closed',
}

const refundStates: Readonly<Record<string, string>> = {
  succeeded: 'refund.succeeded',
  failed: 'refund.failed',
  canceled: 'refund.cancelled',
}

/** The normalized type of a raw one; one that the table does not list becomes `card.<raw>`. */
export function cardType(rawType: string, body: JsonObject): string {
  return listedType(cardTypes, rawType, body) ?? unlistedType('card', rawType)
}

/** Raw types and what they become. */
export const cardTypes: TypeTable = typeTable({
  'payment_intent.created': 'payment.created',
  'payment_intent.processing': 'payment.processing',
  'payment_intent.requires_action': 'payment.action_required',
  'payment_intent.amount_capturable_updated': 'payment.authorized',
  'payment_intent.succeeded': 'payment.succeeded',
  'payment_intent.payment_failed': 'payment.failed',
  'payment_intent.canceled': 'payment.cancelled',

  'charge.pending': 'payment.processing',
  // A charge that is to be captured later succeeds twice: once as an authorization.
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
  const status = textAt(body, 'data', 'object', 'status')
  return status !== undefined && Object.hasOwn(states, status) ? states[status] : undefined
}
