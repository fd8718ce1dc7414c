import { isUtf8 } from 'node:buffer'
import { endOfValue, type Span } from '#internal/base/index.ts'
import type { HidesValue } from './redact-names.ts'
import { endOf, hiddenMark, hideSpans } from './redact-shapes.ts'

const nameCharsMax = 96
const quotesMax = 64
/** Maximum number of words of a name that contains spaces. */
const wordsMax = 3
/** Characters that cannot occur in a name. */
const stops = new Set(Array.from(` \t\n\v\f\r"'\\=:;&,<>(){}|!?@#/`, (character) => character.charCodeAt(0)))
const separator = /=>|={1,3}|:[:=]?/g
const afterSeparator = /[^\S\r\n]{0,8}/y
const marker = /\[redacted(?:: [a-z -]{1,32})?\]/y
const markers = /\[redacted(?:: [a-z -]{1,32})?\]/g
const openingQuote = /\\{0,64}["']/y
const unquoted = /[^\s&;"'<>]+/y
const lineEnd = /[^\r\n]*/y
const credentialScheme = /(?:bearer|basic|token|apikey|negotiate|ntlm|dpop)(?:[ \t+]|%20)+[^\s&;"'<>]*/iy
const saysNothing = /^(?:null|true|false|none|undefined)?$/i
/** Character codes of `,` `.` `)` `]` `}`, which usually follow a value. */
const punctuation = new Set([44, 46, 41, 93, 125])
/** Names whose value extends to the end of the line. */
const wholeLine = /(?:authorization|cookies?)$/i

/** Hides secrets in `name=value` (forms, queries, logs), `Name: value` (headers), quoted or not, and `<name>value</name>`. Linear time. */
export function hidePairs(text: string, hides: HidesValue): string {
  const hasPairs = text.includes('=') || text.includes(':')
  const shown = hasPairs
    ? hideSpans(text, separator, ({ index }, matchEnd) => assignedSecret(text, index, matchEnd, hides))
    : text
  return shown.includes('<')
    ? hideSpans(shown, element, (tag, tagEnd) => elementSecret(shown, tag, tagEnd, hides))
    : shown
}

/** Returns the value after a separator if the name before it is secret. Separators inside the value belong to the value. */
function assignedSecret(
  text: string,
  separatorAt: number,
  valueFrom: number,
  hides: HidesValue,
): Span | undefined {
  const name = nameBefore(text, endOfName(text, separatorAt), hides)
  if (name === undefined) return undefined
  const start = endOf(afterSeparator, text, valueFrom)
  const span = valueAt(text, start, name, isQuote(text[separatorAt - 1]) && !isQuote(text[start]))
  const value = text.slice(span.start, span.end)
  const isHidden = endOf(marker, text, span.start) === span.end
  return isHidden || saysNothing.test(value) || !hides(name, value) ? undefined : span
}

function isQuote(character: string | undefined): boolean {
  return character === '"' || character === "'"
}

/** Skips quotes, backslashes and spaces. */
function endOfName(text: string, separatorAt: number): number {
  let at = separatorAt
  while (at > 0 && separatorAt - at < quotesMax && isQuoteOrSpace(text.charCodeAt(at - 1))) at -= 1
  return at
}

function isQuoteOrSpace(code: number): boolean {
  return code === 34 || code === 39 || code === 92 || code === 32 || (code >= 9 && code <= 13)
}

/** Returns the secret name that ends at `end`: the last one, two or three words. A redaction mark is not part of a name. */
function nameBefore(text: string, end: number, hides: HidesValue): string | undefined {
  const isSecret = (name: string) => hides(name)
  const name = namesBefore(text, 0, end).find(isSecret)
  if (name === undefined) return undefined
  const from = Math.max(0, end - nameCharsMax)
  const mark = [...text.slice(from, end).matchAll(markers)].at(-1)
  if (mark === undefined) return name
  return namesBefore(text, from + mark.index + mark[0].length, end).find(isSecret)
}

/** Returns the possible names that end at an index, percent-decoded. */
function namesBefore(text: string, from: number, end: number): string[] {
  const starts: number[] = []
  let at = end
  while (at > from && end - at < nameCharsMax && starts.length < wordsMax) {
    const code = text.charCodeAt(at - 1)
    if (stops.has(code)) {
      if (code !== 32 || at === end || stops.has(text.charCodeAt(at - 2))) break
      starts.push(at)
    }
    at -= 1
  }
  if (at < end && starts.length < wordsMax) starts.push(at)
  return starts.map((start) => {
    const name = text.slice(start, end)
    return name.includes('%') ? decodePercent(name) : name
  })
}

function valueAt(text: string, start: number, name: string, isInQuotes: boolean): Span {
  openingQuote.lastIndex = start
  const opening = openingQuote.exec(text)?.[0]
  if (opening !== undefined) return { start: start + opening.length, end: endOfQuoted(text, start, opening) }
  const markEnd = endOf(marker, text, start)
  const takesLine = wholeLine.test(name) && !isInQuotes && text[start - 1] !== '='
  if (takesLine) return { start, end: endOf(lineEnd, text, start) }
  const isOpen = markEnd === start && (text[start] === '{' || text[start] === '[')
  const wholeTo = isOpen ? endOfValue(text, start) : markEnd
  const schemed = endOf(credentialScheme, text, start)
  let end = schemed > start ? schemed : endOf(unquoted, text, wholeTo)
  while (end > wholeTo && punctuation.has(text.charCodeAt(end - 1))) end -= 1
  return { start, end }
}

/** A closing quote has at most as many backslashes as the opening one. Without one, the value extends to the end of the text. */
function endOfQuoted(text: string, start: number, opening: string): number {
  const from = start + opening.length
  const quote = opening.slice(-1)
  for (let at = text.indexOf(quote, from); at >= 0; at = text.indexOf(quote, at + 1)) {
    let slashes = 0
    while (at - slashes > from && text[at - slashes - 1] === '\\') slashes += 1
    if (slashes <= opening.length - 1) return at - slashes
  }
  return text.length
}

const element = /<([\p{L}_][\p{L}\p{N}_:.-]{0,127})(?:\s[^<>]{0,2000})?>/gu

/** Finds the content of an element with a secret name, up to its closing tag or the end of the text. */
function elementSecret(
  text: string,
  tag: RegExpExecArray,
  start: number,
  hides: HidesValue,
): Span | undefined {
  const name = tag[1] ?? ''
  if (tag[0].endsWith('/>') || !hides(name.slice(name.lastIndexOf(':') + 1))) return undefined
  const closing = text.indexOf(`</${name}`, start)
  const end = closing < 0 ? text.length : closing
  const isShown = text.slice(start, end).trim() !== '' && endOf(marker, text, start) !== end
  return isShown ? { start, end } : undefined
}

/** Decodes well-formed percent-encoding. Never throws. */
export function decodePercent(text: string): string {
  return text.replace(/(?:%[\da-f]{2})+/gi, (row) =>
    Buffer.from(row.replaceAll('%', ''), 'hex').toString('utf8'),
  )
}

/** Returns undefined if the decoded content is nested too deeply. */
export type ShowsInner = (text: string) => string | undefined

const base64 = /[A-Za-z0-9+/_-]{12,}={0,2}/g
const base64Line = /^[A-Za-z0-9+/_=\s-]{12,}$/
const hexadecimal = /(?<![\dA-Fa-f])(?:[\dA-Fa-f]{2}){12,}(?![\dA-Fa-f])/g
const words = /[^\s"'<>&=?#]+/g
const encodedByte = /%[\da-f]{2}/i
const escaped = /\\(?:u[\da-f]{4}|["\\/nrt])/i
const escapes = /\\(?:u([\da-f]{4})|(["\\/nrt]))/gi
const letters: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' }

/** Redacts a whole text in base64, hexadecimal, URL encoding or JSON string escapes if decoding it would reveal any part of a secret. */
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

/** Tries base64 with and without slashes: a slash can be base64 or precede it, as in a path or data URL. */
function hideBase64(row: string, shows: ShowsInner): string {
  const whole = hideDecoded(row, textOfBase64, shows)
  if (whole !== row || !/[/_+-]/.test(row)) return whole
  return row.replace(/[A-Za-z0-9]{12,}={0,2}/g, (part) => hideDecoded(part, textOfBase64, shows))
}

/** Decodes each word, then the whole text, because a secret can span several words. */
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
/** Base64 values by character code, for the standard and the URL-safe alphabet. */
const sextets = Uint8Array.from({ length: 128 }, (_none, code) =>
  Math.max(0, alphabet.indexOf(String.fromCharCode(code).replace('-', '+').replace('_', '/'))),
)

const never = -2
/** Per byte: how many UTF-8 continuation bytes follow; -1 for a continuation byte, `never` for a byte that does not occur in text. */
const follows = Int8Array.from({ length: 256 }, (_none, byte) => {
  if (byte === 127 || (byte < 32 && byte !== 9 && byte !== 10 && byte !== 13)) return never
  if (byte < 0xc2) return byte < 0x80 ? 0 : byte < 0xc0 ? -1 : never
  return byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : byte < 0xf5 ? 3 : never
})

/** Checks the first six decoded bytes. Native decoding made redaction 1.3 times as slow (Bun 1.4.5, 2026-11). */
function beginsAsText(row: string): boolean {
  let value = 0
  let follow = 0
  for (let at = 0; at < 8; at += 1) {
    value = (value << 6) | (sextets[row.charCodeAt(at)] ?? 0)
    if (at % 4 !== 3) continue
    for (let shift = 16; shift >= 0; shift -= 8) {
      const next = follows[(value >>> shift) & 255] ?? never
      if (next === never || (next === -1) !== follow > 0) return false
      follow = next === -1 ? follow - 1 : next
    }
    value = 0
  }
  return true
}

function textOfHexadecimal(row: string): string | undefined {
  return textOf(Buffer.from(row, 'hex'))
}

/** Accepts UTF-8 without control characters, except white space. The last character may be incomplete. */
function textOf(bytes: Buffer): string | undefined {
  for (const byte of bytes) if (follows[byte] === never) return undefined
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
