import { describe, expect, test } from 'bun:test'
import { type ClaimedDelivery, queueIdOf } from '#internal/events/index.ts'
import { Delivery, type DeliveryState } from './delivery.ts'

const claim = {
  eventId: 'evt_1',
  tenantId: 'ten_1',
  destination: 'callback',
  cycle: 1,
  attempts: 0,
  claims: 1,
} as ClaimedDelivery

/** Creates a delivery and moves it to a state with the fewest changes. */
function deliveryIn(state: DeliveryState): Delivery {
  const { tenantId } = claim
  const delivery = new Delivery(claim, 0, { tenantId, queueId: queueIdOf(claim), sinceMs: 0, kind: 'shared' })
  const ways: Partial<Record<DeliveryState, readonly DeliveryState[]>> = {
    loading: ['loading'],
    sending: ['loading', 'sending'],
    concluded: ['concluded'],
    completing: ['concluded', 'completing'],
    done: ['concluded', 'completing', 'done'],
    released: ['released'],
    lost: ['lost'],
  }
  for (const next of ways[state] ?? []) delivery.to(next)
  return delivery
}

describe('Delivery', () => {
  const all = [
    'claimed',
    'loading',
    'sending',
    'concluded',
    'completing',
    'done',
    'released',
    'lost',
  ] as const
  const allowed: readonly (readonly [from: DeliveryState, to: readonly DeliveryState[]])[] = [
    ['claimed', ['loading', 'concluded', 'released', 'lost']],
    ['loading', ['sending', 'concluded', 'released', 'lost']],
    ['sending', ['concluded', 'released']],
    ['concluded', ['completing', 'lost']],
    ['completing', ['concluded', 'done', 'lost']],
    ['done', []],
    ['released', []],
    ['lost', []],
  ]

  test.each(allowed)('Delivery: the only states that can follow %s are %j', (from, to) => {
    for (const next of all) {
      const delivery = deliveryIn(from)
      if (to.includes(next)) {
        delivery.to(next)
        expect(delivery.state).toBe(next)
      } else expect(() => delivery.to(next)).toThrow(`from ${from} to ${next}`)
    }
  })

  const again = { ...claim, claims: 2 }
  test.each([
    ['a new claim while its call goes on', 'sending', { ...again, attempts: 1 }, true],
    ['a new claim of the attempt whose ending is not written', 'concluded', again, true],
    ['no claim of a later attempt once it is concluded', 'concluded', { ...again, attempts: 1 }, false],
    ['no claim of a later cycle once it is concluded', 'completing', { ...again, cycle: 2 }, false],
  ] as const)('Delivery: adopts %s', (_what, state, next, adopts) => {
    const delivery = deliveryIn(state)
    if (state !== 'sending') delivery.ending = { kind: 'expired' }
    expect(delivery.adopt(next, 9)).toBe(adopts)
    expect([delivery.claim, delivery.leaseEndsMs]).toEqual(adopts ? [next, 9] : [claim, 0])
  })

  test('Delivery: a renewal applies to the claim that was renewed and not to a later claim', () => {
    const delivery = deliveryIn('sending')
    delivery.renewed(claim, 5)
    expect(delivery.leaseEndsMs).toBe(5)
    delivery.adopt(again, 9)
    delivery.renewed(claim, 20)
    expect(delivery.leaseEndsMs).toBe(9)
  })
})
