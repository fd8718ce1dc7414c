/** A page as a browser without scripts has it. */
export interface PageAnswer {
  readonly status: number
  readonly html: string
  /** Target of the redirect; null for a page. */
  readonly location: string | null
}

/** Session of a signed-in user. */
export interface DashboardSession {
  /** `cookie` goes along with the session's. */
  get(path: string, cookie?: string): Promise<PageAnswer>
  /** Sends a form as our own pages do, with the session's token in it. */
  post(path: string, fields?: Readonly<Record<string, string>>): Promise<PageAnswer>
}

const ownPage = { 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'navigate' }

/** Signs in at a dashboard. @throws where it does not let the token in */
export async function openDashboardSession(origin: string, token: string): Promise<DashboardSession> {
  const signedIn = await fetch(`${origin}/sign-in`, {
    ...{ method: 'POST', redirect: 'manual', headers: ownPage },
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
    }
  }
  const csrf = await tokenOf(ask)
  return {
    get: (path, more) =>
      ask(path, more === undefined ? {} : { headers: { ...ownPage, Cookie: `${cookie}; ${more}` } }),
    post: (path, fields = {}) =>
      ask(path, { method: 'POST', body: new URLSearchParams({ ...fields, csrf }) }),
  }
}

/** Every page of the frame has forms of its own; for this one no right is asked about, whose answer would be remembered. */
async function tokenOf(ask: (path: string) => Promise<PageAnswer>): Promise<string> {
  const { html, status } = await ask('/nowhere')
  const [, csrf] = /name="csrf" value="([^"]+)"/.exec(html) ?? []
  if (csrf === undefined) throw new Error(`no form is on the page that was answered ${status}`)
  return csrf
}

/** A page without what its forms bear of the session, which is another text in each answer. */
export function withoutFormToken(html: string): string {
  return html.replaceAll(/name="csrf" value="[^"]*"/g, 'name="csrf"')
}
