import { type JsonObject, textAt } from '../../event-body.ts'
import { listedType, type TypeTable, typeTable, unlistedType } from '../../event-type.ts'

// What each kind means is from the vendor's pages, read 2026-11:
// https://developer.paypal.com/braintree/docs/reference/general/webhooks and the page of each noun beneath it.

/** The normalized type of a kind; one that the table does not list becomes `gateway.<kind>`. */
export function gatewayType(rawType: string, notification: JsonObject): string {
  return listedType(gatewayTypes, rawType, notification) ?? unlistedType('gateway', rawType)
}

/** Kinds and what they become. */
export const gatewayTypes: TypeTable = typeTable({
  dispute_opened: 'chargeback.created',
  dispute_under_review: 'chargeback.under_review',
  // The merchant's evidence is with the bank.
  dispute_disputed: 'chargeback.under_review',
  dispute_won: 'chargeback.won',
  dispute_lost: 'chargeback.lost',
  // The merchant gave in, was held to have, or let the time pass.
  dispute_accepted: 'chargeback.lost',
  dispute_auto_accepted: 'chargeback.lost',
  dispute_expired: 'chargeback.lost',

  transaction_settled: 'payment.succeeded',
  transaction_settlement_declined: 'payment.failed',
  local_payment_completed: 'payment.succeeded',
  local_payment_funded: 'payment.succeeded',
  local_payment_expired: 'payment.cancelled',
  local_payment_reversed: 'payment.reversed',
  refund_failed: 'refund.failed',

  disbursement: payoutType,

  subscription_went_active: 'subscription.activated',
  subscription_charged_successfully: 'payment.succeeded',
  subscription_charged_unsuccessfully: 'payment.failed',
  subscription_billing_skipped: 'subscription.billing_skipped',
  subscription_trial_ended: 'subscription.trial_ended',
  subscription_went_past_due: 'subscription.past_due',
  subscription_canceled: 'subscription.cancelled',
  subscription_expired: 'subscription.expired',

  payment_method_customer_data_updated: 'customer.updated',
})

/** One kind tells of both. */
function payoutType(notification: JsonObject): string {
  switch (textAt(notification, 'subject', 'disbursement', 'success')) {
    case 'true':
      return 'payout.paid'
    case 'false':
      return 'payout.failed'
    default:
      return 'payout.updated'
  }
}
