import { createHmac } from 'node:crypto'
import { tenantYaml } from './api.ts'

/** The secret that signs calls in tests, of every provider. */
export const providerSecret = 'whsec_dGVzdC1wcm92aWRlci1zZWNyZXQtMDAwMDAw'

const providerNames = ['card', 'storefront', 'codehost', 'generic'] as const

/** A tenant whose providers `card`, `storefront`, `codehost` and `generic` sign with `providerSecret`; `spec` as in `tenantYaml`. */
export function webhookTenantYaml(name: string, apiKey: string, spec: readonly string[] = []): string {
  const providers = providerNames.map(
    (provider) => `{name: ${provider}, secretRef: {name: ${name}-provider}}`,
  )
  return `${tenantYaml(name, apiKey, [`providers: [${providers.join(', ')}]`, ...spec], 'records, webhooks, simulations')}apiVersion: v1
kind: Secret
metadata: {name: ${name}-provider, namespace: shops}
stringData: {signingSecret: ${providerSecret}}
---
`
}

/** A call of our own format, signed. */
export interface SignedCall {
  readonly body: string
  readonly headers: Record<string, string>
}

/** Signs a body as provider `generic` does. */
export function signGeneric(
  body: string,
  { secret = providerSecret, atMs = Date.now() }: { secret?: string; atMs?: number } = {},
): SignedCall {
  const t = Math.floor(atMs / 1000)
  const hex = createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')
  return { body, headers: { 'Content-Type': 'application/json', 'X-Service-Signature': `t=${t},v1=${hex}` } }
}

/** An event's body with this id, or a random one. */
export function genericBody(id: string = crypto.randomUUID(), fields: object = {}): string {
  return JSON.stringify({ id, type: 'order.created', amount: 12, ...fields })
}
