// Example payloads of the catalogue. The objects have the vendor's shape; ids, names and amounts are made up.
import type { JsonObject } from '../../normalize.ts'
import { sampleObjects } from './sample-objects.ts'

/** Object of a raw type, by the type without its last word, where its name differs from that. */
const objectNames: Readonly<Record<string, string>> = {
  'charge.refund': 'refund',
  'charge.dispute': 'dispute',
  'checkout.session': 'checkout',
  'customer.source': 'source',
  'radar.early_fraud_warning': 'fraudWarning',
  'customer.subscription': 'subscription',
  'customer.discount': 'discount',
  'customer.tax_id': 'tax_id',
  'entitlements.active_entitlement_summary': 'entitlements',
  customer_cash_balance_transaction: 'cash_balance_transaction',
  'identity.verification_session': 'verification_session',
  'tax.settings': 'tax_settings',
  'application_fee.refund': 'fee_refund',
  'account.application': 'application',
  'account.external_account': 'external_account',
  'reporting.report_run': 'report_run',
  'reporting.report_type': 'report_type',
}

const at = 1_794_213_600
const declined = {
  code: 'card_declined',
  decline_code: 'insufficient_funds',
  type: 'card_error',
  message: 'Your card has insufficient funds.',
}
const uncaptured = { amount_captured: 0, captured: false }
const unpaid = { ...uncaptured, paid: false }
const failed = { failure_code: 'account_closed', failure_message: 'The bank account has been closed.' }
const transitions = { finalized_at: at, marked_uncollectible_at: null, paid_at: null, voided_at: null }
const draftInvoice = {
  number: null,
  hosted_invoice_url: null,
  status: 'draft',
  status_transitions: { ...transitions, finalized_at: null },
}
const attempted = { attempt_count: 1, attempted: true }
const paidInvoice = {
  ...attempted,
  amount_paid: 2500,
  amount_remaining: 0,
  status: 'paid',
  status_transitions: { ...transitions, paid_at: at },
}
const finalizedQuote = { accepted_at: null, canceled_at: null, finalized_at: at }
const ended = { canceled_at: at, ended_at: at }
const nextAction = {
  redirect_to_url: { url: 'https://hooks.stripe.com/redirect/sample' },
  type: 'redirect_to_url',
}

