import { eventTypes, type TypeCase } from '../../catalogue.ts'
import { basePayload } from './samples.ts'

// The meaning of each type is from the vendor's pages, read 2026-11: https://docs.stripe.com/api/events/types, for the statuses
// https://docs.stripe.com/api/disputes/object, https://docs.stripe.com/api/refunds/object and
// https://docs.stripe.com/billing/subscriptions/overview, and for the events of accounts https://docs.stripe.com/connect/webhooks.
// types.test.ts lists the raw types that are not here, with the reason.

const intent = 'data.object.payment_intent'
const previousStatus = 'data.previous_attributes.status'
const parent = 'data.object.parent'

/** Cases of a charge. A payment intent reports the fact of its charge itself, so that only a charge without one carries it. */
function charge(type: string, ...direct: readonly TypeCase[]): readonly TypeCase[] {
  return [
    { type, when: { [intent]: { isPresent: true } } },
    ...direct.map((one) => ({ ...one, when: { [intent]: { isPresent: false }, ...one.when } })),
  ]
}

/** Cases of an invoice, by whether a subscription generated it. API versions before 2025-03-31 name the subscription in another member. */
function invoice(ofSubscription: string, ofOthers: string): readonly (string | TypeCase)[] {
  const subscription = 'sub_1SVr0tHb4kQnT2mXs7VwYz1K'
  const details = { subscription, metadata: {}, subscription_proration_date: null }
  return [
    {
      type: ofSubscription,
      when: { [`${parent}.subscription_details.subscription`]: { isPresent: true } },
      example: {
        'data.object.billing_reason': 'subscription_cycle',
        [parent]: { type: 'subscription_details', quote_details: null, subscription_details: details },
      },
    },
    {
      type: ofSubscription,
      when: { 'data.object.subscription': { isPresent: true } },
      example: {
        api_version: '2025-02-24.acacia',
        'data.object.billing_reason': 'subscription_cycle',
        'data.object.parent': undefined,
        'data.object.subscription': subscription,
      },
    },
    ofOthers,
  ]
}

/** Case of an update whose object changed to the given status. */
function statusChanged(type: string, status: string, before: string): TypeCase {
  const example = { 'data.previous_attributes': { status: before } }
  return { type, when: { [previousStatus]: { isPresent: true }, 'data.object.status': status }, example }
}

/**
 * Cases of an update of a dispute whose status changed to one of the given ones. An update without previous attributes, as tests write it,
 * counts as a change of the status.
 */
function disputeStatus(type: string, status: readonly string[], before: string): readonly TypeCase[] {
  const state = { 'data.object.status': status }
  return [
    {
      type,
      when: { ...state, [previousStatus]: { isPresent: true } },
      example: { 'data.previous_attributes': { status: before } },
    },
    { type, when: { ...state, 'data.previous_attributes': { isPresent: false } } },
  ]
}

