import type { Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import {
  callbackDestination,
  countHeldDeliveries,
  type DestinationStatus,
  heldMax,
  listCallbackStatuses,
  listSuspendedTenants,
  type PausedForwarding,
  readCallbacksDigest,
  readDestinationStatus,
} from '#internal/events/index.ts'
import { pausedProviderOf, readSettings, type StoredSetting } from '#internal/settings/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { readDirectoryVersion } from '#internal/tenants/index.ts'
import { type Outcome, ok } from './outcome.ts'
import type { DeskParts, SharedDeskParts } from './parts.ts'
import { reachList, reachTenant, type TenantSelection } from './reach.ts'
import type { Blocker, Pause } from './states.ts'

/** Shown in place of the author of a setting, if the reader may not see the author. */
const platformTeam = 'the platform team'

/** Returns the author of a setting. Tenants do not learn who changes the settings of the installation. */
export function authorOf(
  { tenantId, updatedBy }: Pick<StoredSetting, 'tenantId' | 'updatedBy'>,
  seesAll: boolean,
): string {
  return tenantId !== null || seesAll ? updatedBy : platformTeam
}

/**
 * Reads a version that changes when a tenant changes, and when a pause, a suspension or a failure of a callback begins or ends. Pages that
 * were rendered with another version refresh themselves.
 * @throws errors of Postgres
 */
export async function readStatusVersion(pool: Pool): Promise<string> {
  return versionOf((await readSettings(pool)).version, await readTenantsVersion(pool))
}

async function readTenantsVersion(pool: Pool): Promise<string> {
  const [directory, callbacks] = await Promise.all([readDirectoryVersion(pool), readCallbacksDigest(pool)])
  return `${directory}.${callbacks}`
}

const versionOf = (settings: number, tenants: string) => `${settings}.${tenants}`

/**
 * Reads what blocks the selected tenant. Without one: the pauses for all tenants, and the pauses and suspended callbacks of each tenant
 * that the actor sees. A user who sees none of the selected tenants gets only the pauses for all tenants.
 */
async function blockers(
  parts: DeskParts,
  actor: Actor,
  selection: TenantSelection,
): Promise<
  Outcome<{
    readonly blockers: readonly Blocker[]
    readonly version: string
  }>
> {
  const { pool } = parts
  const { tenantId } = selection
  const reached = tenantId === undefined ? undefined : await reachTenant(parts, actor, tenantId)
  if (reached !== undefined && reached.kind !== 'ok') return reached
  const [stored, tenants, blocker] = await Promise.all([
    readSettings(pool),
    readTenantsVersion(pool),
    tenantId === undefined
      ? undefined
      : readDestinationStatus(pool, { tenantId, destination: callbackDestination }),
  ])
  const isOfOne = ({ value, tenantId: owner }: StoredSetting) => value === true && owner !== null
  const covers =
    tenantId === undefined && stored.settings.some(isOfOne)
      ? await coverOf(parts, actor, selection)
      : (owner: TenantId) => owner === tenantId
  const pauses = await pausesOf(parts, actor, stored.settings, covers)
  const own: Blocker[] = []
  if (tenantId !== undefined) {
    if (reached?.value.suspended) own.push({ kind: 'tenant_suspended', tenantId })
    if (blocker) own.push(...blockersOf({ tenantId, ...blocker }))
  } else own.push(...(await suspendedCallbacks(parts, actor, selection)))
  return ok({ blockers: besidePause([...pauses, ...own]), version: versionOf(stored.version, tenants) })
}

const suspendedMax = 20

/** Returns at most `suspendedMax` suspended callbacks; none if the actor sees none of the selected tenants. */
async function suspendedCallbacks(
  parts: DeskParts,
  actor: Actor,
  selection: TenantSelection,
): Promise<Blocker[]> {
  // Usually no tenant is suspended, and then no rights need to be checked.
  if ((await listSuspendedTenants(parts.pool, 1)).length === 0) return []
  const scope = await reachList(parts, actor, selection)
  if (scope.kind !== 'ok') return []
  const tenantIds = scope.value.kind === 'all' ? undefined : scope.value.tenantIds
  const found = await listCallbackStatuses(parts.pool, {
    tenantIds,
    rowsMax: suspendedMax,
    isSuspended: true,
  })
  return found.flatMap(blockersOf)
}

async function coverOf(parts: DeskParts, actor: Actor, selection: TenantSelection) {
  const scope = await reachList(parts, actor, selection)
  if (scope.kind !== 'ok') return () => false
  if (scope.value.kind === 'all') return () => true
  const seen = new Set(scope.value.tenantIds)
  return (owner: TenantId) => seen.has(owner)
}

/** Blockers by tenant. Tenants without a blocker are missing. */
export type BlockersByTenant = ReadonlyMap<TenantId, readonly Blocker[]>

/** Reads the blockers of tenants, including pauses for all tenants. Omits tenants that the actor does not see. Costs two statements. */
async function ofTenants(
  parts: DeskParts,
  actor: Actor,
  tenantIds: readonly TenantId[],
): Promise<Outcome<BlockersByTenant>> {
  const ids = new Set(tenantIds)
  if (ids.size === 0) return ok(new Map())
  for (const id of ids) {
    const reached = await reachTenant(parts, actor, id)
    if (reached.kind === 'unavailable') return reached
    if (reached.kind !== 'ok') ids.delete(id)
  }
  const [{ settings }, callbacks] = await Promise.all([
    readSettings(parts.pool),
    listCallbackStatuses(parts.pool, { tenantIds: [...ids], rowsMax: ids.size }),
  ])
  const pauses = await pausesOf(parts, actor, settings, (owner) => ids.has(owner))
  const own = callbacks.flatMap(blockersOf)
  return ok(
    new Map(
      [...ids].flatMap((id) => {
        const suspended = parts.directory.findTenantById(id)?.suspended === true
        const found: Blocker[] = [
          ...(suspended ? [{ kind: 'tenant_suspended', tenantId: id } as const] : []),
          ...pauses.filter(({ tenantId }) => tenantId === null || tenantId === id),
          ...own.filter(({ tenantId }) => tenantId === id),
        ]
        return found.length === 0 ? [] : [[id, besidePause(found)] as const]
      }),
    ),
  )
}

export async function pausesOf(
  { access }: Pick<SharedDeskParts, 'access'>,
  actor: Actor,
  settings: readonly StoredSetting[],
  covers: (tenantId: TenantId) => boolean,
): Promise<Extract<Blocker, Pause>[]> {
  const paused = settings.filter(
    ({ value, tenantId }) => value === true && (tenantId === null || covers(tenantId)),
  )
  if (paused.length === 0) return []
  const seesAll = (await access.may(actor, 'see', 'all')).kind === 'allowed'
  return paused.flatMap((setting): Extract<Blocker, Pause>[] => {
    const { name, tenantId, updatedAtMs } = setting
    const pause = { tenantId, by: authorOf(setting, seesAll), startedAtMs: updatedAtMs }
    if (name === 'forwarding.paused') return [{ kind: 'forwarding_paused', ...pause }]
    const provider = pausedProviderOf(name)
    return provider === undefined ? [] : [{ kind: 'provider_paused', provider, ...pause }]
  })
}

/** Marks callback failures with `isPaused` if deliveries are paused, because no callback is then called. */
function besidePause(all: readonly Blocker[]): readonly Blocker[] {
  if (!all.some(({ kind }) => kind === 'forwarding_paused')) return all
  return all.map((blocker) => ('breaker' in blocker ? { ...blocker, isPaused: true } : blocker))
}

export function blockersOf({
  tenantId,
  suspension,
  breakerEndsAtMs,
  trouble,
}: DestinationStatus & { readonly tenantId: TenantId }): Blocker[] {
  if (suspension) {
    const { cause, suspendedAtMs } = suspension
    return [{ kind: 'callback_suspended', tenantId, cause, startedAtMs: suspendedAtMs }]
  }
  if (trouble === undefined) return []
  const { kind, breaker, startedAtMs } = trouble
  return [{ kind: `callback_${kind}`, tenantId, breaker, startedAtMs, endsAtMs: breakerEndsAtMs }]
}

/** Number of due events that wait. If `isCut` is true, there are more. */
export interface HeldEvents {
  readonly count: number
  readonly isCut: boolean
}

/** Counts due events that a pause, a suspension or a breaker holds back. With `isAnyDue`, counts all due events, also those not held back. */
async function held(
  parts: DeskParts,
  actor: Actor,
  { isAnyDue = false, ...selection }: TenantSelection & { readonly isAnyDue?: boolean },
): Promise<Outcome<HeldEvents>> {
  const scope = await reachList(parts, actor, selection)
  if (scope.kind !== 'ok') return scope
  const paused = isAnyDue ? { all: true, tenants: new Set<TenantId>() } : await pausedIn(parts)
  const ids = scope.value.kind === 'all' ? undefined : scope.value.tenantIds
  const count = await countHeldDeliveries(parts.readPool, ids, paused)
  return ok({ count: Math.min(count, heldMax), isCut: count > heldMax })
}

async function pausedIn({ pool }: DeskParts): Promise<PausedForwarding> {
  const { settings } = await readSettings(pool)
  const owners = settings.flatMap(({ name, value, tenantId }) =>
    name === 'forwarding.paused' && value === true ? [tenantId] : [],
  )
  return { all: owners.includes(null), tenants: new Set(owners.filter((owner) => owner !== null)) }
}

export const blockerCases = { blockers, ofTenants, held }
