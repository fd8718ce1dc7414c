// Objects of example payloads in the shape of API version 2026-10-28.endive. types.test.ts compares their members with the vendor's SDK.
import type { JsonObject } from '../../normalize.ts'

const created = 1_794_213_600
const livemode = true
const currency = 'eur'
const account = 'acct_1SV0aAHb4kQnT2mX'
const customer = 'cus_TSm3Wq8LpZ0kVd'
const paymentIntent = 'pi_3SVqLmHb4kQnT2mX1uJoeHwd'
const charge = 'ch_3SVqLmHb4kQnT2mX1cAefAZh'
const paymentMethod = 'pm_1SVqLkHb4kQnT2mXM6Jy8c1r'
const balanceTransaction = 'txn_3SVqLmHb4kQnT2mX1wTq4YbE'
const invoice = 'in_1SVr0uHb4kQnT2mXihtYlKNx'
const subscription = 'sub_1SVr0tHb4kQnT2mXs7VwYz1K'
const price = 'price_1SVqzXHb4kQnT2mXCsXRpJG2'
const product = 'prod_TSmTr8hzUjEq0L'
const discount = 'di_1SVsBqHb4kQnT2mXw8RkLm3N'
const coupon = 'HARVEST15'
const automatic_tax = { enabled: false, liability: null, provider: null, status: null }
const metadata = { order: '6735' }
const address = {
  ...{ city: 'Lisboa', country: 'PT', line1: 'Rua das Amoreiras 14', line2: null },
  ...{ postal_code: '1250-023', state: null },
}
const billing_details = { address, email: 'buyer@example.com', name: 'Ada Quill', phone: null, tax_id: null }
const cardDetails = {
  ...{ brand: 'visa', country: 'PT', exp_month: 8, exp_year: 2029, fingerprint: 'Qm4vTz81LkPw0xRb' },
  ...{ funding: 'debit', last4: '4242', network: 'visa', wallet: null },
}
const requirements = {
  ...{ alternatives: [], current_deadline: null, currently_due: [], disabled_reason: null, errors: [] },
  ...{ eventually_due: [], past_due: [], pending_verification: [] },
}
const period = { end: 1_796_805_600, start: created }
const recurring = { interval: 'month', interval_count: 1, meter: null, usage_type: 'licensed' }
const list = (url: string, ...data: readonly object[]) => ({ object: 'list', data, has_more: false, url })

const priceObject = {
  ...{ id: price, object: 'price', active: true, billing_scheme: 'per_unit', created, currency, livemode },
  ...{ lookup_key: 'membership_monthly', metadata: {}, nickname: null, product, recurring },
  ...{ tax_behavior: 'inclusive', type: 'recurring', unit_amount: 2500, unit_amount_decimal: '2500' },
}

