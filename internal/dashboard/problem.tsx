import type { ComponentChildren } from 'preact'
import type { Refusal } from '#internal/backoffice/index.ts'
import { type ApiError, errorEnvelope, statusOf } from '#internal/base/index.ts'
import { Empty } from './components/block.tsx'
import { LinkButton } from './components/form.tsx'
import type { IconName } from './components/icon.tsx'
import { NamespacesForm } from './layout.tsx'
import type { WayBack } from './way-back.ts'

/** What is shown to people, most often in a page's place. */
export interface Problem {
  readonly status: number
  /** For the log and the metric. */
  readonly outcome: string
  readonly title: string
  readonly body: ComponentChildren
  readonly retryAfterSeconds?: number
}

/** How a refusal, or an error of the server, is shown to people. */
export function problemOf(refusal: Refusal | ApiError, way: WayBack): Problem {
  switch (refusal.kind) {
    case 'forbidden':
      return problem(403, 'forbidden', 'You may not do this', {
        icon: 'lock',
        text: 'Your role or API key does not allow it. Ask the platform team for a role, or for a key with the scope “dashboard”, then try again: a role counts within 10 seconds.',
        links: <LinkButton href="/">Overview</LinkButton>,
      })
    case 'notFound':
      return problem(404, 'not_found', 'There is nothing here', {
        icon: 'search',
        text: 'It does not exist, or it belongs to a tenant that you may not see. If your rights are for some namespaces only, name them under “Namespaces”.',
        links: <LinkButton href="/">Overview</LinkButton>,
      })
    case 'invalid':
    case 'conflict':
    case 'tooMany':
      return problem(refusalStatus[refusal.kind], refusalOutcome[refusal.kind], refusalTitle[refusal.kind], {
        icon: 'warning',
        text: refusal.problem,
        // What cannot be asked for stands in a page's query; a form's way back has none of it.
        links: <LinkButton href={way.isForm ? way.here : (way.here.split('?')[0] ?? '/')}>Back</LinkButton>,
      })
    case 'unavailable':
      return {
        ...problem(503, 'unavailable', 'No answer at the moment', awayParts(way)),
        retryAfterSeconds: Math.ceil(refusal.retryAfterMs / 1_000),
      }
    case 'secretsUnreadable':
      return {
        ...problem(503, 'secrets_unreadable', 'Secrets cannot be opened', {
          icon: 'warning',
          text: 'The platform’s key ring does not open the tenant’s signing secrets, so that nothing was sent. The platform team has to correct it.',
          links: <LinkButton href={way.isForm ? way.here : (way.here.split('?')[0] ?? '/')}>Back</LinkButton>,
        }),
        retryAfterSeconds: Math.ceil(refusal.retryAfterMs / 1_000),
      }
    case 'error':
      return errorProblem(refusal, way)
  }
}

/** What stands in the place of a list of everything, for somebody who may see a part of it. */
export function namespacesProblem(form: { readonly csrfToken: string; readonly here: string }): Problem {
  return problem(403, 'forbidden', 'Which namespaces are yours?', {
    icon: 'lock',
    text: 'Your roles do not show you every tenant. Name the namespaces in which they do; this browser remembers them.',
    links: <NamespacesForm {...form} namespaces={[]} id="my-namespaces" />,
  })
}

const refusalStatus = { invalid: 400, conflict: 409, tooMany: 429 } as const
const refusalOutcome = { invalid: 'invalid', conflict: 'conflict', tooMany: 'too_many' } as const
const refusalTitle = {
  invalid: 'This cannot be asked for',
  conflict: 'Something changed meanwhile',
  tooMany: 'Too many at a time',
} as const

function errorProblem(error: ApiError, way: WayBack): Problem {
  const status = statusOf(error.code)
  if (error.code === 'route_unknown')
    return problem(status, error.code, 'There is no such page', {
      icon: 'search',
      text: 'The address may be mistyped, or be one of an older version.',
      links: <LinkButton href="/">Overview</LinkButton>,
    })
  if (status >= 500 && error.code !== 'internal')
    return problem(status, error.code, 'No answer at the moment', awayParts(way))
  const isBug = error.code === 'internal'
  return problem(status, error.code, isBug ? 'Something broke on our side' : 'This cannot be done', {
    icon: 'warning',
    text: isBug
      ? 'It was noted. Try again; if it stays, report the request’s id.'
      : errorEnvelope(error, '').message,
    links: isBug || way.isForm ? againLink(way) : <LinkButton href="/">Overview</LinkButton>,
  })
}

const againLink = ({ here, isForm }: WayBack) => (
  <LinkButton href={here}>{isForm ? 'Back' : 'Try again'}</LinkButton>
)

const awayParts = (way: WayBack): ProblemParts => ({
  icon: 'clock',
  text: 'A store or the Kubernetes API does not answer. Deliveries and records may well go on; this page cannot tell. Try again in a moment.',
  links: againLink(way),
})

interface ProblemParts {
  readonly icon: IconName
  readonly text: string
  readonly links: ComponentChildren
}

function problem(
  status: number,
  outcome: string,
  title: string,
  { icon, text, links }: ProblemParts,
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
  return { status, outcome, title, body }
}
