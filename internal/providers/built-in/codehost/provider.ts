import { type BuiltIn, builtIn, declaredTypes } from '../../declared/built-in.ts'
import { hmacOf, jsonCall } from '../../simulated-call.ts'
import { codehostTypes } from './types.ts'

/** Adapter of the codehost provider; its README describes the calls. */
export const codehost: BuiltIn = builtIn(
  {
    name: 'codehost',
    aliases: ['github'],
    body: { bytesMax: 25 * 1024 * 1024, json: {}, form: { jsonField: 'payload' } },
    headers: {
      signature: {
        names: ['X-Codehost-Signature-256', 'X-Hub-Signature-256'],
        description: 'Required. `sha256=<hex>`: HMAC-SHA256 of the body as received, form or JSON.',
      },
      id: {
        names: ['X-Codehost-Delivery', 'X-GitHub-Delivery'],
        description: 'Required. Event id, by which duplicates are detected.',
      },
      event: {
        names: ['X-Codehost-Event', 'X-GitHub-Event'],
        description: 'Raw type, such as `push` or `pull_request`.',
      },
    },
    signature: {
      schemes: [
        {
          algorithm: 'hmac-sha256',
          signature: {
            header: 'signature',
            prefix: 'sha256=',
            // The vendor sends this signature by SHA-1 in addition to the SHA-256 signature. A call with only the older one is refused.
            olderHeaders: ['X-Codehost-Signature', 'X-Hub-Signature'],
          },
          encoding: 'hex',
          signs: '{body}',
        },
      ],
    },
    // This vendor's events have no common member that contains the time.
    event: {
      id: [{ header: ['id'] }],
      type: {
        from: [{ header: 'event' }],
        action: { json: 'action', separator: '.', joins: 'unlisted' },
      },
    },
    types: declaredTypes(codehostTypes),
  },
  {
    write: ({ id, rawType, payload }) =>
      jsonCall(payload, { 'x-codehost-delivery': id, 'x-codehost-event': rawType }),
    sign: ({ body, headers }, secret) => ({
      ...headers,
      'x-codehost-signature-256': `sha256=${hmacOf([body], secret).toString('hex')}`,
    }),
  },
)
