import type { Chargeback, ChargebackReason, SimulatedProvider } from './simulation.ts'

/** Number of events of a dispute. */
export const stepsCount = 3

/** One event of a dispute. */
export interface DisputeStep {
  /** Id of the simulation. All other ids derive from it. */
  readonly id: string
  readonly chargeback: Chargeback
  /** Number of the event, 0 for the first. */
  readonly step: number
  readonly openedAtMs: number
  readonly occurredAtMs: number
}

/** Returns the normalized types of a dispute's events, in order. Pure. */
export function stepTypes({ outcome }: Chargeback): readonly string[] {
  return ['chargeback.created', 'chargeback.under_review', `chargeback.${outcome}`]
}

/** Returns the provider's id of an event. The id is deterministic, so an event sent again after a crash is a duplicate. Pure. */
export function sourceEventId(simulationId: string, provider: SimulatedProvider, step: number): string {
  const name = nameOf(simulationId)
  return provider === 'card' ? `evt_sim_${name}_${step + 1}` : `WH-SIM-${name.toUpperCase()}-${step + 1}`
}

/** Returns the body of an event in the vendor's format. Pure. */
export function eventBody(of: DisputeStep): string {
  const { provider } = of.chargeback
  const written = { ...of, name: nameOf(of.id), eventId: sourceEventId(of.id, provider, of.step) }
  return JSON.stringify(provider === 'card' ? cardDispute(written) : walletDispute(written))
}

function nameOf(simulationId: string): string {
  return simulationId.slice('sim_'.length)
}

interface WrittenStep extends DisputeStep {
  /** Suffix of all ids in the event. */
  readonly name: string
  readonly eventId: string
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

/** Creates an event of the card provider in the form of the fixtures in intake/providers/card. Its README lists the vendor's pages. */
function cardDispute(of: WrittenStep): object {
  const { name, step, chargeback } = of
  const { type, status, before } = cardStages(chargeback.outcome)[step] ?? {}
  const created = seconds(of.openedAtMs)
  const dispute = {
    id: `du_sim_${name}`,
    object: 'dispute',
    amount: chargeback.amount,
    charge: `ch_sim_${name}`,
    created,
    currency: chargeback.currency.toLowerCase(),
    evidence_details: {
      due_by: created + evidenceSeconds,
      has_evidence: step > 0,
      past_due: false,
      submission_count: step > 0 ? 1 : 0,
    },
    is_charge_refundable: false,
    livemode: false,
    metadata: chargeback.reference === null ? {} : { reference: chargeback.reference },
    payment_intent: `pi_sim_${name}`,
    reason: cardReasons[chargeback.reason],
    status,
  }
  return {
    id: of.eventId,
    object: 'event',
    api_version: '2026-10-28.endive',
    created: seconds(of.occurredAtMs),
    livemode: false,
    pending_webhooks: 1,
    request: { id: null, idempotency_key: null },
    type,
    data: { object: dispute, ...(before !== undefined && { previous_attributes: { status: before } }) },
  }
}

function cardStages(outcome: string) {
  return [
    { type: 'charge.dispute.created', status: 'needs_response', before: undefined },
    { type: 'charge.dispute.updated', status: 'under_review', before: 'needs_response' },
    { type: 'charge.dispute.closed', status: outcome, before: 'under_review' },
  ]
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

const walletStages = [
  {
    type: 'CUSTOMER.DISPUTE.CREATED',
    status: 'WAITING_FOR_SELLER_RESPONSE',
    summary: 'A new dispute opened',
  },
  { type: 'CUSTOMER.DISPUTE.UPDATED', status: 'UNDER_REVIEW', summary: 'A dispute was updated' },
  { type: 'CUSTOMER.DISPUTE.RESOLVED', status: 'RESOLVED', summary: 'Dispute resolved' },
] as const

/** Creates an event of the wallet provider in the form of the fixtures in intake/providers/wallet. Its README lists the vendor's pages. */
function walletDispute(of: WrittenStep): object {
  const { name, step, chargeback } = of
  const { type, status, summary } = walletStages[step] ?? {}
  const caseId = `PP-SIM-${name.toUpperCase()}`
  const happened = new Date(of.occurredAtMs).toISOString()
  const opened = new Date(of.openedAtMs).toISOString()
  const amount = {
    currency_code: chargeback.currency,
    value: decimalText(chargeback.amount, chargeback.currency),
  }
  const transaction = {
    seller_transaction_id: `SIM${name.toUpperCase()}`,
    ...(chargeback.reference !== null && { invoice_number: chargeback.reference }),
    items: [],
    seller_protection_eligible: false,
  }
  return {
    id: of.eventId,
    event_version: '1.0',
    create_time: happened,
    resource_type: 'dispute',
    event_type: type,
    summary: `${summary} with Case # ${caseId}`,
    resource: {
      dispute_id: caseId,
      create_time: opened,
      update_time: happened,
      disputed_transactions: [transaction],
      reason: walletReasons[chargeback.reason],
      status,
      ...(status === 'RESOLVED' && { dispute_outcome: outcomeOf(chargeback.outcome, amount) }),
      dispute_amount: amount,
      dispute_life_cycle_stage: 'CHARGEBACK',
      dispute_channel: 'EXTERNAL',
    },
  }
}

function outcomeOf(outcome: 'won' | 'lost', amount: object): object {
  return outcome === 'won'
    ? { outcome_code: 'RESOLVED_SELLER_FAVOUR' }
    : { outcome_code: 'RESOLVED_BUYER_FAVOUR', amount_refunded: amount }
}

// Number of decimals of currencies whose smallest unit is not 1/100 (ISO 4217).
const decimals: Readonly<Record<string, number>> = {
  ...digits(0, 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF'),
  ...digits(3, 'BHD IQD JOD KWD LYD OMR TND'),
  ...digits(4, 'CLF UYW'),
}

/** Converts an amount in a currency's smallest unit to decimal text: `42.00` for 4200 EUR. Unknown currencies have two decimals. Pure. */
export function decimalText(amount: number, currency: string): string {
  const places = Object.hasOwn(decimals, currency) ? (decimals[currency] ?? 2) : 2
  if (places === 0) return String(amount)
  const text = String(amount).padStart(places + 1, '0')
  return `${text.slice(0, -places)}.${text.slice(-places)}`
}

function digits(places: number, currencies: string): Record<string, number> {
  return Object.fromEntries(currencies.split(' ').map((currency) => [currency, places]))
}
