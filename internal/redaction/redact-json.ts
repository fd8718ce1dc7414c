import type { HidesValue } from './redact-names.ts'
import { hiddenMark } from './redact-shapes.ts'

/** Redaction rules for the parts of a JSON text. */
export interface JsonRules {
  readonly hides: HidesValue
  /** Redacts a string or a member name. */
  readonly showText: (text: string) => string
  /** Redacts the digits of a number. */
  readonly showNumber: (text: string) => string
}

interface Replacement {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** Open object or array. */
interface Frame {
  readonly isArray: boolean
  readonly start: number
  /** Enclosing frame if this is the value member of a name-value pair. */
  readonly besideIn: Frame | undefined
  values: number
  /** True if a `name` member, or the first of two elements, is a secret's name, so that the value beside it is redacted. */
  namesSecret: boolean
  beside: { readonly start: number; readonly end: number } | undefined
}

const hiddenString = `"${hiddenMark}"`
const scalar = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?=[\s,\]}]|$)/y
const space = /[ \t\r\n]*/y
const pairName = /^(?:name|key|field|header|variable|attribute)$/i
const pairValue = /^(?:value|val|values|stringvalue|content)$/i

/**
 * Redacts secrets in a JSON text and keeps everything else as received. The result is valid JSON.
 * @param isCut true for the beginning of a longer text; an incomplete token at its end is omitted
 * @returns undefined if the text is not JSON
 */
export function redactJson(text: string, rules: JsonRules, isCut: boolean): string | undefined {
  const reader = new JsonReader(text, rules)
  const end = reader.readAll()
  if (end === undefined && !isCut) return undefined
  if (end === 'malformed') return undefined
  return reader.shown(end === undefined ? reader.wholeTo : text.length)
}

class JsonReader {
  readonly #text: string
  readonly #rules: JsonRules
  readonly #replacements: Replacement[] = []
  readonly #frames: Frame[] = []
  #at = 0
  /** Index up to which all tokens are complete. */
  wholeTo = 0

  constructor(text: string, rules: JsonRules) {
    this.#text = text
    this.#rules = rules
  }

