/** Deeper levels are not indented further: the output stays within a multiple of the input. */
const levelsShownMax = 40

/**
 * Lays out a JSON text over lines with its tokens as they stand: parsing and printing would change a number of more than 15
 * digits. A text that was cut is laid out as far as it goes. Gives at most `charsMax` characters.
 */
export function indentJson(text: string, charsMax: number): string {
  let made = ''
  let level = 0
  let hasOpened = false
  for (const token of tokensOf(text)) {
    if (made.length >= charsMax) break
    const closes = token === '}' || token === ']'
    if (closes) level -= 1
    // Not between the brackets of an empty object or list.
    if (hasOpened !== closes) made += newLine(level)
    made += token
    if (token === ':') made += ' '
    if (token === ',') made += newLine(level)
    hasOpened = token === '{' || token === '['
    if (hasOpened) level += 1
  }
  return made.slice(0, charsMax)
}

function newLine(level: number): string {
  return `\n${'  '.repeat(Math.min(level, levelsShownMax))}`
}

function* tokensOf(text: string): Generator<string> {
  const space = /\s+/y
  const plain = /[^\s"{}[\],:]+/y
  for (let at = 0; at < text.length; ) {
    space.lastIndex = plain.lastIndex = at
    const end = text[at] === '"' ? stringEnd(text, at) : plain.test(text) ? plain.lastIndex : at + 1
    const isSpace = space.test(text)
    if (!isSpace) yield text.slice(at, end)
    at = isSpace ? space.lastIndex : end
  }
}

function stringEnd(text: string, begin: number): number {
  for (let at = begin + 1; at < text.length; at += 1) {
    if (text[at] === '"') return at + 1
    if (text[at] === '\\') at += 1
  }
  return text.length
}
