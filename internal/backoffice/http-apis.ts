import type { TSchema } from '@sinclair/typebox'
import {
  type Access,
  authenticateEventKey,
  type KeyApi,
  keyActions,
  rightOf,
  scopeError,
} from '#internal/access/index.ts'
import { type ApiError, apiError, type ErrorCode, type Shares } from '#internal/base/index.ts'
import type { AdmittingRoute, Params, RoomRoute } from '#internal/http/index.ts'
import type { ApiKeyScope, Directory } from '#internal/tenants/index.ts'
import type { Backoffice, TenantDesks } from './backoffice.ts'
import type { DocumentedRoute } from './http-document.ts'
import { listText, tenantParams } from './http-params.ts'
import { refusalError } from './http-refusals.ts'
import { type Aside, type Caller, createRoute, type RouteApi, type UseCaseRoute } from './http-route.ts'
import { ownTenant } from './reach.ts'

export interface InternalParts {
  readonly backoffice: Backoffice
  readonly access: Pick<Access, 'authenticate'>
}

/** Dependencies of the routes of the public API. */
export interface TenantRouteParts {
  readonly backoffice: TenantDesks
  readonly directory: Pick<Directory, 'hasSnapshot' | 'findKey'>
  readonly calls: Shares
}

export interface SharedApi<Parts> {
  readonly name: KeyApi
  readonly base: string
  readonly tenantBase: string
  /** Parameters that select the tenants of a list. The public API has none, because a key belongs to one tenant. */
  readonly tenantParams: typeof tenantParams
  readonly listText: string
  route<Query extends Params, Body extends TSchema, Value>(
    definition: UseCaseRoute<Query, Body, TenantDesks, Value>,
  ): RoomRoute<Parts, AdmittingRoute<unknown>>
}

type RouteRight = Pick<DocumentedRoute, 'right' | 'isForAllTenants'>

interface ScopeSet {
  readonly scopes: readonly ApiKeyScope[]
  readonly text: string
}

/** Sets of scopes with which an API key may call routes, by API, smallest set first. */
const scopeSets: Readonly<Record<KeyApi, readonly ScopeSet[]>> = {
  backoffice: [
    { scopes: ['dashboard:read'], text: 'scope `dashboard` or `dashboard:read`' },
    { scopes: ['dashboard'], text: 'scope `dashboard`' },
    { scopes: ['dashboard', 'simulations'], text: 'scopes `dashboard` and `simulations`' },
  ],
  public: [
    { scopes: ['events:read'], text: 'scope `events` or `events:read`' },
    { scopes: ['events'], text: 'scope `events`' },
    {
      scopes: ['events:read', 'payloads:read'],
      text: 'scopes `payloads:read` and one of `events` and `events:read`',
    },
    { scopes: ['events', 'payloads:read'], text: 'scopes `events` and `payloads:read`' },
  ],
}

/** Returns the smallest set of scopes with the right of a route. Undefined if no key can have that right. */
function scopesFor(api: KeyApi, { right, isForAllTenants }: RouteRight): ScopeSet | undefined {
  if (isForAllTenants) return undefined
  return scopeSets[api].find(({ scopes }) => keyActions(new Set(scopes), api).has(right))
}

const routeErrors: readonly ErrorCode[] = [
  'invalid_request',
  'api_key_scope',
  'tenant_suspended',
  'not_found',
  'internal',
  'unavailable',
  'body_dropped',
  'overloaded',
]

const internalRules: RouteApi<InternalParts> = {
  security: 'token',
  budget: 'anonymous',
  commonErrors: [...routeErrors, 'unauthenticated', 'forbidden'],
  errorTexts: {
    401: 'No token, an unknown one, or one that is also for other audiences than `latchkey`.',
    403: 'The caller lacks the right; or the API key is not for the dashboard.',
    404: 'It does not exist, or the caller may not see it: both look the same.',
    409: 'The state differs from the expected one, or the tenant’s state does not allow it. Nothing was changed.',
    422: 'The `Idempotency-Key`, or the id of the usage, was used with another request. Nothing was changed.',
    429: 'Too many are unfinished: wait until one ends.',
    503: 'The API server or a store does not answer, the key ring does not decrypt the secrets that the call needs, or too many calls are under way. Repeat the call unchanged.',
  },
  authenticate: ({ access }, request) => findCaller(access, request),
  rightText(route) {
    const requires = `Requires the right \`${rightOf(route.right)}\`${route.isForAllTenants ? ' in the whole cluster' : ''}`
    const keys = scopesFor('backoffice', route)
    return keys === undefined
      ? `${requires}; no API key has it.`
      : `${requires}, or an API key of ${keys.text}.`
  },
  forbiddenError(route, actor) {
    if (actor.kind !== 'tenantKey') return apiError('forbidden')
    return apiError(
      'forbidden',
      `${keyBoundsText(route)}: use a token of kubectl create token NAME --audience latchkey`,
    )
  },
  async run(_parts, _actor, work) {
    return await work(async (wait) => {
      await wait()
      return true
    })
  },
}