const payments: Readonly<Record<string, JsonObject>> = {
  payment_intent: {
    ...{ id: paymentIntent, object: 'payment_intent', amount: 25_000, amount_capturable: 0 },
    ...{ amount_received: 0, automatic_payment_methods: { allow_redirects: 'always', enabled: true } },
    ...{ canceled_at: null, cancellation_reason: null, capture_method: 'automatic_async', created },
    ...{ currency, customer, description: 'Order 6735', last_payment_error: null, latest_charge: charge },
    ...{ livemode, metadata, next_action: null, payment_method: paymentMethod },
    ...{ payment_method_types: ['card'], receipt_email: 'buyer@example.com', status: 'succeeded' },
  },
  charge: {
    ...{ id: charge, object: 'charge', amount: 25_000, amount_captured: 25_000, amount_refunded: 0 },
    ...{ balance_transaction: balanceTransaction, billing_details, captured: true, created, currency },
    ...{ customer, description: 'Order 6735', disputed: false, failure_code: null, failure_message: null },
    ...{ livemode, metadata, paid: true, payment_intent: paymentIntent, payment_method: paymentMethod },
    outcome: {
      ...{ network_status: 'approved_by_network', reason: null, risk_level: 'normal', risk_score: 12 },
      ...{ seller_message: 'Payment complete.', type: 'authorized' },
    },
    payment_method_details: { card: cardDetails, type: 'card' },
    ...{ receipt_email: 'buyer@example.com', refunded: false, status: 'succeeded' },
  },
  refund: {
    ...{ id: 're_3SVqLmHb4kQnT2mX1JC06DPd', object: 'refund', amount: 5000, charge, created, currency },
    ...{ balance_transaction: 'txn_3SVqLmHb4kQnT2mX1hG7sKdP', metadata, payment_intent: paymentIntent },
    destination_details: {
      ...{
        card: { reference_status: 'pending', reference_type: 'acquirer_reference_number', type: 'refund' },
      },
      type: 'card',
    },
    ...{ reason: 'requested_by_customer', receipt_number: null, status: 'succeeded' },
  },
  dispute: {
    ...{ id: 'du_1SWc3tHb4kQnT2mXcPVJ2tRK', object: 'dispute', amount: 25_000, balance_transactions: [] },
    ...{ charge, created, currency, is_charge_refundable: false, livemode, metadata },
    evidence_details: { due_by: 1_795_017_599, has_evidence: false, past_due: false, submission_count: 0 },
    payment_method_details: {
      card: { brand: 'visa', case_type: 'chargeback', network_reason_code: '10.4' },
      type: 'card',
    },
    ...{ payment_intent: paymentIntent, reason: 'fraudulent', status: 'needs_response' },
  },
  checkout: {
    ...{ id: 'cs_live_a1Qm8RzL2kVt5XwPbC0dYsH7', object: 'checkout.session', amount_subtotal: 25_000 },
    ...{ amount_total: 25_000, automatic_tax, client_reference_id: '6735', created, currency, customer },
    customer_details: { address, email: 'buyer@example.com', name: 'Ada Quill', phone: null, tax_ids: [] },
    ...{ expires_at: 1_794_300_000, invoice: null, livemode, metadata, mode: 'payment' },
    ...{ payment_intent: paymentIntent, payment_link: null, payment_method_types: ['card'] },
    ...{ payment_status: 'paid', setup_intent: null, status: 'complete', subscription: null },
    ...{ success_url: 'https://shop.example/thanks', total_details: { amount_discount: 0, amount_tax: 0 } },
    ui_mode: 'hosted_page',
  },
  payment_link: {
    ...{ id: 'plink_1SVqJ8Hb4kQnT2mXd4TnVx0S', object: 'payment_link', active: true, automatic_tax },
    ...{ allow_promotion_codes: false, billing_address_collection: 'auto', currency, livemode, metadata },
    ...{ payment_method_types: null, restrictions: { completed_sessions: { count: 0, limit: 100 } } },
    ...{ submit_type: 'pay', url: 'https://buy.stripe.com/8wM3fQ0kL7pZ2vE' },
  },
  setup_intent: {
    ...{ id: 'seti_1SVqKcHb4kQnT2mXnB5vMq2W', object: 'setup_intent', cancellation_reason: null, created },
    ...{ customer, description: null, last_setup_error: null, livemode, mandate: null, metadata },
    ...{ latest_attempt: 'setatt_1SVqKdHb4kQnT2mXz1PfLr6Y', next_action: null },
    ...{ payment_method: paymentMethod, payment_method_types: ['card'], status: 'succeeded' },
    usage: 'off_session',
  },
  payment_method: {
    ...{ id: paymentMethod, object: 'payment_method', allow_redisplay: 'always', billing_details },
    ...{ card: cardDetails, created, customer, livemode, metadata, type: 'card' },
  },
  mandate: {
    ...{ id: 'mandate_1SVqMxHb4kQnT2mXp7KdWt4R', object: 'mandate', livemode, multi_use: {} },
    customer_acceptance: { accepted_at: created, offline: {}, type: 'offline' },
    payment_method: paymentMethod,
    payment_method_details: {
      sepa_debit: { reference: 'LX7TQ02ZPV9KMB4D', url: 'https://hooks.stripe.com/mandate/sample' },
      type: 'sepa_debit',
    },
    ...{ status: 'inactive', type: 'multi_use' },
  },
  source: {
    ...{ id: 'card_1SVqKuHb4kQnT2mXf3YbJn9L', object: 'card', brand: 'Visa', country: 'PT', customer },
    ...{ address_city: 'Lisboa', address_country: 'PT', address_zip: '1250-023', cvc_check: 'pass' },
    ...{ exp_month: 11, exp_year: 2026, fingerprint: 'Qm4vTz81LkPw0xRb', funding: 'debit', last4: '4242' },
    ...{ metadata, name: 'Ada Quill' },
  },
  fraudWarning: {
    ...{ id: 'issfr_1SWa7hHb4kQnT2mXk2ZcRv8M', object: 'radar.early_fraud_warning', actionable: true },
    ...{ charge, created, fraud_type: 'unauthorized_use_of_card', livemode, payment_intent: paymentIntent },
  },
  review: {
    ...{ id: 'prv_1SVqLpHb4kQnT2mXe6HnTq3D', object: 'review', billing_zip: '1250-023', charge: null },
    ...{ closed_reason: null, created, ip_address: '203.0.113.24', livemode, open: true },
    ip_address_location: {
      city: 'Lisbon',
      country: 'PT',
      latitude: 38.72,
      longitude: -9.14,
      region: 'Lisbon',
    },
    ...{ opened_reason: 'rule', payment_intent: paymentIntent, reason: 'rule', session: null },
  },
}

