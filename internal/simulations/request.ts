import { Type } from '@sinclair/typebox'

/** Longest time between two events, in seconds. */
export const stepSecondsMax = 86_400
/** Largest amount, in the smallest unit of its currency. */
export const amountMax = 999_999_999_999

/** Why a cardholder or buyer disputes a payment, in words that providers share. */
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
/** One of the reasons. */
export type ChargebackReason = (typeof chargebackReasons)[number]

/** Providers whose disputes can be simulated. */
export const simulatedProviders = ['card', 'wallet'] as const
/** One of these providers. */
export type SimulatedProvider = (typeof simulatedProviders)[number]

/** How a dispute can end. */
export const chargebackOutcomes = ['won', 'lost'] as const

function oneOf<const V extends readonly string[]>(values: V, description: string) {
  const pattern = `^(${values.join('|')})$`
  return Type.Unsafe<V[number]>(Type.String({ enum: [...values], pattern, description }))
}

/** Body of POST /v1/simulate/chargeback. */
export const SimulateChargebackRequest = Type.Object(
  {
    provider: Type.Optional(oneOf(simulatedProviders, 'Whose dispute it is. Default `card`.')),
    amount: Type.Integer({
      minimum: 1,
      maximum: amountMax,
      description:
        'The disputed amount in the smallest unit of its currency: 4200 is 42.00 EUR, or 4200 JPY. The events have it as their provider writes it.',
    }),
    currency: Type.RegExp(/^[A-Za-z]{3,3}$/, { description: 'ISO 4217 code, in either case.' }),
    reason: Type.Optional(
      oneOf(
        chargebackReasons,
        'Why the payment is disputed; the events have the provider’s word for it. Default `fraudulent`.',
      ),
    ),
    reference: Type.Optional(
      Type.RegExp(/^[^\p{Cc}\p{Cs}\uFFFD]{1,127}$/u, {
        description:
          'Your own name of the payment: `metadata.reference` of the dispute of `card`, `invoice_number` of the transaction of `wallet`.',
      }),
    ),
    outcome: Type.Optional(oneOf(chargebackOutcomes, 'How the dispute ends. Default `lost`.')),
    stepSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: stepSecondsMax,
        description: 'Time from one event to the next, in seconds; the first one is due at once. Default 1.',
      }),
    ),
    dryRun: Type.Optional(
      Type.Boolean({
        description: 'true: only say what would come. Nothing is written, and the ids name nothing.',
      }),
    ),
  },
  { additionalProperties: false },
)
export type SimulateChargebackRequest = typeof SimulateChargebackRequest.static

/** What is simulated: a request with its defaults filled in, as it is stored. */
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

/** Fills in the defaults. Pure. */
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
