import type { Session } from '#internal/access/index.ts'
import { type ApiError, apiError } from '#internal/base/index.ts'
import { type Answer, type AnswerBody, type Call, parseQuery } from '#internal/http/index.ts'
import type { DashboardParts } from './dashboard.tsx'
import { link, type PageContext } from './page.ts'
import { type Problem, problemOf } from './problem.tsx'
import { documentAnswer, redirectAnswer } from './render.tsx'
import {
  type Form,
  isFollowing,
  isFormToken,
  isFromOwnPage,
  isLinkFromElsewhere,
  parseForm,
  safePath,
  sessionTokenOf,
} from './request.ts'

export interface SignedInCall extends Pick<PageContext, 'query'> {
  readonly call: Call
  readonly session: Session
  /** Session token. Use it only to end the session. */
  readonly token: string
}

export type Answered = Answer<AnswerBody> | ApiError

/** @throws errors of Postgres */
export async function findSignedIn(
  parts: DashboardParts,
  call: Call,
): Promise<
  | { readonly kind: 'signedIn'; readonly signedIn: SignedInCall }
  | { readonly kind: 'none' }
  | { readonly kind: 'refused'; readonly answer: Answered }
> {
  const { request } = call
  const parsed = parseQuery(request.url)
  if (parsed.kind === 'error') return { kind: 'refused', answer: parsed }
  const token = sessionTokenOf(request)
  if (token === undefined) return { kind: 'none' }
  const found = await parts.sessions.find(token, { isUse: !isFollowing(request) })
  if (found.kind === 'none') return found
  if (found.kind === 'unavailable') {
    const problem = problemOf(found, parts.wayBack(request))
    return { kind: 'refused', answer: problemAnswer(parts, call, problem) }
  }
  const query = Object.entries(parsed.values).flatMap(([name, value]) =>
    value.trim() === '' ? [] : [[name, value.trim()]],
  )
  const { session } = found
  return { kind: 'signedIn', signedIn: { call, session, token, query: Object.fromEntries(query) } }
}

/** Calls `serve` with the session of the call. Without a session, redirects to the sign-in page, which leads back to the requested page. */
export async function withSession(
  parts: DashboardParts,
  call: Call,
  serve: (signedIn: SignedInCall) => Promise<Answered> | Answered,
): Promise<Answered> {
  const found = await findSignedIn(parts, call)
  if (found.kind === 'refused') return found.answer
  return found.kind === 'none' ? leadToSignIn(parts, call) : serve(found.signedIn)
}

function leadToSignIn(parts: DashboardParts, { request }: Call): Answered {
  const isRead = request.method === 'GET'
  const { here } = parts.wayBack(request)
  if (isRead && isLinkFromElsewhere(request)) return askAgain(parts, request, here)
  const path = link('/sign-in', { next: isRead && safePath(here) !== '/' ? here : undefined })
  if (!request.headers.has('hx-request')) return redirectAnswer(path)
  // For a request of htmx for a part of a page: the header makes the browser open the sign-in page as a whole.
  return {
    kind: 'answer',
    status: 401,
    outcome: 'signed_out',
    body: '',
    headers: { 'Content-Type': 'text/plain; charset=utf-8', 'HX-Redirect': path },
  }
}

/** Makes the browser reload a page that was opened from another site: only the reload sends the `SameSite=Strict` cookie. */
function askAgain(parts: DashboardParts, request: Request, here: string): Answered {
  const body = (
    <main class="problem">
      <h1 class="visually-hidden">Opening</h1>
      <p class="empty-text">
        Opening <a href={safePath(here)}>the page</a>…
      </p>
    </main>
  )
  return documentAnswer(parts, request, {
    title: 'Opening',
    body,
    status: 200,
    outcome: 'ask_again',
    refreshSeconds: 0,
  })
}

/** Renders a problem as a page without navigation, for calls without a known session. */
export function problemAnswer(
  parts: Pick<DashboardParts, 'assets' | 'clock'>,
  { request, requestId }: Pick<Call, 'request' | 'requestId'>,
  problem: Problem,
): Answer<Uint8Array<ArrayBuffer>> {
  const body = (
    <main id="main" class="alone">
      {problem.body}
      {problem.status >= 500 && (
        <p class="request-id">
          Request <code>{requestId}</code>
        </p>
      )}
    </main>
  )
  return documentAnswer(parts, request, { ...problem, body })
}

/** Parses a form. Returns an error unless a page of this dashboard sent it with the session's CSRF token. */
export function readForm({ call, session }: SignedInCall): Form | ApiError {
  const form = parseForm(call.request, call.body)
  const isOwn = isFromOwnPage(call.request) && isFormToken(session, form?.['csrf'] ?? '')
  return form === undefined || !isOwn ? formRefused() : form
}

export function formRefused(): ApiError {
  return apiError(
    'invalid_request',
    'The form is outdated or was not sent by this dashboard: go back, reload the page and try again',
  )
}
