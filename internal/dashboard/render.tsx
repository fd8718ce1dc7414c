import type { ComponentChildren } from 'preact'
import { renderToString } from 'preact-render-to-string'
import type { Clock } from '#internal/base/index.ts'
import { type Answer, acceptsGzip } from '#internal/http/index.ts'
import type { createAssets } from './assets/assets.ts'
import { ReaderClockContext } from './components/clock.ts'
import { readPreferences } from './cookies.ts'

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
 * Sets the referrer policy `same-origin`, because under `no-referrer` browsers send forms with `Origin: null`, and the origin check would
 * then fail (Fetch standard, "append a request Origin header").
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

/** Settings of htmx: only same-origin requests, and no code from page content. */
const htmxConfig = JSON.stringify({
  mode: 'same-origin',
  history: false,
  includeIndicatorCSS: false,
  extensions: 'sse',
  morphIgnore: ['data-htmx-powered', 'open'],
})

export interface DocumentParts {
  readonly title: string
  readonly body: ComponentChildren
  readonly status: number
  /** Outcome of the call in the log and the metric, from a closed set of values. */
  readonly outcome: string
  /** Delay before the browser reloads the page. Omit for no reload. */
  readonly refreshSeconds?: number
  readonly retryAfterSeconds?: number | undefined
  readonly cookie?: string | undefined
}

/**
 * Compresses a document if the browser accepts gzip. Scripts and styles are external files of this origin; the content security policy
 * allows no others. Compressing pages that contain external text is safe against BREACH (https://breachattack.com): each response masks the
 * CSRF token differently, and no page contains an API key or a signing secret.
 */
export function documentAnswer(
  { assets, clock }: { readonly assets: ReturnType<typeof createAssets>; readonly clock: Clock },
  request: Request,
  { title, body, status, outcome, refreshSeconds, retryAfterSeconds, cookie }: DocumentParts,
): Answer<Uint8Array<ArrayBuffer>> {
  const { theme, zone } = readPreferences(request.headers.get('cookie'))
  const html = renderToString(
    <html lang="en" data-theme={theme} data-zone={zone}>
      <head>
        <meta charset="utf-8" />
        <title>{`${title} · Latchkey`}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content={theme === 'auto' ? 'light dark' : theme} />
        <meta name="htmx-config" content={htmxConfig} />
        {refreshSeconds !== undefined && <meta http-equiv="refresh" content={String(refreshSeconds)} />}
        <link rel="icon" type="image/svg+xml" href={assets.iconPath} />
        <link rel="stylesheet" href={assets.stylesPath} />
        <script src={assets.scriptPath} defer />
      </head>
      <body>
        <ReaderClockContext.Provider value={{ zone, nowMs: clock.now() }}>{body}</ReaderClockContext.Provider>
      </body>
    </html>,
  )
  const bytes = Uint8Array.from(Buffer.from(`<!doctype html>${html}`))
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
      ...(retryAfterSeconds !== undefined && { 'Retry-After': String(retryAfterSeconds) }),
      ...(cookie !== undefined && { 'Set-Cookie': cookie }),
    },
  }
}

/** Answers 303, so that the browser requests the page with GET. */
export function redirectAnswer(path: string, cookie?: string): Answer {
  return {
    kind: 'answer',
    status: 303,
    outcome: 'redirect',
    body: '',
    headers: {
      ...securityHeaders,
      'Content-Type': 'text/plain; charset=utf-8',
      Location: path,
      ...(cookie !== undefined && { 'Set-Cookie': cookie }),
    },
  }
}
