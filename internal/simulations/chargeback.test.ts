import { describe, expect, test } from 'bun:test'
import { type JsonObject } from '#internal/base/index.ts'
import { card } from '#internal/providers/built-in/declarations.ts'
import { wallet } from '#internal/providers/built-in/wallet/provider.ts'
// Imports the adapters that real calls use.
import { readCall, readEventId } from '#internal/providers/declared/event.ts'
import { createWalletSigner } from '#internal/providers/index.ts'
import { decimalText, disputeOverrides, sourceEventId, stepsCount, stepTypes } from './chargeback.ts'
import { merge, sampleOf } from './simulated-call.ts'
import {
  type Chargeback,
  chargebackOf,
  chargebackReasons,
  createSimulationId,
  parseSimulationId,
} from './simulation.ts'

const openedAtMs = Date.parse('2026-11-21T14:40:48.375Z')
const occurredAtMs = openedAtMs + 5_000
const id = createSimulationId(openedAtMs)
const secret = 'whsec_test'
const webhookId = 'W1'
const signer = await createWalletSigner()
const base = chargebackOf({ amount: 4200, currency: 'eur' })

function bodyOf(chargeback: Chargeback, step: number): Uint8Array {
  const { rawType, payload } = sampleOf(chargeback.provider, stepTypes(chargeback)[step] ?? '') ?? fail()
  const overrides = disputeOverrides({ id, chargeback, step, openedAtMs, occurredAtMs })
  const event = {
    id: sourceEventId(id, chargeback.provider, step),
    rawType,
    payload: merge(payload, overrides),
    occurredAtMs,
  }
  const { write } = chargeback.provider === 'card' ? card : wallet
  return write?.(event, {})?.body ?? fail()
}

function fail(): never {
  throw new Error('the catalogue or the adapter lacks this event')
}

/** Signs the body of a step as its provider does and reads it with the provider's adapter. */
function read(chargeback: Chargeback, step: number) {
  const body = bodyOf(chargeback, step)
  const common = { body, nowMs: occurredAtMs, signatureAgeMsMax: 300_000 }
  if (chargeback.provider === 'card') {
    const headers = new Headers(card.sign?.({ body, headers: {} }, secret, occurredAtMs))
    return readCall(card, { ...common, headers, settings: {} }, card.prepare([secret]))
  }
  const headers = new Headers(signer.sign({ body, webhookId, atMs: occurredAtMs }))
  const settings = { wallet: { webhookId, environment: 'live' } } as const
  return readCall(wallet, { ...common, headers, settings }, signer.signer)
}

const lives = (['card', 'wallet'] as const).flatMap((provider) =>
  (['won', 'lost'] as const).flatMap((outcome) =>
    chargebackReasons.map((reason) => ({ ...base, provider, outcome, reason })),
  ),
)

describe('simulated events', () => {
  test.each(lives)(
    'simulated events: the adapter of $provider reads the expected types and ids (outcome $outcome, reason $reason)',
    (chargeback) => {
      const types = stepTypes(chargeback)
      expect(types).toHaveLength(stepsCount)
      for (const [step, type] of types.entries()) {
        const event = read(chargeback, step)
        const whole = chargeback.provider === 'card' ? Math.floor(occurredAtMs / 1000) * 1000 : occurredAtMs
        expect(event).toMatchObject({
          kind: 'event',
          type,
          occurredAtMs: whole,
          sourceEventId: sourceEventId(id, chargeback.provider, step),
        })
      }
    },
  )

  test('sourceEventId: ids are unique, deterministic and different in form from Latchkey’s ids', () => {
    const ids = [0, 1, 2].flatMap((step) => [
      sourceEventId(id, 'card', step),
      sourceEventId(id, 'wallet', step),
    ])
    expect(new Set(ids).size).toBe(6)
    for (const each of ids) {
      expect(readEventId(each)).toBe(each)
      expect(each).not.toMatch(/^evt_[0-9a-hjkmnp-tv-z]{26}$/)
    }
    expect(
      [0, 1, 2].flatMap((step) => [sourceEventId(id, 'card', step), sourceEventId(id, 'wallet', step)]),
    ).toEqual(ids)
  })

  test('simulated events: contain amount, currency, reason and reference in the provider’s format', () => {
    const asked = { amount: 1999, currency: 'usd', reference: 'order-1042', outcome: 'lost' } as const
    const written = (provider: 'card' | 'wallet', step: number) => {
      const chargeback = chargebackOf({ ...asked, provider, reason: 'subscription_cancelled' })
      return JSON.parse(new TextDecoder().decode(bodyOf(chargeback, step))) as JsonObject
    }
    expect(written('card', 1)).toMatchObject({
      livemode: false,
      type: 'charge.dispute.updated',
      data: {
        object: {
          amount: 1999,
          currency: 'usd',
          reason: 'subscription_canceled',
          status: 'under_review',
          metadata: { reference: 'order-1042' },
        },
        previous_attributes: { status: 'needs_response' },
      },
    })
    expect(written('wallet', 2)).toMatchObject({
      event_type: 'CUSTOMER.DISPUTE.RESOLVED',
      resource: {
        reason: 'CANCELED_RECURRING_BILLING',
        dispute_amount: { currency_code: 'USD', value: '19.99' },
        dispute_outcome: {
          outcome_code: 'RESOLVED_BUYER_FAVOUR',
          amount_refunded: { currency_code: 'USD', value: '19.99' },
        },
        disputed_transactions: [{ invoice_number: 'order-1042' }],
      },
    })
  })
})

test.each([
  [4200, 'EUR', '42.00'],
  [5, 'EUR', '0.05'],
  [999_999_999_999, 'USD', '9999999999.99'],
  [4200, 'JPY', '4200'],
  [1, 'BHD', '0.001'],
  [12_345, 'CLF', '1.2345'],
  [100, 'QQQ', '1.00'],
])('decimalText: converts %d smallest units of %s to %s', (amount, currency, text) => {
  expect(decimalText(amount, currency)).toBe(text)
})

test.each([
  ['a valid simulation id', id, id],
  ['an event id as undefined', id.replace('sim_', 'evt_'), undefined],
  ['an id that is too long as undefined', `${id}0`, undefined],
  ['an empty text as undefined', '', undefined],
])('parseSimulationId: parses %s', (_case, text, expected) => {
  expect(parseSimulationId(text)).toBe(expected)
})
