import type { Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { listCallbackHalts, readCallbackHalt, readSuspensionsDigest } from '#internal/events/index.ts'
import { readSpoolStats } from '#internal/intake/index.ts'
import { pausedProviderOf, readSettings, type StoredSetting } from '#internal/settings/index.ts'
import { type Pool, RedisUnavailable } from '#internal/storage/index.ts'
import {
  type AnyLimitName,
  listUnreadyTenants,
  type ProviderName,
  readDirectoryVersion,
} from '#internal/tenants/index.ts'
import { readLimits } from '#internal/usage/index.ts'
import { type Outcome, ok } from './outcome.ts'
import type { DeskParts } from './parts.ts'
import { reachList, reachTenant, type TenantSelection } from './reach.ts'

/** A pause that somebody set. `by` is undefined for actors who may not see the whole installation. */
interface Pause {
  /** Null for all tenants. */
  readonly tenantId: TenantId | null
  readonly by: string | undefined
  readonly startedAtMs: number
}

/** Something that halts the calls of providers or the deliveries of a tenant, or of all tenants. */
export type Halt =
  | ({ readonly kind: 'forwarding_paused' } & Pause)
  | ({ readonly kind: 'provider_paused'; readonly provider: ProviderName } & Pause)
  | { readonly kind: 'tenant_suspended'; readonly tenantId: TenantId }
  | {
      readonly kind: 'callback_suspended'
      readonly tenantId: TenantId
      /** `gone`, `disabled`, or that of another version. */
      readonly cause: string
      readonly startedAtMs: number
    }
  | { readonly kind: 'breaker_open'; readonly tenantId: TenantId; readonly endsAtMs: number }

/** Something that an operator or a tenant should look at. */
export type Attention =
  | Halt
  | { readonly kind: 'spool_in_use'; readonly count: number; readonly oldestAgeMs: number }
  | { readonly kind: 'dead_entries'; readonly count: number }
  | { readonly kind: 'tenant_not_ready'; readonly tenantId: TenantId; readonly reason: string }
  | {
      readonly kind: 'limit_near'
      readonly tenantId: TenantId
      readonly limit: AnyLimitName
      readonly used: number
      readonly hard: number
    }

/** What needs attention, the most important first. */
export interface AttentionList {
  readonly items: readonly Attention[]
  /** Whether more tenants than `rowsMax` have the same trouble. */
  readonly isCut: boolean
}

/** What halts a tenant, and the version of the status that pages show. */
export interface HaltsRead {
  readonly halts: readonly Halt[]
  readonly version: string
}

/** Maximum number of tenants per kind of trouble. */
const rowsMax = 20
/** Maximum number of tenants whose limits are read. Each costs two statements and a call of Redis. */
const limitTenantsMax = 10
/** Share of a hard limit from which on it is near. */
const nearShare = 0.8
const dayMs = 86_400_000

/**
 * Reads a version that changes with every pause, suspension and change of a tenant, and with the end of each. Pages that were rendered with
 * another version refresh themselves.
 * @throws errors of Postgres
 */
export async function readStatusVersion(pool: Pool): Promise<string> {
  return versionOf((await readSettings(pool)).version, await readTenantsVersion(pool))
}

async function readTenantsVersion(pool: Pool): Promise<string> {
  const [directory, suspensions] = await Promise.all([
    readDirectoryVersion(pool),
    readSuspensionsDigest(pool),
  ])
  return `${directory}.${suspensions}`
}

const versionOf = (settings: number, tenants: string) => `${settings}.${tenants}`

/** Reads what halts a tenant, or all tenants if no tenant is given. */
async function halts(
  parts: DeskParts,
  actor: Actor,
  tenantId: TenantId | undefined,
): Promise<Outcome<HaltsRead>> {
  const { pool } = parts
  const reached = tenantId === undefined ? undefined : await reachTenant(parts, actor, tenantId)
  if (reached !== undefined && reached.kind !== 'ok') return reached
  const [stored, tenants, halt] = await Promise.all([
    readSettings(pool),
    readTenantsVersion(pool),
    tenantId === undefined ? undefined : readCallbackHalt(pool, tenantId),
  ])
  const pauses = await pausesOf(parts, actor, stored.settings, (owner) => owner === tenantId)
  const own: Halt[] = []
  if (tenantId !== undefined) {
    if (reached?.value.suspended) own.push({ kind: 'tenant_suspended', tenantId })
    if (halt) own.push(...haltsOf({ tenantId, ...halt }))
  }
  return ok({ halts: [...pauses, ...own], version: versionOf(stored.version, tenants) })
}

/** Returns the pauses of all tenants, and those of the tenants that the caller may see. */
async function pausesOf(
  { access }: DeskParts,
  actor: Actor,
  settings: readonly StoredSetting[],
  covers: (tenantId: TenantId) => boolean,
): Promise<Halt[]> {
  const paused = settings.filter(
    ({ value, tenantId }) => value === true && (tenantId === null || covers(tenantId)),
  )
  if (paused.length === 0) return []
  const seesAll = (await access.may(actor, 'see', 'all')).kind === 'allowed'
  return paused.flatMap(({ name, tenantId, updatedBy, updatedAtMs }): Halt[] => {
    const by = tenantId !== null || seesAll ? updatedBy : undefined
    const pause = { tenantId, by, startedAtMs: updatedAtMs }
    if (name === 'forwarding.paused') return [{ kind: 'forwarding_paused', ...pause }]
    const provider = pausedProviderOf(name)
    return provider === undefined ? [] : [{ kind: 'provider_paused', provider, ...pause }]
  })
}

function haltsOf({
  tenantId,
  suspendedCallback,
  breakerEndsAtMs,
}: Awaited<ReturnType<typeof listCallbackHalts>>[number]): Halt[] {
  if (suspendedCallback) {
    const { cause, suspendedAtMs } = suspendedCallback
    return [{ kind: 'callback_suspended', tenantId, cause, startedAtMs: suspendedAtMs }]
  }
  return breakerEndsAtMs === undefined ? [] : [{ kind: 'breaker_open', tenantId, endsAtMs: breakerEndsAtMs }]
}

/**
 * Lists what needs attention among the selected tenants. Limits are read for the selected tenants, or for those that accepted the most
 * events in the last 24 hours. The spool is shown only to actors that see all tenants.
 */
async function list(
  parts: DeskParts,
  actor: Actor,
  selection: TenantSelection,
): Promise<Outcome<AttentionList>> {
  const scope = await reachList(parts, actor, selection)
  if (scope.kind !== 'ok') return scope
  const { pool, readPool } = parts
  const ids = scope.value.kind === 'all' ? undefined : scope.value.tenantIds
  const request = { tenantIds: ids, rowsMax: rowsMax + 1 }
  const [{ settings }, callbacks, unready, spool, limits] = await Promise.all([
    readSettings(pool),
    listCallbackHalts(readPool, request),
    listUnreadyTenants(readPool, request),
    ids === undefined ? spoolItems(parts) : [],
    limitItems(parts, ids),
  ])
  const pauses = await pausesOf(parts, actor, settings, (owner) => ids?.includes(owner) ?? true)
  const suspended = new Set(callbacks.flatMap((each) => (each.suspendedCallback ? [each.tenantId] : [])))
  const notReady = unready.filter(
    ({ id, reason }) => !suspended.has(id) && reason !== callbackSuspendedReason,
  )
  return ok({
    items: [
      ...pauses,
      ...spool,
      ...callbacks.slice(0, rowsMax).flatMap(haltsOf),
      ...notReady
        .slice(0, rowsMax)
        .map(({ id, reason }) => ({ kind: 'tenant_not_ready', tenantId: id, reason }) as const),
      ...limits,
    ],
    isCut: callbacks.length > rowsMax || unready.length > rowsMax,
  })
}

/** Reason of the condition `Ready` of a tenant whose callback is suspended. The operator updates it with a delay. */
export const callbackSuspendedReason = 'CallbackSuspended'

async function spoolItems({ redis }: DeskParts): Promise<Attention[]> {
  try {
    const { entries, oldestAgeMs, deadEntries } = await readSpoolStats(redis)
    return [
      ...(entries > 0 ? [{ kind: 'spool_in_use', count: entries, oldestAgeMs } as const] : []),
      ...(deadEntries > 0 ? [{ kind: 'dead_entries', count: deadEntries } as const] : []),
    ]
  } catch (error) {
    if (error instanceof RedisUnavailable) return []
    throw error
  }
}

async function limitItems(parts: DeskParts, ids: readonly TenantId[] | undefined): Promise<Attention[]> {
  const nowMs = parts.clock.now()
  const busiest = async () =>
    (await parts.rankAll({ fromMs: nowMs - dayMs, toMs: nowMs })).map((each) => each.tenantId)
  const read = (ids ?? (await busiest())).slice(0, limitTenantsMax).map(async (tenantId) => {
    const tenant = parts.directory.findTenantById(tenantId)
    if (tenant === undefined) return []
    const { limits } = await readLimits(parts, tenant)
    return limits.flatMap(({ limit, used, hard }): Attention[] =>
      used !== null && hard !== null && hard > 0 && used >= hard * nearShare
        ? [{ kind: 'limit_near', tenantId, limit, used, hard }]
        : [],
    )
  })
  return (await Promise.all(read)).flat()
}

/** Use cases of what needs attention. */
export const attentionCases = { halts, list }
