/** Secret for the signatures of the examples only. */
export const exampleSecret = 'whsec_b25seSBmb3IgdGhlIGV4YW1wbGVzIG9mIHRoaXMgZG9jdW1lbnQ='

/** Time of the examples' signatures, in Unix seconds. */
export const exampleSignedAt = 1_794_300_001

/** Media type of HTML forms. */
export const formMedia = 'application/x-www-form-urlencoded'

/** Example of a provider's call and its response. */
export interface ExampleCall {
  readonly summary: string
  readonly provider: string
  readonly media: 'application/json' | typeof formMedia
  /** Request headers. Signatures cover the compact JSON text of the body. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
  readonly answer: { readonly ok: true; readonly cached?: true }
}

const json = 'application/json'
const stored = { ok: true } as const
const duplicate = { ok: true, cached: true } as const

const dispute = {
  id: 'evt_1SLa2B2eZvKYlo2C',
  object: 'event',
  type: 'charge.dispute.updated',
  created: 1_794_300_000,
  data: { object: { id: 'du_1SLZzZ2eZvKYlo2C', object: 'dispute', amount: 25_000, status: 'under_review' } },
}
const disputeSignature = `t=${exampleSignedAt},v1=17215200149da84e14e280275991a6830550c90be3bf0ba556191dd30cf9b6c8`

const order = { id: 450789469, name: '#1001', currency: 'USD', total_price: '403.00' }
const orderHeaders = (prefix: string) => ({
  [`${prefix}-Hmac-Sha256`]: 'puIg9YUAqVMO11Rr8O5LzvIQRvhPHN5jT9PnskUPPjk=',
  [`${prefix}-Webhook-Id`]: 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043',
  [`${prefix}-Topic`]: 'orders/create',
  [`${prefix}-Shop-Domain`]: 'acme.myshopify.com',
  [`${prefix}-Triggered-At`]: '2026-11-10T08:40:00.000Z',
})

const push = {
  ref: 'refs/heads/main',
  after: '59b20b8d5c6ff8d09518216e87bdbdc5a0f0c6d2',
  repository: { full_name: 'octo-dev/hello-world' },
}
const pushHeaders = (signature: string, prefix: string) => ({
  [signature]: 'sha256=d4e1040f9300534f750bcd74e6961e494c2f1b8b2eaa64c55fe284abe46df7e2',
  [`${prefix}-Delivery`]: '72d3162e-cc78-11e3-81ab-4c9367dc0958',
  [`${prefix}-Event`]: 'push',
})

/** Calls to be sent in this order: the second call of an event is its duplicate. The OpenAPI document shows them. */
export const exampleCalls: Readonly<Record<string, ExampleCall>> = {
  generic: {
    summary: 'Our own format',
    provider: 'generic',
    media: json,
    answer: stored,
    headers: {
      'X-Service-Signature': `t=${exampleSignedAt},v1=0c819944d8c78e78543f373fb4b00e430c8a4b592b146a2e8940b7951f8ef234`,
    },
    body: {
      id: 'inv-20417-approved',
      type: 'invoice.approved',
      occurredAt: '2026-11-10T08:40:00Z',
      data: { invoice: '20417', total: 1250.5 },
    },
  },
  standard: {
    summary: 'Standard Webhooks, as any of its libraries sends',
    provider: 'generic',
    media: json,
    answer: stored,
    headers: {
      'webhook-id': 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W',
      'webhook-timestamp': String(exampleSignedAt),
      'webhook-signature': 'v1,AlyVd7GMGeCQkqw0bVCtwjhUmrLW97j8ZBRmush6EPw=',
    },
    body: { type: 'contact.created', data: { id: '1f81eb52-5198-4599-803e-771906343485' } },
  },
  card: {
    summary: 'A dispute',
    provider: 'card',
    media: json,
    body: dispute,
    answer: stored,
    headers: { 'Card-Signature': disputeSignature },
  },
  stripe: {
    summary: 'The same dispute under the vendor’s names: a duplicate',
    provider: 'stripe',
    media: json,
    body: dispute,
    answer: duplicate,
    headers: { 'Stripe-Signature': disputeSignature },
  },
  shopify: {
    summary: 'An order under the vendor’s names',
    provider: 'shopify',
    media: json,
    body: order,
    answer: stored,
    headers: orderHeaders('X-Shopify'),
  },
  storefront: {
    summary: 'The same order under neutral names: a duplicate',
    provider: 'storefront',
    media: json,
    body: order,
    answer: duplicate,
    headers: orderHeaders('X-Storefront'),
  },
  github: {
    summary: 'A push under the vendor’s names',
    provider: 'github',
    media: json,
    body: push,
    answer: stored,
    headers: pushHeaders('X-Hub-Signature-256', 'X-GitHub'),
  },
  codehost: {
    summary: 'The same push under neutral names: a duplicate',
    provider: 'codehost',
    media: json,
    body: push,
    answer: duplicate,
    headers: pushHeaders('X-Codehost-Signature-256', 'X-Codehost'),
  },
  githubForm: {
    summary: 'A merged pull request, form-encoded',
    provider: 'github',
    media: formMedia,
    answer: stored,
    headers: {
      'X-Hub-Signature-256': 'sha256=c1b1b702e05a06730789207dabc1428332b0202eddd26be2ff8ef387ac12760f',
      'X-GitHub-Delivery': 'a2b3c4d0-cc79-11e3-8f3e-4c9367dc0958',
      'X-GitHub-Event': 'pull_request',
    },
    body: { payload: '{"action":"closed","number":2,"pull_request":{"number":2,"merged":true}}' },
  },
}
