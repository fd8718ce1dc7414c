import type { Clock, TenantId } from '#internal/base/index.ts'
import type { KubeFailure, Transport } from '#internal/kube/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import {
  type Action,
  type Actor,
  type KubeUser,
  keyActions,
  type OperatorActor,
  type TenantKeyActor,
} from './actor.ts'
import { fixedOperators, type Operator, type Operators, operatorMay, tokenDigest } from './operators.ts'
import {
  type AccessPlace,
  type AccessVerdict,
  reviewAccess,
  reviewToken,
  type TokenVerdict,
} from './reviews.ts'
import { ProvenTokens, VerdictCache } from './verdict-cache.ts'

/** Tenant as the target of an action. */
export interface TenantPlace {
  readonly id: TenantId
  readonly namespace: string
  readonly name: string
}

/** Result of authentication. `endsAtMs` is the expiry of the credential; null if it never expires or the expiry is unknown. */
export type Authenticated =
  | { readonly kind: 'actor'; readonly actor: Actor; readonly endsAtMs: number | null }
  | { readonly kind: 'refused'; readonly cause: 'unknown' | 'otherAudience' | 'keyScope' | 'tenantSuspended' }
  | Unavailable

/** The API server or the directory is unavailable. Callers respond 503 and never treat this result as permission. */
export interface Unavailable {
  readonly kind: 'unavailable'
  readonly retryAfterMs: number
}

/** Result of authorization. */
export type Permission = { readonly kind: 'allowed' } | { readonly kind: 'refused' } | Unavailable

export type Visibility =
  | { readonly kind: 'all' }
  /** Requested namespaces that the actor can see, possibly none. */
  | { readonly kind: 'namespaces'; readonly namespaces: readonly string[] }
  | { readonly kind: 'tenant'; readonly tenantId: TenantId }
  | { readonly kind: 'tooMany'; readonly namespacesMax: number }
  | Unavailable

/** Authentication and authorization for the back office; see `createAccess`. */
export type Access = ReturnType<typeof createAccess>

/** Observes reviews, for metrics and the log. */
export interface AccessObserver {
  /** Called for each review sent to the API server, not for cached results. */
  reviewed(
    review: 'token' | 'access',
    outcome: 'allowed' | 'refused' | 'unavailable',
    failure?: KubeFailure,
  ): void
}

export interface AccessOptions {
  readonly directory: Directory
  readonly clock: Clock
  /** Connection to the API server. If undefined, Kubernetes tokens are refused. */
  readonly transport?: Transport | undefined
  /** Operators with tokens of their own, outside of a cluster. Default: none. */
  readonly operators?: Operators | undefined
  readonly observer?: AccessObserver
}

/** Maximum number of namespaces in a list request. */
export const namespacesMax = 50
/** Maximum time for which a cached review result is used. */
export const rememberedMsMax = 10_000
const tokensRememberedMax = 2_000
const verdictsRememberedMax = 10_000
const pendingMax = 200
/** Maximum number of pending reviews of one user. A page of the dashboard needs fewer. */
const pendingPerUserMax = 20
/** Maximum number of pending reviews of tokens that no earlier review has accepted. Low, because any caller can invent tokens. */
const pendingUnprovenMax = 50
const namespacesAtOnce = 6
const tokenCharsMax = 16_384
const retryAfterMs = 1_000

