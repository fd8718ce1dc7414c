import { eventTypes } from '../../catalogue.ts'
import { walletSample } from './samples.ts'

// The meaning of each type is from the vendor's pages, read 2026-11: https://developer.paypal.com/api/rest/webhooks/event-names/,
// https://developer.paypal.com/api/invoicing/webhooks and, for a dispute's states, https://developer.paypal.com/docs/api/customer-disputes/v1/
// (status, dispute_outcome.outcome_code).

const status = 'resource.status'
/** Version 1 of the vendor's payments calls the status `state`. */
const state = 'resource.state'
const invoiceStatus = 'resource.invoice.status'
const absent = { isPresent: false }
const outcome = 'resource.dispute_outcome.outcome_code'
const usd = (value: string) => ({ currency_code: 'USD', value })

/** Normalized types by event name. */
export const walletTypes = eventTypes(
  'wallet',
  {
    'PAYMENT.AUTHORIZATION.CREATED': 'payment.authorized',
    // Voided by the merchant, or expired.
    'PAYMENT.AUTHORIZATION.VOIDED': 'payment.cancelled',
    'PAYMENT.CAPTURE.PENDING': 'payment.processing',
    // Carries the collection. CHECKOUT.ORDER.COMPLETED reports the order that it belongs to.
    'PAYMENT.CAPTURE.COMPLETED': 'payment.succeeded',
    'PAYMENT.CAPTURE.DECLINED': 'payment.failed',
    'PAYMENT.CAPTURE.DENIED': 'payment.failed',
    // Carries the refund once the money has moved. PAYMENT.REFUND.PENDING and .FAILED carry the other states.
    'PAYMENT.CAPTURE.REFUNDED': [
      { type: 'refund.updated', when: { [status]: ['PENDING', 'FAILED'] } },
      {
        type: 'refund.updated',
        when: { [state]: ['pending', 'failed'], [status]: absent },
        example: { [status]: undefined },
      },
      { type: 'refund.cancelled', when: { [status]: 'CANCELLED' } },
      {
        type: 'refund.cancelled',
        when: { [state]: 'cancelled', [status]: absent },
        example: { [status]: undefined },
      },
      'refund.succeeded',
    ],
    'PAYMENT.CAPTURE.REVERSED': 'payment.reversed',
    'PAYMENT.REFUND.PENDING': 'refund.created',
    'PAYMENT.REFUND.FAILED': 'refund.failed',
    // Version 1 of the vendor's payments, and every charge of a subscription, which has a billing agreement.
    'PAYMENT.SALE.PENDING': 'payment.processing',
    'PAYMENT.SALE.COMPLETED': 'payment.succeeded',
    // A charge of a subscription too: BILLING.SUBSCRIPTION.PAYMENT.FAILED carries its failure.
    'PAYMENT.SALE.DENIED': 'payment.failed',
    // The only report of a sale's refund.
    'PAYMENT.SALE.REFUNDED': [
      { type: 'refund.created', when: { [state]: 'pending' } },
      { type: 'refund.failed', when: { [state]: 'failed' } },
      { type: 'refund.cancelled', when: { [state]: 'cancelled' } },
      'refund.succeeded',
    ],
    'PAYMENT.SALE.REVERSED': 'payment.reversed',
    // Created and approved by the customer, to be executed by the merchant.
    'PAYMENTS.PAYMENT.CREATED': 'payment.created',

    'CHECKOUT.ORDER.APPROVED': 'order.approved',
    'CHECKOUT.ORDER.PROCESSED': 'order.updated',
    'CHECKOUT.ORDER.COMPLETED': 'order.paid',
    'CHECKOUT.ORDER.VOIDED': 'order.cancelled',
    'CHECKOUT.PAYMENT-APPROVAL.REVERSED': 'order.approval_reversed',
    // An order of Express Checkout.
    'CHECKOUT.CHECKOUT.BUYER-APPROVED': 'order.approved',
    'PAYMENT.ORDER.CREATED': 'order.created',
    'PAYMENT.ORDER.CANCELLED': 'order.cancelled',

    'CUSTOMER.DISPUTE.CREATED': 'chargeback.created',
    // Sent for every change. CUSTOMER.DISPUTE.RESOLVED carries the decision, which a status of RESOLVED only repeats.
    'CUSTOMER.DISPUTE.UPDATED': [
      { type: 'chargeback.evidence_required', when: { [status]: 'WAITING_FOR_SELLER_RESPONSE' } },
      { type: 'chargeback.under_review', when: { [status]: 'UNDER_REVIEW' } },
      { type: 'chargeback.updated', example: { [status]: 'WAITING_FOR_BUYER_RESPONSE' } },
    ],
    'CUSTOMER.DISPUTE.RESOLVED': [
      {
        type: 'chargeback.lost',
        when: { [outcome]: ['RESOLVED_BUYER_FAVOUR', 'ACCEPTED'] },
        example: { 'resource.dispute_outcome.amount_refunded': usd('48.50') },
      },
      { type: 'chargeback.won', when: { [outcome]: ['RESOLVED_SELLER_FAVOUR', 'DENIED'] } },
      // Withdrawn, paid by the vendor or merged into another dispute: the merchant neither won nor lost.
      { type: 'chargeback.closed', example: { [outcome]: 'CANCELED_BY_BUYER' } },
    ],
    // Superseded by CUSTOMER.DISPUTE.CREATED, which carries the dispute.
    'RISK.DISPUTE.CREATED': 'chargeback.updated',

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
    // Payouts to a platform's sellers.
    'PAYMENT.REFERENCED-PAYOUT-ITEM.COMPLETED': 'payout.paid',
    'PAYMENT.REFERENCED-PAYOUT-ITEM.FAILED': 'payout.failed',

    'BILLING.SUBSCRIPTION.CREATED': 'subscription.created',
    'BILLING.SUBSCRIPTION.ACTIVATED': 'subscription.activated',
    'BILLING.SUBSCRIPTION.UPDATED': 'subscription.updated',
    'BILLING.SUBSCRIPTION.SUSPENDED': 'subscription.paused',
    'BILLING.SUBSCRIPTION.RE-ACTIVATED': 'subscription.resumed',
    'BILLING.SUBSCRIPTION.EXPIRED': 'subscription.expired',
    'BILLING.SUBSCRIPTION.CANCELLED': 'subscription.cancelled',
    'BILLING.SUBSCRIPTION.PAYMENT.FAILED': [
      {
        type: 'subscription.payment_failed',
        example: {
          'resource.billing_info.outstanding_balance': usd('19.90'),
          'resource.billing_info.failed_payments_count': 1,
          'resource.billing_info.last_failed_payment': {
            amount: usd('19.90'),
            time: '2026-11-10T13:36:28Z',
            reason_code: 'PAYMENT_DENIED',
            next_payment_retry_time: '2026-11-15T10:00:00Z',
          },
        },
      },
    ],
    'BILLING.PLAN.CREATED': 'plan.created',
    'BILLING.PLAN.UPDATED': 'plan.updated',
    'BILLING.PLAN.ACTIVATED': 'plan.activated',
    'BILLING.PLAN.DEACTIVATED': 'plan.deactivated',
    'BILLING.PLAN.PRICING-CHANGE.ACTIVATED': 'plan.price_changed',
    'CATALOG.PRODUCT.CREATED': 'product.created',
    'CATALOG.PRODUCT.UPDATED': 'product.updated',

    'INVOICING.INVOICE.CREATED': 'invoice.created',
    'INVOICING.INVOICE.SCHEDULED': 'invoice.scheduled',
    'INVOICING.INVOICE.SENT': 'invoice.sent',
    'INVOICING.INVOICE.UPDATED': 'invoice.updated',
    // Also sent while the payment is pending and after a part was paid.
    'INVOICING.INVOICE.PAID': [
      {
        type: 'invoice.partially_paid',
        when: { [invoiceStatus]: 'PARTIALLY_PAID' },
        example: {
          'resource.invoice.due_amount': usd('150.00'),
          'resource.invoice.payments.paid_amount': usd('100.00'),
        },
      },
      { type: 'invoice.payment_processing', when: { [invoiceStatus]: 'PAYMENT_PENDING' } },
      // The vendor's page also shows the invoice as the resource itself.
      { type: 'invoice.partially_paid', when: { [invoiceStatus]: absent, [status]: 'PARTIALLY_PAID' } },
      { type: 'invoice.payment_processing', when: { [invoiceStatus]: absent, [status]: 'PAYMENT_PENDING' } },
      'invoice.paid',
    ],
    'INVOICING.INVOICE.REFUNDED': 'invoice.refunded',
    'INVOICING.INVOICE.CANCELLED': 'invoice.voided',

    'VAULT.PAYMENT-TOKEN.CREATED': 'payment_method.attached',
    'VAULT.PAYMENT-TOKEN.DELETION-INITIATED': 'payment_method.deletion_requested',
    'VAULT.PAYMENT-TOKEN.DELETED': 'payment_method.detached',
    // Version 1 of the vendor's vault.
    'VAULT.CREDIT-CARD.CREATED': 'payment_method.attached',
    'VAULT.CREDIT-CARD.UPDATED': 'payment_method.updated',
    'VAULT.CREDIT-CARD.DELETED': 'payment_method.detached',

    // Sellers of a platform.
    'CUSTOMER.MERCHANT-INTEGRATION.SELLER-ONBOARDING-INITIATED': 'account.onboarding_started',
    'CUSTOMER.MERCHANT-INTEGRATION.SELLER-CONSENT-GRANTED': 'app.authorized',
    'CUSTOMER.MERCHANT-INTEGRATION.SELLER-EMAIL-CONFIRMED': 'account.email_confirmed',
    'CUSTOMER.MERCHANT-INTEGRATION.SELLER-ALREADY-INTEGRATED': 'account.reconnected',
    'CUSTOMER.MERCHANT-INTEGRATION.CAPABILITY-UPDATED': 'capability.updated',
    'CUSTOMER.MERCHANT-INTEGRATION.PRODUCT-SUBSCRIPTION-UPDATED': 'account.products_updated',
    'MERCHANT.ONBOARDING.COMPLETED': 'account.onboarded',
    'MERCHANT.PARTNER-CONSENT.REVOKED': 'app.deauthorized',
    'CUSTOMER.MANAGED-ACCOUNT.ACCOUNT-CREATED': 'account.created',
    'CUSTOMER.MANAGED-ACCOUNT.CREATION-FAILED': 'account.creation_failed',
    'CUSTOMER.MANAGED-ACCOUNT.ACCOUNT-UPDATED': 'account.updated',
    'CUSTOMER.MANAGED-ACCOUNT.ACCOUNT-STATUS-CHANGED': 'account.status_changed',
    'CUSTOMER.MANAGED-ACCOUNT.RISK-ASSESSED': 'account.risk_assessed',
    'CUSTOMER.MANAGED-ACCOUNT.NEGATIVE-BALANCE-NOTIFIED': 'account.negative_balance_reported',
    'CUSTOMER.MANAGED-ACCOUNT.NEGATIVE-BALANCE-DEBIT-INITIATED': 'account.negative_balance_debited',
    'CUSTOMER.ACCOUNT-LIMITATION.ADDED': 'account.limitation_added',
    'CUSTOMER.ACCOUNT-LIMITATION.UPDATED': 'account.limitation_updated',
    'CUSTOMER.ACCOUNT-LIMITATION.ESCALATED': 'account.limitation_escalated',
    'CUSTOMER.ACCOUNT-LIMITATION.LIFTED': 'account.limitation_lifted',
    // A customer of Log in with PayPal.
    'IDENTITY.AUTHORIZATION-CONSENT.REVOKED': 'app.deauthorized',
  },
  walletSample,
)