const billing: Readonly<Record<string, JsonObject>> = {
  subscription: {
    ...{ id: subscription, object: 'subscription', automatic_tax, billing_cycle_anchor: created },
    ...{ billing_mode: { flexible: null, type: 'flexible' }, cancel_at: null, cancel_at_period_end: false },
    ...{ canceled_at: null, cancellation_details: { comment: null, feedback: null, reason: null } },
    ...{ collection_method: 'charge_automatically', created, currency, customer },
    ...{ default_payment_method: paymentMethod, discounts: [], ended_at: null },
    items: list(`/v1/subscription_items?subscription=${subscription}`, {
      ...{ id: 'si_TSmHddmQAtKw2P', object: 'subscription_item', created, price: priceObject, quantity: 1 },
      ...{ current_period_end: period.end, current_period_start: period.start, subscription },
    }),
    ...{ latest_invoice: invoice, livemode, metadata, pause_collection: null, pending_update: null },
    ...{ schedule: null, start_date: created, status: 'active', trial_end: null, trial_start: null },
  },
  subscription_schedule: {
    ...{ id: 'sub_sched_1SVs4dHb4kQnT2mXq9LwPz7C', object: 'subscription_schedule', canceled_at: null },
    ...{ completed_at: null, created, current_phase: { end_date: period.end, start_date: period.start } },
    ...{ customer, end_behavior: 'release', livemode, metadata },
    phases: [
      {
        ...{ currency, start_date: period.start, end_date: period.end, items: [{ price, quantity: 1 }] },
        ...{ metadata: {}, proration_behavior: 'create_prorations', trial_end: null },
      },
    ],
    ...{ released_at: null, released_subscription: null, status: 'active', subscription },
  },
  invoice: {
    ...{ id: invoice, object: 'invoice', account_country: 'PT', account_name: 'Shop Example' },
    ...{ amount_due: 2500, amount_overpaid: 0, amount_paid: 0, amount_remaining: 2500, attempt_count: 0 },
    ...{ attempted: false, auto_advance: true, automatic_tax, billing_reason: 'manual' },
    ...{ collection_method: 'charge_automatically', created, currency, customer },
    ...{ customer_email: 'buyer@example.com', customer_name: 'Ada Quill', due_date: null },
    ...{ hosted_invoice_url: 'https://invoice.stripe.com/i/sample', last_finalization_error: null },
    lines: list(`/v1/invoices/${invoice}/lines`, {
      ...{ id: 'il_1SVr0uHb4kQnT2mXv4GhQk8S', object: 'line_item', amount: 2500, currency, invoice },
      ...{ description: '1 × Membership', period, quantity: 1 },
      pricing: {
        ...{ price_details: { price, product }, type: 'price_details', unit_amount_decimal: '2500' },
      },
    }),
    ...{ livemode, metadata, next_payment_attempt: null, number: 'LX-0042-0007', parent: null },
    ...{ period_end: period.end, period_start: period.start, status: 'open', subtotal: 2500 },
    status_transitions: {
      finalized_at: created,
      marked_uncollectible_at: null,
      paid_at: null,
      voided_at: null,
    },
    total: 2500,
  },
  invoice_payment: {
    ...{ id: 'inpay_1SVr1aHb4kQnT2mXt5RzNw6B', object: 'invoice_payment', amount_paid: 2500 },
    ...{ amount_requested: 2500, created, currency, invoice, is_default: true, livemode },
    ...{ payment: { payment_intent: paymentIntent, type: 'payment_intent' }, status: 'paid' },
    status_transitions: { canceled_at: null, paid_at: created },
  },
  invoiceitem: {
    ...{ id: 'ii_1SVr0gHb4kQnT2mXb7XsLd1V', object: 'invoiceitem', amount: 900, currency, customer },
    ...{ date: created, description: 'Delivery', discountable: true, discounts: [], invoice: null },
    ...{ livemode, metadata, parent: null, period: { end: created, start: created }, proration: false },
    ...{ pricing: { price_details: { price, product }, type: 'price_details', unit_amount_decimal: '900' } },
    quantity: 1,
  },
  credit_note: {
    ...{ id: 'cn_1SVuRzHb4kQnT2mXj8MfKw2T', object: 'credit_note', amount: 900, created, currency, customer },
    ...{ discount_amount: 0, effective_at: created, invoice, livemode, memo: null, metadata },
    ...{ number: 'LX-0042-0007-CN-01', pre_payment_amount: 0, post_payment_amount: 900 },
    ...{ reason: 'product_unsatisfactory', refunds: [], status: 'issued', subtotal: 900, total: 900 },
    ...{ type: 'post_payment', voided_at: null },
  },
  quote: {
    ...{ id: 'qt_1SVpTnHb4kQnT2mXa3CvWx9K', object: 'quote', amount_subtotal: 2500, amount_total: 2500 },
    ...{ automatic_tax, collection_method: 'charge_automatically', created, currency, customer },
    ...{ expires_at: 1_796_805_600, invoice: null, livemode, metadata, number: 'QT-LX-0042-1' },
    ...{ status: 'draft', status_transitions: { accepted_at: null, canceled_at: null, finalized_at: null } },
    ...{
      subscription: null,
      subscription_schedule: null,
      total_details: { amount_discount: 0, amount_tax: 0 },
    },
  },
}