/** Normalized types by raw type. */
export const cardTypes = eventTypes(
  'card',
  {
    'payment_intent.created': 'payment.created',
    'payment_intent.processing': 'payment.processing',
    'payment_intent.requires_action': 'payment.action_required',
    'payment_intent.amount_capturable_updated': 'payment.authorized',
    'payment_intent.partially_funded': 'payment.partially_funded',
    'payment_intent.succeeded': 'payment.succeeded',
    'payment_intent.payment_failed': 'payment.failed',
    'payment_intent.canceled': 'payment.cancelled',

    'charge.pending': charge('charge.pending', { type: 'payment.processing' }),
    // A charge that is captured later succeeds first, as an authorization.
    'charge.succeeded': charge(
      'charge.succeeded',
      {
        type: 'payment.authorized',
        when: { 'data.object.captured': false },
        example: { 'data.object.amount_captured': 0 },
      },
      { type: 'payment.succeeded' },
    ),
    'charge.captured': charge('charge.captured', { type: 'payment.succeeded' }),
    'charge.failed': charge('charge.failed', { type: 'payment.failed' }),
    'charge.expired': charge('charge.expired', { type: 'payment.cancelled' }),
    'charge.updated': 'charge.updated',

    // The payment intent of the session carries the payment.
    'checkout.session.completed': 'checkout.completed',
    'checkout.session.expired': 'checkout.expired',
    'checkout.session.async_payment_succeeded': 'checkout.payment_succeeded',
    'checkout.session.async_payment_failed': 'checkout.payment_failed',
    'payment_link.created': 'payment_link.created',
    'payment_link.updated': 'payment_link.updated',

    'setup_intent.created': 'payment_setup.created',
    'setup_intent.requires_action': 'payment_setup.action_required',
    'setup_intent.succeeded': 'payment_setup.succeeded',
    'setup_intent.setup_failed': 'payment_setup.failed',
    'setup_intent.canceled': 'payment_setup.cancelled',
    'payment_method.attached': 'payment_method.attached',
    'payment_method.updated': 'payment_method.updated',
    'payment_method.automatically_updated': 'payment_method.automatically_updated',
    'payment_method.detached': 'payment_method.detached',
    'mandate.updated': 'mandate.updated',
    // Legacy objects for which the vendor may send `payment_method.*` as well.
    'customer.source.created': 'payment_source.created',
    'customer.source.updated': 'payment_source.updated',
    'customer.source.expiring': 'payment_source.expiring',
    'customer.source.deleted': 'payment_source.deleted',

    // A refund succeeds when it is created or when its status changes, never both. `charge.refunded` reports the same refund again, and
    // `charge.refund.updated` repeats the changes of some payment methods.
    'refund.created': [
      { type: 'refund.succeeded', when: { 'data.object.status': 'succeeded' } },
      { type: 'refund.created', example: { 'data.object.status': 'pending' } },
    ],
    'refund.updated': [
      statusChanged('refund.succeeded', 'succeeded', 'pending'),
      statusChanged('refund.cancelled', 'canceled', 'requires_action'),
      // `refund.failed` carries a failure.
      'refund.updated',
    ],
    'refund.failed': 'refund.failed',
    'charge.refunded': 'refund.updated',
    'charge.refund.updated': 'refund.updated',

    // The vendor reports an inquiry (`warning_…`) in the same way as a dispute.
    'charge.dispute.created': 'chargeback.created',
    'charge.dispute.updated': [
      ...disputeStatus(
        'chargeback.evidence_required',
        ['needs_response', 'warning_needs_response', 'appeal_needs_response'],
        'warning_under_review',
      ),
      ...disputeStatus(
        'chargeback.under_review',
        ['under_review', 'warning_under_review', 'appeal_under_review'],
        'needs_response',
      ),
      // `charge.dispute.closed` carries the decision.
      'chargeback.updated',
    ],
    'charge.dispute.closed': [
      { type: 'chargeback.won', when: { 'data.object.status': 'won' } },
      { type: 'chargeback.lost', when: { 'data.object.status': 'lost' } },
      // An inquiry that did not become a dispute, or a payment that was refunded before the bank opened one.
      { type: 'chargeback.closed', example: { 'data.object.status': 'warning_closed' } },
    ],
    'charge.dispute.funds_withdrawn': 'chargeback.funds_withdrawn',
    'charge.dispute.funds_reinstated': 'chargeback.funds_reinstated',

    'radar.early_fraud_warning.created': 'fraud_warning.created',
    'radar.early_fraud_warning.updated': 'fraud_warning.updated',
    'review.opened': 'fraud_review.opened',
    'review.closed': 'fraud_review.closed',

    'customer.subscription.created': 'subscription.created',
    'customer.subscription.updated': [
      statusChanged('subscription.past_due', 'past_due', 'active'),
      statusChanged('subscription.unpaid', 'unpaid', 'past_due'),
      statusChanged('subscription.expired', 'incomplete_expired', 'incomplete'),
      {
        type: 'subscription.activated',
        when: {
          'data.object.status': 'active',
          [previousStatus]: ['trialing', 'incomplete', 'past_due', 'unpaid'],
        },
        example: { 'data.previous_attributes': { status: 'trialing' } },
      },
      // `customer.subscription.paused` and `.resumed` carry a pause, and `customer.subscription.deleted` the status `canceled`.
      'subscription.updated',
    ],
    'customer.subscription.paused': 'subscription.paused',
    'customer.subscription.resumed': 'subscription.resumed',
    'customer.subscription.deleted': 'subscription.cancelled',
    'customer.subscription.trial_will_end': 'subscription.trial_ending',
    'customer.subscription.pending_update_applied': 'subscription.pending_update_applied',
    'customer.subscription.pending_update_expired': 'subscription.pending_update_expired',

    'subscription_schedule.created': 'subscription_schedule.created',
    'subscription_schedule.updated': 'subscription_schedule.updated',
    'subscription_schedule.expiring': 'subscription_schedule.expiring',
    'subscription_schedule.completed': 'subscription_schedule.completed',
    'subscription_schedule.released': 'subscription_schedule.released',
    'subscription_schedule.canceled': 'subscription_schedule.cancelled',
    'subscription_schedule.aborted': 'subscription_schedule.aborted',

    'invoice.upcoming': 'invoice.upcoming',
    'invoice.created': 'invoice.created',
    'invoice.updated': 'invoice.updated',
    'invoice.deleted': 'invoice.deleted',
    'invoice.finalized': 'invoice.finalized',
    'invoice.finalization_failed': 'invoice.finalization_failed',
    'invoice.sent': 'invoice.sent',
    'invoice.will_be_due': 'invoice.will_be_due',
    'invoice.overdue': 'invoice.overdue',
    'invoice.paid': invoice('subscription.payment_succeeded', 'invoice.paid'),
    'invoice.payment_failed': invoice('subscription.payment_failed', 'invoice.payment_failed'),
    'invoice.payment_action_required': invoice(
      'subscription.payment_action_required',
      'invoice.payment_action_required',
    ),
    // `invoice.paid` carries the payment, since it also reports payments outside the vendor's system.
    'invoice.payment_succeeded': 'invoice.payment_succeeded',
    'invoice.payment_attempt_required': 'invoice.payment_attempt_required',
    'invoice.overpaid': 'invoice.overpaid',
    'invoice.voided': 'invoice.voided',
    'invoice.marked_uncollectible': 'invoice.marked_uncollectible',
    'invoice_payment.paid': 'invoice_payment.paid',
    'invoiceitem.created': 'invoice_item.created',
    'invoiceitem.deleted': 'invoice_item.deleted',
    'credit_note.created': 'credit_note.created',
    'credit_note.updated': 'credit_note.updated',
    'credit_note.voided': 'credit_note.voided',
    'quote.created': 'quote.created',
    'quote.finalized': 'quote.finalized',
    'quote.accepted': 'quote.accepted',
    'quote.canceled': 'quote.cancelled',

    'customer.created': 'customer.created',
    'customer.updated': 'customer.updated',
    'customer.deleted': 'customer.deleted',
    'customer.discount.created': 'customer.discount_added',
    'customer.discount.updated': 'customer.discount_changed',
    'customer.discount.deleted': 'customer.discount_removed',
    'customer.tax_id.created': 'tax_id.created',
    'customer.tax_id.updated': 'tax_id.updated',
    'customer.tax_id.deleted': 'tax_id.deleted',
    'entitlements.active_entitlement_summary.updated': 'customer.entitlements_updated',
    'cash_balance.funds_available': 'cash_balance.funds_available',
    'customer_cash_balance_transaction.created': 'cash_balance.transaction_created',
    'identity.verification_session.created': 'identity_verification.created',
    'identity.verification_session.processing': 'identity_verification.processing',
    'identity.verification_session.requires_input': 'identity_verification.input_required',
    'identity.verification_session.verified': 'identity_verification.verified',
    'identity.verification_session.canceled': 'identity_verification.cancelled',
    'identity.verification_session.redacted': 'identity_verification.redacted',

    'product.created': 'product.created',
    'product.updated': 'product.updated',
    'product.deleted': 'product.deleted',
    'price.created': 'price.created',
    'price.updated': 'price.updated',
    'price.deleted': 'price.deleted',
    // A recurring price is reported as a plan as well.
    'plan.created': 'plan.created',
    'plan.updated': 'plan.updated',
    'plan.deleted': 'plan.deleted',
    'coupon.created': 'coupon.created',
    'coupon.updated': 'coupon.updated',
    'coupon.deleted': 'coupon.deleted',
    'promotion_code.created': 'promotion_code.created',
    'promotion_code.updated': 'promotion_code.updated',
    'tax_rate.created': 'tax_rate.created',
    'tax_rate.updated': 'tax_rate.updated',
    'tax.settings.updated': 'tax_settings.updated',

    'balance.available': 'balance.available',
    'balance_settings.updated': 'balance_settings.updated',
    'payout.created': 'payout.created',
    'payout.updated': 'payout.updated',
    'payout.paid': 'payout.paid',
    'payout.failed': 'payout.failed',
    'payout.canceled': 'payout.cancelled',
    'payout.reconciliation_completed': 'payout.reconciled',
    'transfer.created': 'transfer.created',
    'transfer.updated': 'transfer.updated',
    'transfer.reversed': 'transfer.reversed',
    'topup.created': 'topup.created',
    'topup.succeeded': 'topup.succeeded',
    'topup.failed': 'topup.failed',
    'topup.canceled': 'topup.cancelled',
    'topup.reversed': 'topup.reversed',
    'application_fee.created': 'application_fee.created',
    'application_fee.refunded': 'application_fee.refunded',
    // `application_fee.refunded` carries the refund.
    'application_fee.refund.updated': 'application_fee.refund_updated',

    'account.updated': 'account.updated',
    'account.application.authorized': 'app.authorized',
    'account.application.deauthorized': 'app.deauthorized',
    'account.external_account.created': 'external_account.created',
    'account.external_account.updated': 'external_account.updated',
    'account.external_account.deleted': 'external_account.deleted',
    'capability.updated': 'capability.updated',
    'person.created': 'person.created',
    'person.updated': 'person.updated',
    'person.deleted': 'person.deleted',
    'file.created': 'file.created',
    'reporting.report_run.succeeded': 'report.succeeded',
    'reporting.report_run.failed': 'report.failed',
    'reporting.report_type.updated': 'report_type.updated',

    // Accounts of the vendor's second API. Each event is thin: it names the object, which the receiver reads from the vendor.
    'v2.core.account.created': 'account.created',
    'v2.core.account.updated': 'account.updated',
    'v2.core.account.closed': 'account.closed',
    'v2.core.account[identity].updated': 'account.identity_updated',
    'v2.core.account[defaults].updated': 'account.defaults_updated',
    'v2.core.account[requirements].updated': 'account.requirements_updated',
    'v2.core.account[future_requirements].updated': 'account.requirements_updated',
    'v2.core.account[configuration.customer].updated': 'account.configuration_updated',
    'v2.core.account[configuration.merchant].updated': 'account.configuration_updated',
    'v2.core.account[configuration.recipient].updated': 'account.configuration_updated',
    'v2.core.account[configuration.customer].capability_status_updated': 'capability.updated',
    'v2.core.account[configuration.merchant].capability_status_updated': 'capability.updated',
    'v2.core.account[configuration.recipient].capability_status_updated': 'capability.updated',
    'v2.core.account_link.returned': 'account_link.returned',
    'v2.core.account_person.created': 'person.created',
    'v2.core.account_person.updated': 'person.updated',
    'v2.core.account_person.deleted': 'person.deleted',
  },
  basePayload,
)
