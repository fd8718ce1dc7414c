import { isDeepStrictEqual } from 'node:util'
import { mergeConditions, messageCharactersMax, type WantedCondition } from '../reconcile/conditions.ts'
import type { ResourceName } from '../reconcile/gather-tenant.ts'
import type { ProviderStatus } from '../status-schemas.ts'
import { tenantFinalizer } from '../tenant-object.ts'
import type { ProviderObject, StoredDeclaration, ValidatedProvider } from './provider-object.ts'
import { providersMax, type StoredProvider } from './provider-store.ts'

export interface ProviderFacts {
  readonly providers: readonly { readonly object: ProviderObject; readonly validated: ValidatedProvider }[]
  readonly stored: readonly StoredProvider[]
  readonly vanished: readonly StoredProvider[]
  /** For each Provider that is deleted or has vanished: the tenants that name it. */
  readonly users: ReadonlyMap<string, readonly ResourceName[]>
}

/** Writes for one Provider, in this order: finalizer, declaration, status, release. */
export interface ProviderPlan {
  /** Undefined for a declaration whose Provider has vanished. */
  readonly object: ProviderObject | undefined
  readonly name: string
  /** `note`: the declaration is unchanged, so only the recorded generation changes. */
  readonly step:
    | { readonly kind: 'put'; readonly provider: StoredProvider }
    | { readonly kind: 'note'; readonly provider: StoredProvider }
    | { readonly kind: 'remove'; readonly name: string }
    | { readonly kind: 'none' }
  readonly holds: boolean
  readonly releases: boolean
  /** Status to write; undefined if it is unchanged or the finalizer is removed. */
  readonly status: ProviderStatus | undefined
  /** Number of passed test vectors if the manifest is active after this plan; otherwise undefined. */
  readonly vectorsPassed: number | undefined
  /** Log line for the platform team; undefined if there is nothing to report. */
  readonly problem: string | undefined
}

/** Returns a plan for each Provider. Pure: the same facts and time produce the same plans. */
export function planProviders(facts: ProviderFacts, nowMs: number): ProviderPlan[] {
  const stored = new Map(facts.stored.map((each) => [each.name, each]))
  const claims = new Claims()
  // Declarations in force keep their names. Among new Providers that claim a name, the oldest gets it.
  const ordered = facts.providers.toSorted(
    (one, other) =>
      Number(stored.has(other.object.metadata.name)) - Number(stored.has(one.object.metadata.name)) ||
      compareText(
        one.object.metadata.creationTimestamp ?? '',
        other.object.metadata.creationTimestamp ?? '',
      ) ||
      compareText(one.object.metadata.name, other.object.metadata.name),
  )
  for (const { name, aliases } of facts.stored) claims.add(name, [name, ...aliases])
  const plans = ordered.map((each) =>
    planProvider(each, stored.get(each.object.metadata.name), { claims, users: facts.users, nowMs }),
  )
  return [...plans, ...facts.vanished.map((each) => planVanished(each, facts))]
}

const nothingElse = {
  holds: false,
  releases: false,
  status: undefined,
  problem: undefined,
  vectorsPassed: undefined,
}

function planProvider(
  { object, validated }: ProviderFacts['providers'][number],
  stored: StoredProvider | undefined,
  {
    claims,
    users,
    nowMs,
  }: { readonly claims: Claims; readonly users: ProviderFacts['users']; readonly nowMs: number },
): ProviderPlan {
  const { name, uid = '', generation = 1, deletionTimestamp, finalizers = [] } = object.metadata
  const isHeld = finalizers.includes(tenantFinalizer)
  const plan = { ...nothingElse, object, name }
  const using = users.get(name) ?? []
  if (deletionTimestamp !== undefined && using.length === 0) {
    const step: ProviderPlan['step'] = stored ? { kind: 'remove', name } : { kind: 'none' }
    return { ...plan, step, releases: isHeld }
  }
  const wanted = deletionTimestamp === undefined ? decide(validated, stored, claims) : undefined
  const next = wanted?.kind === 'accepted' ? { ...wanted.declaration, uid, generation } : undefined
  const inForce = next ?? stored
  const conditions: WantedCondition[] = [readyOf(wanted, stored)]
  if (deletionTimestamp !== undefined) conditions.push(waitingFor(using))
  const status: ProviderStatus = {
    observedGeneration: generation,
    ...(inForce && { inForceGeneration: inForce.generation, names: [inForce.name, ...inForce.aliases] }),
    ...(wanted?.kind === 'accepted' && { vectorsPassed: wanted.vectorsPassed }),
    conditions: mergeConditions(object.status?.conditions ?? [], conditions, nowMs),
  }
  const [ready] = conditions
  return {
    ...plan,
    step: stepOf(next, stored),
    holds: deletionTimestamp === undefined && !isHeld,
    status: isDeepStrictEqual(status, object.status) ? undefined : status,
    problem: ready?.status === 'False' ? ready.message : undefined,
    vectorsPassed: wanted?.kind === 'accepted' ? wanted.vectorsPassed : undefined,
  }
}

