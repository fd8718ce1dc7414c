import { isCsrfToken, readSessionCookie, type Session } from '#internal/access/index.ts'

const loopback = /^(localhost|[\w-]+\.localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i

/**
 * Detects how a request was transported. Plain http is safe only from the same machine, for example through `kubectl port-forward`. For
 * other hosts https is assumed, so that cookies are always `Secure`. If their browser sends an `Origin` with `http:`, as with forms, the
 * request is unsafe.
 */
export function factsOf(request: Request): {
  /** True if the browser used https or runs on the same machine. */
  readonly isSafe: boolean
  /** True if cookies are set as `Secure`. */
  readonly isHttps: boolean
} {
  const isForwardedHttps = request.headers.get('x-forwarded-proto')?.split(',')[0]?.trim() === 'https'
  const origin = request.headers.get('origin')
  if (isForwardedHttps || origin?.startsWith('https://') === true) return { isSafe: true, isHttps: true }
  if (isLoopback(request)) return { isSafe: true, isHttps: false }
  return { isSafe: origin?.startsWith('http://') !== true, isHttps: true }
}

function isLoopback(request: Request): boolean {
  return loopback.test(request.headers.get('host') ?? '')
}

/** Returns the session token in the cookie. A cookie that is not `Secure` is accepted only from the same machine. */
export function sessionTokenOf(request: Request): string | undefined {
  const cookies = request.headers.get('cookie')
  const token = readSessionCookie(cookies, { isHttps: true })
  if (token !== undefined || !isLoopback(request)) return token
  return readSessionCookie(cookies, { isHttps: false })
}

/** Returns true if a page of this dashboard sent the request, by `Sec-Fetch-Site`, otherwise by `Origin`. False if both are missing. */
export function isFromOwnPage(request: Request): boolean {
  const site = request.headers.get('sec-fetch-site')
  if (site !== null) return site === 'same-origin'
  const origin = request.headers.get('origin')
  const host = request.headers.get('host')
  if (origin === null || host === null || !URL.canParse(origin)) return false
  return new URL(origin).host === host.toLowerCase()
}

/** Detects a request with which browsers do not send `SameSite=Strict` cookies. */
export function isLinkFromElsewhere(request: Request): boolean {
  return (
    request.headers.get('sec-fetch-site') === 'cross-site' &&
    request.headers.get('sec-fetch-mode') === 'navigate'
  )
}

/** Detects the event stream and htmx requests, which do not extend the session. */
export function isFollowing(request: Request): boolean {
  if (request.method !== 'GET') return false
  return request.headers.has('hx-request') || new URL(request.url).pathname === '/live'
}

/** Returns a path of this origin. Returns `/` for any text that could lead to another origin. */
export function safePath(text: string | undefined): string {
  if (text === undefined || text.length > 2_048 || !/^\/(?![/\\])[\x21-\x7e]*$/.test(text)) return '/'
  return text.includes('\\') ? '/' : text
}

export type Form = Readonly<Record<string, string>>

const fieldsMax = 100

/** Parses a form. Returns undefined for another media type, a repeated field, more than 100 fields, or invalid UTF-8. */
export function parseForm(request: Request, body: Uint8Array): Form | undefined {
  const type = request.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/x-www-form-urlencoded') return undefined
  const fields = Object.create(null) as Record<string, string>
  const pairs = [...new URLSearchParams(Buffer.from(body).toString('utf8'))]
  if (pairs.length > fieldsMax) return undefined
  for (const [name, value] of pairs) {
    if (name in fields || value.includes('\uFFFD')) return undefined
    fields[name] = value.trim()
  }
  return fields
}

const tokenBytes = 32

/** Masks the token with a new pad in each response, so that compression cannot leak it (BREACH). `pad` is 32 random bytes. */
export function maskedToken(
  { csrfToken }: Session,
  pad = crypto.getRandomValues(new Uint8Array(tokenBytes)),
): string {
  const token = Buffer.from(csrfToken, 'base64url')
  return Buffer.concat([pad, exclusiveOr(token, pad)]).toString('base64url')
}

export function isFormToken(session: Session, given: string): boolean {
  const bytes = Buffer.from(given, 'base64url')
  if (bytes.length !== 2 * tokenBytes) return false
  const token = exclusiveOr(bytes.subarray(tokenBytes), bytes.subarray(0, tokenBytes))
  return isCsrfToken(session, token.toString('base64url'))
}

function exclusiveOr(bytes: Buffer, pad: Uint8Array): Buffer {
  return Buffer.from(bytes.map((byte, nth) => byte ^ (pad[nth] ?? 0)))
}
