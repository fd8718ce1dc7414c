import { type ApiError, apiError, type TenantId } from '#internal/base/index.ts'
import type { ApiKeyScope, Directory, DirectoryKey, DirectoryTenant } from '#internal/tenants/index.ts'

/** User of the cluster, with all attributes that the API server uses for authorization. */
export interface KubeUser {
  readonly kind: 'user'
  readonly username: string
  readonly uid: string
  readonly groups: readonly string[]
  readonly extra: Readonly<Record<string, readonly string[]>>
}

/** API that is called with a tenant's key. The two APIs accept different scopes. */
export type KeyApi = 'backoffice' | 'public'

/** API key of a tenant. Contains the digest, never the key. */
export interface TenantKeyActor {
  readonly kind: 'tenantKey'
  /** Default: `backoffice`. */
  readonly api?: KeyApi
  readonly tenantId: TenantId
  readonly keyName: string
  /** Standard base64. */
  readonly keySha256: string
}

/** Contains the digest of the operator's token, never the token. */
export interface OperatorActor {
  readonly kind: 'operator'
  readonly name: string
  /** Standard base64. */
  readonly tokenSha256: string
}

/** Authenticated caller of the back office. */
export type Actor = KubeUser | TenantKeyActor | OperatorActor

const nameCharsMax = 200

/**
 * Returns an actor's name in the audit log: 1 to 200 printable characters. A prefix per kind prevents a user from being named like a
 * tenant's key. A longer name is cut and ends in its digest.
 */
export function actorName(actor: Actor): string {
  if (actor.kind === 'operator') return `operator:${actor.name}`
  if (actor.kind === 'tenantKey') return `key:${actor.tenantId}/${actor.keyName}`
  const name = `user:${actor.username.toWellFormed()}`
  const isPrintable = !/[\p{Cc}\p{Cf}]/u.test(name)
  if (isPrintable && name.length <= nameCharsMax) return name
  const digest = Bun.SHA256.hash(actor.username, 'hex').slice(0, 32)
  const printable = name.replace(/[\p{Cc}\p{Cf}]/gu, '').slice(0, nameCharsMax - 1 - digest.length)
  return `${printable.toWellFormed()}~${digest}`
}

/** Actions that need permission. */
export const actions = [
  'see',
  'readPayloads',
  'replay',
  'pull',
  'changeSettings',
  'simulate',
  'ingestEvents',
  'emitUsage',
] as const
/** Action that needs permission. */
export type Action = (typeof actions)[number]

/**
 * Kubernetes verb and subresource of `tenants` that grant each action; '' is the tenant itself. The subresources exist only in RBAC rules,
 * not as API endpoints.
 */
export const actionRules = {
  see: { verb: 'get', subresource: '' },
  readPayloads: { verb: 'get', subresource: 'payloads' },
  replay: { verb: 'create', subresource: 'replays' },
  // Only the public API lets callers pull events.
  pull: { verb: 'create', subresource: 'subscriptions' },
  changeSettings: { verb: 'update', subresource: 'settings' },
  simulate: { verb: 'create', subresource: 'simulations' },
  // For services that verify events themselves before they ingest them, and that report their own usage.
  ingestEvents: { verb: 'create', subresource: 'events' },
  emitUsage: { verb: 'create', subresource: 'usage' },
} as const satisfies Readonly<
  Record<Action, { readonly verb: 'get' | 'create' | 'update'; readonly subresource: string }>
>

/** Returns the right that permits an action, as roles and documents name it, such as `create tenants/replays`. */
export function rightOf(action: Action): string {
  const { verb, subresource } = actionRules[action]
  return subresource === '' ? `${verb} tenants` : `${verb} tenants/${subresource}`
}

const noActions: ReadonlySet<Action> = new Set()
const readActions: ReadonlySet<Action> = new Set<Action>(['see'])
const fullActions: ReadonlySet<Action> = new Set<Action>(['see', 'readPayloads', 'replay'])
const simulatingActions: ReadonlySet<Action> = new Set<Action>([...fullActions, 'simulate'])

