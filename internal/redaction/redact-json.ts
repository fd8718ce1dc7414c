import { endOfString, type Span } from '#internal/base/index.ts'
import type { HidesValue } from './redact-names.ts'
import { endOf, hiddenMark } from './redact-shapes.ts'

export interface JsonRules {
  readonly hides: HidesValue
  readonly showText: (text: string) => string
  readonly showNumber: (text: string) => string
}

interface Frame {
  readonly isArray: boolean
  readonly start: number
  /** Whether the value is redacted as a whole. */
  readonly isHidden: boolean
  name: string | undefined
  values: number
  /** Whether the object's `name` member, or the array's first element, is a secret name. Its `value` or second element is then redacted. */
  namesSecret: boolean
  beside: Span | undefined
}

const hiddenString = `"${hiddenMark}"`
// Excludes exactly the characters that `JsonWalk` handles itself, so that every match moves the parser forward.
const scalar = /[^ \t\r\n,:"[\]{}]+/y
const controls = /[\x00-\x1f]/g
const pairName = /^(?:name|key|field|header|variable|attribute)$/i
const pairValue = /^(?:value|val|values|stringvalue|content)$/i

/**
 * Redacts secrets and keeps all other text as received. The result is valid JSON.
 * @param isCut true for the beginning of a longer text; an incomplete token at its end is omitted
 * @returns undefined if the text is not JSON
 */
export function redactJson(text: string, rules: JsonRules, isCut: boolean): string | undefined {
  const walk = new JsonWalk(text, rules)
  const { shown, closing } = walk.run(isCut)
  if (shown === '') return isCut ? '' : undefined
  // `JsonWalk` assumes valid JSON. Its replacements keep valid JSON valid, so a check of the redacted text is enough.
  const whole = isCut ? shown + closing : shown
  return isJson(whole) || isJson(whole.replace(controls, ' ')) ? shown : undefined
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

class JsonWalk {
  readonly #text: string
  readonly #rules: JsonRules
  /** Keyed by start position. A later replacement with the same start covers the earlier one. */
  readonly #replacements = new Map<number, { readonly end: number; readonly text: string }>()
  readonly #frames: Frame[] = []
  #at = 0

  constructor(text: string, rules: JsonRules) {
    this.#text = text
    this.#rules = rules
  }

  run(isCut: boolean): { readonly shown: string; readonly closing: string } {
    let wholeTo = 0
    for (;;) {
      this.#skipSeparators()
      if (this.#at === this.#text.length) break
      const isName = this.#readToken()
      if (this.#at > this.#text.length) break
      if (!isName) wholeTo = this.#at
    }
    // The cut can leave objects and arrays open. A value in them is redacted if its name is already known to be secret.
    for (const frame of this.#frames) this.#hidePair(frame)
    const hiddenFrom = this.#frames.findIndex(({ isHidden }) => isHidden)
    const hidden = this.#frames[hiddenFrom]
    if (hidden) this.#replace(hidden.start, this.#text.length, hiddenString)
    const open = hidden ? this.#frames.slice(0, hiddenFrom) : this.#frames
    const closing = open
      .map(({ isArray }) => (isArray ? ']' : '}'))
      .toReversed()
      .join('')
    return { shown: this.#shown(isCut ? wholeTo : this.#text.length), closing }
  }

  #skipSeparators(): void {
    let code = this.#text.charCodeAt(this.#at)
    // The codes are space, comma, colon, line ends and tab.
    while (code === 32 || code === 44 || code === 58 || code === 10 || code === 13 || code === 9) {
      this.#at += 1
      code = this.#text.charCodeAt(this.#at)
    }
  }

  #shown(to: number): string {
    const pieces: string[] = []
    let copiedTo = 0
    for (const [start, { end, text }] of [...this.#replacements].toSorted(([one], [other]) => one - other)) {
      if (start < copiedTo) continue
      pieces.push(this.#text.slice(copiedTo, start), text)
      copiedTo = end
    }
    pieces.push(this.#text.slice(copiedTo, Math.max(copiedTo, to)))
    return pieces.join('')
  }

  /** Reads one token. If the cut may have shortened it, moves `#at` beyond the end of the text. @returns whether the token is a name */
  #readToken(): boolean {
    const start = this.#at
    const first = this.#text[start]
    const frame = this.#frames.at(-1)
    if (first === '{' || first === '[') this.#open(frame, first === '[')
    else if (first === '}' || first === ']') this.#close()
    else if (first === '"') {
      this.#at = endOfString(this.#text, start)
      if (this.#at > this.#text.length || frame?.isHidden) return false
      const value = textOfString(this.#text, start, this.#at)
      if (frame && !frame.isArray && frame.name === undefined) {
        frame.name = value
        this.#show(value, this.#rules.showText(value), start)
        return true
      }
      this.#readScalar(value, true, start)
    } else {
      const end = endOf(scalar, this.#text, start)
      // A number at the end of a cut text may be incomplete.
      this.#at = end === this.#text.length ? end + 1 : end
      if (this.#at === end && !frame?.isHidden) this.#readScalar(this.#text.slice(start, end), false, start)
    }
    return false
  }

  #readScalar(value: string, isString: boolean, start: number): void {
    const frame = this.#frames.at(-1)
    const name = frame?.name
    if (frame) {
      frame.name = undefined
      frame.values += 1
      const isName = frame.isArray ? frame.values === 1 : pairName.test(name ?? '')
      if (isName && isString && this.#rules.hides(value)) frame.namesSecret = true
      const isBeside = frame.isArray ? frame.values === 2 : pairValue.test(name ?? '')
      if (isBeside && !saysNothing(value, isString)) frame.beside = { start, end: this.#at }
    }
    if (name !== undefined && !saysNothing(value, isString) && this.#rules.hides(name, value))
      this.#replace(start, this.#at, hiddenString)
    else this.#show(value, isString ? this.#rules.showText(value) : this.#rules.showNumber(value), start)
  }

  #open(parent: Frame | undefined, isArray: boolean): void {
    const isHidden =
      parent?.isHidden === true || (parent?.name !== undefined && this.#rules.hides(parent.name))
    if (parent) parent.values += 1
    this.#frames.push({
      isArray,
      start: this.#at,
      isHidden,
      name: undefined,
      values: 0,
      namesSecret: false,
      beside: undefined,
    })
    this.#at += 1
  }

  #close(): void {
    const frame = this.#frames.pop()
    const parent = this.#frames.at(-1)
    this.#at += 1
    if (!frame || parent?.isHidden) return
    if (frame.isHidden) this.#replace(frame.start, this.#at, hiddenString)
    this.#hidePair(frame)
    if (!parent) return
    if (pairValue.test(parent.name ?? '')) parent.beside = { start: frame.start, end: this.#at }
    parent.name = undefined
  }

  #hidePair({ isArray, values, namesSecret, beside }: Frame): void {
    if (namesSecret && beside && (!isArray || values === 2))
      this.#replace(beside.start, beside.end, hiddenString)
  }

  #show(value: string, shown: string, start: number): void {
    if (shown !== value) this.#replace(start, this.#at, JSON.stringify(shown))
  }

  #replace(start: number, end: number, text: string): void {
    this.#replacements.set(start, { end, text })
  }
}

function saysNothing(value: string, isString: boolean): boolean {
  return isString ? value === '' : /^(?:null|true|false)$/.test(value)
}

/** Returns '' for a string that JSON does not allow. The check of the result then fails. */
function textOfString(text: string, start: number, end: number): string {
  const inner = text.slice(start + 1, end - 1)
  if (!inner.includes('\\')) return inner
  try {
    return JSON.parse(`"${inner.replace(controls, ' ')}"`) as string
  } catch {
    return ''
  }
}