const catalogue: Readonly<Record<string, JsonObject>> = {
  customer: {
    ...{ id: customer, object: 'customer', address, balance: 0, created, currency, delinquent: false },
    ...{ default_source: null, description: null, email: 'buyer@example.com', invoice_prefix: 'LX0042' },
    invoice_settings: { custom_fields: null, default_payment_method: paymentMethod, footer: null },
    ...{ livemode, metadata, name: 'Ada Quill', phone: null, preferred_locales: ['pt'], shipping: null },
    tax_exempt: 'none',
  },
  discount: {
    ...{ id: discount, object: 'discount', checkout_session: null, customer, end: null, invoice: null },
    ...{ promotion_code: 'promo_1SVs9kHb4kQnT2mXg5TpYn4F', source: { coupon, type: 'coupon' } },
    ...{ start: created, subscription: null },
  },
  tax_id: {
    ...{ id: 'txi_1SVqGbHb4kQnT2mXr2QsZk5J', object: 'tax_id', country: 'PT', created, customer, livemode },
    ...{ owner: { customer, type: 'customer' }, type: 'eu_vat', value: 'PT123456789' },
    verification: { status: 'pending', verified_address: null, verified_name: null },
  },
  entitlements: {
    ...{ object: 'entitlements.active_entitlement_summary', customer, livemode },
    entitlements: list(`/v1/customer/${customer}/entitlements`, {
      ...{ id: 'ent_61TSm9VwKq3ZtLx0P41HbQnT', object: 'entitlements.active_entitlement', livemode },
      ...{ feature: 'feat_61TSm8RkYp2NcWz7D41HbQnT', lookup_key: 'priority_support' },
    }),
  },
  cash_balance: {
    ...{ object: 'cash_balance', available: { eur: 12_500 }, customer, livemode },
    settings: { reconciliation_mode: 'automatic', using_merchant_default: true },
  },
  cash_balance_transaction: {
    ...{ id: 'ccsbtxn_1SVtLcHb4kQnT2mXh1DqVm7R', object: 'customer_cash_balance_transaction', created },
    ...{ currency, customer, ending_balance: 12_500, livemode, net_amount: 12_500, type: 'funded' },
    funded: { bank_transfer: { reference: 'Order 6735', type: 'eu_bank_transfer' } },
  },
  verification_session: {
    ...{ id: 'vs_1SVqCwHb4kQnT2mXl6WtBz3P', object: 'identity.verification_session', created, livemode },
    ...{ last_error: null, last_verification_report: null, metadata, redaction: null, type: 'document' },
    ...{ options: { document: { require_matching_selfie: true } }, related_customer: customer },
    status: 'requires_input',
  },
  product: {
    ...{ id: product, object: 'product', active: true, created, default_price: price, images: [] },
    ...{ description: 'Monthly membership with free delivery', livemode, marketing_features: [], metadata },
    ...{ name: 'Membership', shippable: null, tax_code: null, type: 'service', updated: created, url: null },
  },
  price: { ...priceObject, metadata },
  plan: {
    ...{ id: price, object: 'plan', active: true, amount: 2500, amount_decimal: '2500', created, currency },
    ...{ billing_scheme: 'per_unit', interval: 'month', interval_count: 1, livemode, metadata, product },
    ...{ trial_period_days: null, usage_type: 'licensed' },
  },
  coupon: {
    ...{ id: coupon, object: 'coupon', amount_off: null, created, currency: null, duration: 'once' },
    ...{ duration_in_months: null, livemode, max_redemptions: 500, metadata, name: 'Harvest sale' },
    ...{ percent_off: 15, redeem_by: period.end, times_redeemed: 0, valid: true },
  },
  promotion_code: {
    ...{ id: 'promo_1SVs9kHb4kQnT2mXg5TpYn4F', object: 'promotion_code', active: true, code: 'HARVEST' },
    ...{ created, customer: null, expires_at: period.end, livemode, max_redemptions: 100, metadata },
    ...{ promotion: { coupon, type: 'coupon' }, times_redeemed: 0 },
    restrictions: { first_time_transaction: true, minimum_amount: null, minimum_amount_currency: null },
  },
  tax_rate: {
    ...{ id: 'txr_1SVpFdHb4kQnT2mXw4KzHs8N', object: 'tax_rate', active: true, country: 'PT', created },
    ...{ description: 'IVA Portugal', display_name: 'IVA', inclusive: true, jurisdiction: 'PT', livemode },
    ...{ metadata, percentage: 23, state: null, tax_type: 'vat' },
  },
  tax_settings: {
    ...{ object: 'tax.settings', head_office: { address }, livemode, status: 'active' },
    defaults: { provider: 'stripe', tax_behavior: 'inclusive', tax_code: 'txcd_10000000' },
    status_details: { active: {} },
  },
}