/** Creates authentication and authorization for the back office. Caches review results for at most 10 s. Its methods do not throw. */
export function createAccess(options: AccessOptions) {
  const { clock, operators = fixedOperators([]) } = options
  const findOperator = (actor: OperatorActor) => {
    const found = operators.find(actor.tokenSha256)
    if (found?.name !== actor.name) return undefined
    return (found.endsAtMs ?? Infinity) > clock.now() ? found : undefined
  }
  const bounds = { clock, msMax: rememberedMsMax, pendingMax }
  const tokens = new VerdictCache<TokenVerdict>({ ...bounds, entriesMax: tokensRememberedMax })
  const verdicts = new VerdictCache<AccessVerdict>({ ...bounds, entriesMax: verdictsRememberedMax })
  const proven = new ProvenTokens(tokensRememberedMax)
  const ask = (user: KubeUser, action: Action, place: AccessPlace, named?: string) =>
    askAccess(options, verdicts, { user, action, place, named })
  return {
    /**
     * Accepts a Kubernetes token for the audience `latchkey`, an API key with scope `dashboard` or `dashboard:read`, or an operator's
     * token.
     */
    async authenticate(token: string): Promise<Authenticated> {
      if (token === '' || token.length > tokenCharsMax || !/^[\x21-\x7e]+$/.test(token)) return refused
      if (token.startsWith('lk_')) return authenticateKey(options.directory, token)
      const tokenSha256 = tokenDigest(token)
      const operator = operators.find(tokenSha256)
      if (operator) {
        const actor = { kind: 'operator', name: operator.name, tokenSha256 } as const
        return findOperator(actor) ? { kind: 'actor', actor, endsAtMs: operator.endsAtMs } : refused
      }
      return authenticateToken(options, { tokens, proven }, token)
    },
    /**
     * Authorizes an action on a tenant, or on all tenants and data without a tenant (`'all'`). `named` is the requested id of a tenant or
     * an object: the result is cached for that id alone. Otherwise a fast response from the cache would reveal that two objects have the
     * same owner.
     */
    may(actor: Actor, action: Action, tenant: TenantPlace | 'all', named?: string): Promise<Permission> {
      if (actor.kind === 'operator') return Promise.resolve(mayOperator(findOperator(actor), action, tenant))
      if (actor.kind === 'tenantKey') return Promise.resolve(mayKey(options.directory, actor, action, tenant))
      if (tenant === 'all') return ask(actor, action, {})
      return ask(actor, action, { namespace: tenant.namespace, name: tenant.name }, named)
    },
    /** Sends one access review for the whole cluster and, if it is refused, one for each requested namespace (at most 50). */
    async visibleTenants(actor: Actor, namespaces: readonly string[] = []): Promise<Visibility> {
      const named = [...new Set(namespaces)]
      if (named.length > namespacesMax) return { kind: 'tooMany', namespacesMax }
      if (actor.kind === 'operator') return visibleToOperator(findOperator(actor), named)
      if (actor.kind === 'tenantKey') return visibleToKey(options.directory, actor)
      const everywhere = await ask(actor, 'see', {})
      if (everywhere.kind === 'allowed') return { kind: 'all' }
      if (everywhere.kind === 'unavailable') return everywhere
      return seenNamespaces(named, (namespace) => ask(actor, 'see', { namespace }))
    },
    /**
     * Checks the credential of a session again: an API key can expire or lose its scope, and an operator can be removed. Returns `unknown`
     * until the directory has been read. Reads memory only.
     */
    stillCounts(actor: Actor): 'yes' | 'no' | 'unknown' {
      if (actor.kind === 'user') return 'yes'
      if (actor.kind === 'operator') return findOperator(actor) ? 'yes' : 'no'
      if (!options.directory.hasSnapshot()) return 'unknown'
      return findOwnKey(options.directory, actor) === undefined ? 'no' : 'yes'
    },
  }
}

const refused = { kind: 'refused', cause: 'unknown' } as const
const unavailable: Unavailable = { kind: 'unavailable', retryAfterMs }

/** Returns the namespaces that the reviews allow, or `unavailable` if any review got no decision. */
async function seenNamespaces(
  named: readonly string[],
  ask: (namespace: string) => Promise<Permission>,
): Promise<Visibility> {
  const seen: string[] = []
  for (let start = 0; start < named.length; start += namespacesAtOnce) {
    const some = named.slice(start, start + namespacesAtOnce)
    for (const [nth, permission] of (await Promise.all(some.map(ask))).entries()) {
      if (permission.kind === 'unavailable') return permission
      const namespace = some[nth]
      if (permission.kind === 'allowed' && namespace !== undefined) seen.push(namespace)
    }
  }
  return { kind: 'namespaces', namespaces: seen }
}

function authenticateKey(directory: Directory, apiKey: string): Authenticated {
  if (!directory.hasSnapshot()) return unavailable
  const keySha256 = Bun.SHA256.hash(apiKey, 'base64')
  const found = directory.findKey(keySha256)
  if (found === undefined) return refused
  const { tenant, key } = found
  if (tenant.suspended) return { kind: 'refused', cause: 'tenantSuspended' }
  if (keyActions(key.scopes).size === 0) return { kind: 'refused', cause: 'keyScope' }
  const actor = { kind: 'tenantKey', tenantId: tenant.id, keyName: key.name, keySha256 } as const
  return { kind: 'actor', actor, endsAtMs: key.expiresAtMs }
}

