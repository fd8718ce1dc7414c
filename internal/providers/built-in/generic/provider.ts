import { type BuiltIn, builtIn } from '../../declared/built-in.ts'
import { timedSignatureText } from '../../provider-header.ts'
import { jsonCall, timedSignature } from '../../simulated-call.ts'

/** Adapter of the generic provider: Latchkey's own format, or Standard Webhooks. */
export const generic: BuiltIn = builtIn(
  {
    name: 'generic',
    body: { bytesMax: 1024 * 1024, json: {} },
    headers: {
      signature: {
        names: ['X-Service-Signature'],
        description: `Required, unless the call is signed as Standard Webhooks. ${timedSignatureText} The key is the whole secret.`,
      },
      id: {
        names: ['X-Service-Event-Id'],
        description: 'Event id, where the body has none. Not covered by `X-Service-Signature`.',
      },
      standardSignature: {
        names: ['webhook-signature'],
        description:
          'Standard Webhooks: `v1,<base64>[ v1,…]`, each is an HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` under the decoded secret, and one must match. Not together with `X-Service-Signature`.',
      },
      standardId: { names: ['webhook-id'], description: 'Event id. Required with `webhook-signature`.' },
      standardTime: {
        names: ['webhook-timestamp'],
        description: 'Unix time in seconds. Required with `webhook-signature`.',
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
        // https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, read 2026-11. Senders use a secret
        // without the prefix `whsec_` as text or as base64.
        {
          algorithm: 'hmac-sha256',
          signature: { header: 'standardSignature', pairs: { separator: ' ', assign: ',', name: 'v1' } },
          encoding: 'base64',
          signs: '{header:standardId}.{timestamp}.{body}',
          key: { prefix: 'whsec_', decode: 'base64', bytesMin: 24, orText: true },
          timestamp: { header: 'standardTime', unit: 's' },
        },
      ],
    },
    event: {
      id: [{ header: ['id', 'standardId'] }, { json: 'id' }],
      type: { from: [{ json: 'type' }], keepsDotted: true },
      occurredAt: [{ json: 'occurredAt', unit: 'iso' }],
    },
  },
  {
    write: ({ id, rawType: type, payload, occurredAtMs }) =>
      jsonCall({ id, type, occurredAt: new Date(occurredAtMs).toISOString(), data: payload }),
    sign: ({ body, headers }, secret, atMs) => ({
      ...headers,
      'X-Service-Signature': timedSignature(body, secret, atMs),
    }),
  },
)
