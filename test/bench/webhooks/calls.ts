import { requestText } from '../load.ts'

/** Tenants that share the load. */
export const tenantCount = 10
const secret = 'bench-signing-secret'
const bodyBytes = 1024
const run = Date.now().toString(36)

/** Returns the slug of the n-th tenant, modulo their count. */
export function slugOf(n: number): string {
  return `bench${n % tenantCount}`
}

/** Returns a signed call of provider `generic` with a body of 1 KB, to the tenants in turn. Each `n` is another event. */
export function signedCall(n: number): string {
  const body = bodyOf(n)
  return requestText('POST', `/v1/t/${slugOf(n)}/webhooks/generic`, signatureHeader(body), body)
}

/** Returns the same call for the bare server; signed, too, so that generating both costs the same. */
export function bareCall(n: number): string {
  const body = bodyOf(n)
  return requestText('POST', '/insert', signatureHeader(body), body)
}

/** Returns the `n` of the call whose event is in this text; undefined for other events. */
export function numberIn(text: string): number | undefined {
  const at = text.indexOf(marker)
  return at < 0 ? undefined : Number.parseInt(text.slice(at + marker.length, at + marker.length + 12), 10)
}

const marker = '"bench":'
const filler = 'x'.repeat(bodyBytes)

function bodyOf(n: number): string {
  const start = `{"id":"evt_${run}_${n}","type":"order.created","occurredAt":"2026-09-21T13:33:20Z",${marker}${n},"text":"`
  return `${start}${filler.slice(start.length + 2)}"}`
}

function signatureHeader(body: string): { readonly 'X-Service-Signature': string } {
  const t = Math.floor(Date.now() / 1000)
  const hex = new Bun.CryptoHasher('sha256', secret).update(`${t}.${body}`).digest('hex')
  return { 'X-Service-Signature': `t=${t},v1=${hex}` }
}

/** Returns manifests of the tenants, whose callbacks are paths of the sink, and of tenant `dead`, whose callback refuses connections. */
export function manifests(sinkPort: number, deadPort: number): string {
  const slugs = Array.from({ length: tenantCount }, (_none, n) => slugOf(n))
  const all = slugs.map((slug) => manifest(slug, `http://127.0.0.1:${sinkPort}/deliveries/${slug}`))
  return [...all, manifest('dead', `http://127.0.0.1:${deadPort}/`)].join('')
}

function manifest(slug: string, url: string): string {
  return `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: ${slug}, namespace: bench}
spec:
  slug: ${slug}
  callback: {url: "${url}", allowedCIDRs: ["127.0.0.0/8"]}
  providers: [{name: generic, secretRef: {name: ${slug}-generic}}]
---
apiVersion: v1
kind: Secret
metadata: {name: ${slug}-generic, namespace: bench}
stringData: {signingSecret: ${secret}}
---
`
}
