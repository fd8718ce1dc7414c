import { createHmac } from 'node:crypto'
import { codehost } from '#internal/providers/built-in/declarations.ts'
import type { UnsignedCall } from '#internal/providers/provider.ts'
import type { ConformanceKit } from './kit.ts'

const twins = [
  ['x-codehost-signature-256', 'x-hub-signature-256'],
  ['x-codehost-delivery', 'x-github-delivery'],
  ['x-codehost-event', 'x-github-event'],
]
const body = '{"zen":"Favor focus over features.","hook_id":109948940,"ref":"refs/heads/čeština","size":1}'

function compose(contentType: string, text: string) {
  return ({ eventId, type }: { eventId: string | undefined; type: string }): UnsignedCall => ({
    body: Buffer.from(text),
    headers: {
      'content-type': contentType,
      'x-codehost-event': type,
      ...(eventId === undefined ? {} : { 'x-codehost-delivery': eventId }),
    },
  })
}

const json: ConformanceKit = {
  title: 'codehost',
  provider: codehost,
  secrets: ["It's a Secret to Everybody", 'second secret', '3', 'klíč', 'x'.repeat(100)],
  settings: {},
  compose: compose('application/json', body),
  sign: (call, secret) => ({
    ...call.headers,
    'x-codehost-signature-256': `sha256=${createHmac('sha256', secret).update(call.body).digest('hex')}`,
  }),
  signatureHeader: 'x-codehost-signature-256',
  idHeader: 'x-codehost-delivery',
  twins,
  timed: false,
  hex: true,
  otherSchemes: [`sha1=${'a'.repeat(40)}`, `sha512=${'a'.repeat(128)}`, `SHA256=${'a'.repeat(64)}`],
}

/** Conformance kits for `codehost`: they build calls in the vendor's format, in both content types, and sign them. */
export const kits: readonly ConformanceKit[] = [
  json,
  {
    ...json,
    title: 'codehost, form-encoded',
    compose: compose('application/x-www-form-urlencoded', `payload=${encodeURIComponent(body)}`),
  },
]
