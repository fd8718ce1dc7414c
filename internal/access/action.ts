import type { ApiKeyScope } from '#internal/tenants/index.ts'

/** What somebody may want to do with a tenant. */
export const actions = [
  'see',
  'readPayloads',
  'replay',
  'changeSettings',
  'simulate',
  'appendEvents',
  'emitUsage',
] as const
/** One of the things that somebody may want to do with a tenant. */
export type Action = (typeof actions)[number]

/** What the API server is asked about an action, as roles name it. */
export interface ActionRule {
  readonly verb: 'get' | 'create' | 'update'
  /** Of `tenants`; '' for the resource itself. */
  readonly subresource: '' | 'payloads' | 'replays' | 'settings' | 'simulations' | 'events' | 'usage'
}

/** The rule of each action. None of these subresources exists: only their rights do. */
export const actionRules: Readonly<Record<Action, ActionRule>> = {
  see: { verb: 'get', subresource: '' },
  readPayloads: { verb: 'get', subresource: 'payloads' },
  replay: { verb: 'create', subresource: 'replays' },
  changeSettings: { verb: 'update', subresource: 'settings' },
  simulate: { verb: 'create', subresource: 'simulations' },
  // Of services, which hand in what they verified or counted themselves.
  appendEvents: { verb: 'create', subresource: 'events' },
  emitUsage: { verb: 'create', subresource: 'usage' },
}

const noActions: ReadonlySet<Action> = new Set()
const readActions: ReadonlySet<Action> = new Set<Action>(['see'])
const fullActions: ReadonlySet<Action> = new Set<Action>(['see', 'readPayloads', 'replay'])
const simulatingActions: ReadonlySet<Action> = new Set<Action>([...fullActions, 'simulate'])

/**
 * Returns what a tenant's API key may do with its own tenant in the backoffice; empty when its scopes do not open the backoffice.
 * Reading payloads, replays, test events and simulations need `dashboard`, whatever other scopes the key has. Settings, limits and
 * pauses belong to the platform and are open to no key.
 */
export function keyActions(scopes: ReadonlySet<ApiKeyScope>): ReadonlySet<Action> {
  if (scopes.has('dashboard')) return scopes.has('simulations') ? simulatingActions : fullActions
  return scopes.has('dashboard:read') ? readActions : noActions
}
