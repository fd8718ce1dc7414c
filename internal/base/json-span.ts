/** Position of a value in a JSON text. `text.slice(start, end)` is the value as received. */
export interface Span {
  readonly start: number
  readonly end: number
}

/** JSON object whose members are not validated. */
export type JsonObject = { readonly [name: string]: unknown }

/** Returns whether a JSON value is an object, and not null or an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Maximum nesting of arrays and objects in JSON from external sources. The outermost array or object is level 1. */
export const jsonDepthMax = 256

/**
 * Returns whether a text, which may be JSON, nests deeper than `jsonDepthMax`. Runs before parsing, in linear time and without recursion.
 * Costs only one search for brackets if the text has at most `jsonDepthMax` opening brackets, as most texts have.
 */
export function isNestedTooDeep(text: string): boolean {
  if (text.length <= jsonDepthMax || countOpenings(text) <= jsonDepthMax) return false
  let depth = 0
  let at = 0
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      at = endOfString(text, at)
      continue
    }
    if (code === openBrace || code === openBracket) {
      depth += 1
      if (depth > jsonDepthMax) return true
    } else if (code === closeBrace || code === closeBracket) depth -= 1
    at += 1
  }
  return false
}

/** Counts `[` and `{`, up to `jsonDepthMax` + 1. */
function countOpenings(text: string): number {
  let count = 0
  for (const opening of ['[', '{']) {
    let at = text.indexOf(opening)
    while (at >= 0 && count <= jsonDepthMax) {
      count += 1
      at = text.indexOf(opening, at + 1)
    }
  }
  return count
}

const quote = 34
const backslash = 92
const openBrace = 123
const closeBrace = 125
const openBracket = 91
const closeBracket = 93
const comma = 44

/**
 * Finds the values of the top-level members of a JSON object, so that they can be kept as received. Unlike parsing and serializing, this
 * preserves numbers too large for a double, key order and names such as `__proto__`.
 * @param text JSON object that `JSON.parse` accepts; for other text the spans are meaningless, but the function terminates
 * @returns `repeated` for a duplicate name, because JSON parsers disagree which one counts (RFC 8259 section 4)
 */
export function findMembers(
  text: string,
):
  | { readonly kind: 'found'; readonly spans: ReadonlyMap<string, Span> }
  | { readonly kind: 'repeated'; readonly name: string } {
  const spans = new Map<string, Span>()
  let repeated: string | undefined
  walkMembers(text, (nameStart, nameEnd, start, end) => {
    const name = memberName(text, nameStart, nameEnd)
    if (spans.has(name)) repeated ??= name
    spans.set(name, { start, end })
  })
  return repeated === undefined ? { kind: 'found', spans } : { kind: 'repeated', name: repeated }
}

/** Returns the text of a top-level member as received, because parsing could change its numbers; empty if the member is missing. */
export function memberText(object: string, name: string): string {
  const members = findMembers(object)
  const span = members.kind === 'found' ? members.spans.get(name) : undefined
  return span === undefined ? '' : object.slice(span.start, span.end)
}

/** Returns whether a top-level name is duplicated: the text then has more members than the object that `JSON.parse` returned. */
export function hasRepeatedMember(text: string, parsed: object): boolean {
  let members = 0
  walkMembers(text, () => {
    members += 1
  })
  return members !== Object.keys(parsed).length
}

function walkMembers(
  text: string,
  visit: (nameStart: number, nameEnd: number, start: number, end: number) => void,
): void {
  let at = text.indexOf('{') + 1
  while (at < text.length) {
    at = skipSpace(text, at)
    if (text.charCodeAt(at) !== quote) return
    const nameEnd = endOfString(text, at)
    const start = skipSpace(text, text.indexOf(':', nameEnd) + 1)
    const end = endOfValue(text, start)
    visit(at, nameEnd, start, end)
    at = skipSpace(text, end)
    if (text.charCodeAt(at) !== comma) return
    at += 1
  }
}

/**
 * Finds the elements of a JSON array.
 * @param text JSON array that `JSON.parse` accepts; for other text the spans are meaningless, but the function terminates
 */
export function findElements(text: string): readonly Span[] {
  const spans: Span[] = []
  let at = skipSpace(text, text.indexOf('[') + 1)
  while (at < text.length && text.charCodeAt(at) !== closeBracket) {
    const end = endOfValue(text, at)
    if (end === at) break
    spans.push({ start: at, end })
    at = skipSpace(text, end)
    if (text.charCodeAt(at) === comma) at = skipSpace(text, at + 1)
  }
  return spans
}

function memberName(text: string, start: number, end: number): string {
  const raw = text.slice(start + 1, end - 1)
  return raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw
}

function skipSpace(text: string, from: number): number {
  let at = from
  // Skips white space: in valid JSON, all characters up to code 32 outside strings.
  while (at < text.length && text.charCodeAt(at) <= 32) at += 1
  return at
}

/** Returns the index after the closing quote of the string that starts at `start`, or an index beyond the text if that quote is missing. */
export function endOfString(text: string, start: number): number {
  let at = start + 1
  for (;;) {
    const close = text.indexOf('"', at)
    if (close < 0) return text.length + 1
    let slashes = 0
    while (text.charCodeAt(close - 1 - slashes) === backslash) slashes += 1
    if (slashes % 2 === 0) return close + 1
    at = close + 1
  }
}

/** Returns the index after the value that starts at `start`. Iterative, so that deep nesting cannot exhaust the stack. */
export function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start)
  if (first === quote) return endOfString(text, start)
  if (first !== openBrace && first !== openBracket) return endOfScalar(text, start)
  let depth = 0
  let at = start
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      at = endOfString(text, at)
      continue
    }
    if (code === openBrace || code === openBracket) depth += 1
    else if (code === closeBrace || code === closeBracket) depth -= 1
    at += 1
    if (depth === 0) return at
  }
  return at
}

function endOfScalar(text: string, start: number): number {
  let at = start
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === comma || code === closeBrace || code === closeBracket || code <= 32) return at
    at += 1
  }
  return at
}
