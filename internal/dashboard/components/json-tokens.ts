/** What a piece of JSON text is, for its colour. `plain`: blanks, marks, and whatever is no JSON. */
export type JsonTokenKind = 'name' | 'text' | 'number' | 'word' | 'hidden' | 'plain'

/** A piece of JSON text. */
export interface JsonToken {
  readonly kind: JsonTokenKind
  readonly text: string
}

/** Pieces that are told apart; what follows stands as it was received, in one. It bounds the page, whatever is in the text. */
const tokensMax = 8_000
const depthShownMax = 24
/** A string, which a cut may have left open; a number or word; one mark; blanks; anything else. */
const pieces = /"(?:[^"\\]|\\[\s\S])*(?:"|$)|[-+.\w]+|[{}[\],:]|\s+|[^\s"{}[\],:\w+.-]+/g
const words = new Set(['true', 'false', 'null'])

/**
 * Takes JSON text apart and lays it out, one member a line. It is not parsed: numbers, names that stand twice and text that was cut
 * off stay as they are, and text that is no JSON stays what it is. Pure.
 */
export function jsonTokens(text: string): readonly JsonToken[] {
  if (!/^\s*[{[]/.test(text)) return [{ kind: 'plain', text }]
  const out: JsonToken[] = []
  const layout = createLayout()
  let count = 0
  let before = ''
  for (const match of text.matchAll(pieces)) {
    const [piece] = match
    if (count >= tokensMax) {
      push(out, 'plain', text.slice(match.index))
      return out
    }
    if (/^\s/.test(piece)) continue
    count += 1
    // Between words that no mark parts, which is no JSON, a blank is all that does.
    const follows = match.index > 0 && /\s/.test(text.charAt(match.index - 1))
    if (follows && isWord(before) && isWord(piece)) push(out, 'plain', ' ')
    before = piece
    push(out, 'plain', layout.before(piece))
    push(out, kindOf(piece, text, match.index + piece.length), piece)
    push(out, 'plain', layout.after(piece))
  }
  return out
}

function isWord(piece: string): boolean {
  return piece !== '' && !/^[{}[\],:]$/.test(piece)
}

function push(out: JsonToken[], kind: JsonTokenKind, text: string): void {
  if (text === '') return
  const last = out.at(-1)
  // Marks and blanks between two values are one piece, so that the page has few elements.
  if (kind === 'plain' && last?.kind === 'plain') out[out.length - 1] = { kind, text: last.text + text }
  else out.push({ kind, text })
}

function kindOf(piece: string, text: string, end: number): JsonTokenKind {
  if (piece.startsWith('"')) {
    if (/^\s*:/.test(text.slice(end, end + 20))) return 'name'
    return piece.includes('[redacted') ? 'hidden' : 'text'
  }
  if (words.has(piece)) return 'word'
  return /^-?\d[\d.eE+-]*$/.test(piece) ? 'number' : 'plain'
}

/** Says what blanks stand before and after each piece. Deeper than is shown, the indentation does not grow any more. */
function createLayout() {
  let depth = 0
  let isOpen = false
  const newLine = () => `\n${'  '.repeat(Math.min(depth, depthShownMax))}`
  return {
    before(piece: string): string {
      const closes = piece === '}' || piece === ']'
      if (closes) depth = Math.max(0, depth - 1)
      const isFirst = isOpen
      isOpen = false
      if (closes) return isFirst ? '' : newLine()
      return isFirst ? newLine() : ''
    },
    after(piece: string): string {
      if (piece === '{' || piece === '[') {
        depth += 1
        isOpen = true
        return ''
      }
      if (piece === ',') return newLine()
      return piece === ':' ? ' ' : ''
    },
  }
}
