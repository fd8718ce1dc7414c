import { type BuiltIn, builtIn, declaredTypes } from '../../declared/built-in.ts'
import type { SimulatedEvent, UnsignedCall } from '../../provider.ts'
import { timedSignatureText } from '../../provider-header.ts'
import { jsonCall, timedSignature } from '../../simulated-call.ts'
import { cardTypes } from './types.ts'

/** Adapter of the card provider; its README describes the calls. */
export const card: BuiltIn = builtIn(
  {
    name: 'card',
    aliases: ['stripe'],
    body: { bytesMax: 1024 * 1024, json: {} },
    headers: {
      signature: {
        names: ['Card-Signature', 'Stripe-Signature'],
        description: `Required. ${timedSignatureText} The key is the whole secret, \`whsec_\` included.`,
      },
    },
    signature: {
      schemes: [
        {
          algorithm: 'hmac-sha256',
          signature: {
            header: 'signature',
            pairs: { separator: ',', assign: '=', name: 'v1', emptyValues: true },
          },
          encoding: 'hex',
          signs: '{timestamp}.{body}',
          timestamp: { pair: 't', unit: 's' },
        },
      ],
    },
    // Normal and thin (`v2.core.event`) events have id, type and time in the same members. Only the format of the time differs.
    event: {
      id: [{ json: 'id' }],
      type: { from: [{ json: 'type' }] },
      occurredAt: [
        { json: 'created', unit: 's' },
        { json: 'created', unit: 'iso' },
      ],
    },
    types: declaredTypes(cardTypes),
  },
  {
    write,
    sign: ({ body, headers }, secret, atMs) => ({
      ...headers,
      'card-signature': timedSignature(body, secret, atMs),
    }),
  },
)

/** The time of a thin event is text. */
function write({ id, payload, occurredAtMs }: SimulatedEvent): UnsignedCall {
  const isThin = payload['object'] === 'v2.core.event'
  const created = isThin ? new Date(occurredAtMs).toISOString() : Math.floor(occurredAtMs / 1000)
  return jsonCall({ ...payload, id, created })
}
