import type { WrittenStep } from './card-dispute.ts'
import { decimalText } from './decimal-text.ts'
import type { ChargebackReason } from './request.ts'

// In the form of what the adapter's fixtures show, intake/providers/wallet; its README has the vendor's pages.

const reasons: Readonly<Record<ChargebackReason, string>> = {
  fraudulent: 'UNAUTHORISED',
  unrecognized: 'UNAUTHORISED',
  duplicate: 'DUPLICATE_TRANSACTION',
  product_not_received: 'MERCHANDISE_OR_SERVICE_NOT_RECEIVED',
  product_unacceptable: 'MERCHANDISE_OR_SERVICE_NOT_AS_DESCRIBED',
  credit_not_processed: 'CREDIT_NOT_PROCESSED',
  subscription_cancelled: 'CANCELED_RECURRING_BILLING',
  general: 'OTHER',
}

const stages = [
  {
    type: 'CUSTOMER.DISPUTE.CREATED',
    status: 'WAITING_FOR_SELLER_RESPONSE',
    summary: 'A new dispute opened',
  },
  { type: 'CUSTOMER.DISPUTE.UPDATED', status: 'UNDER_REVIEW', summary: 'A dispute was updated' },
  { type: 'CUSTOMER.DISPUTE.RESOLVED', status: 'RESOLVED', summary: 'Dispute resolved' },
] as const

/** An event of the wallet provider about a dispute. Pure. */
export function walletDispute(of: WrittenStep): object {
  const { name, step, chargeback } = of
  const { type, status, summary } = stages[step] ?? {}
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
      reason: reasons[chargeback.reason],
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
