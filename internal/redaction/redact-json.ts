import type { HidesValue } from './redact-names.ts'
import { hiddenMark } from './redact-shapes.ts'

/** How the parts of a JSON text are shown. */
export interface JsonRules {
  readonly hides: HidesValue
  /** A string's text, or a member's name, as it may be shown. */
  readonly showText: (text: string) => string
  /** Digits of a number as they may be shown: themselves, or what stands in their place. */
  readonly showNumber: (text: string) => string
}

interface Replacement {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** One object or array that is open. */
interface Frame {
  readonly isArray: boolean
  readonly start: number
  /** What it is the value of, where its name is such as `value`. */
  readonly besideIn: Frame | undefined
  values: number
  /** Whether a member such as `name`, or the first of two elements, says that the value beside it is a secret. */
  namesSecret: boolean
  beside: { readonly start: number; readonly end: number } | undefined
}

const hiddenString = `"${hiddenMark}"`
const scalar = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?=[\s,\]}]|$)/y
const space = /[ \t\r\n]*/y
const pairName = /^(?:name|key|field|header|variable|attribute)$/i
const pairValue = /^(?:value|val|values|stringvalue|content)$/i

/**
 * Hides secrets in a JSON text and leaves all else as it was received, to the last digit and space. What it gives is JSON again.
 * @param isCut whether the text is the beginning of a longer one: then what its end cuts through is left out
 * @returns undefined for a text that is no JSON
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
  /** Up to where everything is read; what a cut leaves of a token stands behind it. */
  wholeTo = 0

  constructor(text: string, rules: JsonRules) {
    this.#text = text
    this.#rules = rules
  }

  /** Reads to the end. undefined: the text ended before its value did. */
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

  /** The text up to an index, with what is hidden replaced. */
  shown(to: number): string {
    const inOrder = this.#replacements.toSorted(
      (one, other) => one.start - other.start || other.end - one.end,
    )
    const pieces: string[] = []
    let copiedTo = 0
    for (const { start, end, text } of inOrder) {
      // Inside of one that is hidden whole.
      if (start < copiedTo) continue
      pieces.push(this.#text.slice(copiedTo, start), text)
      copiedTo = end
    }
    pieces.push(this.#text.slice(copiedTo, Math.max(copiedTo, to)))
    return pieces.join('')
  }

  /** The next element or member, or the end, of what is open. */
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
    // More of its digits may stand behind a cut.
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

  /** One under a name that is hidden is passed over whole. */
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

/** Index behind the closing quote of the string that opens at `start`; undefined where there is none. */
function endOfString(text: string, start: number): number | undefined {
  for (let at = text.indexOf('"', start + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let slashes = 0
    while (text[at - 1 - slashes] === '\\') slashes += 1
    if (slashes % 2 === 0) return at + 1
  }
  return undefined
}

/** Index behind the bracket that closes what opens at `start`; undefined where there is none. */
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
