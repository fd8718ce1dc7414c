import type { HeaderReading } from '../normalize.ts'
import type { Decode } from './encoding.ts'
import type { Scheme } from './schema.ts'

/** Maximum signatures in a value. Senders use two while they rotate a secret. */
const signaturesMax = 20
/** Maximum characters of a value with signatures. */
export const signatureCharsMax = 4096

/** Parsed value. `texts` are the encoded signatures of the scheme; none means another scheme. `signatures` are those that are decodable. */
export type ParsedSignature =
  | {
      readonly kind: 'signatures'
      readonly texts: readonly string[]
      readonly signatures: readonly Uint8Array[]
      /** Time in the value, if the scheme has it there. */
      readonly time: string | undefined
    }
  | { readonly kind: 'malformed' | 'unknown' }

/** Parses the value of a signature. */
export type ParseSignature = (value: string) => ParsedSignature

const malformed: ParsedSignature = { kind: 'malformed' }
const unknown: ParsedSignature = { kind: 'unknown' }

/** Compiles the parsing of a scheme's signature. */
export function compileSignature({ signature, timestamp, encoding }: Scheme, decode: Decode): ParseSignature {
  const { prefix, pairs, list } = signature
  if (pairs !== undefined) return pairsParser(pairs, timestamp?.pair, encoding !== 'hex', decode)
  if (list !== undefined) return listParser(list.separator, decode)
  return wholeParser(prefix ?? '', decode)
}

function wholeParser(prefix: string, decode: Decode): ParseSignature {
  const mark = prefix.slice(-1)
  return (value) => {
    if (value.length > signatureCharsMax) return malformed
    if (!value.startsWith(prefix)) return value.includes(mark) ? unknown : malformed
    const text = value.slice(prefix.length)
    const signature = decode(text)
    return signature === undefined
      ? malformed
      : { kind: 'signatures', texts: [text], signatures: [signature], time: undefined }
  }
}

/**
 * Parser of pairs. Skips pairs with other names and undecodable signatures. A pair must contain the assigning character once, except that
 * the padding of base64 may repeat `=` at the end.
 */
function pairsParser(
  { separator, assign, name, emptyValues = false }: NonNullable<Scheme['signature']['pairs']>,
  timeName: string | undefined,
  hasPadding: boolean,
  decode: Decode,
): ParseSignature {
  const trims = separator !== ' '
  const mayPad = hasPadding && assign === '='
  // A header that is sent twice is joined by a comma. Only a time would show it, so that repeated signatures are refused without one.
  const isRepeatable = timeName !== undefined || !separator.includes(',')
  return (value) => {
    if (value.length > signatureCharsMax) return malformed
    const texts: string[] = []
    let time: string | undefined
    for (const part of value.split(separator)) {
      const pair = trims ? part.trim() : part
      const at = pair.indexOf(assign)
      if (at < 0) return malformed
      const text = pair.slice(at + 1)
      const checked = mayPad ? text.replace(/={1,2}$/, '') : text
      if (checked.includes(assign) || (!emptyValues && (at === 0 || text === ''))) return malformed
      const own = pair.slice(0, at)
      if (own === timeName) {
        if (time !== undefined) return malformed
        time = text
      }
      if (own === name) {
        if (!isRepeatable && texts.includes(text)) return malformed
        texts.push(text)
      }
    }
    if (texts.length > signaturesMax) return malformed
    // Without its time, a value is malformed and not of an unknown scheme.
    if (timeName !== undefined && time === undefined) return malformed
    return { kind: 'signatures', texts, signatures: decodeAll(texts, decode), time }
  }
}

function decodeAll(texts: readonly string[], decode: Decode): Uint8Array[] {
  return texts.map(decode).filter((each) => each !== undefined)
}

/** Parser of a list of the time and signatures, all of which must be decodable. */
function listParser(separator: string, decode: Decode): ParseSignature {
  return (value) => {
    if (value.length > signatureCharsMax) return malformed
    const [time, ...texts] = value.split(separator).map((item) => item.trim())
    const signatures = decodeAll(texts, decode)
    const fits = texts.length > 0 && texts.length <= signaturesMax && signatures.length === texts.length
    return fits ? { kind: 'signatures', texts, signatures, time } : malformed
  }
}

/** Adds the signatures of further headers to those of the first one. A malformed one is skipped. */
export function withMore(
  first: ParsedSignature,
  more: readonly HeaderReading[],
  parse: ParseSignature,
): ParsedSignature {
  if (first.kind !== 'signatures') return first
  const others = more
    .map((reading) => (reading.kind === 'value' ? parse(reading.value) : malformed))
    .filter((each) => each.kind === 'signatures')
  const all = [first, ...others]
  return {
    ...first,
    texts: all.flatMap(({ texts }) => texts),
    signatures: all.flatMap(({ signatures }) => signatures).slice(0, signaturesMax),
  }
}
