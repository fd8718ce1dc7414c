import { createHmac } from 'node:crypto'
import { sign } from '@octokit/webhooks-methods'
import { Webhook } from 'standardwebhooks'
import { Stripe } from 'stripe'

/** Signature scheme: a provider's, or Standard Webhooks. */
export type SignatureScheme = 'card' | 'storefront' | 'codehost' | 'generic' | 'standard'

/** Content to sign. Time and id are used only if the scheme signs them. */
export interface Signable {
  readonly body: string
  /** A whole second. */
  readonly atMs: number
  readonly webhookId: string
}

/** Returns the value of the signature header, made by the vendor's library if it can sign. */
export async function signAsVendor(
  scheme: SignatureScheme,
  { body, atMs, webhookId }: Signable,
  secret: string,
): Promise<string> {
  switch (scheme) {
    case 'card': {
      const timestamp = atMs / 1000
      const { webhooks } = new Stripe('sk_test_unused')
      return await webhooks.generateTestHeaderStringAsync({ payload: body, secret, timestamp })
    }
    case 'codehost':
      return await sign(secret, body)
    case 'standard':
      return new Webhook(secret).sign(webhookId, new Date(atMs), body)
    // Signs without the vendor's library, which only verifies.
    case 'storefront':
      return createHmac('sha256', secret).update(body).digest('base64')
    case 'generic': {
      const t = atMs / 1000
      return `t=${t},v1=${createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')}`
    }
  }
}
