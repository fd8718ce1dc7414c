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

/** Returns a signed call of a declared provider, with the body and the signature of `signedCall`. */
export function declaredCall(n: number): string {
  const body = bodyOf(n)
  return requestText('POST', `/v1/t/${slugOf(n)}/webhooks/${declaredName}`, signatureHeader(body), body)
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
  return [declaration(declaredName), ...all, manifest('dead', `http://127.0.0.1:${deadPort}/`)].join('')
}

/** Number of further Providers: with the first one, as many as can be in force. */
export const manyProviders = 499

/** Returns files with Providers and with tenants without a callback, each of which names two of these Providers. */
export function manyManifests(tenants: number): string[] {
  const per = 200
  const chunks = (count: number, textOf: (n: number) => string) =>
    Array.from({ length: Math.ceil(count / per) }, (_none, chunk) =>
      Array.from({ length: Math.min(per, count - chunk * per) }, (_each, n) => textOf(chunk * per + n)).join(
        '',
      ),
    )
  const named = (n: number) => `many${n % manyProviders}`
  return [
    ...chunks(manyProviders, (n) => declaration(named(n))),
    ...chunks(tenants, (n) => manifest(`many-${n}`, undefined, [named(n), named(n + 1)])),
  ]
}

/** Returns the parts of `declaredCall`. */
export function declaredCallOf(n: number): ReturnType<typeof callOfMany> {
  const body = bodyOf(n)
  return { path: `/v1/t/${slugOf(n)}/webhooks/${declaredName}`, body, headers: { ...signatureHeader(body) } }
}

/** Returns a signed call to the n-th of many tenants, by one of its Providers. */
export function callOfMany(n: number): {
  readonly path: string
  readonly body: string
  readonly headers: Record<string, string>
} {
  const body = bodyOf(n)
  return {
    path: `/v1/t/many-${n}/webhooks/many${n % manyProviders}`,
    body,
    headers: { ...signatureHeader(body) },
  }
}

const declaredName = 'benchdeclared'

/** Returns the manifest of a Provider that signs like `generic`. */
export function declaration(name: string): string {
  return `apiVersion: latchkey.dev/v1alpha1
kind: Provider
metadata: {name: ${name}}
spec:
  body: {bytesMax: 1048576, json: {}}
  headers: {signature: {names: [X-Service-Signature], description: 'Required. Time and HMAC-SHA256 of time and body.'}}
  signature:
    schemes:
      - algorithm: hmac-sha256
        signature: {header: signature, pairs: {separator: ',', assign: '=', name: v1}}
        encoding: hex
        signs: '{timestamp}.{body}'
        timestamp: {pair: t, unit: s}
  event:
    id: [{json: id}]
    type: {from: [{json: type}]}
    occurredAt: [{json: occurredAt, unit: iso}]
  types:
${Array.from({ length: 20 }, (_, n) => `    - {raw: type.n${n}, type: order.created, when: [{path: data.status, values: [s${n}]}]}\n`).join('')}---
`
}

function manifest(
  slug: string,
  url: string | undefined,
  names: readonly string[] = ['generic', declaredName],
): string {
  const callback = url === undefined ? '' : `  callback: {url: "${url}", allowedCIDRs: ["127.0.0.0/8"]}\n`
  const providers = names.map((name) => `{name: ${name}, secretRef: {name: ${slug}-generic}}`)
  return `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: ${slug}, namespace: bench}
spec:
  slug: ${slug}
${callback}  providers: [${providers.join(', ')}]
---
apiVersion: v1
kind: Secret
metadata: {name: ${slug}-generic, namespace: bench}
stringData: {signingSecret: ${secret}}
---
`
}
