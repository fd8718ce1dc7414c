import { isUtf8 } from 'node:buffer'
import { decodePercent } from './redact-pairs.ts'
import { hiddenMark } from './redact-shapes.ts'

/** Gives a text that was decoded once as it may be shown, or undefined when it is not looked into. */
export type ShowsInner = (text: string) => string | undefined

const base64 = /[A-Za-z0-9+/_-]{12,}={0,2}/g
const base64Line = /^[A-Za-z0-9+/_=\s-]{12,}$/
const hexadecimal = /(?<![\dA-Fa-f])(?:[\dA-Fa-f]{2}){12,}(?![\dA-Fa-f])/g
const words = /[^\s"'<>&=?#]+/g
const encodedByte = /%[\da-f]{2}/i
const escaped = /\\(?:u[\da-f]{4}|["\\/nrt])/i
const escapes = /\\(?:u([\da-f]{4})|(["\\/nrt]))/gi
const letters: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }

/**
 * Hides what holds a secret in base64, as a URL encodes it, in hexadecimal digits, or with the escapes of a JSON string: whole, so
 * that nothing is left to decode.
 */
export function hideEncoded(text: string, shows: ShowsInner): string {
  let shown = text
  if (shown.length >= 12) {
    if (/\s/.test(shown) && base64Line.test(shown)) {
      const whole = hideDecoded(shown.replace(/\s+/g, ''), textOfBase64, shows)
      if (whole === hiddenMark) return whole
    }
    shown = shown.replace(base64, (row) => hideBase64(row, shows))
    shown = shown.replace(hexadecimal, (row) => hideDecoded(row, textOfHexadecimal, shows))
  }
  if (shown.includes('%') && encodedByte.test(shown)) shown = hidePercent(shown, shows)
  if (shown.includes('\\') && escaped.test(shown)) shown = hideDecoded(shown, withoutEscapes, shows)
  return shown
}

/** A slash may be one of its letters or stand before it, as in a path or a data URL: both are tried. */
function hideBase64(row: string, shows: ShowsInner): string {
  const whole = hideDecoded(row, textOfBase64, shows)
  if (whole !== row || !/[/_+-]/.test(row)) return whole
  return row.replace(/[A-Za-z0-9]{12,}={0,2}/g, (part) => hideDecoded(part, textOfBase64, shows))
}

/** Each word first; then all of it, since what belongs together may stand in several. */
function hidePercent(text: string, shows: ShowsInner): string {
  const shown = text.replace(words, (word) =>
    encodedByte.test(word) ? hideDecoded(word, decodePercent, shows) : word,
  )
  return hideDecoded(shown, (each) => decodePercent(each.replaceAll('+', ' ')), shows)
}

function hideDecoded(text: string, decode: (text: string) => string | undefined, shows: ShowsInner): string {
  const decoded = decode(text)
  return decoded === undefined || decoded === text || shows(decoded) === decoded ? text : hiddenMark
}

function textOfBase64(row: string): string | undefined {
  return beginsAsText(row) ? textOf(Buffer.from(row, 'base64')) : undefined
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
/** By character code, standard and URL-safe letters alike. */
const sextets = Uint8Array.from({ length: 128 }, (_none, code) =>
  Math.max(0, alphabet.indexOf(String.fromCharCode(code).replace('-', '+').replace('_', '/'))),
)

/** Looks at the first six bytes, so that most words and ids, which are no base64, cost next to nothing. */
function beginsAsText(row: string): boolean {
  let value = 0
  let follow = 0
  for (let at = 0; at < 8; at += 1) {
    value = (value << 6) | (sextets[row.charCodeAt(at)] ?? 0)
    if (at % 4 !== 3) continue
    for (const byte of [(value >>> 16) & 255, (value >>> 8) & 255, value & 255]) {
      const follows = followsInUtf8(byte)
      if (follows === undefined || (follows === -1) !== follow > 0) return false
      follow = follows === -1 ? follow - 1 : follows
    }
    value = 0
  }
  return true
}

/** How many bytes of UTF-8 belong to the one that this byte begins; -1 for one of those, undefined for what is in no text. */
function followsInUtf8(byte: number): number | undefined {
  if (byte < 0x80)
    return byte === 127 || (byte < 32 && byte !== 9 && byte !== 10 && byte !== 13) ? undefined : 0
  if (byte < 0xc0) return -1
  if (byte < 0xc2 || byte > 0xf4) return undefined
  return byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3
}

function textOfHexadecimal(row: string): string | undefined {
  return textOf(Buffer.from(row, 'hex'))
}

/** Bytes that are text: UTF-8 without control characters other than white space; the last letter may be cut through. */
function textOf(bytes: Buffer): string | undefined {
  for (const byte of bytes)
    if (byte === 127 || (byte < 32 && byte !== 9 && byte !== 10 && byte !== 13)) return undefined
  for (let cut = 0; cut < Math.min(4, bytes.length); cut += 1) {
    const whole = bytes.subarray(0, bytes.length - cut)
    if (isUtf8(whole)) return whole.toString('utf8')
  }
  return undefined
}

function withoutEscapes(text: string): string {
  return text.replace(escapes, (_all, code: string | undefined, letter: string | undefined) =>
    code === undefined
      ? (letters[letter ?? ''] ?? letter ?? '')
      : String.fromCharCode(Number.parseInt(code, 16)),
  )
}
