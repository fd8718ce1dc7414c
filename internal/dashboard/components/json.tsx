import { CopyButton } from './text.tsx'

/** Maximum length of a text with a copy button, because the button contains the text a second time. */
const copiedCharsMax = 16_384

export function JsonBlock({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <div class="code-block">
      {text.length <= copiedCharsMax && <CopyButton text={text} label={`Copy ${label}`} />}
      <pre role="region" aria-label={label} tabIndex={0}>
        <code>
          {jsonTokens(text).map((token) =>
            token.kind === 'plain' ? token.text : <span class={`json-${token.kind}`}>{token.text}</span>,
          )}
        </code>
      </pre>
    </div>
  )
}

/** Renders text unchanged, with a copy button. Without scripts, the text can be selected. */
export function TextBlock({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <div class="code-block">
      <CopyButton text={text} label={`Copy ${label}`} />
      <pre role="region" aria-label={label} tabIndex={0}>
        {text}
      </pre>
    </div>
  )
}

interface JsonToken {
  /** Determines the colour. `plain` is white space, punctuation, or text that is not JSON. */
  readonly kind: 'name' | 'text' | 'number' | 'word' | 'hidden' | 'plain'
  readonly text: string
}

/** Maximum number of tokens, which limits the size of the page. Any remaining text is one plain token. */
const tokensMax = 8_000
const depthShownMax = 24
/** Matches a string (possibly truncated), a number or word, a punctuation mark, white space, or any other text. */
const pieces = /"(?:[^"\\]|\\[\s\S])*(?:"|$)|[-+.\w]+|[{}[\],:]|\s+|[^\s"{}[\],:\w+.-]+/g
const words = new Set(['true', 'false', 'null'])

/** Splits JSON text into tokens, one member per line. Leaves numbers, repeated names, truncated text and other text as received. */
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
    // Keeps one space between words, because text that resembles JSON but is not JSON must stay readable.
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

function push(out: JsonToken[], kind: JsonToken['kind'], text: string): void {
  if (text === '') return
  const last = out.at(-1)
  // Joins adjacent plain tokens, so that the page has fewer elements.
  if (kind === 'plain' && last?.kind === 'plain') out[out.length - 1] = { kind, text: last.text + text }
  else out.push({ kind, text })
}

function kindOf(piece: string, text: string, end: number): JsonToken['kind'] {
  if (piece.startsWith('"')) {
    if (/^\s*:/.test(text.slice(end, end + 20))) return 'name'
    return piece.includes('[redacted') ? 'hidden' : 'text'
  }
  if (words.has(piece)) return 'word'
  return /^-?\d[\d.eE+-]*$/.test(piece) ? 'number' : 'plain'
}

/** Returns functions that give the white space before and after each token. The indentation depth is limited. */
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
