import type { DisputeStep } from './chargeback.ts'
import type { ChargebackReason } from './request.ts'

// In the form of what the adapter's fixtures show, intake/providers/card; its README has the vendor's pages.

/** A step with the names that the provider's objects get. */
export interface WrittenStep extends DisputeStep {
  readonly name: string
  readonly eventId: string
}

const reasons: Readonly<Record<ChargebackReason, string>> = {
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

/** An event of the card provider about a dispute. Pure. */
export function cardDispute(of: WrittenStep): object {
  const { name, step, chargeback } = of
  const { type, status, before } = stages(chargeback.outcome)[step] ?? {}
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
    reason: reasons[chargeback.reason],
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

function stages(outcome: string) {
  return [
    { type: 'charge.dispute.created', status: 'needs_response', before: undefined },
    { type: 'charge.dispute.updated', status: 'under_review', before: 'needs_response' },
    { type: 'charge.dispute.closed', status: outcome, before: 'under_review' },
  ]
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000)
}
