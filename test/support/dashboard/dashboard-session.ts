/** Page as a browser without scripts sees it. */
export interface PageAnswer {
  readonly status: number
  readonly html: string
  /** Target of the redirect; null for a page. */
  readonly location: string | null
  /** Value of the cookie with the message about an action; null without one. */
  readonly flash: string | null
}

/** Session of a signed-in user. */
export interface DashboardSession {
  /** `cookie` is sent in addition to the session's. */
  get(path: string, cookie?: string): Promise<PageAnswer>
  /** Submits a form with the session's CSRF token. `cookie` is sent in addition to the session's. */
  post(path: string, fields?: Readonly<Record<string, string>>, cookie?: string): Promise<PageAnswer>
}

const ownPage = { 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'navigate' }

/** Signs in to a dashboard. @throws if it refuses the token */
export async function openDashboardSession(origin: string, token: string): Promise<DashboardSession> {
  const signedIn = await fetch(`${origin}/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    headers: ownPage,
    body: new URLSearchParams({ token, next: '/tenants' }),
  })
  const cookie = signedIn.headers.get('set-cookie')?.split(';')[0]
  if (signedIn.status !== 303 || cookie === undefined)
    throw new Error(`signing in was answered ${signedIn.status}: ${await signedIn.text()}`)
  const ask = async (path: string, init: RequestInit = {}): Promise<PageAnswer> => {
    const headers = { ...ownPage, Cookie: cookie }
    const answer = await fetch(`${origin}${path}`, { redirect: 'manual', headers, ...init })
    return {
      status: answer.status,
      html: await answer.text(),
      location: answer.headers.get('location'),
      flash: /latchkey-flash=([^;]+)/.exec(answer.headers.get('set-cookie') ?? '')?.[1] ?? null,
    }
  }
  const csrf = await tokenOf(ask)
  const withMore = (more: string | undefined): RequestInit =>
    more === undefined ? {} : { headers: { ...ownPage, Cookie: `${cookie}; ${more}` } }
  return {
    get: (path, more) => ask(path, withMore(more)),
    post: (path, fields = {}, more) =>
      ask(path, { method: 'POST', body: new URLSearchParams({ ...fields, csrf }), ...withMore(more) }),
  }
}

/** This page has forms but needs no access review, whose result would be cached. */
async function tokenOf(ask: (path: string) => Promise<PageAnswer>): Promise<string> {
  const { html, status } = await ask('/nowhere')
  const [, csrf] = /name="csrf" value="([^"]+)"/.exec(html) ?? []
  if (csrf === undefined) throw new Error(`no form is on the page that was answered ${status}`)
  return csrf
}

/** Returns a page without its CSRF tokens, which differ in each response. */
export function withoutFormToken(html: string): string {
  return html.replaceAll(/name="csrf" value="[^"]*"/g, 'name="csrf"')
}

/** Returns the value of a form's field; undefined if the page has no such field. */
export function fieldIn(html: string, name: string): string | undefined {
  const input = new RegExp(`<input[^>]*name="${name}"[^>]*>`).exec(html)?.[0]
  return input && /value="([^"]*)"/.exec(input)?.[1]
}