/** Returns the text of the error for an API key that lacks the right of a route. Every accepted key has the right `see`. */
function keyBoundsText(route: RouteRight): string {
  const keys = scopesFor('backoffice', route)
  if (keys === undefined) return 'No API key may do this'
  if (route.right === 'see') return 'With an API key this call only reads, and only the tenant of the key'
  return `With an API key this call needs the ${keys.text.replaceAll('`', '')}, and reaches only the tenant of the key`
}

const bearer = /^Bearer +([\x21-\x7e]+) *$/i

async function findCaller(access: InternalParts['access'], { headers }: Request): Promise<Caller> {
  const token = bearer.exec(headers.get('authorization') ?? '')?.[1]
  if (token === undefined) return unauthenticated()
  const authenticated = await access.authenticate(token)
  if (authenticated.kind === 'unavailable') return refusalError(authenticated)
  if (authenticated.kind === 'actor') return authenticated
  switch (authenticated.cause) {
    case 'keyScope':
      return scopeError('scope dashboard or dashboard:read')
    case 'tenantSuspended':
      return apiError('tenant_suspended')
    case 'otherAudience':
      return unauthenticated(
        'This token is also valid for other audiences: create a token with kubectl create token NAME --audience latchkey',
      )
    case 'unknown':
      return unauthenticated()
  }
}

function unauthenticated(message?: string): ApiError {
  return apiError('unauthenticated', message, { 'WWW-Authenticate': 'Bearer realm="latchkey"' })
}

const placePauseMs = 25
const placeTriesMax = 40

const publicRules: RouteApi<TenantRouteParts> = {
  security: 'apiKey',
  budget: 'keyed',
  commonErrors: [...routeErrors, 'api_key_invalid', 'starting'],
  errorTexts: {
    403: 'The API key is missing, unknown, expired or lacks the scope; or the tenant is suspended.',
    404: 'It does not exist, or belongs to another tenant: both look the same.',
    409: 'The state of the event does not allow it. Nothing was changed.',
    422: 'The `Idempotency-Key` was used with another request. Nothing was changed.',
    429: 'Too many are unfinished: wait until one ends.',
    503: 'A store does not answer, or too many calls are under way. Repeat the call unchanged.',
  },
  authenticate({ directory }, { headers }) {
    const actor = authenticateEventKey(directory, headers.get('authorization'))
    return actor.kind === 'error' ? actor : { kind: 'actor', actor }
  },
  rightText: (route) => `Requires an API key of ${scopesFor('public', route)?.text}.`,
  forbiddenError: (route) =>
    scopeError(scopesFor('public', route)?.text.replaceAll('`', '') ?? 'scope events'),
  async run({ calls }, actor, work) {
    const { tenantId: owner = '' } = ownTenant(actor)
    if (!calls.take(1, owner)) return apiError('overloaded', undefined, { 'Retry-After': '1' })
    let isCounted = true
    const aside: Aside = async (wait) => {
      calls.give(1, owner)
      isCounted = false
      await wait()
      isCounted = calls.take(1, owner)
      // Retries for a short time: one event can end the waits of many calls at once, and each of them then runs for milliseconds.
      for (let tries = 0; tries < placeTriesMax && !isCounted; tries += 1) {
        await Bun.sleep(placePauseMs)
        isCounted = calls.take(1, owner)
      }
      return isCounted
    }
    try {
      return await work(aside)
    } finally {
      if (isCounted) calls.give(1, owner)
    }
  },
}

export function internalRoute<Query extends Params, Body extends TSchema, Value>(
  definition: UseCaseRoute<Query, Body, Backoffice, Value>,
): RoomRoute<InternalParts, AdmittingRoute<unknown>> {
  return createRoute(internalRules, definition)
}

export const internalApi: SharedApi<InternalParts> = {
  name: 'backoffice',
  base: '/internal/v1',
  tenantBase: '/internal/v1/tenants/:tenantId',
  tenantParams,
  listText,
  route: internalRoute,
}

/** Rules of the routes under `/v1`, where an API key acts on its own tenant. */
export const publicApi: SharedApi<TenantRouteParts> = {
  name: 'public',
  base: '/v1',
  tenantBase: '/v1',
  // The type assertion is safe: all values of parameters are optional, so missing parameters also have the type.
  tenantParams: {} as typeof tenantParams,
  listText: 'Covers the tenant of the key.',
  route: (definition) => createRoute(publicRules, definition),
}
