import { type Authenticated, clearedSessionCookie, sessionCookie } from '#internal/access/index.ts'
import { apiError, isApiError } from '#internal/base/index.ts'
import { type Answer, type Call, type PublicRoute, parseQuery } from '#internal/http/index.ts'
import { Notice } from './components/block.tsx'
import { Submit } from './components/form.tsx'
import { JsonBlock } from './components/json.tsx'
import { clockCookie, clocks, namespacesCookie, parseNamespaces, themeCookie, themes } from './cookies.ts'
import type { DashboardParts } from './dashboard.tsx'
import { Mark } from './layout.tsx'
import { documentAnswer, redirectAnswer } from './render.tsx'
import { type Form, factsOf, isFromOwnPage, parseForm, safePath } from './request.ts'
import { formBytesMax } from './serve.tsx'
import { type Answered, formRefused, readForm, type SignedInCall, withSession } from './session.tsx'

export function signInRoutes(parts: DashboardParts): readonly PublicRoute[] {
  return [
    {
      access: 'public',
      method: 'GET',
      path: '/sign-in',
      bodyBytesMax: 0,
      handle: (call) => {
        const query = parseQuery(call.request.url)
        if (query.kind === 'error') return query
        return signInPage(parts, call, safePath(query.values['next']), undefined)
      },
    },
    post('/sign-in', (call) => signIn(parts, call)),
    post('/sign-out', (call) => withOwnForm(parts, call, (signedIn) => signOut(parts, signedIn))),
    post('/theme', (call) => withOwnForm(parts, call, changeTheme)),
    post('/clock', (call) => withOwnForm(parts, call, changeClock)),
    post('/namespaces', (call) => withOwnForm(parts, call, changeNamespaces)),
  ]
}

function post(path: string, handle: PublicRoute['handle']): PublicRoute {
  return { access: 'public', method: 'POST', path, bodyBytesMax: formBytesMax, handle }
}

async function signIn(parts: DashboardParts, call: Call): Promise<Answered> {
  const { request } = call
  const form = parseForm(request, call.body)
  if (form === undefined) return formRefused()
  const next = safePath(form['next'])
  const refuse = (problem: keyof typeof refusals) => signInPage(parts, call, next, problem)
  // Without a session there is no CSRF token, so only the origin check prevents login CSRF.
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

function withOwnForm(
  parts: DashboardParts,
  call: Call,
  act: (signedIn: SignedInCall, form: Form) => Promise<Answered> | Answered,
): Promise<Answered> {
  return withSession(parts, call, (signedIn) => {
    const form = readForm(signedIn)
    return isApiError(form) ? form : act(signedIn, form)
  })
}

async function signOut({ sessions }: DashboardParts, { call, token }: SignedInCall): Promise<Answered> {
  await sessions.end(token)
  return redirectAnswer('/sign-in', clearedSessionCookie(factsOf(call.request)))
}

function changeTheme({ call }: SignedInCall, form: Form): Answered {
  const theme = themes.find((each) => each === form['theme'])
  if (theme === undefined) return formRefused()
  return redirectAnswer(safePath(form['next']), themeCookie(theme, factsOf(call.request)))
}

function changeClock({ call }: SignedInCall, form: Form): Answered {
  const clock = clocks.find((each) => each === form['clock'])
  if (clock === undefined) return formRefused()
  return redirectAnswer(safePath(form['next']), clockCookie(clock, factsOf(call.request)))
}

function changeNamespaces({ call }: SignedInCall, form: Form): Answered {
  const namespaces = parseNamespaces(form['namespaces'] ?? '')
  if (namespaces === undefined)
    return apiError('invalid_request', 'Name at most 50 namespaces, separated by spaces')
  return redirectAnswer(safePath(form['next']), namespacesCookie(namespaces, factsOf(call.request)))
}

const refusals = {
  unknown: {
    status: 403,
    outcome: 'credential_unknown',
    text: 'This token or key is not valid or has expired. Create a new one and paste all of it.',
  },
  otherAudience: {
    status: 403,
    outcome: 'credential_audience',
    text: 'This token is also valid for the Kubernetes API and must not be used on a web page. Create one with --audience latchkey, as below.',
  },
  keyScope: {
    status: 403,
    outcome: 'credential_scope',
    text: 'This API key has neither the scope “dashboard” nor “dashboard:read”. Ask for a key with one of them.',
  },
  tenantSuspended: {
    status: 403,
    outcome: 'tenant_suspended',
    text: 'The tenant of this key is suspended: ask the platform team.',
  },
  unavailable: {
    status: 503,
    outcome: 'unavailable',
    text: 'The token cannot be checked at the moment, because the Kubernetes API or the database does not answer. Try again shortly.',
  },
  full: {
    status: 503,
    outcome: 'sessions_full',
    text: 'The maximum number of sessions is reached. Try again later.',
  },
  plainHttp: {
    status: 400,
    outcome: 'plain_http',
    text: 'This page was loaded over plain http, which exposes your session. Open it over https, or through kubectl port-forward.',
  },
  otherPage: {
    status: 400,
    outcome: 'other_page',
    text: 'The form was not sent by this page. Reload the page and try again.',
  },
} as const satisfies Readonly<
  Record<
    string,
    {
      readonly status: number
      /** Outcome of the call in the log and the metric. */
      readonly outcome: string
      readonly text: string
    }
  >
>

function signInPage(
  parts: DashboardParts,
  { request }: Call,
  next: string,
  problem: keyof typeof refusals | undefined,
): Answer<Uint8Array<ArrayBuffer>> {
  const { text, ...refused } = problem ? refusals[problem] : { status: 200, outcome: 'page', text: undefined }
  const body = <SignIn problem={text} next={next} hasOperators={parts.hasOperators ?? false} />
  return documentAnswer(parts, request, { title: 'Sign in', body, ...refused })
}

const command = 'kubectl create token my-account --namespace my-namespace --audience latchkey --duration 8h'

function SignIn(props: {
  readonly problem: string | undefined
  readonly next: string
  readonly hasOperators: boolean
}) {
  const { problem, next, hasOperators } = props
  return (
    <main class="sign-in" id="main">
      <div class="sign-in-box">
        <div class="sign-in-head">
          <Mark />
          <h1>Sign in to Latchkey</h1>
        </div>
        {problem !== undefined && <Notice tone="bad">{problem}</Notice>}
        <form method="post" action="/sign-in" class="form">
          <input type="hidden" name="next" value={next} />
          <div class="field">
            <label for="token">Token or API key</label>
            <input
              id="token"
              name="token"
              type="password"
              required
              maxLength={16_384}
              autocomplete="off"
              autofocus
              spellcheck={false}
            />
          </div>
          <Submit>Sign in</Submit>
        </form>
        <div class="sign-in-help">
          {hasOperators ? (
            <>
              <h2>Your operator token</h2>
              <p>
                You get it from the person who runs this service. Your roles decide what you see and may do.
                The token is checked once and not stored.
              </p>
            </>
          ) : (
            <>
              <h2>Your Kubernetes account</h2>
              <p>Your roles decide what you see and may do. The token is checked once and not stored.</p>
              <JsonBlock text={command} label="the command" />
            </>
          )}
          <h2>A tenant’s API key</h2>
          <p>
            A key with the scope <code>dashboard</code> shows its tenant only. A key with{' '}
            <code>dashboard:read</code> can read, but not see raw payloads, replay or change anything.
          </p>
        </div>
      </div>
    </main>
  )
}
