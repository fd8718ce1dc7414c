import { createHmac } from 'node:crypto'
import type { DemoProvider } from './payloads.ts'

/** The sample tenant's secrets, as its manifest in `config/samples/dev` has them: public, and good for nothing else. */
const secrets: Record<DemoProvider, string> = {
  card: 'demo-card-signing-secret',
  storefront: 'demo-storefront-signing-secret',
  codehost: 'demo-codehost-signing-secret',
  generic: 'demo-generic-signing-secret',
}

/** The header by which a provider signs. */
export function demoSignature(
  provider: DemoProvider,
  body: string,
  { atMs, secret = secrets[provider] }: { readonly atMs: number; readonly secret?: string },
): Record<string, string> {
  const time = Math.floor(atMs / 1000)
  const digest = (text: string) => createHmac('sha256', secret).update(text)
  switch (provider) {
    case 'card':
      return { 'stripe-signature': `t=${time},v1=${digest(`${time}.${body}`).digest('hex')}` }
    case 'storefront':
      return { 'x-shopify-hmac-sha256': digest(body).digest('base64') }
    case 'codehost':
      return { 'x-hub-signature-256': `sha256=${digest(body).digest('hex')}` }
    case 'generic':
      return { 'x-service-signature': `t=${time},v1=${digest(`${time}.${body}`).digest('hex')}` }
  }
}
