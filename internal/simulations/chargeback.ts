import { type JsonObject } from '#internal/base/index.ts'

import type { Chargeback, ChargebackReason, SimulatedProvider } from './simulation.ts'

export const stepsCount = 3

export interface DisputeStep {
  /** Id of the simulation, from which all other ids derive. */
  readonly id: string
  readonly chargeback: Chargeback
  /** Number of the event, from 0. */
  readonly step: number
  readonly openedAtMs: number
  readonly occurredAtMs: number
}

export function stepTypes({ outcome }: Chargeback): readonly string[] {
  return ['chargeback.created', 'chargeback.under_review', `chargeback.${outcome}`]
}

/** Returns a deterministic id, so that an event sent again after a crash is a duplicate. Pure. */
export function sourceEventId(simulationId: string, provider: SimulatedProvider, step: number): string {
  const name = nameOf(simulationId)
  return provider === 'card' ? `evt_sim_${name}_${step + 1}` : `WH-SIM-${name.toUpperCase()}-${step + 1}`
}

/** Returns the payload members in which this event differs from the provider's sample event of the same type. Pure. */
export function disputeOverrides(of: DisputeStep): JsonObject {
  return of.chargeback.provider === 'card' ? cardOverrides(of) : walletOverrides(of)
}

function nameOf(simulationId: string): string {
  return simulationId.slice('sim_'.length)
}

const cardReasons: Readonly<Record<ChargebackReason, string>> = {
  fraudulent: 'fraudulent',
  unrecognized: 'unrecognized',
  duplicate: 'duplicate',
  product_not_received: 'product_not_received',
  product_unacceptable: 'product_unacceptable',
  credit_not_processed: 'credit_not_processed',
  subscription_cancelled: 'subscription_canceled',
  general: 'general',
}
const evidenceSeconds = 7 * 86_400

function cardOverrides({ id, step, chargeback, openedAtMs }: DisputeStep): JsonObject {
  const name = nameOf(id)
  const created = seconds(openedAtMs)
  const object = {
    id: `du_sim_${name}`,
    amount: chargeback.amount,
    charge: `ch_sim_${name}`,
    created,
    currency: chargeback.currency.toLowerCase(),
    evidence_details: {
      due_by: created + evidenceSeconds,
      has_evidence: step > 0,
      submission_count: step > 0 ? 1 : 0,
    },
    livemode: false,
    metadata: chargeback.reference === null ? {} : { reference: chargeback.reference },
    payment_intent: `pi_sim_${name}`,
    reason: cardReasons[chargeback.reason],
  }
  return { livemode: false, request: { id: null, idempotency_key: null }, data: { object } }
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000)
}

const walletReasons: Readonly<Record<ChargebackReason, string>> = {
  fraudulent: 'UNAUTHORISED',
  unrecognized: 'UNAUTHORISED',
  duplicate: 'DUPLICATE_TRANSACTION',
  product_not_received: 'MERCHANDISE_OR_SERVICE_NOT_RECEIVED',
  product_unacceptable: 'MERCHANDISE_OR_SERVICE_NOT_AS_DESCRIBED',
  credit_not_processed: 'CREDIT_NOT_PROCESSED',
  subscription_cancelled: 'CANCELED_RECURRING_BILLING',
  general: 'OTHER',
}

function walletOverrides({ id, step, chargeback, openedAtMs, occurredAtMs }: DisputeStep): JsonObject {
  const name = nameOf(id).toUpperCase()
  const { currency, reference, outcome } = chargeback
  const amount = { currency_code: currency, value: decimalText(chargeback.amount, currency) }
  const isLost = step === stepsCount - 1 && outcome === 'lost'
  const transaction = {
    seller_transaction_id: `SIM${name}`,
    ...(reference !== null && { invoice_number: reference }),
    items: [],
    seller_protection_eligible: false,
  }
  const resource = {
    dispute_id: `PP-SIM-${name}`,
    create_time: new Date(openedAtMs).toISOString(),
    update_time: new Date(occurredAtMs).toISOString(),
    disputed_transactions: [transaction],
    reason: walletReasons[chargeback.reason],
    dispute_amount: amount,
    dispute_life_cycle_stage: 'CHARGEBACK',
    dispute_channel: 'EXTERNAL',
    seller_response_due_date: new Date(openedAtMs + evidenceSeconds * 1000).toISOString(),
    ...(isLost && { dispute_outcome: { amount_refunded: amount } }),
    links: [],
  }
  return { resource, links: [] }
}

// Decimals of currencies whose smallest unit is not 1/100 (ISO 4217).
const decimals: Readonly<Record<string, number>> = {
  ...digits(0, 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF'),
  ...digits(3, 'BHD IQD JOD KWD LYD OMR TND'),
  ...digits(4, 'CLF UYW'),
}

/** Converts an amount in smallest units to decimals: 4200 in EUR becomes `42.00`. Unknown currencies have two decimals. Pure. */
export function decimalText(amount: number, currency: string): string {
  const places = Object.hasOwn(decimals, currency) ? (decimals[currency] ?? 2) : 2
  if (places === 0) return String(amount)
  const text = String(amount).padStart(places + 1, '0')
  return `${text.slice(0, -places)}.${text.slice(-places)}`
}

function digits(places: number, currencies: string): Record<string, number> {
  return Object.fromEntries(currencies.split(' ').map((currency) => [currency, places]))
}
