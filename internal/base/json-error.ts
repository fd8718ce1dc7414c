/** Place of the first character that makes a text invalid JSON. Lines and columns begin at 1; a column counts UTF-16 code units. */
export interface JsonErrorPlace {
  readonly line: number
  readonly column: number
  /** True if the text ends too early. */
  readonly isEnd: boolean
}

const space = /[\t\n\r ]*/y
const string = /"[^"\\\u0000-\u001F]*(?:\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4})[^"\\\u0000-\u001F]*)*"/y
const scalar = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[Ee][+-]?\d+)?|true|false|null)(?![\w.+-])/y

/**
 * Finds the first character that is not JSON (RFC 8259), since the errors of `JSON.parse` differ between engines and can contain the text.
 * Returns undefined for valid JSON. Takes time linear in the text; the caller bounds its nesting.
 */
export function findJsonError(text: string): JsonErrorPlace | undefined {
  const closers: ('}' | ']')[] = []
  let at = 0
  let expected: 'value' | 'firstElement' | 'firstName' | 'name' | 'colon' | 'separator' = 'value'
  const skip = (pattern: RegExp): boolean => {
    pattern.lastIndex = at
    if (!pattern.test(text)) return false
    at = pattern.lastIndex
    return true
  }
  const close = (character: string | undefined): boolean => {
    if (character === undefined || character !== closers.at(-1)) return false
    closers.pop()
    at += 1
    expected = 'separator'
    return true
  }
  for (;;) {
    skip(space)
    const character = text[at]
    if (expected === 'separator' && closers.length === 0)
      return at < text.length ? placeOf(text, at) : undefined
    if (expected === 'separator') {
      if (close(character)) continue
      if (character !== ',') return placeOf(text, at)
      at += 1
      expected = closers.at(-1) === '}' ? 'name' : 'value'
    } else if (expected === 'colon') {
      if (character !== ':') return placeOf(text, at)
      at += 1
      expected = 'value'
    } else if (expected === 'name' || expected === 'firstName') {
      if (expected === 'firstName' && close(character)) continue
      if (!skip(string)) return placeOf(text, at)
      expected = 'colon'
    } else {
      if (expected === 'firstElement' && close(character)) continue
      if (character === '{' || character === '[') {
        at += 1
        closers.push(character === '{' ? '}' : ']')
        expected = character === '{' ? 'firstName' : 'firstElement'
      } else if (skip(string) || skip(scalar)) expected = 'separator'
      else return placeOf(text, at)
    }
  }
}

function placeOf(text: string, at: number): JsonErrorPlace {
  const before = text.slice(0, at)
  const lineStart = before.lastIndexOf('\n') + 1
  return { line: before.split('\n').length, column: at - lineStart + 1, isEnd: at >= text.length }
}
