import { Type } from '@sinclair/typebox'

/** Maximum seconds between two events. */
export const stepSecondsMax = 86_400
/** Maximum amount, in the smallest unit of its currency. */
export const amountMax = 999_999_999_999

/** Reasons of a dispute, normalized across providers. */
export const chargebackReasons = [
  'fraudulent',
  'unrecognized',
  'duplicate',
  'product_not_received',
  'product_unacceptable',
  'credit_not_processed',
  'subscription_cancelled',
  'general',
] as const
/** Reason of a dispute. */
export type ChargebackReason = (typeof chargebackReasons)[number]

/** Providers whose disputes can be simulated. */
export const simulatedProviders = ['card', 'wallet'] as const
/** Provider of a simulation. */
export type SimulatedProvider = (typeof simulatedProviders)[number]

/** Outcomes of a dispute. */
export const chargebackOutcomes = ['won', 'lost'] as const

function oneOf<const V extends readonly string[]>(values: V, description: string) {
  const pattern = `^(${values.join('|')})$`
  return Type.Unsafe<V[number]>(Type.String({ enum: [...values], pattern, description }))
}

/** Body of POST /v1/simulate/chargeback. */
export const SimulateChargebackRequest = Type.Object(
  {
    provider: Type.Optional(oneOf(simulatedProviders, 'Provider of the dispute. Default `card`.')),
    amount: Type.Integer({
      minimum: 1,
      maximum: amountMax,
      description:
        'Disputed amount in the smallest unit of its currency: 4200 is 42.00 EUR, or 4200 JPY. The events carry it in the provider’s format.',
    }),
    currency: Type.RegExp(/^[A-Za-z]{3,3}$/, { description: 'ISO 4217 code, in either case.' }),
    reason: Type.Optional(
      oneOf(
        chargebackReasons,
        'Reason of the dispute; the events carry the provider’s term for it. Default `fraudulent`.',
      ),
    ),
    reference: Type.Optional(
      Type.RegExp(/^[^\p{Cc}\p{Cs}\uFFFD]{1,127}$/u, {
        description:
          'Your reference of the payment: `metadata.reference` of the dispute for `card`, `invoice_number` of the transaction for `wallet`.',
      }),
    ),
    outcome: Type.Optional(oneOf(chargebackOutcomes, 'Outcome of the dispute. Default `lost`.')),
    stepSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: stepSecondsMax,
        description: 'Seconds from one event to the next; the first is due at once. Default 1.',
      }),
    ),
    dryRun: Type.Optional(
      Type.Boolean({
        description:
          'true: returns the events without starting a simulation. Nothing is stored, and the ids refer to nothing.',
      }),
    ),
  },
  { additionalProperties: false, $id: 'SimulateChargebackRequest' },
)
export type SimulateChargebackRequest = typeof SimulateChargebackRequest.static

/** A request with its defaults filled in, as stored. */
export interface Chargeback {
  readonly provider: SimulatedProvider
  readonly amount: number
  /** In capitals. */
  readonly currency: string
  readonly reason: ChargebackReason
  readonly reference: string | null
  readonly outcome: (typeof chargebackOutcomes)[number]
  readonly stepSeconds: number
}

/** Returns a request with its defaults filled in. Pure. */
export function chargebackOf(request: SimulateChargebackRequest): Chargeback {
  return {
    provider: request.provider ?? 'card',
    amount: request.amount,
    currency: request.currency.toUpperCase(),
    reason: request.reason ?? 'fraudulent',
    reference: request.reference ?? null,
    outcome: request.outcome ?? 'lost',
    stepSeconds: request.stepSeconds ?? 1,
  }
}
