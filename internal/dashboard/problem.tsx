import type { ComponentChildren } from 'preact'
import { rememberedMsMax } from '#internal/access/index.ts'
import type { Refusal } from '#internal/backoffice/index.ts'
import { type ApiError, errorEnvelope, statusOf } from '#internal/base/index.ts'
import { Empty } from './components/block.tsx'
import { LinkButton } from './components/form.tsx'
import type { IconName } from './components/text.tsx'
import { NamespacesForm } from './layout.tsx'
import type { WayBack } from './page.ts'
import type { DocumentParts } from './render.tsx'

export type Problem = Omit<DocumentParts, 'refreshSeconds' | 'cookie'>

const overview = <LinkButton href="/">Overview</LinkButton>

/** Returns the text of an invalid request for a page, without the API's name of the field. */
export function invalidText({ problem: text, field }: Extract<Refusal, { kind: 'invalid' }>): string {
  return field === undefined ? text : `${text.charAt(0).toUpperCase()}${text.slice(1)}`
}

export function problemOf(refusal: Refusal | ApiError, way: WayBack): Problem {
  // The link back drops the refused query, which would fail again. If a form was refused, the link keeps the query of the form’s page:
  // that query was valid.
  const back = <LinkButton href={way.isForm ? way.here : (way.here.split('?')[0] ?? '/')}>Back</LinkButton>
  const warning = (text: string): ProblemParts => ({ icon: 'warning', text, links: back })
  switch (refusal.kind) {
    case 'forbidden':
      return problem(403, 'forbidden', 'Permission denied', {
        icon: 'lock',
        text: `Your role or API key does not allow it. Ask the platform team for a role, or for a key with the scope “dashboard”, then try again: a new role takes effect within ${rememberedMsMax / 1_000} seconds.`,
        links: overview,
      })
    case 'notFound':
      return problem(404, 'not_found', 'Not found', {
        icon: 'search',
        text:
          refusal.problem ??
          'It does not exist, or it belongs to a tenant that you may not see. If your roles are bound in some namespaces only, enter them under “Namespaces”.',
        links: overview,
      })
    case 'invalid':
      return problem(400, 'invalid', 'Invalid request', warning(invalidText(refusal)))
    case 'conflict':
      return problem(409, 'conflict', 'Conflict with the current state', warning(refusal.problem))
    case 'keyReused':
      return problem(422, 'idempotency_key_reused', 'This form was used before', warning(refusal.problem))
    case 'tooMany':
      return problem(429, refusal.code, 'Too many at once', {
        ...warning(refusal.problem),
        retryAfterMs: refusal.retryAfterMs,
      })
    case 'unavailable': {
      const parts = { ...awayParts(way), retryAfterMs: refusal.retryAfterMs }
      return problem(503, 'unavailable', 'Temporarily unavailable', parts)
    }
    case 'secretsUnreadable':
      return problem(503, 'secrets_unreadable', 'Secrets cannot be decrypted', {
        ...warning(
          'The platform’s key ring cannot decrypt the tenant’s signing secrets. Nothing was sent. The platform team must correct the key ring.',
        ),
        retryAfterMs: refusal.retryAfterMs,
      })
    case 'error':
      return errorProblem(refusal, way)
  }
}

/** Page that asks a user who may not see all tenants to name namespaces. */
export function namespacesProblem(form: { readonly csrfToken: string; readonly here: string }): Problem {
  return problem(403, 'forbidden', 'Choose your namespaces', {
    icon: 'lock',
    text: 'Your roles do not cover all tenants. Enter the namespaces that they cover; this browser remembers them.',
    links: <NamespacesForm {...form} namespaces={[]} id="my-namespaces" />,
  })
}

function errorProblem(error: ApiError, way: WayBack): Problem {
  const status = statusOf(error.code)
  if (error.code === 'route_unknown')
    return problem(status, error.code, 'Page not found', {
      icon: 'search',
      links: overview,
      text: 'The address may be mistyped or from an older version.',
    })
  if (status >= 500 && error.code !== 'internal')
    return problem(status, error.code, 'Temporarily unavailable', awayParts(way))
  const isBug = error.code === 'internal'
  return problem(status, error.code, isBug ? 'Internal error' : 'Invalid request', {
    icon: 'warning',
    text: isBug
      ? 'The error was logged. Try again; if it persists, report the request’s id.'
      : errorEnvelope(error, '').message,
    links: isBug || way.isForm ? againLink(way) : overview,
  })
}

const againLink = ({ here, isForm }: WayBack) => (
  <LinkButton href={here}>{isForm ? 'Back' : 'Try again'}</LinkButton>
)

const awayParts = (way: WayBack): ProblemParts => ({
  icon: 'clock',
  text: 'A store or the Kubernetes API does not respond, so this page cannot be shown. Deliveries and records may be unaffected. Try again shortly.',
  links: againLink(way),
})

interface ProblemParts {
  readonly icon: IconName
  readonly text: string
  readonly links: ComponentChildren
  readonly retryAfterMs?: number | undefined
}

function problem(
  status: number,
  outcome: string,
  title: string,
  { icon, text, links, retryAfterMs }: ProblemParts,
): Problem {
  const body = (
    <div class="problem">
      <h1 class="visually-hidden">{title}</h1>
      <Empty icon={icon} title={title}>
        <p>{text}</p>
        <div class="buttons">{links}</div>
      </Empty>
    </div>
  )
  const retryAfterSeconds = retryAfterMs && Math.ceil(retryAfterMs / 1_000)
  return { status, outcome, title, body, retryAfterSeconds }
}