/** Members of the object that differ by raw type. */
const changes: Readonly<Record<string, JsonObject>> = {
  'payment_intent.created': { latest_charge: null, payment_method: null, status: 'requires_payment_method' },
  'payment_intent.processing': { status: 'processing' },
  'payment_intent.requires_action': {
    latest_charge: null,
    next_action: nextAction,
    status: 'requires_action',
  },
  'payment_intent.amount_capturable_updated': {
    amount_capturable: 25_000,
    capture_method: 'manual',
    status: 'requires_capture',
  },
  'payment_intent.partially_funded': {
    payment_method_types: ['customer_balance'],
    status: 'requires_action',
    latest_charge: null,
  },
  'payment_intent.succeeded': { amount_received: 25_000 },
  'payment_intent.payment_failed': { last_payment_error: declined, status: 'requires_payment_method' },
  'payment_intent.canceled': {
    canceled_at: at,
    cancellation_reason: 'requested_by_customer',
    status: 'canceled',
  },
  'charge.pending': { ...unpaid, balance_transaction: null, status: 'pending' },
  'charge.failed': {
    ...unpaid,
    balance_transaction: null,
    failure_code: declined.code,
    failure_message: declined.message,
    outcome: {
      network_status: 'declined_by_network',
      reason: 'insufficient_funds',
      risk_level: 'normal',
      risk_score: 12,
      seller_message: 'The bank declined the payment.',
      type: 'issuer_declined',
    },
    status: 'failed',
  },
  'charge.expired': { ...uncaptured, amount_refunded: 25_000, refunded: true },
  'charge.refunded': { amount_refunded: 5000 },
  'checkout.session.expired': { payment_intent: null, payment_status: 'unpaid', status: 'expired' },
  'checkout.session.async_payment_failed': { payment_status: 'unpaid' },
  'setup_intent.created': { latest_attempt: null, payment_method: null, status: 'requires_payment_method' },
  'setup_intent.requires_action': { next_action: nextAction, status: 'requires_action' },
  'setup_intent.setup_failed': { last_setup_error: declined, status: 'requires_payment_method' },
  'setup_intent.canceled': { cancellation_reason: 'abandoned', status: 'canceled' },
  'payment_method.detached': { customer: null },
  'refund.failed': { failure_reason: 'expired_or_canceled_card', status: 'failed' },
  'charge.dispute.closed': { status: 'won' },
  'charge.dispute.funds_reinstated': { status: 'won' },
  'review.closed': { closed_reason: 'approved', open: false, reason: 'approved' },
  'radar.early_fraud_warning.updated': { actionable: false },

  'customer.subscription.paused': { status: 'paused' },
  'customer.subscription.deleted': { ...ended, status: 'canceled' },
  'customer.subscription.trial_will_end': { status: 'trialing', trial_end: 1_794_472_800, trial_start: at },
  'subscription_schedule.created': { status: 'not_started', subscription: null, current_phase: null },
  'subscription_schedule.completed': { completed_at: at, current_phase: null, status: 'completed' },
  'subscription_schedule.released': {
    current_phase: null,
    released_at: at,
    released_subscription: 'sub_1SVr0tHb4kQnT2mXs7VwYz1K',
    status: 'released',
    subscription: null,
  },
  'subscription_schedule.canceled': { canceled_at: at, current_phase: null, status: 'canceled' },
  'subscription_schedule.aborted': { canceled_at: at, current_phase: null, status: 'canceled' },
  // The vendor has not stored this invoice yet.
  'invoice.upcoming': { ...draftInvoice, id: undefined },
  'invoice.created': draftInvoice,
  'invoice.deleted': { ...draftInvoice, deleted: true },
  'invoice.finalization_failed': {
    ...draftInvoice,
    last_finalization_error: {
      code: 'customer_tax_location_invalid',
      type: 'invalid_request_error',
      message: 'The customer’s location is invalid.',
    },
  },
  'invoice.will_be_due': { collection_method: 'send_invoice', due_date: 1_794_818_400 },
  'invoice.overdue': { collection_method: 'send_invoice', due_date: at },
  'invoice.sent': { collection_method: 'send_invoice', due_date: 1_796_805_600 },
  'invoice.paid': paidInvoice,
  'invoice.payment_succeeded': paidInvoice,
  'invoice.payment_failed': { ...attempted, next_payment_attempt: 1_794_472_800 },
  'invoice.payment_action_required': attempted,
  'invoice.overpaid': { ...paidInvoice, amount_overpaid: 500, amount_paid: 3000 },
  'invoice.voided': { status: 'void', status_transitions: { ...transitions, voided_at: at } },
  'invoice.marked_uncollectible': {
    ...attempted,
    status: 'uncollectible',
    status_transitions: { ...transitions, marked_uncollectible_at: at },
  },
  'invoiceitem.deleted': { deleted: true },
  'credit_note.voided': { status: 'void', voided_at: at },
  'quote.finalized': { status: 'open', status_transitions: finalizedQuote },
  'quote.accepted': {
    invoice: 'in_1SVr0uHb4kQnT2mXihtYlKNx',
    status: 'accepted',
    status_transitions: { ...finalizedQuote, accepted_at: at },
  },
  'quote.canceled': { status: 'canceled', status_transitions: { ...finalizedQuote, canceled_at: at } },

  'customer.deleted': { deleted: true },
  'customer.discount.deleted': { deleted: true, end: at },
  'customer.tax_id.updated': {
    verification: { status: 'verified', verified_address: null, verified_name: null },
  },
  'customer.tax_id.deleted': { deleted: true },
  'identity.verification_session.processing': { status: 'processing' },
  'identity.verification_session.requires_input': {
    last_error: { code: 'document_expired', reason: 'The document is expired.' },
  },
  'identity.verification_session.verified': {
    last_verification_report: 'vr_1SVqDfHb4kQnT2mXz4JnPy7T',
    status: 'verified',
  },
  'identity.verification_session.canceled': { status: 'canceled' },
  'identity.verification_session.redacted': { redaction: { status: 'redacted' }, status: 'canceled' },
  'product.deleted': { active: false, deleted: true },
  'price.deleted': { active: false, deleted: true },
  'plan.deleted': { active: false, deleted: true },
  'coupon.deleted': { deleted: true, valid: false },

  'payout.created': { status: 'in_transit' },
  'payout.paid': { status: 'paid' },
  'payout.failed': { ...failed, status: 'failed' },
  'payout.canceled': { status: 'canceled' },
  'payout.reconciliation_completed': { reconciliation_status: 'completed', status: 'paid' },
  'transfer.reversed': { amount_reversed: 18_000, reversed: true },
  'topup.succeeded': { balance_transaction: 'txn_1SW4YbHb4kQnT2mXe8LsBt6H', status: 'succeeded' },
  'topup.failed': { ...failed, status: 'failed' },
  'topup.canceled': { status: 'canceled' },
  'topup.reversed': { status: 'reversed' },
  'application_fee.refunded': { amount_refunded: 250 },
  'account.external_account.deleted': { deleted: true },
  'person.deleted': { deleted: true },
  'reporting.report_run.failed': { error: 'The interval is too long.', status: 'failed', succeeded_at: null },
}

