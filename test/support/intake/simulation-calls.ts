import { tenantYaml } from '../api.ts'
import { callbackSecret } from '../events/callback-receiver.ts'
import { webhookId } from './wallet-calls.ts'
import { providerSecret } from './webhook-calls.ts'

/** Options of a tenant. */
export interface SimulationTenant {
  /** Default `enabled`. */
  readonly walletStage?: 'off' | 'verify' | 'enabled'
  /** Default: an unreachable URL. */
  readonly callbackUrl?: string
  /** Default `card` and `wallet`. */
  readonly providers?: readonly (
    | 'card'
    | 'wallet'
    | 'storefront'
    | 'codehost'
    | 'generic'
    | 'gateway'
    | 'gitlab'
    | 'telnyx'
    | 'awssns'
  )[]
  /** Additional YAML of its spec. */
  readonly spec?: readonly string[]
}

const settingTexts: Readonly<Record<string, string>> = {
  storefront: ', storefront: {shopDomain: acme.myshopify.com}',
  gateway: ', gateway: {publicKey: public}',
  gitlab: ', acceptUnverified: true',
  telnyx: ', acceptUnverified: true',
  awssns: ', acceptUnverified: true',
}

/** Returns the manifest of a tenant for simulations: `card` signs with `providerSecret`, its deliveries with `callbackSecret`. */
export function simulationTenantYaml(name: string, apiKey: string, options: SimulationTenant = {}): string {
  const {
    walletStage = 'enabled',
    callbackUrl = 'http://127.0.0.1:9999/',
    providers = ['card', 'wallet'],
  } = options
  const review = 'review: {approvedBy: ana, approvedAt: "2026-11-01T00:00:00Z"}'
  const texts = providers.map((each) =>
    each === 'wallet'
      ? `{name: wallet, wallet: {webhookId: ${webhookId}, environment: live}}`
      : `{name: ${each}, secretRef: {name: ${name}-provider}${settingTexts[each] ?? ''}}`,
  )
  const spec = [
    `providers: [${texts.join(', ')}]`,
    `walletRollout: {stage: "${walletStage}", ${review}}`,
    ...(options.spec ?? []),
  ]
  const callback = `callback: {url: "${callbackUrl}", allowedCIDRs: [127.0.0.0/8], signingSecretRef: {name: ${name}-signing}}`
  return `${tenantYaml(name, apiKey, spec, 'simulations, webhooks').replace(/callback: .*/, callback)}apiVersion: v1
kind: Secret
metadata: {name: ${name}-provider, namespace: shops}
stringData: {signingSecret: ${providerSecret}}
---
apiVersion: v1
kind: Secret
metadata: {name: ${name}-signing, namespace: shops}
stringData: {signingSecret: ${callbackSecret}}
---
`
}

/** Returns the API key of a tenant by name. */
export function simulationKeyOf(name: string): string {
  return `lk_${name}_0123456789abcdef0123456789abcdef`
}
