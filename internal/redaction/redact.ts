import { redactJson } from './redact-json.ts'
import { createHidesValue, type HidesValue, isCredentialHeader } from './redact-names.ts'
import { hiddenMark, hidePersonal, hideTokens, isCardNumber, unreadMark } from './redact-shapes.ts'
import { hideEncoded, hidePairs } from './redact-text.ts'

/** A payload as it may be shown. */
export interface RedactedText {
  readonly text: string
  /** Whether only its beginning is shown. */
  readonly isCut: boolean
  /** Characters of the whole. */
  readonly charsTotal: number
}

/** Hides secrets. Nothing here throws; what it gives may be given to it again and stays as it is. */
export interface Redactor {
  /**
   * A payload, or the first `charsMax` characters (default 65 536) of a longer one; what the bound cuts through is left out. JSON
   * stays as it was received but for what is hidden, to the last digit and space; a cut one is not closed.
   */
  payload(text: string, charsMax?: number): RedactedText
  /** A short text: an answer, a message. What is over 65 536 characters is left out. */
  text(text: string): string
  /** The values of headers, by the same rules and by what their names say in a message's head. */
  headers(headers: Readonly<Record<string, string>>): Record<string, string>
  /** Whether what stands under a name is hidden, whatever it is. */
  hides(name: string): boolean
}

/** How much of a payload is looked at and shown where nothing else is asked for. */
export const shownCharsMax = 65_536
/** Encodings one inside of the other that are looked into; what is deeper is hidden. */
const depthMax = 6
/** How much may be read of a text and of what is encoded in it, for each of its characters. */
const readsPerChar = 24
const readsMin = 65_536
/** A cut goes back to a place where no secret can stand astride, as far as this. */
const cutBackMax = 4_096

/**
 * Makes a redactor. It hides by name: values under the built-in names of secrets, and under `fields`, compared without case and
 * separators, in JSON, forms, XML, heads and logs; and by shape: numbers of cards, credentials, tokens, private keys, passwords in
 * URLs, e-mail addresses. It looks into JSON in strings, base64, hexadecimal digits and URL encoding. Hidden is `[redacted]`,
 * where its kind is known `[redacted: card number]`.
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

/** One reading of a text, or of what is encoded in it. */
interface Reading {
  readonly hides: HidesValue
  /** Shared by all that is inside of one text. */
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
    showNumber: (digits: string) => (isCardNumber(digits) ? '[redacted: card number]' : digits),
  }
  return redactJson(text, rules, reading.isCut)
}

/** Too short for a secret that is known by its shape or stands behind its name. */
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

/** What was decoded once more; undefined where that is too deep to be looked into. */
function showInner(text: string, reading: Reading): string | undefined {
  if (reading.depth >= depthMax) return undefined
  return showAny(text, { ...reading, depth: reading.depth + 1, isCut: false })
}

/** Leaves out what may be the first part of a secret: the last word, and digits before it. */
function cutBack(text: string): string {
  const tail = text.slice(-cutBackMax)
  const rest = tail.replace(/[^\s&;,<>"']*$/, '').replace(/[\d\s+.-]{0,64}$/, '')
  return text.slice(0, text.length - tail.length) + rest
}
