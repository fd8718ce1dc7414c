import type { Session } from '#internal/access/index.ts'
import type { ApiError } from '#internal/base/index.ts'
import { type Answer, type AnswerBody, type Call, parseQuery } from '#internal/http/index.ts'
import { readPreferences } from './cookies.ts'
import { Document } from './layout.tsx'
import { link } from './page.ts'
import type { DashboardParts } from './parts.ts'
import { problemOf } from './problem.tsx'
import { documentAnswer, redirectAnswer } from './render.ts'
import { isFollowing, isLinkFromElsewhere, safePath, sessionTokenOf } from './request-facts.ts'

/** A call of somebody who is signed in. */
export interface SignedInCall {
  readonly call: Call
  readonly session: Session
  /** For ending the session, and nothing else. */
  readonly token: string
  /** Each parameter trimmed, empty ones left out. */
  readonly query: Readonly<Record<string, string>>
}

/** What a call of the dashboard is answered with. */
export type Answered = Answer<AnswerBody> | ApiError

/** Who a call is of, or what to answer where nobody is signed in. */
export type SignedIn =
  | { readonly kind: 'signedIn'; readonly signedIn: SignedInCall }
  | { readonly kind: 'none' }
  | { readonly kind: 'refused'; readonly answer: Answered }

/** Finds out who a call is of. @throws whatever Postgres throws */
export async function findSignedIn(parts: DashboardParts, call: Call): Promise<SignedIn> {
  const { request } = call
  const parsed = parseQuery(request.url)
  if (parsed.kind === 'error') return { kind: 'refused', answer: parsed }
  const token = sessionTokenOf(request)
  if (token === undefined) return { kind: 'none' }
  const found = await parts.sessions.find(token, { isUse: !isFollowing(request) })
  if (found.kind === 'none') return found
  if (found.kind === 'unavailable')
    return {
      kind: 'refused',
      answer: problemAnswer(parts, call, problemOf(found, parts.wayBack(request))),
    }
  const { session } = found
  return { kind: 'signedIn', signedIn: { call, session, token, query: withoutBlanks(parsed.values) } }
}

/** Lets those in who are signed in; everybody else is led to the sign-in page and from there back. */
export async function withSession(
  parts: DashboardParts,
  call: Call,
  serve: (signedIn: SignedInCall) => Promise<Answered> | Answered,
): Promise<Answered> {
  const found = await findSignedIn(parts, call)
  if (found.kind === 'refused') return found.answer
  return found.kind === 'none' ? leadToSignIn(parts, call) : serve(found.signedIn)
}

function withoutBlanks(values: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => (value.trim() === '' ? [] : [[name, value.trim()]])),
  )
}

function leadToSignIn(parts: DashboardParts, { request }: Call): Answered {
  const isRead = request.method === 'GET'
  const { here } = parts.wayBack(request)
  if (isRead && isLinkFromElsewhere(request)) return askAgain(parts, request, here)
  const path = link('/sign-in', { next: isRead && safePath(here) !== '/' ? here : undefined })
  if (!request.headers.has('hx-request')) return redirectAnswer(path)
  // A part of a page was asked for: the whole page has to go to the sign-in.
  return {
    ...{ kind: 'answer', status: 401, outcome: 'signed_out', body: '' },
    headers: { 'Content-Type': 'text/plain; charset=utf-8', 'HX-Redirect': path },
  }
}

/** The cookie of whoever follows a link from elsewhere comes only with a request that a page of ours makes. */
function askAgain(parts: DashboardParts, request: Request, here: string): Answered {
  const { theme } = readPreferences(request.headers.get('cookie'))
  return documentAnswer(
    <Document assets={parts.assets} theme={theme} title="Opening" refreshSeconds={0}>
      <main class="problem">
        <h1 class="visually-hidden">Opening</h1>
        <p class="empty-text">
          Opening <a href={safePath(here)}>the page</a>…
        </p>
      </main>
    </Document>,
    { status: 200, outcome: 'ask_again', acceptEncoding: request.headers.get('accept-encoding') },
  )
}

/** A problem as a page of its own, for whoever is not signed in or while nobody knows. */
export function problemAnswer(
  parts: Pick<DashboardParts, 'assets'>,
  { request, requestId }: Pick<Call, 'request' | 'requestId'>,
  problem: ReturnType<typeof problemOf>,
): Answer<Uint8Array<ArrayBuffer>> {
  const { theme } = readPreferences(request.headers.get('cookie'))
  return documentAnswer(
    <Document assets={parts.assets} theme={theme} title={problem.title}>
      <main id="main" class="alone">
        {problem.body}
        {problem.status >= 500 && (
          <p class="request-id">
            Request <code>{requestId}</code>
          </p>
        )}
      </main>
    </Document>,
    {
      status: problem.status,
      outcome: problem.outcome,
      acceptEncoding: request.headers.get('accept-encoding'),
      ...(problem.retryAfterSeconds !== undefined && {
        headers: { 'Retry-After': String(problem.retryAfterSeconds) },
      }),
    },
  )
}
