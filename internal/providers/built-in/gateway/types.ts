import { eventTypes } from '../../catalogue.ts'
import { gatewaySample } from './samples.ts'

// The meaning of each kind is from the vendor's pages, read 2026-11: https://developer.paypal.com/braintree/docs/reference/general/webhooks
// and the subpage of each topic. Values of its XML are text.

const disbursementSucceeded = 'notification.subject.disbursement.success'
const transactionType = 'notification.subject.transaction.type'
/** Subscription that a transaction charges. */
const ofSubscription = 'notification.subject.transaction.subscription-id'
const charged = { when: { [ofSubscription]: { isPresent: true } }, example: { [ofSubscription]: '2c4v52' } }
const refunded = { 'notification.subject.transaction.refunded-transaction-id': 'kj8hjk' }

/** Normalized types by kind. */
export const gatewayTypes = eventTypes(
  'gateway',
  {
    dispute_opened: 'chargeback.created',
    // The bank has received the merchant's evidence.
    dispute_disputed: 'chargeback.evidence_submitted',
    dispute_under_review: 'chargeback.under_review',
    dispute_won: 'chargeback.won',
    dispute_lost: 'chargeback.lost',
    // The merchant accepted the dispute, or it was accepted automatically, or it expired.
    dispute_accepted: 'chargeback.lost',
    dispute_auto_accepted: 'chargeback.lost',
    dispute_expired: 'chargeback.lost',

    // Sent for direct debits only, both sales and refunds. A refund is a credit. subscription_charged_successfully has reported the collection
    // of a subscription's charge, so that its settlement is no second one, and its decline takes the amount back.
    transaction_settled: [
      { type: 'refund.succeeded', when: { [transactionType]: 'credit' }, example: refunded },
      { type: 'payment.settled', ...charged },
      'payment.succeeded',
    ],
    transaction_settlement_declined: [
      { type: 'refund.failed', when: { [transactionType]: 'credit' }, example: refunded },
      { type: 'payment.reversed', ...charged },
      'payment.failed',
    ],
    // A failed charge was submitted again, as another transaction.
    transaction_retried: 'payment.processing',
    transaction_reviewed: 'fraud_review.closed',
    // Local payments have two kinds of success: `completed` for instant ones, `funded` for the others, such as vouchers. Each sends only its own,
    // and no transaction_settled. A subscription cannot charge them.
    local_payment_completed: 'payment.succeeded',
    local_payment_funded: 'payment.succeeded',
    local_payment_expired: 'payment.cancelled',
    local_payment_reversed: 'payment.reversed',
    refund_failed: 'refund.failed',

    // The vendor reports success and failure under the same kind.
    disbursement: [
      { type: 'payout.paid', when: { [disbursementSucceeded]: 'true' } },
      {
        type: 'payout.failed',
        when: { [disbursementSucceeded]: 'false' },
        example: {
          'notification.subject.disbursement.exception-message': 'bank_rejected',
          'notification.subject.disbursement.follow-up-action': 'update_funding_information',
        },
      },
    ],

    // The only report of a charge by card, so that it carries the collection. A charge by direct debit also sends transaction_settled.
    subscription_charged_successfully: 'payment.succeeded',
    subscription_charged_unsuccessfully: 'subscription.payment_failed',
    subscription_went_active: 'subscription.activated',
    subscription_billing_skipped: 'subscription.billing_skipped',
    subscription_trial_ended: 'subscription.trial_ended',
    subscription_went_past_due: 'subscription.past_due',
    subscription_canceled: 'subscription.cancelled',
    subscription_expired: 'subscription.expired',

    payment_method_customer_data_updated: 'customer.updated',
    payment_method_revoked_by_customer: 'payment_method.revoked',
    // A list of the cards that the card networks replaced, to be downloaded.
    account_updater_daily_report: 'payment_method.updates_reported',
    // Payment methods that another merchant has granted, or that were granted to one.
    granted_payment_method_revoked: 'payment_method.revoked',
    granted_payment_instrument_update: 'payment_method.updated',
    grantor_updated_granted_payment_method: 'payment_method.updated',
    recipient_updated_granted_payment_method: 'payment_method.updated',

    // Merchants of a platform.
    connected_merchant_status_transitioned: 'account.status_changed',
    connected_merchant_paypal_status_changed: 'account.updated',
    partner_merchant_connected: 'app.authorized',
    partner_merchant_disconnected: 'app.deauthorized',
    partner_merchant_declined: 'account.declined',
    oauth_access_revoked: 'app.deauthorized',
  },
  gatewaySample,
)