async function authenticateToken(
  { transport, observer, clock }: AccessOptions,
  { tokens, proven }: { readonly tokens: VerdictCache<TokenVerdict>; readonly proven: ProvenTokens },
  token: string,
): Promise<Authenticated> {
  if (transport === undefined) return refused
  const digest = Bun.SHA256.hash(token, 'base64')
  const share = proven.has(digest)
    ? { name: 'proven', pendingMax: pendingMax - pendingUnprovenMax }
    : { name: 'unproven', pendingMax: pendingUnprovenMax }
  const verdict = await tokens.get(digest, share, async () => {
    const value = await reviewToken(transport, token)
    if (value.kind !== 'unavailable') proven.note(digest, value.kind === 'user')
    observer?.reviewed(
      'token',
      value.kind === 'user' ? 'allowed' : value.kind,
      ...(value.kind === 'unavailable' ? [value.failure] : []),
    )
    return { value, keepUntilMs: keptUntilMs(value) }
  })
  if (verdict === undefined) return unavailable
  if (verdict.kind === 'unavailable') return unavailableFor(verdict.failure)
  if (verdict.kind === 'refused') return verdict
  const { user, endsAtMs } = verdict
  return endsAtMs !== null && endsAtMs <= clock.now() ? refused : { kind: 'actor', actor: user, endsAtMs }
}

function keptUntilMs(verdict: TokenVerdict): number {
  if (verdict.kind === 'unavailable') return 0
  return verdict.kind === 'user' ? (verdict.endsAtMs ?? Infinity) : Infinity
}

async function askAccess(
  { transport, observer }: AccessOptions,
  verdicts: VerdictCache<AccessVerdict>,
  {
    user,
    action,
    place,
    named,
  }: {
    readonly user: KubeUser
    readonly action: Action
    readonly place: AccessPlace
    readonly named?: string | undefined
  },
): Promise<Permission> {
  if (transport === undefined) return { kind: 'refused' }
  const key = JSON.stringify([action, place.namespace, place.name, named, user])
  const share = { name: user.username, pendingMax: pendingPerUserMax }
  const verdict = await verdicts.get(Bun.SHA256.hash(key, 'base64'), share, async () => {
    const value = await reviewAccess(transport, user, action, place)
    observer?.reviewed('access', value.kind, ...(value.kind === 'unavailable' ? [value.failure] : []))
    return { value, keepUntilMs: value.kind === 'unavailable' ? 0 : Infinity }
  })
  if (verdict === undefined) return unavailable
  return verdict.kind === 'unavailable' ? unavailableFor(verdict.failure) : verdict
}

function unavailableFor(failure: KubeFailure): Unavailable {
  return { kind: 'unavailable', retryAfterMs: failure.retryAfterMs ?? retryAfterMs }
}

function mayOperator(
  operator: Operator | undefined,
  action: Action,
  tenant: TenantPlace | 'all',
): Permission {
  if (operator === undefined || !operatorMay(operator, action)) return { kind: 'refused' }
  const { namespaces } = operator
  const isSeen = namespaces === undefined || (tenant !== 'all' && namespaces.includes(tenant.namespace))
  return { kind: isSeen ? 'allowed' : 'refused' }
}

function visibleToOperator(operator: Operator | undefined, named: readonly string[]): Visibility {
  if (operator === undefined || !operatorMay(operator, 'see')) return { kind: 'namespaces', namespaces: [] }
  const { namespaces } = operator
  if (namespaces === undefined) return { kind: 'all' }
  const seen = named.length === 0 ? namespaces : namespaces.filter((each) => named.includes(each))
  return { kind: 'namespaces', namespaces: seen }
}

function mayKey(
  directory: Directory,
  actor: TenantKeyActor,
  action: Action,
  tenant: TenantPlace | 'all',
): Permission {
  if (!directory.hasSnapshot()) return unavailable
  if (tenant === 'all' || tenant.id !== actor.tenantId) return { kind: 'refused' }
  const found = findOwnKey(directory, actor)
  if (found === undefined) return { kind: 'refused' }
  return { kind: keyActions(found.key.scopes, actor.api).has(action) ? 'allowed' : 'refused' }
}

function visibleToKey(directory: Directory, actor: TenantKeyActor): Visibility {
  if (!directory.hasSnapshot()) return unavailable
  if (findOwnKey(directory, actor) === undefined) return { kind: 'namespaces', namespaces: [] }
  return { kind: 'tenant', tenantId: actor.tenantId }
}

/** Finds the key of an actor. Returns undefined if the key has no scope for the API `actor.api`, or if its tenant is suspended. */
function findOwnKey(directory: Directory, actor: TenantKeyActor) {
  const found = directory.findKey(actor.keySha256)
  const counts =
    found !== undefined &&
    found.tenant.id === actor.tenantId &&
    !found.tenant.suspended &&
    keyActions(found.key.scopes, actor.api).size > 0
  return counts ? found : undefined
}
