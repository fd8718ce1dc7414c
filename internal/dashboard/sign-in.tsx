import { Notice } from './components/block.tsx'
import { Submit } from './components/form.tsx'
import { CodeBlock } from './components/text.tsx'
import { Mark } from './layout.tsx'

/** Why signing in did not work. */
export type SignInProblem =
  | 'unknown'
  | 'otherAudience'
  | 'keyScope'
  | 'tenantSuspended'
  | 'unavailable'
  | 'full'
  | 'plainHttp'
  | 'otherPage'

/** What the sign-in page shows. */
export interface SignInParts {
  readonly problem: SignInProblem | undefined
  /** Where to go on to: a path of ours. */
  readonly next: string
  /** Whether the token that the dev server prints counts here. */
  readonly isDev: boolean
}

const problems: Readonly<Record<SignInProblem, string>> = {
  unknown: 'This token or key is not valid, or it has ended. Make a new one and paste it whole.',
  otherAudience:
    'This token is also good for the Kubernetes API, so it is not for a web page. Make one with --audience latchkey, as below.',
  keyScope:
    'This API key has neither the scope “dashboard” nor “dashboard:read”. Ask for a key with one of them.',
  tenantSuspended: 'This key’s tenant is suspended: ask the platform team.',
  unavailable: 'Nobody can tell at the moment whose token this is. Try again in a moment.',
  full: 'As many people are signed in as may be. Try again later.',
  plainHttp:
    'This page came over plain http, on which others could read your session. Open it by https, or through kubectl port-forward.',
  otherPage: 'The form was not sent by this page. Load it anew and try again.',
}

const command = 'kubectl create token my-account --namespace my-namespace --audience latchkey --duration 8h'

/** The page to sign in. */
export function SignIn({ problem, next, isDev }: SignInParts) {
  return (
    <main class="sign-in" id="main">
      <div class="sign-in-box">
        <div class="sign-in-head">
          <Mark />
          <h1>Sign in to Latchkey</h1>
        </div>
        {problem !== undefined && <Notice tone="bad">{problems[problem]}</Notice>}
        <form method="post" action="/sign-in" class="form">
          <input type="hidden" name="next" value={next} />
          <div class="field">
            <label for="token">{isDev ? 'Token, as the dev server printed it' : 'Token or API key'}</label>
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
          <h2>Your Kubernetes account</h2>
          <p>You see and do what your roles allow. The token is checked once and never kept.</p>
          <CodeBlock text={command} label="the command" />
          <h2>A tenant’s API key</h2>
          <p>
            A key with the scope <code>dashboard</code> shows that tenant and nothing else. With{' '}
            <code>dashboard:read</code> it only reads: no payloads as received, no replays, no changes.
          </p>
        </div>
      </div>
    </main>
  )
}