  /** Reads to the end. Returns undefined if the text ended within its value. */
  readAll(): 'end' | 'malformed' | undefined {
    this.#skipSpace()
    let result = this.#readValue(undefined)
    while (result === 'read') {
      const frame = this.#frames.at(-1)
      this.wholeTo = this.#at
      this.#skipSpace()
      if (frame === undefined) return this.#at === this.#text.length ? 'end' : 'malformed'
      if (this.#at === this.#text.length) return undefined
      result = this.#readNext(frame)
    }
    return result === 'cut' ? undefined : 'malformed'
  }

  /** Returns the redacted text up to an index. */
  shown(to: number): string {
    const inOrder = this.#replacements.toSorted(
      (one, other) => one.start - other.start || other.end - one.end,
    )
    const pieces: string[] = []
    let copiedTo = 0
    for (const { start, end, text } of inOrder) {
      // Inside a span that is replaced as a whole.
      if (start < copiedTo) continue
      pieces.push(this.#text.slice(copiedTo, start), text)
      copiedTo = end
    }
    pieces.push(this.#text.slice(copiedTo, Math.max(copiedTo, to)))
    return pieces.join('')
  }

  /** Reads the next element or member, or the end, of the open frame. */
  #readNext(frame: Frame): 'read' | 'cut' | 'malformed' {
    const closing = frame.isArray ? ']' : '}'
    if (this.#text[this.#at] === closing) return this.#close(frame)
    if (frame.values > 0) {
      if (this.#text[this.#at] !== ',') return 'malformed'
      this.#at += 1
      this.#skipSpace()
    }
    return frame.isArray ? this.#readValue(undefined, frame) : this.#readMember(frame)
  }

  #close(frame: Frame): 'read' {
    const isPair = !frame.isArray || frame.values === 2
    if (isPair && frame.namesSecret && frame.beside) this.#replace(frame.beside, hiddenString)
    this.#frames.pop()
    this.#at += 1
    if (frame.besideIn) frame.besideIn.beside = { start: frame.start, end: this.#at }
    return 'read'
  }

  #readMember(frame: Frame): 'read' | 'cut' | 'malformed' {
    const start = this.#at
    if (start === this.#text.length) return 'cut'
    if (this.#text[start] !== '"') return 'malformed'
    const end = endOfString(this.#text, start)
    if (end === undefined) return 'cut'
    const name = textOfString(this.#text, start, end)
    if (name === undefined) return 'malformed'
    this.#showString(name, { start, end })
    this.#at = end
    this.#skipSpace()
    if (this.#at === this.#text.length) return 'cut'
    if (this.#text[this.#at] !== ':') return 'malformed'
    this.#at += 1
    this.#skipSpace()
    return this.#readValue(name, frame)
  }

  #readValue(name: string | undefined, frame?: Frame): 'read' | 'cut' | 'malformed' {
    const start = this.#at
    const first = this.#text[start]
    if (first === undefined) return 'cut'
    if (frame) frame.values += 1
    if (first === '{' || first === '[') return this.#open(name, frame)
    const end = first === '"' ? endOfString(this.#text, start) : this.#endOfScalar(start)
    if (end === undefined) return first === '"' || this.#text.length - start < 64 ? 'cut' : 'malformed'
    this.#at = end
    const isString = first === '"'
    // The cut may have removed digits.
    if (!isString && end === this.#text.length) return 'cut'
    const value = isString ? textOfString(this.#text, start, end) : this.#text.slice(start, end)
    if (value === undefined) return 'malformed'
    if (frame) this.#notePair(frame, { name, value, isString, start, end })
    if (name !== undefined && !saysNothing(value, isString) && this.#rules.hides(name, value))
      this.#replace({ start, end }, hiddenString)
    else if (isString) this.#showString(value, { start, end })
    else this.#showNumber(value, { start, end })
    return 'read'
  }

  /** Opens an object or array, or skips it as a whole if its name is redacted. */
  #open(name: string | undefined, frame: Frame | undefined): 'read' | 'cut' {
    const start = this.#at
    if (name !== undefined && this.#rules.hides(name)) {
      const end = endOfBrackets(this.#text, start)
      this.#replace({ start, end: end ?? this.#text.length }, hiddenString)
      this.#at = end ?? this.#text.length
      if (end === undefined) this.wholeTo = this.#text.length
      return end === undefined ? 'cut' : 'read'
    }
    this.#frames.push({
      isArray: this.#text[start] === '[',
      start,
      besideIn: pairValue.test(name ?? '') ? frame : undefined,
      values: 0,
      namesSecret: false,
      beside: undefined,
    })
    this.#at += 1
    return 'read'
  }

  #notePair(
    frame: Frame,
    value: {
      readonly name: string | undefined
      readonly value: string
      readonly isString: boolean
      readonly start: number
      readonly end: number
    },
  ): void {
    const { start, end } = value
    const isName = frame.isArray ? frame.values === 1 : pairName.test(value.name ?? '')
    if (isName && value.isString && this.#rules.hides(value.value)) frame.namesSecret = true
    const isBeside = frame.isArray ? frame.values === 2 : pairValue.test(value.name ?? '')
    if (isBeside && !saysNothing(value.value, value.isString)) frame.beside = { start, end }
  }

  #showString(value: string, { start, end }: { readonly start: number; readonly end: number }): void {
    const shown = this.#rules.showText(value)
    if (shown !== value) this.#replace({ start, end }, JSON.stringify(shown))
  }

  #showNumber(value: string, span: { readonly start: number; readonly end: number }): void {
    const shown = this.#rules.showNumber(value)
    if (shown !== value) this.#replace(span, JSON.stringify(shown))
  }

  #replace({ start, end }: { readonly start: number; readonly end: number }, text: string): void {
    this.#replacements.push({ start, end, text })
  }

  #endOfScalar(start: number): number | undefined {
    scalar.lastIndex = start
    const found = scalar.exec(this.#text)
    return found === null ? undefined : start + found[0].length
  }

  #skipSpace(): void {
    space.lastIndex = this.#at
    this.#at += space.exec(this.#text)?.[0].length ?? 0
  }
}

function saysNothing(value: string, isString: boolean): boolean {
  return isString ? value === '' : /^(?:null|true|false)$/.test(value)
}

/** Returns the index after the closing quote of the string at `start`, or undefined. */
function endOfString(text: string, start: number): number | undefined {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0
    while (text[at - 1 - slashes] === '\\') slashes += 1
    if (slashes % 2 === 0) return at + 1
  }
  return undefined
}

/** Returns the index after the bracket that closes the one at `start`, or undefined. */
function endOfBrackets(text: string, start: number): number | undefined {
  let depth = 0
  for (let at = start; at < text.length; at += 1) {
    const character = text[at]
    if (character === '"') {
      const end = endOfString(text, at)
      if (end === undefined) return undefined
      at = end - 1
    } else if (character === '{' || character === '[') depth += 1
    else if (character === '}' || character === ']') {
      depth -= 1
      if (depth === 0) return at + 1
    }
  }
  return undefined
}

function textOfString(text: string, start: number, end: number): string | undefined {
  const inner = text.slice(start + 1, end - 1)
  if (!inner.includes('\\')) return inner
  try {
    return JSON.parse(`"${inner.replace(/[\x00-\x1f]/g, ' ')}"`) as string
  } catch {
    return undefined
  }
}
