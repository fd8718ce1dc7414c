import { type JsonObject, listed, type TypeTable, textAt, typeTable } from '../../normalize.ts'

// The meaning of each kind is from the vendor's pages, read 2026-11: https://developer.paypal.com/braintree/docs/reference/general/webhooks
// and the subpage of each topic.

/** Normalized types by kind. */
export const gatewayTypes: TypeTable = typeTable({
  dispute_opened: 'chargeback.created',
  dispute_under_review: 'chargeback.under_review',
  // The bank has received the merchant's evidence.
  dispute_disputed: 'chargeback.under_review',
  dispute_won: 'chargeback.won',
  dispute_lost: 'chargeback.lost',
  // The merchant accepted the dispute, or it was accepted automatically, or it expired.
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

/** The vendor reports success and failure under the same kind. */
function payoutType(notification: JsonObject): string {
  const success = textAt(notification, 'subject', 'disbursement', 'success')
  return listed({ true: 'payout.paid', false: 'payout.failed' }, success) ?? 'payout.updated'
}
