import { bodyKeptBytesMax, type Delivery } from './delivery.ts'
import { deliveriesKeptMax } from './delivery-log.ts'
import { type Html, html } from './html.ts'
import { indentJson } from './indent-json.ts'
import { timeOf } from './terminal-lines.ts'
import { trials } from './trials.ts'

/** What the page shows. */
export interface PageFacts {
  /** Newest first. */
  readonly deliveries: readonly Delivery[]
  /** Where the live stream is to go on. */
  readonly position: string
  readonly url: string
}

const bodyShownCharsMax = 64 * 1024
const columns = ['Time', 'Tenant', 'Provider', 'Type', 'webhook-id', 'Attempt', 'Signature', 'Answer', 'Size']

/** The whole page. Needs no JavaScript; with it, deliveries appear by themselves. */
export function pageOf({ deliveries, position, url }: PageFacts): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Deliveries – Latchkey dev</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/page.css">
<script type="module" src="/page.js"></script>
</head>
<body>
<main>
<h1>Deliveries</h1>
<p>What tenants’ callbacks at <code>${url}</code> received, newest first, the last ${deliveriesKeptMax}.
<a href="/deliveries.json">As JSON</a></p>
<p id="live" role="status">Reload the page to see new ones.</p>
<div class="wide" role="region" aria-label="Deliveries" tabindex="0">
<table data-position="${position}" data-kept="${deliveriesKeptMax}">
<thead><tr>${columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
${rowsOf(deliveries)}
</table>
</div>
${deliveries.length === 0 && html`<p id="none">None yet.</p>`}
<h2>To watch retries</h2>
<p>Point a callback at one of these paths of this server:</p>
<dl>${trials.map(({ path, does }) => html`<dt><code>${path}</code></dt><dd>${does}</dd>`)}</dl>
</main>
</body>
</html>
`
}

/** The deliveries as parts of the page's table. */
export function rowsOf(deliveries: readonly Delivery[]): Html {
  return html`${deliveries.map(rowOf)}`
}

function rowOf(delivery: Delivery): Html {
  const { receivedAtMs, attempt, signature, status } = delivery
  const isOk = signature.kind === 'ok'
  return html`<tbody id="delivery-${delivery.number}">
<tr>
<th scope="row"><time datetime="${new Date(receivedAtMs).toISOString()}">${timeOf(receivedAtMs)}</time></th>
<td>${delivery.tenant || '–'}</td>
<td>${delivery.provider || '–'}</td>
<td>${delivery.type || '–'}</td>
<td><code>${delivery.webhookId || '–'}</code></td>
<td>${attempt}${attempt > 1 && ' (repeat)'}</td>
<td class="${isOk ? 'good' : 'bad'}">${isOk ? '✓ ok' : `✗ ${signature.reason}`}</td>
<td>${status}</td>
<td>${sizeOf(delivery.bodyBytes)}</td>
</tr>
<tr class="more"><td colspan="${columns.length}"><details>
<summary>Body and headers</summary>
<pre>${shownBody(delivery)}</pre>
<pre>POST ${delivery.path}
${delivery.headers.map(([name, value]) => `${name}: ${value}\n`)}</pre>
</details></td></tr>
</tbody>
`
}

function shownBody({ body, isJson, bodyBytes }: Delivery): string {
  const shown = isJson ? indentJson(body, bodyShownCharsMax) : body.slice(0, bodyShownCharsMax)
  const isWhole = bodyBytes <= bodyKeptBytesMax && shown.length < bodyShownCharsMax
  return isWhole ? shown : `${shown}\n… (${bodyBytes} bytes in all)`
}

function sizeOf(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  const kib = bytes / 1024
  return kib < 1024 ? `${kib.toFixed(1)} KiB` : `${(kib / 1024).toFixed(1)} MiB`
}
