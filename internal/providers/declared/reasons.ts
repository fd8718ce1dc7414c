// Reasons for the trace of a call. They contain forms and lengths only, since secrets and keys must not be shown.

import { parseTime } from './event.ts'
import { compileKeys, hashBytes, hasPublicKeys, hasPublishedKeys, hmacHashOf, keyBytes } from './keys.ts'
import { type Encoding, encodings, type Scheme, type TimeUnit, timeUnits } from './schema.ts'
import { decodeText, digestDecoder, signatureCharsMax } from './signature.ts'

/** Returns what is wrong with the form of a signature value; undefined if the form is right. */
export function malformedReason(scheme: Scheme, value: string): string | undefined {
  const { prefix = '', pairs, list } = scheme.signature
  if (scheme.algorithm === 'jwt' || scheme.encoding === undefined) return undefined
  if (value.length > signatureCharsMax) return `the value has more than ${signatureCharsMax} characters`
  if (pairs) {
    const names = value.split(pairs.separator).map((pair) => pair.split(pairs.assign)[0]?.trim())
    const time = scheme.timestamp?.pair
    if (!names.includes(pairs.name) || !value.includes(pairs.assign))
      return `the value is no list of pairs, separated by "${pairs.separator}", with one named ${pairs.name}, as in ${pairs.name}${pairs.assign}…`
    if (time !== undefined && names.filter((name) => name === time).length !== 1)
      return `the value must have the pair ${time} with the time once`
    return 'each pair must have a name and a value, and no pair may be repeated'
  }
  if (list) {
    const [, ...texts] = value.split(list.separator).map((item) => item.trim())
    if (texts.length === 0) return `the value is no list with the separator "${list.separator}"`
    return texts.map((text) => undecodableReason(scheme, text)).find((reason) => reason !== undefined)
  }
  if (!value.startsWith(prefix)) return `the value does not begin with "${prefix}"`
  return undecodableReason(scheme, value.slice(prefix.length))
}

/** Returns undefined if the text can be decoded. */
export function undecodableReason({ algorithm, encoding = 'hex' }: Scheme, text: string): string | undefined {
  const hash = hmacHashOf(algorithm)
  const bytes = hash && hashBytes[hash]
  const decode = (as: Encoding) =>
    bytes === undefined ? decodeText(text, as) : digestDecoder(as, bytes)(text)
  if (decode(encoding) !== undefined) return undefined
  const other = encodings.find((each) => each !== encoding && decode(each) !== undefined)
  const found = `${text.length} characters`
  if (other !== undefined) return `${found} are not ${encoding}, but they have the form of ${other}`
  const decoded = decodeText(text, encoding)
  if (decoded === undefined || bytes === undefined) return `${found} are not ${encoding}`
  return `${found} are ${encoding} of ${decoded.length} bytes, but ${algorithm} has ${bytes}`
}

/** Describes how a scheme converts a secret to a key, or why this is impossible. */
export function keyReason(scheme: Scheme, secret: string): string {
  const { key = {} } = scheme
  if (hasPublishedKeys(scheme)) return 'no key: a name of the customer'
  if (hasPublicKeys(scheme)) return publicKeyReason(scheme, secret)
  const { prefix = '', decode, bytesMin = 1 } = key
  const isPrefixed = prefix !== '' && secret.startsWith(prefix)
  const rest = isPrefixed ? secret.slice(prefix.length) : secret
  const after = prefix === '' ? '' : isPrefixed ? ` after ${prefix}` : ` without ${prefix}`
  const [first] = keyBytes(secret, key)
  const isDecoded = typeof first === 'object'
  if (first !== undefined)
    return `${Buffer.byteLength(first)} bytes, ${isDecoded ? decode : 'the text itself'}${after}`
  const decoded = decode === undefined ? Buffer.from(rest) : decodeText(rest, decode)
  if (decoded === undefined) return `no key: ${rest.length} characters${after} are not ${decode}`
  return `no key: ${decoded.length} bytes${after}, at least ${bytesMin} are needed`
}

function publicKeyReason(scheme: Scheme, secret: string): string {
  const keys = compileKeys(scheme)([secret])
  const form = scheme.key?.format ?? 'declared'
  const made = keys.kind === 'objects' ? keys.keys : []
  if (made.length === 0) return `no key: it is no public key in the form ${form} for ${scheme.algorithm}`
  const types = [...new Set(made.map(({ key }) => key.asymmetricKeyType))]
  return `${made.length} public keys in the form ${form}: ${types.join(', ')}`
}

/** Finds another unit in which the time would be near the clock, which shows that the declared unit may be wrong. */
export function otherUnit(
  text: string,
  unit: TimeUnit,
  nowMs: number,
  ageMsMax: number,
): TimeUnit | undefined {
  return timeUnits.find((each) => {
    const atMs = each === unit ? undefined : parseTime(text, each)
    return atMs !== undefined && Math.abs(nowMs - atMs) <= ageMsMax
  })
}
