import { bodyKeptBytesMax, type Delivery, deliveriesKeptMax, timeOf } from './sink-deliveries.ts'

/** Content of the sink's page. */
export interface PageFacts {
  /** Deliveries, newest first. */
  readonly deliveries: readonly Delivery[]
  /** Identifies the newest delivery on the page. The page's script sends it to request the rows of later deliveries. */
  readonly position: string
  readonly url: string
}

/** Paths of the sink that fail or delay on purpose, to demonstrate retries, with their descriptions. Subpaths behave alike. */
export const trials = {
  '/fail': 'answers 500',
  '/flaky': 'answers 500 to the first two calls of each webhook-id, then 200',
  '/slow': 'answers 200 after 20 seconds',
  '/gone': 'answers 410, which suspends the callback',
} as const

const bodyShownCharsMax = 64 * 1024
const columns = ['Time', 'Tenant', 'Provider', 'Type', 'webhook-id', 'Attempt', 'Signature', 'Answer', 'Size']

/** Renders the sink's page. Without JavaScript the page has to be reloaded to show new deliveries. */
export function pageOf({ deliveries, position, url }: PageFacts): string {
  const terms = Object.entries(trials).map(([path, does]) => `<dt><code>${path}</code></dt><dd>${does}</dd>`)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Deliveries – Latchkey dev</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/sink.css">
<script type="module" src="/sink.js"></script>
</head>
<body>
<main>
<h1>Deliveries</h1>
<p>Calls that tenants’ callbacks at <code>${url}</code> received: the last ${deliveriesKeptMax}, newest first.
<a href="/deliveries.json">As JSON</a></p>
<p id="live" role="status">Reload the page to see new ones.</p>
<div class="wide" role="region" aria-label="Deliveries" tabindex="0">
<table data-position="${position}" data-kept="${deliveriesKeptMax}">
<thead><tr>${columns.map((name) => `<th scope="col">${name}</th>`).join('')}</tr></thead>
${rowsOf(deliveries)}
</table>
</div>
${deliveries.length === 0 ? '<p id="none">None yet.</p>' : ''}
<h2>To watch retries</h2>
<p>Point a callback at one of these paths of this server:</p>
<dl>${terms.join('')}</dl>
</main>
</body>
</html>
`
}

/** Renders deliveries as table rows, with all received text escaped. */
export function rowsOf(deliveries: readonly Delivery[]): string {
  return deliveries.map(rowOf).join('')
}

function rowOf({ receivedAtMs, attempt, signature, status, ...delivery }: Delivery): string {
  const text = (value: string) => Bun.escapeHTML(value || '–')
  const headers = delivery.headers.map(([name, value]) => `${name}: ${value}\n`).join('')
  return `<tbody id="delivery-${delivery.number}">
<tr>
<th scope="row"><time datetime="${new Date(receivedAtMs).toISOString()}">${timeOf(receivedAtMs)}</time></th>
<td>${text(delivery.tenant)}</td>
<td>${text(delivery.provider)}${delivery.origin === '' ? '' : ` (${text(delivery.origin)})`}</td>
<td>${text(delivery.type)}</td>
<td><code>${text(delivery.webhookId)}</code></td>
<td>${attempt}${attempt > 1 ? ' (repeat)' : ''}</td>
<td class="${signature.kind === 'ok' ? 'good' : 'bad'}">${signature.kind === 'ok' ? '✓ ok' : `✗ ${text(signature.reason)}`}</td>
<td>${status}</td>
<td>${delivery.bodyBytes} B</td>
</tr>
<tr class="more"><td colspan="${columns.length}"><details>
<summary>Body and headers</summary>
<pre>${text(shownBody(delivery))}</pre>
<pre>${text(`POST ${delivery.path}\n${headers}`)}</pre>
</details></td></tr>
</tbody>
`
}

function shownBody({ body, isJson, bodyBytes }: Pick<Delivery, 'body' | 'isJson' | 'bodyBytes'>): string {
  const isWhole = bodyBytes <= bodyKeptBytesMax
  const text = isJson && isWhole ? indentJson(body) : body
  return isWhole && text.length <= bodyShownCharsMax
    ? text
    : `${text.slice(0, bodyShownCharsMax)}\n… (${bodyBytes} bytes in all)`
}

/** Indents a JSON text. Keeps all digits of numbers, while `JSON.parse` alone would keep only about 15. */
function indentJson(text: string): string {
  const value = sourceJson.parse(text, (_name, each, { source }) =>
    typeof each === 'number' ? sourceJson.rawJSON(source) : each,
  )
  return JSON.stringify(value, null, 2)
}

/**
 * `JSON` with the functions of the proposal for access to source text (https://github.com/tc39/proposal-json-parse-with-source, 2026-11),
 * which TypeScript 7.0 does not declare.
 */
const sourceJson = JSON as unknown as {
  parse(
    text: string,
    reviver: (name: string, value: unknown, context: { source: string }) => unknown,
  ): unknown
  rawJSON(text: string): unknown
}