/** Members before an update, where the object has no metadata or another member changes. */
const previous: Readonly<Record<string, JsonObject>> = {
  'payment_intent.amount_capturable_updated': { amount_capturable: 0, status: 'requires_payment_method' },
  'charge.refunded': { amount_refunded: 0, receipt_url: null },
  'mandate.updated': { status: 'active' },
  'radar.early_fraud_warning.updated': { actionable: true },
  'customer.discount.updated': { source: { coupon: 'WELCOME10' } },
  'customer.tax_id.updated': { verification: { status: 'pending' } },
  'entitlements.active_entitlement_summary.updated': { entitlements: { data: [] } },
  'tax.settings.updated': { status: 'pending' },
  'balance_settings.updated': { payments: { settlement_timing: { delay_days: 7 } } },
  'transfer.reversed': { amount_reversed: 0, reversed: false },
  'capability.updated': { status: 'pending' },
  'reporting.report_type.updated': { data_available_end: 1_794_096_000, updated: 1_794_127_200 },
}

/** Returns a payload of the vendor's shape for a raw type. */
export function basePayload(rawType: string): JsonObject {
  return rawType.startsWith('v2.') ? thinEvent(rawType) : snapshotEvent(rawType)
}

function snapshotEvent(type: string): JsonObject {
  const family = type.slice(0, type.lastIndexOf('.'))
  const object = { ...sampleObjects[objectNames[family] ?? family], ...changes[type] }
  const before = previous[type] ?? (type.endsWith('.updated') ? { metadata: { order: null } } : undefined)
  return {
    id: 'evt_1SVqLqHb4kQnT2mXp0WcZr8D',
    object: 'event',
    api_version: '2026-10-28.endive',
    created: at + 5,
    livemode: true,
    pending_webhooks: 1,
    request: { id: 'req_Wm4xTq8LzV2kPc', idempotency_key: 'c0f4d9b2-6a51-4e0f-8f0d-2b7e51a9c3d8' },
    type,
    data: { object, ...(before !== undefined && { previous_attributes: before }) },
  }
}

const account = 'acct_1SV0aAHb4kQnT2mX'
const relatedObjects: Readonly<Record<string, JsonObject>> = {
  account: { id: account, type: 'v2.core.account', url: `/v2/core/accounts/${account}` },
  account_person: {
    id: 'person_1SV0cTHb4kQnT2mXs4GzVq7B',
    type: 'v2.core.account_person',
    url: `/v2/core/accounts/${account}/persons/person_1SV0cTHb4kQnT2mXs4GzVq7B`,
  },
}

/** Returns an event that only names its object. The part of an account that changed is in brackets in the type. */
function thinEvent(type: string): JsonObject {
  const [, , noun = ''] = type.split(/[.[]/)
  return {
    id: 'evt_65TSmRq2VwKx9LzP416HbQnT2mXsC0dYkPfBv3JtWn7Zg8',
    object: 'v2.core.event',
    type,
    created: '2026-11-09T08:40:05.246Z',
    livemode: true,
    context: null,
    related_object: relatedObjects[noun] ?? null,
    reason: {
      type: 'request',
      request: { id: 'req_v2Wm4xTq8LzV2kPc', idempotency_key: 'c0f4d9b2-6a51-4e0f-8f0d-2b7e51a9c3d8' },
    },
  }
}
