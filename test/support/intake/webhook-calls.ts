import { createHmac } from 'node:crypto'
import { tenantYaml } from '../api.ts'
import { signAsVendor } from './vendor-signatures.ts'

/** Secret that signs the calls of every provider in tests. */
export const providerSecret = 'whsec_dGVzdC1wcm92aWRlci1zZWNyZXQtMDAwMDAw'

const providerNames = ['card', 'storefront', 'codehost', 'generic'] as const

/** Returns the manifest of a tenant whose providers sign with `providerSecret`; `spec` as in `tenantYaml`. */
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

/** Signed call of provider `generic`. */
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

/** Returns the body of an event with this id, by default a random one. */
export function genericBody(id: string = crypto.randomUUID(), fields: object = {}): string {
  return JSON.stringify({ id, type: 'order.created', amount: 12, ...fields })
}

/** Larger than bodies that are parsed on the event loop, so that the worker parses it. */
const largeBodyBytes = 3 * 1024 * 1024

/** Sends a large webhook of `codehost` to a tenant of `webhookTenantYaml`. Returns status and body of the answer. */
export async function sendLargeWebhook(url: string, tenant: string): Promise<[number, string]> {
  const body = JSON.stringify({ ref: 'refs/heads/main', text: 'x'.repeat(largeBodyBytes) })
  const signed = { body, atMs: Date.now(), webhookId: 'unused' }
  const answer = await fetch(`${url}/v1/t/${tenant}/webhooks/codehost`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'X-GitHub-Event': 'push',
      'X-GitHub-Delivery': crypto.randomUUID(),
      'X-Hub-Signature-256': await signAsVendor('codehost', signed, providerSecret),
    },
    body,
  })
  return [answer.status, await answer.text()]
}
