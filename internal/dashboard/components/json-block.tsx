import { type JsonToken, jsonTokens } from './json-tokens.ts'
import { CopyButton } from './text.tsx'

/** Above this a button to copy would send the text a second time for nothing. */
const copiedCharsMax = 16_384

/** JSON as people read it, or text that was meant to be some, in colours; it scrolls by itself. */
export function JsonBlock({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <div class="code-block json-block">
      {text.length <= copiedCharsMax && <CopyButton text={text} label={`Copy ${label}`} />}
      <pre role="region" aria-label={label} tabIndex={0}>
        <code>{jsonTokens(text).map(pieceOf)}</code>
      </pre>
    </div>
  )
}

function pieceOf({ kind, text }: JsonToken) {
  return kind === 'plain' ? text : <span class={`json-${kind}`}>{text}</span>
}
