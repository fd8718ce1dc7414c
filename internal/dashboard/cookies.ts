import { type CookieOptions, namespacesMax } from '#internal/access/index.ts'
import { dnsLabel } from '#internal/tenants/index.ts'
import { parseZone, utcZone } from './components/clock.ts'
import { safePath } from './request.ts'

/** `auto` uses the theme of the operating system. */
export const themes = ['auto', 'light', 'dark'] as const
/** Message that is shown once, on the next page. */
export interface Flash {
  readonly tone: 'good' | 'bad' | 'info'
  readonly text: string
  readonly link?: { readonly path: string; readonly label: string }
}

/** Preferences in cookies of the browser. They grant no rights. */
export interface Preferences {
  readonly theme: (typeof themes)[number]
  /** Namespaces that lists cover for a user who may not see all namespaces. */
  readonly namespaces: readonly string[]
  readonly flash: Flash | undefined
  /** Stored by the script of the browser. Undefined without scripts. */
  readonly browserZone: string | undefined
  /** Zone of all times on pages: the browser's zone, unless the user chose UTC. */
  readonly zone: string
}

const names = {
  theme: 'latchkey-theme',
  namespaces: 'latchkey-namespaces',
  flash: 'latchkey-flash',
  /** Set by `assets/browser.mjs`. */
  zone: 'latchkey-zone',
  clock: 'latchkey-clock',
} as const
const yearSeconds = 31_536_000
const flashSeconds = 60
const flashCharsMax = 500
const namespacePattern = new RegExp(dnsLabel)

/** Reads the preferences from a `Cookie` header. Malformed values are treated as absent. */
export function readPreferences(cookies: string | null): Preferences {
  const values = new Bun.CookieMap(cookies ?? '')
  const browserZone = parseZone(values.get(names.zone) ?? '')
  return {
    theme: themes.find((theme) => theme === values.get(names.theme)) ?? 'auto',
    namespaces: parseNamespaces(values.get(names.namespaces) ?? '') ?? [],
    flash: readFlash(values.get(names.flash) ?? ''),
    browserZone,
    zone: values.get(names.clock) === 'utc' ? utcZone : (browserZone ?? utcZone),
  }
}

/** Parses names of namespaces, separated by commas, spaces or dots. Returns undefined for an invalid name or more than 50 names. */
export function parseNamespaces(text: string): readonly string[] | undefined {
  const named = [...new Set(text.split(/[\s,.]+/).filter((name) => name !== ''))]
  return named.length <= namespacesMax && named.every((name) => namespacePattern.test(name))
    ? named
    : undefined
}

export function themeCookie(theme: Preferences['theme'], options: CookieOptions): string {
  return cookieOf(names.theme, theme, yearSeconds, options)
}

export const clocks = ['browser', 'utc'] as const

export function clockCookie(clock: (typeof clocks)[number], options: CookieOptions): string {
  return cookieOf(names.clock, clock, yearSeconds, options)
}

export function namespacesCookie(namespaces: readonly string[], options: CookieOptions): string {
  return cookieOf(names.namespaces, namespaces.join('.'), yearSeconds, options)
}

/** Returns the cookie with a message for the next page. The cookie expires after one minute. */
export function flashCookie({ tone, text, link }: Flash, options: CookieOptions): string {
  const parts = [tone, text.slice(0, flashCharsMax), ...(link ? [link.path, link.label] : [])]
  const value = Buffer.from(JSON.stringify(parts)).toString('base64url')
  return cookieOf(names.flash, value, flashSeconds, options)
}

export function clearedFlashCookie(options: CookieOptions): string {
  return cookieOf(names.flash, '', 0, options)
}

function readFlash(value: string): Flash | undefined {
  if (!/^[\w-]{1,4000}$/.test(value)) return undefined
  try {
    const parsed: unknown = JSON.parse(Buffer.from(value, 'base64url').toString('utf8'))
    if (!Array.isArray(parsed)) return undefined
    const [tone, text, path, label] = parsed as readonly unknown[]
    const known = (['good', 'bad', 'info'] as const).find((each) => each === tone)
    if (known === undefined || typeof text !== 'string') return undefined
    const hasLink = typeof path === 'string' && typeof label === 'string'
    return {
      tone: known,
      text: text.slice(0, flashCharsMax),
      ...(hasLink && { link: { path: safePath(path), label: label.slice(0, flashCharsMax) } }),
    }
  } catch {
    return undefined
  }
}

function cookieOf(name: string, value: string, seconds: number, { isHttps }: CookieOptions): string {
  return `${name}=${value}; Max-Age=${seconds}; Path=/; HttpOnly; SameSite=Lax${isHttps ? '; Secure' : ''}`
}