function stepOf(next: StoredProvider | undefined, stored: StoredProvider | undefined): ProviderPlan['step'] {
  if (next === undefined || isDeepStrictEqual(next, stored)) return { kind: 'none' }
  return { kind: stored?.text === next.text ? 'note' : 'put', provider: next }
}

type Wanted =
  | { readonly kind: 'accepted'; readonly declaration: StoredDeclaration; readonly vectorsPassed: number }
  | { readonly kind: 'refused'; readonly reason: string; readonly message: string }

function decide(validated: ValidatedProvider, stored: StoredProvider | undefined, claims: Claims): Wanted {
  if (validated.kind === 'invalid') return { ...validated, kind: 'refused' }
  const { declaration, vectorsPassed } = validated
  const names = [declaration.name, ...declaration.aliases]
  const taken = claims.takenBy(declaration.name, names)
  if (taken !== undefined) {
    const message = `the name ${taken.name} belongs to the Provider ${taken.owner}: choose another name or alias`
    return { kind: 'refused', reason: 'NameTaken', message }
  }
  if (stored === undefined && claims.ownerCount >= providersMax) {
    const message = `there are ${providersMax} Providers in force already, the maximum: delete one that no tenant uses`
    return { kind: 'refused', reason: 'TooMany', message }
  }
  claims.add(declaration.name, names)
  return { kind: 'accepted', declaration, vectorsPassed }
}

function readyOf(wanted: Wanted | undefined, stored: StoredProvider | undefined): WantedCondition {
  if (wanted?.kind === 'accepted') {
    const { vectorsPassed: count } = wanted
    const message = count === 0 ? 'the declaration has no vectors' : `${count} vectors hold`
    return {
      type: 'Ready',
      status: 'True',
      reason: 'InForce',
      message: `In force in all processes; ${message}`,
    }
  }
  if (wanted === undefined)
    return {
      type: 'Ready',
      status: 'False',
      reason: 'Deleted',
      message: 'is being deleted; its calls are verified until it is gone',
    }
  const kept = stored ? `generation ${stored.generation} stays in force: ` : 'not in force: '
  return {
    type: 'Ready',
    status: 'False',
    reason: wanted.reason,
    message: `${kept}${wanted.message}`.slice(0, messageCharactersMax),
  }
}

const shownUsersMax = 10

function waitingFor(users: readonly ResourceName[]): WantedCondition {
  const shown = users.slice(0, shownUsersMax).map(({ namespace, name }) => `${namespace}/${name}`)
  const more = users.length > shown.length ? ', and others' : ''
  return {
    type: 'DeletionWaiting',
    status: 'True',
    reason: 'InUse',
    message: `Used by ${shown.join(', ')}${more}: remove it from their spec.providers`,
  }
}

/** Plans for a declaration whose Provider was removed by force, or whose manifest left the folder: keeps it while a tenant uses it. */
function planVanished(stored: StoredProvider, { users }: ProviderFacts): ProviderPlan {
  const { name } = stored
  const using = users.get(name) ?? []
  const kept = `Provider is gone, but stays in force. ${waitingFor(using).message}`
  const plan = { ...nothingElse, object: undefined, name }
  if (using.length > 0) return { ...plan, step: { kind: 'none' }, problem: kept }
  return { ...plan, step: { kind: 'remove', name } }
}

class Claims {
  readonly #owners = new Map<string, string>()
  readonly #all = new Set<string>()

  get ownerCount(): number {
    return this.#all.size
  }

  add(owner: string, names: readonly string[]): void {
    this.#all.add(owner)
    for (const name of names) if (!this.#owners.has(name)) this.#owners.set(name, owner)
  }

  takenBy(
    own: string,
    names: readonly string[],
  ): { readonly name: string; readonly owner: string } | undefined {
    for (const name of names) {
      const owner = this.#owners.get(name)
      if (owner !== undefined && owner !== own) return { name, owner }
    }
    return undefined
  }
}

function compareText(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}