/**
 * Returns the actions that a tenant's API key may perform on its own tenant; an empty set if the key has no scope of `api`. In the back
 * office, payloads, replays, test events and simulations need the scope `dashboard`. No API key may change settings, limits or pauses,
 * since those belong to the platform.
 */
export function keyActions(
  scopes: ReadonlySet<ApiKeyScope>,
  api: KeyApi = 'backoffice',
): ReadonlySet<Action> {
  if (api === 'public') return publicActions(scopes)
  if (scopes.has('dashboard')) return scopes.has('simulations') ? simulatingActions : fullActions
  return scopes.has('dashboard:read') ? readActions : noActions
}

/** Scopes that let a key read events over the public API. */
const eventScopes = ['events:read', 'events'] as const

function publicActions(scopes: ReadonlySet<ApiKeyScope>): ReadonlySet<Action> {
  if (!eventScopes.some((scope) => scopes.has(scope))) return noActions
  const allowed = new Set<Action>(readActions)
  if (scopes.has('events')) allowed.add('replay')
  if (scopes.has('payloads:read')) allowed.add('readPayloads')
  if (allowed.has('replay') && allowed.has('readPayloads')) allowed.add('pull')
  return allowed
}

/** Authenticated API key and its tenant. */
export interface Principal {
  readonly tenant: DirectoryTenant
  readonly key: DirectoryKey
}

const bearer = /^Bearer +(lk_[\x21-\x7e]{1,512}) *$/i

/**
 * Authenticates a call by its `Authorization: Bearer lk_…` header. Reads memory only.
 * @returns 503 before the directory is read; 403 for a missing, unknown or expired key, a suspended tenant, or a key without `scope`
 */
export function authenticateApiKey(
  directory: Pick<Directory, 'hasSnapshot' | 'findKey'>,
  authorization: string | null,
  scope: ApiKeyScope,
): Principal | ApiError {
  const found = findApiKey(directory, digestOf(authorization))
  if ('code' in found) return found
  if (found.key.scopes.has(scope)) return found
  return scopeError(`scope ${scope}`)
}

/** Returns the error for a key that lacks scopes. `needed` is, for example, `scope records` or `scopes events and payloads:read`. */
export function scopeError(needed: string): ApiError {
  const them = needed.startsWith('scopes ') ? 'them' : 'it'
  return apiError(
    'api_key_scope',
    `This call needs an API key with the ${needed}: add ${them} to spec.apiKeys[].scopes of the Tenant, or use a key that has ${them}`,
  )
}

/**
 * Authenticates a call of the public API about a tenant's events, like `authenticateApiKey`. Requires the scope `events:read` or `events`;
 * `keyActions` decides what the key may do.
 */
export function authenticateEventKey(
  directory: Pick<Directory, 'hasSnapshot' | 'findKey'>,
  authorization: string | null,
): TenantKeyActor | ApiError {
  const keySha256 = digestOf(authorization)
  const found = findApiKey(directory, keySha256)
  if ('code' in found) return found
  const { tenant, key } = found
  if (keyActions(key.scopes, 'public').size === 0) return scopeError('scope events or events:read')
  return { kind: 'tenantKey', api: 'public', tenantId: tenant.id, keyName: key.name, keySha256 }
}

/** Returns the SHA-256 of the key in standard base64, or '' without a key. */
function digestOf(authorization: string | null): string {
  const apiKey = bearer.exec(authorization ?? '')?.[1]
  return apiKey === undefined ? '' : Bun.SHA256.hash(apiKey, 'base64')
}

function findApiKey(
  directory: Pick<Directory, 'hasSnapshot' | 'findKey'>,
  keySha256: string,
): Principal | ApiError {
  if (!directory.hasSnapshot()) return apiError('starting', undefined, { 'Retry-After': '1' })
  // The lookup compares digests, so that neither its duration nor a memory dump reveals a key.
  const found = directory.findKey(keySha256)
  if (!found) return apiError('api_key_invalid')
  return found.tenant.suspended ? apiError('tenant_suspended') : found
}
