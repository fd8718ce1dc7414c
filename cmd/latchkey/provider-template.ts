import { createHmac } from 'node:crypto'

const secret = 'a-secret-for-tests'
const at = '2026-01-31T09:00:00Z'

/** Returns a declaration to start from: HMAC-SHA256 in a header, as most vendors sign, with a valid vector. Comments say what to change. */
export function providerTemplate(name: string): string {
  const body = `{"id":"evt_1","type":"invoice.paid","created":"${at}"}`
  const signature = createHmac('sha256', secret).update(body).digest('hex')
  return `# Declaration of a provider. Change what differs for the vendor, then run: latchkey providers test ${name}.yaml
apiVersion: latchkey.dev/v1alpha1
kind: Provider
metadata:
  name: ${name} # in the URL: /v1/t/<slug>/webhooks/${name}
spec:
  title: ${name}
  # Remove this once a vector below is a call of the vendor, or of its documentation.
  unverified: true
  sources:
    - url: https://example.com/the-page-of-the-vendor-on-signatures
  body:
    bytesMax: 1048576
    json: {} # form: {} for form bodies
  # Each header that is read, under a key of your choice.
  headers:
    signature:
      names: [X-Signature]
      description: Required. HMAC-SHA256 of the body, in hex.
  signature:
    schemes:
      - algorithm: hmac-sha256
        # For "sha256=<hex>" add prefix: sha256=. For "t=…,v1=…" add pairs: { separator: ',', assign: '=', name: v1 }.
        signature: { header: signature }
        encoding: hex
        # With a signed time, for example: signs: '{timestamp}.{body}', and timestamp: { header: time, unit: s }.
        signs: '{body}'
  event:
    # Where the id is by which repeated calls are recognized. Without one: hash: '{body}'.
    id:
      - json: id
    type:
      from:
        - json: type
    occurredAt:
      - { json: created, unit: iso }
  # Types that your programs share between providers; all others become ${name}.<raw type>.
  types:
    - { raw: invoice.paid, type: invoice.paid }
  # Calls that prove the declaration. Each is also run with a changed body, signature, time and secret, which must be refused.
  vectors:
    - name: invoice paid
      secrets: [${secret}]
      at: '${at}'
      headers:
        Content-Type: application/json
        X-Signature: ${signature}
      body: '${body}'
      expect:
        id: evt_1
        rawType: invoice.paid
        type: invoice.paid
        occurredAt: '${at}'
`
}
