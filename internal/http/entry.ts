import { type ApiError, isApiError } from '#internal/base/index.ts'
import type { BodyBounds } from './body.ts'
import type { BodyBudget } from './body-budget.ts'
import type {
  Admission,
  Admitted,
  AdmittingRoute,
  Answer,
  AnswerBody,
  Call,
  GuardedRoute,
  Head,
  PublicRoute,
  Route,
} from './route.ts'

/** A call that is let in; without a tenant where anybody may call. */
export interface LetIn extends Pick<Admission<unknown>, 'kind' | 'admitted' | 'owner' | 'log'> {
  readonly tenant?: string
  readonly bounds: BodyBounds
}

/** A route as the server runs it, whoever may call: one question before the body, one handler after it. */
export interface Entry {
  readonly method: PublicRoute['method']
  readonly path: string
  /** A query string is 400, since nobody would read it. */
  readonly refusesQuery: boolean
  /** What its bodies take their room of. */
  readonly budget: BodyBudget
  /** Outcomes that unauthenticated callers can cause. */
  readonly unverified: 'all' | 'until admitted' | ReadonlySet<string>
  readonly admitsMalformedParams: boolean
  admit(head: Head): LetIn | Answer | ApiError | Promise<LetIn | Answer | ApiError>
  /** Eviction group of a call; default: its owner. */
  sourceOf?(head: Head): string | null
  /** `admitted` is what `admit` of this very entry has let in. */
  handle(
    call: Call,
    admitted: unknown,
  ): Promise<Answer<AnswerBody> | ApiError> | Answer<AnswerBody> | ApiError
}

/** Knows who calls with an API key. */
export interface Authority<Principal, Scope extends string> {
  /** Tells who calls, from the Authorization header, or refuses. Decided before a body is read. */
  authorize(authorization: string | null, scope: Scope): Principal | ApiError
  /** A principal's name for the log. */
  nameOf(principal: Principal): string
}

/** Memory for bodies, apart for callers with a key and all others: trouble among those who need none leaves the former alone. */
export interface BodyBudgets {
  readonly keyed: BodyBudget
  readonly anybody: BodyBudget
}

/** Makes an entry of a row of the route table. */
export function createEntry<Principal, Scope extends string>(
  route: Route<Principal, Scope>,
  authority: Authority<Principal, Scope>,
  budgets: BodyBudgets,
): Entry {
  if (isPublic(route)) return publicEntry(route, budgets.anybody)
  return 'scope' in route.access
    ? guardedEntry(route as GuardedRoute<Principal, Scope>, authority, budgets.keyed)
    : admittingEntry(route as AdmittingRoute<unknown>, budgets.anybody)
}

function isPublic(route: Route<unknown, string>): route is PublicRoute {
  return route.access === 'public'
}

function publicEntry(route: PublicRoute, budget: BodyBudget): Entry {
  const everybody: LetIn = { kind: 'admitted', admitted: undefined, bounds: boundsOf(route) }
  return {
    ...route,
    budget,
    unverified: 'all',
    admitsMalformedParams: false,
    refusesQuery: route.bodyBytesMax > 0,
    admit: () => everybody,
  }
}

function guardedEntry<Principal, Scope extends string>(
  route: GuardedRoute<Principal, Scope>,
  authority: Authority<Principal, Scope>,
  budget: BodyBudget,
): Entry {
  const { scope } = route.access
  const bounds = boundsOf(route)
  return {
    ...route,
    budget,
    unverified: 'until admitted',
    admitsMalformedParams: false,
    refusesQuery: route.bodyBytesMax > 0,
    admit({ request }) {
      const principal = authority.authorize(request.headers.get('authorization'), scope)
      if (isApiError(principal)) return principal
      return { kind: 'admitted', admitted: principal, tenant: authority.nameOf(principal), bounds }
    },
  }
}

function boundsOf({ bodyBytesMax }: PublicRoute | GuardedRoute<never, string>): BodyBounds {
  return { bytesMax: bodyBytesMax, tooLong: 'invalid_request' }
}

const noOutcomes: ReadonlySet<string> = new Set()

function admittingEntry(route: AdmittingRoute<unknown>, budget: BodyBudget): Entry {
  return {
    ...route,
    budget,
    unverified: route.unverifiedOutcomes ?? noOutcomes,
    admitsMalformedParams: route.admitsMalformedParams ?? false,
    refusesQuery: false,
    ...(route.access.sourceOf && { sourceOf: (head: Head) => route.access.sourceOf?.(head) ?? null }),
    admit(head) {
      const result = route.access.admit(head)
      return result instanceof Promise ? result.then(letIn) : letIn(result)
    },
  }
}

function letIn(result: Admitted<unknown>): LetIn | Answer | ApiError {
  if (result.kind !== 'admitted') return result
  const bounds: BodyBounds = { bytesMax: result.bodyBytesMax, tooLong: 'body_too_large' }
  return { ...result, bounds }
}
