/** How a session's cookie is sent. */
export interface CookieOptions {
  /** Whether the browser comes by https. Otherwise, as through a port-forward, a cookie that is `Secure` would not come back. */
  readonly isHttps: boolean
}

/** The prefix binds the cookie to this very host, its path to all of it: no other host of the domain can set one. */
const nameOf = ({ isHttps }: CookieOptions) => (isHttps ? '__Host-latchkey' : 'latchkey')

/** The `Set-Cookie` that signs in. It goes with the browser's session; when the server's ends, it means nothing any more. */
export function sessionCookie(token: string, options: CookieOptions): string {
  return `${nameOf(options)}=${token}; ${attributesOf(options)}`
}

/** The `Set-Cookie` that signs out. */
export function clearedSessionCookie(options: CookieOptions): string {
  return `${nameOf(options)}=; Max-Age=0; ${attributesOf(options)}`
}

function attributesOf({ isHttps }: CookieOptions): string {
  return `Path=/; HttpOnly; SameSite=Strict${isHttps ? '; Secure' : ''}`
}

/** The token that a request's `Cookie` header has; undefined without one, and where two claim to be it. */
export function readSessionCookie(cookies: string | null, options: CookieOptions): string | undefined {
  const name = nameOf(options)
  const values = (cookies ?? '').split(';').flatMap((pair) => {
    const at = pair.indexOf('=')
    return at > 0 && pair.slice(0, at).trim() === name ? [pair.slice(at + 1).trim()] : []
  })
  return values.length === 1 && values[0] !== '' ? values[0] : undefined
}
