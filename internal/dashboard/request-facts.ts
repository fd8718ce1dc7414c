import { readSessionCookie } from '#internal/access/index.ts'

/** What a request says of where it comes from. */
export interface RequestFacts {
  /** Whether the browser came by https, or by a way on which nobody else listens. */
  readonly isSafe: boolean
  /** Whether the session's cookie may be `Secure`. */
  readonly isHttps: boolean
}

const loopback = /^(localhost|[\w-]+\.localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i

/**
 * Tells how a browser came. By plain http it is only safe on the same machine, as through `kubectl port-forward`; everywhere else
 * https is taken for granted, so that a cookie is never sent in the clear, and `Origin`, which a browser sends with each form, is
 * believed when it says that it is not.
 */
export function factsOf(request: Request): RequestFacts {
  const isForwardedHttps = request.headers.get('x-forwarded-proto')?.split(',')[0]?.trim() === 'https'
  const origin = request.headers.get('origin')
  if (isForwardedHttps || origin?.startsWith('https://') === true) return { isSafe: true, isHttps: true }
  if (isLoopback(request)) return { isSafe: true, isHttps: false }
  return { isSafe: origin?.startsWith('http://') !== true, isHttps: true }
}

/** The session's token of a request; a cookie that is not `Secure` counts on the same machine alone. */
export function sessionTokenOf(request: Request): string | undefined {
  const cookies = request.headers.get('cookie')
  const token = readSessionCookie(cookies, { isHttps: true })
  if (token !== undefined || !isLoopback(request)) return token
  return readSessionCookie(cookies, { isHttps: false })
}

/**
 * Whether a form was sent by one of our own pages. What the browser says of it cannot be set by a page; where it says nothing, nobody
 * knows, and the answer is no.
 */
export function isFromOwnPage(request: Request): boolean {
  const site = request.headers.get('sec-fetch-site')
  if (site !== null) return site === 'same-origin'
  const origin = request.headers.get('origin')
  const host = request.headers.get('host')
  if (origin === null || host === null || !URL.canParse(origin)) return false
  return new URL(origin).host === host.toLowerCase()
}

/**
 * Whether a link of another site led here. A browser keeps back cookies that are `SameSite=Strict` then: asked once more by our own
 * page, it sends them.
 */
export function isLinkFromElsewhere(request: Request): boolean {
  return (
    request.headers.get('sec-fetch-site') === 'cross-site' &&
    request.headers.get('sec-fetch-mode') === 'navigate'
  )
}

/**
 * Whether a page asks by itself, to stay up to date, and nobody need be there: the stream that tells it to look again, and parts of
 * it. Nothing else of ours asks for parts.
 */
export function isFollowing(request: Request): boolean {
  if (request.method !== 'GET') return false
  return request.headers.has('hx-request') || new URL(request.url).pathname === '/live'
}

/** A path of ours to go on to, with its query; `/` for anything that could lead elsewhere. */
export function safePath(text: string | undefined): string {
  if (text === undefined || text.length > 2_048 || !/^\/(?![/\\])[\x21-\x7e]*$/.test(text)) return '/'
  return text.includes('\\') ? '/' : text
}

function isLoopback(request: Request): boolean {
  return loopback.test(request.headers.get('host') ?? '')
}
