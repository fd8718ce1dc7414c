import { redactJson } from './redact-json.ts'
import { createHidesValue, type HidesValue, isCredentialHeader } from './redact-names.ts'
import { cardMark, hiddenMark, hidePersonal, hideTokens, isCardNumber, unreadMark } from './redact-shapes.ts'
import { hideEncoded, hidePairs } from './redact-text.ts'

/** Redacts secrets. Never throws. Idempotent: redacting a redacted text again does not change it. */
export interface Redactor {
  /**
   * Redacts a payload, or its first `charsMax` characters (default 65 536), and omits a token that the limit cuts. Does not add closing
   * brackets to truncated JSON.
   */
  payload(
    text: string,
    charsMax?: number,
  ): {
    readonly text: string
    readonly isCut: boolean
    /** Characters of the original text. */
    readonly charsTotal: number
  }
  /** Omits text beyond 65 536 characters. */
  text(text: string): string
  /** Redacts header values by content and by header name. */
  headers(headers: Readonly<Record<string, string>>): Record<string, string>
  hides(name: string): boolean
}

/** Default maximum of characters that are redacted and shown. */
export const shownCharsMax = 65_536
/** Nested encodings to decode. Content that is encoded more deeply is redacted. */
const depthMax = 6
/** Maximum number of processed characters per character of input, including decoded content. */
const readsPerChar = 24
const readsMin = 65_536
/** Maximum number of characters removed from the end of a truncated text, since they may be the first part of a secret. */
const cutBackMax = 4_096

/**
 * Creates a redactor, which redacts values under built-in secret names and under `fields`, compared without case and separators, in JSON,
 * forms, XML, headers and logs. It also redacts card numbers, credentials, tokens, private keys, passwords in URLs and e-mail addresses,
 * and decodes JSON in strings, base64, hexadecimal and URL encoding. The mark is `[redacted]`, or for example `[redacted: card number]`.
 */
export function createRedactor(fields: readonly string[] = []): Redactor {
  const hides = createHidesValue(fields)
  const redact = (text: string, isCut: boolean) => {
    try {
      const reads = { left: Math.max(readsMin, text.length * readsPerChar) }
      return showAny(text, { hides, reads, depth: 0, isCut })
    } catch {
      return unreadMark
    }
  }
  return {
    payload(text, charsMax = shownCharsMax) {
      const isCut = text.length > charsMax
      return { text: redact(isCut ? text.slice(0, charsMax) : text, isCut), isCut, charsTotal: text.length }
    },
    text: (text) => redact(text.slice(0, shownCharsMax), text.length > shownCharsMax),
    headers: (headers) =>
      Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [
          redact(name, false),
          isCredentialHeader(name.toLowerCase()) || hides(name) ? hiddenMark : redact(value, false),
        ]),
      ),
    hides: (name) => hides(name),
  }
}

interface Reading {
  readonly hides: HidesValue
  /** Number of characters that can still be processed, shared by all nested content of one text. */
  readonly reads: { left: number }
  readonly depth: number
  readonly isCut: boolean
}

function showAny(text: string, reading: Reading): string {
  reading.reads.left -= text.length
  if (reading.reads.left < 0) return unreadMark
  const first = /^\s*["{[]/.test(text)
  const json = first ? showJson(text, reading) : undefined
  return json ?? showPlain(reading.isCut ? cutBack(text) : text, reading)
}

function showJson(text: string, reading: Reading): string | undefined {
  const rules = {
    hides: reading.hides,
    showText: (value: string) => showString(value, reading),
    showNumber: (digits: string) => (isCardNumber(digits) ? cardMark : digits),
  }
  return redactJson(text, rules, reading.isCut)
}

/** Too short and simple to contain a secret. */
const plainString = /^[\w .-]{0,10}$/

function showString(value: string, reading: Reading): string {
  if (plainString.test(value)) return value
  if (!/^\s*["{[]/.test(value)) return showPlain(value, { ...reading, isCut: false })
  return showInner(value, reading) ?? unreadMark
}

function showPlain(text: string, reading: Reading): string {
  reading.reads.left -= text.length
  if (reading.reads.left < 0) return unreadMark
  const paired = hidePairs(text, reading.hides)
  const encoded = hideEncoded(hideTokens(paired), (inner) => showInner(inner, reading))
  return hidePersonal(encoded)
}

/** Returns undefined if the content is nested too deeply. */
function showInner(text: string, reading: Reading): string | undefined {
  if (reading.depth >= depthMax) return undefined
  return showAny(text, { ...reading, depth: reading.depth + 1, isCut: false })
}

/** Removes the last word and digits before it, which may be the first part of a secret that redaction would not recognize. */
function cutBack(text: string): string {
  const tail = text.slice(-cutBackMax)
  const rest = tail.replace(/[^\s&;,<>"']*$/, '').replace(/[\d\s+.-]{0,64}$/, '')
  return text.slice(0, text.length - tail.length) + rest
}