const accounts: Readonly<Record<string, JsonObject>> = {
  balance: {
    ...{ object: 'balance', livemode },
    available: [{ amount: 182_340, currency, source_types: { card: 182_340 } }],
    pending: [{ amount: 25_000, currency, source_types: { card: 25_000 } }],
  },
  balance_settings: {
    object: 'balance_settings',
    payments: {
      debit_negative_balances: true,
      payouts: {
        schedule: { interval: 'weekly', weekly_payout_days: ['friday'] },
        ...{ statement_descriptor: 'SHOP EXAMPLE', status: 'enabled' },
      },
      settlement_timing: { delay_days: 3 },
    },
  },
  payout: {
    ...{ id: 'po_1SW2mVHb4kQnT2mXO9YrxPbC', object: 'payout', amount: 182_340, arrival_date: 1_794_441_600 },
    ...{ automatic: true, balance_transaction: 'txn_1SW2mVHb4kQnT2mXd9QrZc3L', created, currency },
    ...{ description: 'STRIPE PAYOUT', destination: 'ba_1SV0bHHb4kQnT2mXy8NvTk6W', failure_code: null },
    ...{ failure_message: null, livemode, metadata, method: 'standard', original_payout: null },
    ...{ reconciliation_status: 'in_progress', reversed_by: null, source_type: 'card', status: 'pending' },
    ...{ statement_descriptor: null, type: 'bank_account' },
  },
  transfer: {
    ...{ id: 'tr_3SVqLmHb4kQnT2mX1khdVipy', object: 'transfer', amount: 18_000, amount_reversed: 0, created },
    ...{ balance_transaction: 'txn_3SVqLmHb4kQnT2mX1sVxKf8C', currency, description: null },
    ...{ destination: account, destination_payment: 'py_1SVqLoHb4kQnT2mXm3BkYt5R', livemode, metadata },
    reversals: list('/v1/transfers/tr_3SVqLmHb4kQnT2mX1khdVipy/reversals'),
    ...{ reversed: false, source_transaction: charge, source_type: 'card', transfer_group: 'group_6735' },
  },
  topup: {
    ...{ id: 'tu_1SW4XzHb4kQnT2mXq7DhPn2V', object: 'topup', amount: 100_000, balance_transaction: null },
    ...{ created, currency, description: 'Weekly top-up', expected_availability_date: 1_794_700_800 },
    ...{ failure_code: null, failure_message: null, livemode, metadata, source: null, status: 'pending' },
    ...{ statement_descriptor: 'TOP-UP', transfer_group: null },
  },
  application_fee: {
    ...{ id: 'fee_1SVqLnHb4kQnT2mXk5WcJr0Z', object: 'application_fee', account, amount: 1250 },
    ...{
      amount_refunded: 0,
      application: 'ca_TSmA4vPq9LzKd2RnYx7WcB0e',
      charge,
      created,
      currency,
      livemode,
    },
    ...{ balance_transaction: 'txn_1SVqLnHb4kQnT2mXa6RtNk9S', refunded: false },
    refunds: list('/v1/application_fees/fee_1SVqLnHb4kQnT2mXk5WcJr0Z/refunds'),
  },
  fee_refund: {
    ...{ id: 'fr_TSmB8kQz2VnLxP', object: 'fee_refund', amount: 250, created, currency, metadata },
    ...{ balance_transaction: 'txn_1SWd2cHb4kQnT2mXb1PwLs4G', fee: 'fee_1SVqLnHb4kQnT2mXk5WcJr0Z' },
  },
  account: {
    ...{ id: account, object: 'account', business_type: 'company', charges_enabled: true, country: 'PT' },
    ...{
      capabilities: { card_payments: 'active', transfers: 'active' },
      created,
      default_currency: currency,
    },
    ...{
      details_submitted: true,
      email: 'seller@example.com',
      metadata,
      payouts_enabled: true,
      requirements,
    },
    type: 'express',
  },
  application: { id: 'ca_TSmA4vPq9LzKd2RnYx7WcB0e', object: 'application', name: 'Marketplace Example' },
  external_account: {
    ...{ id: 'ba_1SV0bHHb4kQnT2mXy8NvTk6W', object: 'bank_account', account, account_holder_type: 'company' },
    ...{ account_holder_name: 'Seller Example Lda', available_payout_methods: ['standard'] },
    ...{ bank_name: 'STRIPE TEST BANK', country: 'PT', currency, default_for_currency: true },
    ...{ fingerprint: 'Zk7RmQ2wXv90PtLc', last4: '0154', metadata, status: 'new' },
  },
  capability: {
    ...{ id: 'card_payments', object: 'capability', account, requested: true, requested_at: created },
    ...{ requirements, status: 'active' },
  },
  person: {
    ...{ id: 'person_1SV0cTHb4kQnT2mXs4GzVq7B', object: 'person', account, created, metadata, requirements },
    ...{ email: 'owner@example.com', first_name: 'Chiara', last_name: 'Lind', id_number_provided: true },
    relationship: { director: true, executive: true, owner: true, percent_ownership: 60, title: 'CEO' },
    verification: { details: null, details_code: null, status: 'verified' },
  },
  file: {
    ...{ id: 'file_1SW5RkHb4kQnT2mXt8JvKc1N', object: 'file', created, expires_at: null, size: 9863 },
    ...{
      filename: 'frr_1SW5RfHb4kQnT2mXw2PqDz6L.csv',
      purpose: 'finance_report_run',
      title: null,
      type: 'csv',
    },
    url: 'https://files.stripe.com/v1/files/file_1SW5RkHb4kQnT2mXt8JvKc1N/contents',
  },
  report_run: {
    ...{ id: 'frr_1SW5RfHb4kQnT2mXw2PqDz6L', object: 'reporting.report_run', created, error: null, livemode },
    parameters: { currency, interval_end: 1_794_182_400, interval_start: 1_793_577_600 },
    ...{ report_type: 'balance.summary.1', result: null, status: 'succeeded', succeeded_at: created },
  },
  report_type: {
    ...{ id: 'balance.summary.1', object: 'reporting.report_type', data_available_end: 1_794_182_400 },
    ...{ data_available_start: 1_767_225_600, default_columns: ['category', 'description', 'net_amount'] },
    ...{ livemode, name: 'Balance summary', updated: created, version: 1 },
  },
}

/** Objects by name. */
export const sampleObjects: Readonly<Record<string, JsonObject>> = {
  ...payments,
  ...billing,
  ...catalogue,
  ...accounts,
}
