import { createHmac } from 'node:crypto'
import { card } from '#internal/providers/built-in/declarations.ts'
import type { ConformanceKit } from './kit.ts'

const digest = 'a'.repeat(64)

/** Conformance kits for `card`: they build calls in the vendor's format and sign them. */
export const kits: readonly ConformanceKit[] = [
  {
    title: 'card',
    provider: card,
    secrets: ['whsec_fNT1', 'whsec_R0tated+Key/2', 'whsec_3', 'whsec_četyři', 'whsec_5'],
    settings: {},
    compose: ({ eventId, type }) => ({
      body: Buffer.from(
        JSON.stringify({
          id: eventId,
          object: 'event',
          type,
          created: 1_790_000_000,
          data: { object: { id: 'pi_1', object: 'payment_intent', description: 'Café "Zürich" 🎁' } },
        }),
      ),
      headers: { 'content-type': 'application/json; charset=utf-8' },
    }),
    sign: ({ body, headers }, secret, nowMs) => {
      const time = String(Math.floor(nowMs / 1000))
      const v1 = createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex')
      return { ...headers, 'card-signature': `t=${time},v1=${v1}` }
    },
    signatureHeader: 'card-signature',
    idHeader: undefined,
    twins: [['card-signature', 'stripe-signature']],
    timed: true,
    hex: true,
    otherSchemes: [`t=1790000000,v0=${digest}`, 't=1790000000', `t=1790000000,v2=${digest},v0=${digest}`],
  },
]
