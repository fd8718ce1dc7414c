import { isIP } from 'node:net'
import { join } from 'node:path'
import type { DeliveryLog } from './delivery-log.ts'
import { textOf } from './html.ts'
import { liveStream, positionOf } from './live-stream.ts'
import { pageOf } from './page.ts'

/** What the sink's readers are shown. */
export interface SinkView {
  readonly log: DeliveryLog
  /** Tells this start of the sink from others. */
  readonly run: string
  readonly url: string
  /** Ends live streams. */
  readonly stopping: AbortSignal
}

const headers = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
}
const streamsMax = 50
/** Host names that cannot be the target of DNS rebinding, beside IP addresses. */
const ownHosts = /^([a-z0-9-]+\.)*localhost$/

/** Answers the page, its parts, its live stream, and the deliveries as JSON. */
export function answerRead(request: Request, view: SinkView): Response {
  const { pathname, hostname, searchParams } = new URL(request.url)
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return plain(405, 'POST a delivery, or GET the page', { Allow: 'GET, HEAD, POST' })
  if (!ownHosts.test(hostname) && isIP(hostname.replace(/^\[|\]$/g, '')) === 0)
    return plain(421, `Use ${view.url}`)
  const { log, run, url } = view
  switch (pathname) {
    case '/': {
      const facts = { deliveries: log.after(0), position: positionOf(run, log.newest), url }
      return typed(textOf(pageOf(facts)), 'text/html; charset=utf-8')
    }
    case '/page.css':
      return typed(Bun.file(join(import.meta.dir, 'page.css')), 'text/css; charset=utf-8')
    case '/page.js':
      return typed(Bun.file(join(import.meta.dir, 'page.js')), 'text/javascript; charset=utf-8')
    case '/deliveries.json':
      return Response.json({ deliveries: log.after(0) }, { headers })
    case '/events': {
      if (log.waiting >= streamsMax) return plain(503, 'Close another page of this server first')
      const after = request.headers.get('last-event-id') ?? searchParams.get('after') ?? ''
      const signal = AbortSignal.any([request.signal, view.stopping])
      return typed(liveStream({ log, run, after, signal }), 'text/event-stream')
    }
    default:
      return plain(404, `The deliveries are at ${url}`)
  }
}

function typed(body: string | Blob | ReadableStream<Uint8Array>, type: string): Response {
  return new Response(body, { headers: { ...headers, 'Content-Type': type } })
}

function plain(status: number, text: string, more: Record<string, string> = {}): Response {
  return new Response(`${text}\n`, { status, headers: { ...headers, ...more, 'Content-Type': 'text/plain' } })
}
