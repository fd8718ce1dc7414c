import { codeTexts } from './vocabulary-code.ts'
import { shopTexts } from './vocabulary-shop.ts'

/**
 * Normalized types and their meanings. One business fact has one type with every provider. Where a vendor reports a fact by several raw
 * types, one of them has the type of the fact and the others have types of their own.
 */
const texts: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  // Payments: one collection of money from a customer.
  payment: {
    created: 'A payment was started; no money has moved.',
    processing: 'The payment was submitted and its result is pending.',
    action_required:
      'The customer must act before the payment can continue, for example confirm it with the bank.',
    authorized: 'The amount is reserved and can be captured.',
    partially_funded: 'A part of the amount arrived; the rest is outstanding.',
    succeeded:
      'The amount was collected. One event per collection, with every provider. What it settles can have a fact of its own (subscription.payment_succeeded, invoice.paid, invoice.payment_succeeded, order.paid): do not add their amounts.',
    settled: 'The provider settled an amount that payment.succeeded has reported.',
    failed:
      'The collection failed. A failed charge of a subscription has subscription.payment_failed beside it (card, wallet) or instead of it (storefront, gateway).',
    cancelled: 'The payment was cancelled or its authorization expired before the collection.',
    reversed:
      'A collected amount was taken back by the bank or the provider, without a refund by the merchant.',
  },
  refund: {
    created: 'A refund was created. Whether it succeeded is in refund.succeeded or refund.failed.',
    succeeded: 'The amount was returned to the customer. One event per refund.',
    failed: 'The refund failed.',
    cancelled: 'The refund was cancelled before it was paid.',
    updated: 'Another report of a refund: changed details, or a second report of its success.',
  },
  chargeback: {
    created: 'The customer’s bank or the provider opened a dispute or an inquiry.',
    evidence_required: 'The merchant must respond to the dispute.',
    evidence_submitted: 'The merchant’s evidence was handed to the bank.',
    under_review: 'The evidence is being examined.',
    won: 'The dispute was decided in the merchant’s favour.',
    lost: 'The dispute was decided in the customer’s favour, or the merchant accepted it.',
    closed: 'The dispute ended without a decision, for example because it was withdrawn or refunded.',
    updated: 'Details of the dispute changed, or a second report of its state.',
    funds_withdrawn: 'The disputed amount was taken from the merchant’s balance.',
    funds_reinstated: 'The disputed amount was returned to the merchant’s balance.',
  },
  order: {
    created: 'An order was placed.',
    updated: 'Details of the order changed.',
    approved: 'The customer approved the order; it can be charged.',
    paid: 'The order is paid in full. payment.succeeded reports the collections: do not add the amounts.',
    fulfilled: 'All items of the order were fulfilled.',
    partially_fulfilled: 'Some items of the order were fulfilled.',
    cancelled: 'The order was cancelled.',
    deleted: 'The order was deleted.',
    edited: 'The items of the order were edited.',
    approval_reversed: 'The customer’s approval became void before the order was charged.',
    risk_assessed: 'A new assessment of the order’s fraud risk is available.',
    protection_changed: 'The order’s eligibility for the provider’s protection against disputes changed.',
    link_requested: 'The customer asked for a new link to the order’s status page.',
  },
  payout: {
    created: 'A payout was started.',
    updated: 'Details of the payout changed.',
    paid: 'The payout reached its recipient.',
    failed: 'The payout failed.',
    cancelled: 'The payout was cancelled.',
    reconciled: 'The provider matched the payout with its transactions, which can now be listed.',
    held: 'The payout is held for review.',
    unclaimed: 'The recipient has not claimed the payout yet.',
    returned: 'An unclaimed payout was returned to the sender.',
    refunded: 'The recipient sent the payout back.',
    batch_processing: 'A batch of payouts is being processed.',
    batch_paid: 'A batch of payouts was processed; each of its payouts has events of its own.',
    batch_failed: 'A batch of payouts was rejected.',
  },
  subscription: {
    created: 'A subscription was created.',
    activated: 'The subscription became active.',
    updated: 'Details of the subscription changed.',
    trial_ending: 'The trial of the subscription ends soon.',
    trial_ended: 'The trial of the subscription ended.',
    past_due: 'A charge of the subscription is overdue.',
    unpaid: 'The subscription stays unpaid after the last retry.',
    paused: 'The subscription was paused or suspended.',
    resumed: 'The paused subscription is active again.',
    cancelled: 'The subscription was cancelled or ended.',
    expired: 'The subscription expired, or its first charge was not paid in time.',
    payment_succeeded:
      'A period of the subscription is paid, reported beside the payment.succeeded of its collection: do not add the amounts. The amount can be 0, for example during a trial. wallet and gateway: none; a paid period is a payment.succeeded whose payload names the subscription (resource.billing_agreement_id; notification.subject.subscription).',
    payment_failed:
      'A charge of the subscription failed. Sent for each failed charge, with every provider; card and wallet can send payment.failed for the same failure.',
    billing_skipped: 'A charge of the subscription was skipped.',
    payment_action_required: 'The customer must act before a charge of the subscription can continue.',
    pending_update_applied: 'A change that waited for its payment was applied.',
    pending_update_expired:
      'A change that waited for its payment was dropped because it was not paid in time.',
    failed: 'The provider marked the subscription as failed.',
    billing_unskipped: 'A skipped charge of the subscription will be made after all.',
    billing_edited: 'One billing cycle of the subscription was edited.',
    billing_edit_deleted: 'An edit of one billing cycle was withdrawn.',
  },
  customer: {
    created: 'A customer was created.',
    updated: 'Details of the customer changed.',
    enabled: 'The customer’s account was enabled.',
    disabled: 'The customer’s account was disabled.',
    deleted: 'The customer was deleted.',
    discount_added: 'A discount was applied to the customer.',
    discount_changed: 'The customer’s discount was replaced by another one.',
    discount_removed: 'The customer’s discount ended or was removed.',
    entitlements_updated: 'The features that the customer may use changed.',
    merged: 'Two customers were merged into one.',
    purchases_updated: 'The customer’s totals of orders and spending changed.',
    tags_added: 'Tags were added to the customer.',
    tags_removed: 'Tags were removed from the customer.',
    segment_joined: 'The customer became part of a segment.',
    segment_left: 'The customer is no longer part of a segment.',
    email_consent_updated: 'The customer’s consent to marketing by e-mail changed.',
    sms_consent_updated: 'The customer’s consent to marketing by text message changed.',
    whatsapp_consent_updated: 'The customer’s consent to marketing by WhatsApp changed.',
  },
  product: {
    created: 'A product was created.',
    updated: 'Details of the product changed.',
    deleted: 'The product was deleted.',
  },
  // A second report of a payment that a payment.* event carries, or details of the single charge.
  charge: {
    pending: 'A charge of a payment is pending; the payment’s own event carries the fact.',
    succeeded: 'A charge of a payment succeeded or was authorized; the payment’s own event carries the fact.',
    captured: 'A charge of a payment was captured; the payment’s own event carries the fact.',
    failed: 'A charge of a payment failed; the payment’s own event carries the fact.',
    expired: 'The authorization of a payment expired; the payment’s own event carries the fact.',
    updated: 'Details of a charge changed.',
  },
  checkout: {
    completed: 'The customer completed a checkout. A payment that takes days may still be pending.',
    expired: 'A checkout expired before the customer completed it.',
    payment_succeeded: 'The pending payment of a completed checkout succeeded.',
    payment_failed: 'The pending payment of a completed checkout failed.',
    created: 'A checkout was created.',
    updated: 'Details of the checkout changed.',
    deleted: 'The checkout was deleted.',
  },
  payment_link: {
    created: 'A payment link was created.',
    updated: 'Details of the payment link changed.',
  },
  payment_setup: {
    created: 'Saving a payment method for later use was started.',
    action_required: 'The customer must act before the payment method can be saved.',
    succeeded: 'A payment method was saved for later use.',
    failed: 'Saving a payment method failed.',
    cancelled: 'Saving a payment method was cancelled.',
  },
  payment_method: {
    attached: 'A payment method was attached to a customer.',
    updated: 'Details of the payment method changed.',
    automatically_updated:
      'The card network replaced details of the payment method, for example its expiry date.',
    detached: 'A payment method was removed from a customer.',
    revoked: 'The payment method can no longer be charged.',
    deletion_requested: 'The deletion of a payment method was requested.',
    updates_reported: 'A report lists payment methods that the card networks replaced.',
  },
  payment_source: {
    created: 'A card or account of the provider’s older kind was added to a customer.',
    updated: 'Details of a customer’s card or account of the provider’s older kind changed.',
    expiring: 'A customer’s card of the provider’s older kind expires at the end of the month.',
    deleted: 'A card or account of the provider’s older kind was removed from a customer.',
  },
  mandate: {
    updated: 'A customer’s permission to debit an account changed, for example because it was withdrawn.',
  },
  fraud_warning: {
    created: 'The card network reported a payment as probably fraudulent.',
    updated: 'Details of the fraud warning changed.',
  },
  fraud_review: {
    opened: 'A payment was put on hold for a review for fraud.',
    closed: 'The review of a payment for fraud ended; its payload says how.',
  },
  subscription_schedule: {
    created: 'A schedule of changes was created for a subscription.',
    updated: 'The schedule of a subscription changed.',
    expiring: 'The schedule of a subscription ends soon.',
    completed: 'All changes in the schedule of a subscription were made.',
    released: 'The schedule was removed from its subscription, which continues without it.',
    cancelled: 'The schedule of a subscription was cancelled.',
    aborted: 'The schedule was cancelled because its subscription was not paid.',
  },
  invoice: {
    upcoming: 'A subscription will be invoiced soon.',
    created: 'An invoice was created.',
    updated: 'Details of the invoice changed.',
    deleted: 'A draft of an invoice was deleted.',
    finalized: 'The invoice is final and can be paid.',
    finalization_failed: 'The draft of an invoice could not be made final.',
    sent: 'The invoice was sent to the customer.',
    will_be_due: 'The invoice is due soon.',
    overdue: 'The invoice is overdue.',
    paid: 'An invoice without a subscription was paid. payment.succeeded reports the collection: do not add the amounts.',
    payment_succeeded:
      'A second report of a paid invoice, beside invoice.paid or subscription.payment_succeeded. payment.succeeded reports the collection: do not add the amounts.',
    payment_failed: 'A payment of an invoice without a subscription failed.',
    payment_action_required:
      'The customer must act before a payment of an invoice without a subscription can continue.',
    payment_attempt_required: 'The invoice must be paid by a method that the provider does not process.',
    overpaid: 'More than the amount of the invoice was paid.',
    voided: 'The invoice was declared void.',
    marked_uncollectible: 'The invoice is not expected to be paid.',
    scheduled: 'The invoice will be sent at a later time.',
    partially_paid: 'A part of the invoice was paid.',
    payment_processing: 'A payment of the invoice was submitted and its result is pending.',
    refunded: 'The invoice was refunded in full or in part.',
  },
  invoice_payment: { paid: 'A payment was assigned to an invoice.' },
  invoice_item: {
    created: 'An item for an invoice was created.',
    deleted: 'An item for an invoice was deleted.',
  },
  credit_note: {
    created: 'A credit note was issued.',
    updated: 'Details of the credit note changed.',
    voided: 'The credit note was declared void.',
  },
  quote: {
    created: 'A quote was created.',
    finalized: 'The quote is final and can be accepted.',
    accepted: 'The customer accepted the quote.',
    cancelled: 'The quote was cancelled.',
  },
  tax_id: {
    created: 'A tax number was added to a customer.',
    updated: 'Details of the tax number changed, for example its verification.',
    deleted: 'The tax number was removed.',
  },
  tax_rate: { created: 'A tax rate was created.', updated: 'Details of the tax rate changed.' },
  tax_settings: { updated: 'The merchant’s tax settings changed.' },
  cash_balance: {
    funds_available: 'A customer has money at the provider that is not assigned to a payment.',
    transaction_created: 'The money that a customer has at the provider changed.',
  },
  identity_verification: {
    created: 'The verification of a person’s identity was started.',
    processing: 'The person submitted the requested documents or data; the result is pending.',
    input_required: 'The person must submit a document or data, or correct them.',
    verified: 'The identity was verified.',
    cancelled: 'The verification was cancelled.',
    redacted: 'The data of the verification was erased.',
  },
  price: {
    created: 'A price was created.',
    updated: 'Details of the price changed.',
    deleted: 'The price was deleted.',
  },
  // With `card`, a second report of a recurring price in an older form.
  plan: {
    created: 'A plan for subscriptions was created.',
    updated: 'Details of the plan changed.',
    deleted: 'The plan was deleted.',
    activated: 'The plan was activated and accepts subscriptions.',
    deactivated: 'The plan was deactivated and accepts no more subscriptions.',
    price_changed: 'A new price of the plan took effect.',
  },
  coupon: {
    created: 'A coupon was created.',
    updated: 'Details of the coupon changed.',
    deleted: 'The coupon was deleted.',
  },
  promotion_code: {
    created: 'A promotion code, which customers enter for a discount, was created.',
    updated: 'Details of the promotion code changed.',
  },
  balance: { available: 'Money in the merchant’s balance became available.' },
  balance_settings: { updated: 'Settings of the merchant’s balance and payouts changed.' },
  transfer: {
    created: 'Money was transferred to a connected account.',
    updated: 'Details of the transfer changed.',
    reversed: 'A transfer was reversed in full or in part.',
  },
  topup: {
    created: 'Adding money to the merchant’s balance was started.',
    succeeded: 'Money was added to the merchant’s balance.',
    failed: 'Adding money to the merchant’s balance failed.',
    cancelled: 'Adding money to the merchant’s balance was cancelled.',
    reversed: 'Money that had been added to the merchant’s balance was taken back.',
  },
  application_fee: {
    created: 'The platform took its fee from a payment.',
    refunded: 'The platform’s fee was refunded in full or in part.',
    refund_updated: 'Details of a refund of the platform’s fee changed.',
  },
  account: {
    created: 'An account of a connected seller or partner was created.',
    updated: 'Details or the status of the account changed.',
    closed: 'The account was closed.',
    identity_updated: 'Identity details of the account’s owner changed.',
    defaults_updated: 'Default settings of the account, such as its currency, changed.',
    requirements_updated: 'The information that the account’s owner must provide changed.',
    configuration_updated: 'The account’s configuration as a customer, merchant or recipient changed.',
    creation_failed: 'The account could not be created.',
    status_changed: 'The status of the account changed.',
    onboarding_started: 'A seller started to connect an account.',
    onboarded: 'The account is connected and set up.',
    reconnected: 'A seller connected the account again.',
    declined: 'The provider refused to admit the account.',
    email_confirmed: 'The account’s owner confirmed the e-mail address.',
    products_updated: 'The products that the account can use changed.',
    risk_assessed: 'A new assessment of the account’s risk is available.',
    negative_balance_reported: 'The account’s owner was notified of a negative balance.',
    negative_balance_debited: 'A debit of the account’s negative balance was started.',
    limitation_added: 'The account was restricted.',
    limitation_updated: 'A restriction of the account changed.',
    limitation_escalated: 'A restriction of the account became stricter.',
    limitation_lifted: 'A restriction of the account ended.',
  },
  account_link: {
    returned: 'The account’s owner completed a form that the provider hosts, for example for onboarding.',
  },
  // A program of the tenant that works on accounts of others. A user or an account authorizes it; a shop or an organization installs it.
  app: {
    authorized: 'The owner of an account authorized the app to act on it.',
    deauthorized: 'The owner of an account withdrew the authorization of the app.',
    installed: 'The app was installed on an account.',
    uninstalled: 'The app was uninstalled and has no more access.',
    suspended: 'The app’s access to an account was suspended.',
    unsuspended: 'The suspended app has access to the account again.',
    permissions_changed: 'The permissions that an account grants the app changed.',
    repositories_added: 'The app was given access to further repositories.',
    repositories_removed: 'The app’s access to repositories ended.',
    account_renamed: 'The account on which the app is installed was renamed.',
  },
  external_account: {
    created: 'A bank account or card for payouts was added to an account.',
    updated: 'Details of the bank account or card for payouts changed.',
    deleted: 'The bank account or card for payouts was removed.',
  },
  capability: {
    updated: 'A capability of an account, such as taking card payments, or what it requires changed.',
  },
  person: {
    created: 'A person was added to an account.',
    updated: 'Details of the person changed.',
    deleted: 'The person was removed from the account.',
  },
  file: { created: 'A file that the provider generated can be downloaded.' },
  report: { succeeded: 'A report is ready.', failed: 'A report could not be made.' },
  report_type: { updated: 'New data for a kind of report is available.' },
}

const areas = { 'Payments, customers and accounts': texts, Shops: shopTexts, Code: codeTexts }

/** Areas of the vocabulary with their nouns in alphabetical order. */
export const eventAreas = Object.entries(areas).map(([title, nouns]) => ({
  title,
  nouns: Object.keys(nouns).sort(),
}))

/** Meaning of each normalized type in one sentence, by type. */
export const eventTypeTexts: ReadonlyMap<string, string> = new Map(
  Object.values(areas).flatMap((each) =>
    Object.entries(each).flatMap(([noun, meanings]) =>
      Object.entries(meanings).map(([verb, text]): [string, string] => [`${noun}.${verb}`, text]),
    ),
  ),
)
