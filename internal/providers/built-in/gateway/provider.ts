import { createHash, createHmac } from 'node:crypto'
import { isJsonObject, type JsonObject } from '#internal/base/index.ts'
import { decodeUtf8, textAt } from '../../declared/call.ts'
import { makeEvent, readEventId, readIsoTime, unlistedType } from '../../declared/event.ts'
import { equalBytes, verdicts } from '../../declared/signature.ts'
import {
  type Provider,
  type ProviderCall,
  type ProviderEvent,
  type Refused,
  refused,
  type Verification,
} from '../../provider.ts'
import { eventTables } from '../tables.ts'
import { readXml, type XmlElement } from './xml.ts'

/** SHA-1 digest of each private key, which the vendor uses as HMAC key. */
export type GatewayKeys = readonly Uint8Array[]

/** Maximum number of pairs of public key and signature in a call. A real account has fewer public keys. */
const pairsMax = 20
const signatureCharsMax = 4096

export const gateway: Provider<GatewayKeys> = {
  name: 'gateway',
  bodyBytesMax: 1024 * 1024,
  headers: {},
  secretHeaders: [],
  // Skips an empty private key, with which anyone could sign.
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
  // Refuses characters other than base64 and line feeds, as the vendor's libraries do.
  if (!/^[A-Za-z0-9+/=\n]+$/.test(payload)) return verdicts.malformed
  const signatures = signaturesOf(signature, call.settings.gateway?.publicKey)
  if (signatures === undefined) return verdicts.malformed
  return isSigned(keys, payload, signatures) ? verdicts.verified : verdicts.mismatch
}

/** Parses `<public key>|<hex>[&…]`, and returns the signatures of the tenant's public key; undefined if the text is malformed. */
function signaturesOf(text: string, publicKey: string | undefined): Uint8Array[] | undefined {
  const pairs = text.length > signatureCharsMax ? [] : text.split('&').map((pair) => pair.split('|'))
  const wellFormed = pairs.filter(([, hex, more]) => more === undefined && /^[0-9a-f]{40}$/i.test(hex ?? ''))
  if (wellFormed.length === 0 || pairs.length > pairsMax) return undefined
  return wellFormed.filter(([key]) => key === publicKey).map(([, hex = '']) => Buffer.from(hex, 'hex'))
}

/** Accepts a signature over the payload with or without its final line feed. Constant time: compares every pair of key and signature. */
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

function normalize(call: ProviderCall): ProviderEvent | Refused {
  const form = readForm(call.body)
  if (form.kind === 'refused') return form
  const notification = readNotification(form.payload)
  if (notification === undefined) return refused('body_not_json')
  const payload = { notification }
  return makeEvent({
    // The vendor sends no event id, so a hash of the payload is used. Line feeds are left out, because the signature stays valid if a final
    // line feed is added or removed.
    id: readEventId(createHash('sha256').update(form.payload.replaceAll('\n', '')).digest('hex')),
    rawType: textAt(notification, 'kind'),
    typeOf: (raw) => eventTables.gateway.typeOf(raw, payload) ?? unlistedType('gateway', raw),
    occurredAtMs: readIsoTime(textAt(notification, 'timestamp')),
    payload: JSON.stringify(payload),
  })
}

const signatureNames: ReadonlySet<string> = new Set(['gateway_signature', 'bt_signature'])
const payloadNames: ReadonlySet<string> = new Set(['gateway_payload', 'bt_payload'])

/** Reads each field by its neutral or its vendor's name. Refuses a field with two different values: one could escape verification. */
function readForm(
  body: Uint8Array,
): { readonly kind: 'form'; readonly signature: string; readonly payload: string } | Refused {
  const text = decodeUtf8(body)
  if (text === undefined) return refused('signature_malformed')
  let signature = ''
  let payload = ''
  for (const pair of text.split('&')) {
    const at = pair.indexOf('=')
    const name = at < 0 ? pair : pair.slice(0, at)
    if (!signatureNames.has(name) && !payloadNames.has(name)) continue
    const value = decodeField(at < 0 ? '' : pair.slice(at + 1))
    if (value === undefined) return refused('signature_malformed')
    const known = signatureNames.has(name) ? signature : payload
    if (known !== '' && known !== value) return refused('headers_conflict')
    if (signatureNames.has(name)) signature = value
    else payload = value
  }
  return { kind: 'form', signature, payload }
}

function decodeField(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

type Field = string | null | Field[] | { [name: string]: Field }

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/**
 * Converts a notification, which is base64 of an XML document, to an object with the XML's names. Returns undefined for any other payload.
 * Numbers, dates and booleans stay text, so that no digit is lost. `type="array"` and repeated names become lists, and `nil="true"` becomes
 * null.
 */
function readNotification(payload: string): JsonObject | undefined {
  const packed = payload.replaceAll('\n', '')
  const text = packed !== '' && base64.test(packed) ? decodeUtf8(Buffer.from(packed, 'base64')) : undefined
  const root = text === undefined ? undefined : readXml(text)
  if (root?.name !== 'notification') return undefined
  const fields = fieldOf(root)
  return isJsonObject(fields) ? fields : undefined
}

function fieldOf({ attributes, children, text }: XmlElement): Field {
  if (attributes.get('nil') === 'true') return null
  if (attributes.get('type') === 'array') return children.map(fieldOf)
  if (children.length === 0) return text
  // In an object without a prototype, `__proto__` is an ordinary name.
  const fields: { [name: string]: Field } = Object.create(null)
  for (const [name, elements] of Map.groupBy(children, (child) => child.name)) {
    const [first, ...more] = elements.map(fieldOf)
    fields[name] = more.length > 0 ? [first ?? null, ...more] : (first ?? null)
  }
  return fields
}
