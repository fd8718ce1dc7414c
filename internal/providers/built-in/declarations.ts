// Built-in providers that are declarations: the data is in config/providers/built-in, the functions here write their simulated calls.
import { createHmac } from 'node:crypto'
import cardManifest from '#config/providers/built-in/card/provider.yaml'
import codehostManifest from '#config/providers/built-in/codehost/provider.yaml'
import genericManifest from '#config/providers/built-in/generic/provider.yaml'
import storefrontManifest from '#config/providers/built-in/storefront/provider.yaml'
import type { EventTypes } from '../catalogue.ts'
import { compileDeclaration } from '../declared/compile.ts'
import { parseChecked } from '../declared/manifest.ts'
import type { Declaration } from '../declared/schema.ts'
import { jsonCall, type Provider } from '../provider.ts'
import { eventTables } from './tables.ts'

export type BuiltIn = ReturnType<typeof compileDeclaration> & { readonly declaration: Declaration }

export const card: BuiltIn = builtIn(cardManifest, eventTables.card, {
  /** Writes the time as text in a thin event (`v2.core.event`), and as Unix seconds in other events. */
  write({ id, payload, occurredAtMs }) {
    const isThin = payload['object'] === 'v2.core.event'
    const created = isThin ? new Date(occurredAtMs).toISOString() : Math.floor(occurredAtMs / 1000)
    return jsonCall({ ...payload, id, created })
  },
  sign: ({ body, headers }, secret, atMs) => ({
    ...headers,
    'card-signature': timedSignature(body, secret, atMs),
  }),
})

export const storefront: BuiltIn = builtIn(storefrontManifest, eventTables.storefront, {
  write: ({ id, rawType, payload, occurredAtMs }, { storefront: shop }) =>
    jsonCall(payload, {
      'x-storefront-webhook-id': id,
      'x-storefront-topic': rawType,
      'x-storefront-triggered-at': new Date(occurredAtMs).toISOString(),
      ...(shop && { 'x-storefront-shop-domain': shop.shopDomain }),
    }),
  sign: ({ body, headers }, secret) => ({
    ...headers,
    'x-storefront-hmac-sha256': hmacOf([body], secret).toString('base64'),
  }),
})

export const codehost: BuiltIn = builtIn(codehostManifest, eventTables.codehost, {
  write: ({ id, rawType, payload }) =>
    jsonCall(payload, { 'x-codehost-delivery': id, 'x-codehost-event': rawType }),
  sign: ({ body, headers }, secret) => ({
    ...headers,
    'x-codehost-signature-256': `sha256=${hmacOf([body], secret).toString('hex')}`,
  }),
})

/** Latchkey's own format, or Standard Webhooks. */
export const generic: BuiltIn = builtIn(genericManifest, undefined, {
  write: ({ id, rawType: type, payload, occurredAtMs }) =>
    jsonCall({ id, type, occurredAt: new Date(occurredAtMs).toISOString(), data: payload }),
  sign: ({ body, headers }, secret, atMs) => ({
    ...headers,
    'X-Service-Signature': timedSignature(body, secret, atMs),
  }),
})

function builtIn(
  manifest: unknown,
  table: EventTypes | undefined,
  simulation: Required<Pick<Provider, 'write' | 'sign'>>,
): BuiltIn {
  const types = table?.cases.map(({ rawType, type, conditions }) => ({
    raw: rawType,
    type,
    when: conditions,
  }))
  const declaration = { ...parseChecked(manifest), ...(types && { types }) }
  return { ...compileDeclaration(declaration), declaration, ...simulation }
}

function hmacOf(parts: readonly (string | Uint8Array)[], secret: string): Buffer {
  const hmac = createHmac('sha256', secret)
  for (const part of parts) hmac.update(part)
  return hmac.digest()
}

function timedSignature(body: Uint8Array, secret: string, atMs: number): string {
  const time = Math.floor(atMs / 1000)
  return `t=${time},v1=${hmacOf([`${time}.`, body], secret).toString('hex')}`
}
