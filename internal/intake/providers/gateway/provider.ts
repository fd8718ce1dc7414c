import { createHash, createHmac } from 'node:crypto'
import { textAt } from '../../event-body.ts'
import { readIsoTime } from '../../event-time.ts'
import { judgeTypes } from '../../event-type.ts'
import type { Normalization, Provider, ProviderCall, RefusalCause, Verification } from '../../provider.ts'
import { equalBytes, verdicts } from '../../signature.ts'
import { readForm } from './form.ts'
import { readNotification } from './notification.ts'
import { gatewayType } from './types.ts'

/** SHA-1 of each private key: what the vendor keys its HMAC with. */
export type GatewayKeys = readonly Uint8Array[]

/** More pairs than an account has public keys. */
const pairsMax = 20
const signatureCharsMax = 4096

/** The gateway provider, which is reserved; see README.md in this folder for what it sends. */
export const gateway: Provider<GatewayKeys> = {
  name: 'gateway',
  bodyBytesMax: 1024 * 1024,
  secretHeaders: [],
  // An empty private key makes no key, since anybody could sign with it.
  prepare: (secrets) =>
    secrets.filter((secret) => secret !== '').map((secret) => createHash('sha1').update(secret).digest()),
  verify,
  normalize,
}

function verify(call: ProviderCall, keys: GatewayKeys): Verification {
  const form = readForm(call.body)
  if (form.kind === 'refused') return form
  const { signature, payload } = form
  if (signature === '' || payload === '') return verdicts.missing
  // The vendor's libraries refuse other characters as well.
  if (!/^[A-Za-z0-9+/=\n]+$/.test(payload)) return verdicts.malformed
  const signatures = signaturesOf(signature, call.settings.gateway?.publicKey)
  if (signatures === undefined) return verdicts.malformed
  return isSigned(keys, payload, signatures) ? verdicts.verified : verdicts.mismatch
}

/** Those under the tenant's public key of `<public key>|<hex>[&…]`; undefined where there are no such pairs at all. */
function signaturesOf(text: string, publicKey: string | undefined): Uint8Array[] | undefined {
  const pairs = text.length > signatureCharsMax ? [] : text.split('&').map((pair) => pair.split('|'))
  const wellFormed = pairs.filter(([, hex, more]) => more === undefined && /^[0-9a-f]{40}$/i.test(hex ?? ''))
  if (wellFormed.length === 0 || pairs.length > pairsMax) return undefined
  return wellFormed.filter(([key]) => key === publicKey).map(([, hex = '']) => Buffer.from(hex, 'hex'))
}

/** The vendor signs what it sends, or what it sends with a line feed behind it: either is taken. Every pair is compared. */
function isSigned(keys: GatewayKeys, payload: string, signatures: readonly Uint8Array[]): boolean {
  let matches = 0
  for (const key of keys) {
    for (const text of [payload, `${payload}\n`]) {
      const expected = createHmac('sha1', key).update(text).digest()
      for (const signature of signatures) matches += equalBytes(expected, signature) ? 1 : 0
    }
  }
  return matches > 0
}

function normalize(call: ProviderCall): Normalization {
  const form = readForm(call.body)
  if (form.kind === 'refused') return form
  const notification = readNotification(form.payload)
  if (notification === undefined) return refused('body_not_json')
  const types = judgeTypes(textAt(notification, 'kind'), (raw) => gatewayType(raw, notification))
  if (types.kind === 'refused') return types
  return {
    kind: 'event',
    eventId: eventIdOf(form.payload),
    rawType: types.rawType,
    type: types.type,
    occurredAtMs: readIsoTime(textAt(notification, 'timestamp')),
    payload: JSON.stringify({ notification }),
  }
}

/** Without line feeds, of which the signature lets one come or go. */
function eventIdOf(payload: string): string {
  return createHash('sha256').update(payload.replaceAll('\n', '')).digest('hex')
}

function refused(cause: RefusalCause): Normalization {
  return { kind: 'refused', cause }
}
