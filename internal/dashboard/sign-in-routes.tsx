import { type Authenticated, clearedSessionCookie, sessionCookie } from '#internal/access/index.ts'
import { apiError } from '#internal/base/index.ts'
import { type Answer, type Call, type PublicRoute, parseQuery } from '#internal/http/index.ts'
import { namespacesCookie, parseNamespaces, readPreferences, themeCookie, themes } from './cookies.ts'
import { type Form, parseForm } from './form.ts'
import { isFormToken } from './form-token.ts'
import { Document } from './layout.tsx'
import type { DashboardParts } from './parts.ts'
import { documentAnswer, redirectAnswer } from './render.ts'
import { factsOf, isFromOwnPage, safePath } from './request-facts.ts'
import { formBytesMax } from './serve-row.tsx'
import { SignIn, type SignInProblem } from './sign-in.tsx'
import { type Answered, type SignedInCall, withSession } from './signed-in.tsx'

/** Signing in and out, and what a browser remembers: how pages look, and which namespaces lists ask for. */
export function signInRoutes(parts: DashboardParts): readonly PublicRoute[] {
  return [
    {
      ...{ access: 'public', method: 'GET', path: '/sign-in', bodyBytesMax: 0 },
      handle: (call) => {
        const query = parseQuery(call.request.url)
        if (query.kind === 'error') return query
        return signInPage(parts, call, safePath(query.values['next']), undefined)
      },
    },
    post('/sign-in', (call) => signIn(parts, call)),
    post('/sign-out', (call) => withOwnForm(parts, call, (signedIn) => signOut(parts, signedIn))),
    post('/theme', (call) => withOwnForm(parts, call, changeTheme)),
    post('/namespaces', (call) => withOwnForm(parts, call, changeNamespaces)),
  ]
}

function post(path: string, handle: PublicRoute['handle']): PublicRoute {
  return { access: 'public', method: 'POST', path, bodyBytesMax: formBytesMax, handle }
}

const answers: Readonly<Record<SignInProblem, { readonly status: number; readonly outcome: string }>> = {
  unknown: { status: 403, outcome: 'credential_unknown' },
  otherAudience: { status: 403, outcome: 'credential_audience' },
  keyScope: { status: 403, outcome: 'credential_scope' },
  tenantSuspended: { status: 403, outcome: 'tenant_suspended' },
  unavailable: { status: 503, outcome: 'unavailable' },
  full: { status: 503, outcome: 'sessions_full' },
  plainHttp: { status: 400, outcome: 'plain_http' },
  otherPage: { status: 400, outcome: 'other_page' },
}

function signInPage(
  { assets, isDev = false }: DashboardParts,
  { request }: Call,
  next: string,
  problem: SignInProblem | undefined,
): Answer<Uint8Array<ArrayBuffer>> {
  const { theme } = readPreferences(request.headers.get('cookie'))
  return documentAnswer(
    <Document assets={assets} title="Sign in" theme={theme}>
      <SignIn problem={problem} next={next} isDev={isDev} />
    </Document>,
    {
      ...(problem === undefined ? { status: 200, outcome: 'page' } : answers[problem]),
      acceptEncoding: request.headers.get('accept-encoding'),
    },
  )
}

async function signIn(parts: DashboardParts, call: Call): Promise<Answered> {
  const { request } = call
  const form = parseForm(request, call.body)
  if (form === undefined) return noForm()
  const next = safePath(form['next'])
  const refuse = (problem: SignInProblem) => signInPage(parts, call, next, problem)
  // Without a session there is no token of a form: nobody is to be signed in by another's page.
  if (!isFromOwnPage(request)) return refuse('otherPage')
  const facts = factsOf(request)
  if (!facts.isSafe) return refuse('plainHttp')
  const found: Authenticated = await parts.access.authenticate(form['token'] ?? '')
  if (found.kind === 'unavailable') return refuse('unavailable')
  if (found.kind === 'refused') return refuse(found.cause)
  const started = await parts.sessions.start(found.actor, found.endsAtMs)
  if (started.kind === 'full') return refuse('full')
  return redirectAnswer(next, sessionCookie(started.token, facts))
}

const noForm = () => apiError('invalid_request', 'This is no form of ours: go back and try again')

function withOwnForm(
  parts: DashboardParts,
  call: Call,
  act: (signedIn: SignedInCall, form: Form) => Promise<Answered> | Answered,
): Promise<Answered> {
  return withSession(parts, call, (signedIn) => {
    const form = parseForm(call.request, call.body)
    const isOwn = isFromOwnPage(call.request) && isFormToken(signedIn.session, form?.['csrf'] ?? '')
    return form === undefined || !isOwn ? noForm() : act(signedIn, form)
  })
}

async function signOut({ sessions }: DashboardParts, { call, token }: SignedInCall): Promise<Answered> {
  await sessions.end(token)
  return redirectAnswer('/sign-in', clearedSessionCookie(factsOf(call.request)))
}

function changeTheme({ call }: SignedInCall, form: Form): Answered {
  const theme = themes.find((each) => each === form['theme'])
  if (theme === undefined) return noForm()
  return redirectAnswer(safePath(form['next']), themeCookie(theme, factsOf(call.request)))
}

function changeNamespaces({ call }: SignedInCall, form: Form): Answered {
  const namespaces = parseNamespaces(form['namespaces'] ?? '')
  if (namespaces === undefined)
    return apiError('invalid_request', 'Name at most 50 namespaces, with spaces between them')
  return redirectAnswer(safePath(form['next']), namespacesCookie(namespaces, factsOf(call.request)))
}
