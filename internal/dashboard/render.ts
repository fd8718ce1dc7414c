import type { VNode } from 'preact'
import { renderToString } from 'preact-render-to-string'
import type { Answer } from '#internal/http/index.ts'
import { acceptsGzip } from './assets/assets.ts'

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ')

/**
 * Headers of every page. The referrer policy is `same-origin`, since under `no-referrer` browsers send forms with `Origin: null` and
 * the origin check would fail (Fetch standard, "append a request Origin header").
 */
export const securityHeaders: Readonly<Record<string, string>> = {
  'Content-Security-Policy': policy,
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'same-origin',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
}

const gzipLevel = 5

/**
 * Renders a document, compressed if the browser accepts gzip. Compression beside text from outside is safe against BREACH
 * (https://breachattack.com): the CSRF token is masked anew in each response, and no page shows an API key or a signing secret.
 */
export function documentAnswer(
  document: VNode,
  request: Request,
  {
    status,
    outcome,
    headers,
  }: {
    readonly status: number
    /** Value of the log and the metric; from a closed set. */
    readonly outcome: string
    readonly headers?: Readonly<Record<string, string>>
  },
): Answer<Uint8Array<ArrayBuffer>> {
  const bytes = Uint8Array.from(Buffer.from(`<!doctype html>${renderToString(document)}`))
  const isGzip = acceptsGzip(request.headers.get('accept-encoding'))
  return {
    kind: 'answer',
    status,
    outcome,
    body: isGzip ? Uint8Array.from(Bun.gzipSync(bytes, { level: gzipLevel })) : bytes,
    headers: {
      ...securityHeaders,
      'Content-Type': 'text/html; charset=utf-8',
      Vary: 'Accept-Encoding, Cookie',
      ...(isGzip && { 'Content-Encoding': 'gzip' }),
      ...headers,
    },
  }
}

/** Redirects to a page of the dashboard by 303, so that the browser requests it with GET. */
export function redirectAnswer(path: string, cookie?: string): Answer {
  return {
    ...{ kind: 'answer', status: 303, outcome: 'redirect', body: '' },
    headers: {
      ...securityHeaders,
      'Content-Type': 'text/plain; charset=utf-8',
      Location: path,
      ...(cookie !== undefined && { 'Set-Cookie': cookie }),
    },
  }
}
