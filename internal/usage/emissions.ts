import { monthStartMs, type TenantId } from '#internal/base/index.ts'
import { plainTextForm } from '#internal/http/index.ts'
import { type Pool, type PoolClient, type RemovedRows, removeOldest } from '#internal/storage/index.ts'
import { emittedLimitName, isOwnKind, ownKinds } from '#internal/tenants/index.ts'
import { type Decided, decideUsage, suspendedDecision, toDecided, type UsageDecision } from './decision.ts'
import type { LimitBounds } from './limits.ts'
import type { SoftCrossing } from './meter.ts'
import { findMonthAmounts, saveSoftCrossings } from './store.ts'

/** Usage reported by another system. */
export interface UsageEmission {
  /** Id in the other system, unique per tenant: 1 to 128 characters without control characters. */
  readonly id: string
  readonly tenantId: TenantId
  /** Kind of usage, such as `exports.rows`. `locks` and `events` are reserved. */
  readonly kind: string
  readonly amount: number
  /** The amount counts towards its UTC hour. At most 35 days ago and 5 minutes ahead. */
  readonly occurredAtMs: number
}

const hourMs = 3_600_000
const agoMsMax = 35 * 24 * hourMs
const aheadMsMax = 300_000
/** Maximum characters of the id of counted usage. */
export const usageIdCharsMax = 128
const idForm = plainTextForm(usageIdCharsMax)
/** Time for which ids are remembered: longer than the maximum age of an emission, so that no emission is recorded twice. */
const rememberedMs = 40 * 24 * hourMs
const noTenant = { kind: 'refused', problem: 'There is no such tenant' } as const

/**
 * Adds an emission to a tenant's usage of an hour, once per id; a repeat changes nothing, and no limit refuses an emission. Concurrent
 * calls with one id wait for each other. `known`: recorded before. `conflict`: the id belongs to a different emission.
 * @param client connection of a transaction, which the caller commits
 * @throws errors of Postgres; the caller should then repeat the call
 */
export async function recordUsage(
  client: PoolClient,
  emission: UsageEmission,
  {
    bounds: { soft },
    nowMs,
    by,
  }: {
    readonly bounds: LimitBounds
    readonly nowMs: number
    /** Actor for the audit log. */
    readonly by: string
  },
): Promise<
  | { readonly kind: 'recorded'; readonly crossing: SoftCrossing | undefined }
  | { readonly kind: 'known' | 'conflict' }
  | { readonly kind: 'refused'; readonly problem: string }
> {
  const { tenantId, kind, occurredAtMs } = emission
  const isTimely = occurredAtMs >= nowMs - agoMsMax && occurredAtMs <= nowMs + aheadMsMax
  const problem =
    problemWith(emission) ?? (isTimely ? undefined : '"occurredAt" must be within the last 35 days')
  if (problem !== undefined) return { kind: 'refused', problem }
  await lockMonth(client, emission)
  const added = await addEmission(client, { ...emission, decision: null }, nowMs)
  if (added === 'noTenant') return noTenant
  if (added !== 'added') {
    // The hour of a commit is not compared: it is the hour of the call, which the caller does not know.
    const isSameHour = added.decision !== null || added.hour === hourOf(occurredAtMs)
    const isSame = isSameUsage(added, emission) && isSameHour
    return { kind: isSame ? 'known' : 'conflict' }
  }
  if (soft === null) return { kind: 'recorded', crossing: undefined }
  const used = await findMonthAmount(client, { tenantId, kind, occurredAtMs })
  return { kind: 'recorded', crossing: await saveCrossing(client, { ...emission, used, soft, by }) }
}

/**
 * `repeat`: counted before under this id. `conflict`: the id belongs to different usage. `used`: usage of the month afterwards. `crossing`:
 * the crossed soft limit, if this process is the first to see it.
 */
type CommitResult =
  | {
      readonly kind: 'committed'
      readonly decided: Decided
      readonly used: number
      readonly crossing: SoftCrossing | undefined
    }
  | { readonly kind: 'repeat' | 'denied'; readonly decided: Decided; readonly used: number }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'refused'; readonly problem: string }

/**
 * Decides on an amount of an emitted kind and adds it to the usage of the hour unless it is denied, once per id; a suspended tenant is
 * denied. Commits and emissions of a tenant's kind and month run one after another, so that commits never exceed the hard limit. A denied
 * call is not remembered.
 * @param client connection of a transaction, which the caller commits
 * @throws errors of Postgres; the caller should then repeat the call
 */
export async function commitUsage(
  client: PoolClient,
  usage: Omit<UsageEmission, 'occurredAtMs'>,
  { bounds, nowMs, by, isSuspended }: Parameters<typeof recordUsage>[2] & { readonly isSuspended: boolean },
): Promise<CommitResult> {
  const emission = { ...usage, occurredAtMs: nowMs }
  const { tenantId, kind, amount, id } = usage
  const problem = problemWith(usage)
  if (problem !== undefined) return { kind: 'refused', problem }
  await lockMonth(client, emission)
  // Reads in a statement after the lock, so that the snapshot contains what the previous holder of the lock committed.
  const used = await findMonthAmount(client, emission)
  const present = await findEmission(client, tenantId, id)
  if (present) return repeatOf(present, usage, { bounds, used })
  const decided = isSuspended
    ? suspendedDecision
    : decideUsage([{ limit: emittedLimitName(kind), used, added: amount, ...bounds }])
  if (decided.decision === 'deny') return { kind: 'denied', decided, used }
  const added = await addEmission(client, { ...emission, decision: decided.decision }, nowMs)
  if (added === 'noTenant') return noTenant
  // The id can be taken although the lock is held, by an emission of another kind or month.
  if (added !== 'added') return repeatOf(added, usage, { bounds, used })
  const after = { ...emission, used: used + amount, soft: bounds.soft, by }
  return { kind: 'committed', decided, used: after.used, crossing: await saveCrossing(client, after) }
}

interface StoredEmission {
  readonly kind: string
  /** Start of the hour in hours since the Unix epoch. */
  readonly hour: number
  readonly amount: number
  /** Null if the usage was only reported, without a decision of a guardrail. */
  readonly decision: UsageDecision | null
}

/** Returns the result for an id that is already counted. If an emission counted it, the current usage determines the decision. */
function repeatOf(
  present: StoredEmission,
  usage: Omit<UsageEmission, 'occurredAtMs'>,
  { bounds, used }: { readonly bounds: LimitBounds; readonly used: number },
): CommitResult {
  if (!isSameUsage(present, usage)) return { kind: 'conflict' }
  const isSoft = bounds.soft !== null && used >= bounds.soft
  const decision = present.decision ?? (isSoft ? 'warn' : 'allow')
  const limit = decision === 'allow' ? null : emittedLimitName(usage.kind)
  return { kind: 'repeat', decided: toDecided(decision, limit, [bounds]), used }
}

function isSameUsage(
  present: StoredEmission,
  { kind, amount }: Omit<UsageEmission, 'occurredAtMs'>,
): boolean {
  return present.kind === kind && present.amount === amount
}

function hourOf(atMs: number): number {
  return Math.floor(atMs / hourMs)
}

/** Arbitrary first key of the advisory locks of months; no other lock with two keys may use this number. */
const monthLocks = 1_702_001

/**
 * Serializes transactions that count a tenant's kind in a month. The lock is advisory, because the month may have no row yet. Months with
 * the same hash share a lock, which only delays them.
 */
async function lockMonth(
  client: PoolClient,
  { tenantId, kind, occurredAtMs }: Pick<UsageEmission, 'tenantId' | 'kind' | 'occurredAtMs'>,
): Promise<void> {
  await client.query({
    name: 'usage-lock-month',
    text: 'SELECT pg_advisory_xact_lock($1, hashtext($2))',
    values: [monthLocks, `${tenantId} ${kind} ${monthStartMs(occurredAtMs)}`],
  })
}

async function findMonthAmount(
  client: PoolClient,
  { tenantId, kind, occurredAtMs }: Pick<UsageEmission, 'tenantId' | 'kind' | 'occurredAtMs'>,
): Promise<number> {
  return (await findMonthAmounts(client, tenantId, [kind], occurredAtMs)).get(kind) ?? 0
}

async function addEmission(
  client: PoolClient,
  emission: UsageEmission & Pick<StoredEmission, 'decision'>,
  nowMs: number,
): Promise<'added' | 'noTenant' | StoredEmission> {
  const { id, tenantId, kind, amount, occurredAtMs, decision } = emission
  const { rows } = await client.query<{ alive: boolean; recorded: boolean }>({
    name: 'usage-add-emission',
    // `FOR SHARE` delays a deletion of the tenant, so that its purge finds the rows inserted here.
    text: `WITH owner AS (SELECT id FROM tenants WHERE id = $1 AND deleted_at IS NULL FOR SHARE),
           fresh AS (
             INSERT INTO usage_emissions (tenant_id, id, meter, hour, amount, recorded_at, decision)
             SELECT id, $2, $3, to_timestamp($4::bigint * 3600), $5, $6, $7 FROM owner
             ON CONFLICT DO NOTHING RETURNING tenant_id, meter, hour, amount
           ), added AS (
             INSERT INTO usage_hourly AS u (tenant_id, meter, hour, amount) SELECT * FROM fresh
             ON CONFLICT (tenant_id, meter, hour) DO UPDATE SET amount = u.amount + excluded.amount
           )
           SELECT EXISTS (SELECT FROM owner) AS alive, EXISTS (SELECT FROM fresh) AS recorded`,
    values: [tenantId, id, kind, hourOf(occurredAtMs), amount, new Date(nowMs), decision],
  })
  if (rows[0]?.alive !== true) return 'noTenant'
  if (rows[0].recorded) return 'added'
  // Searches in a second statement, because the snapshot of the first can be too old to contain the conflicting row.
  return (await findEmission(client, tenantId, id)) ?? Promise.reject(new Error('no emission has this id'))
}

async function findEmission(
  client: PoolClient,
  tenantId: TenantId,
  id: string,
): Promise<StoredEmission | undefined> {
  const { rows } = await client.query<StoredEmission>({
    name: 'usage-find-counted',
    text: `SELECT meter AS kind, extract(epoch FROM hour)::bigint / 3600 AS hour, amount, decision
           FROM usage_emissions WHERE tenant_id = $1 AND id = $2`,
    values: [tenantId, id],
  })
  return rows[0]
}

/** Saves that a soft limit is reached. Returns undefined if it is not reached, or if this was saved before in the month. */
async function saveCrossing(
  client: PoolClient,
  {
    tenantId,
    kind,
    occurredAtMs,
    used,
    soft,
    by,
  }: UsageEmission & { readonly used: number; readonly soft: number | null; readonly by: string },
): Promise<SoftCrossing | undefined> {
  if (soft === null || used === 0 || used < soft) return undefined
  const limit = emittedLimitName(kind)
  const reached = { tenantId, limit, periodMs: monthStartMs(occurredAtMs), used, soft }
  const [crossing] = await saveSoftCrossings(client, [reached], by)
  return crossing
}

/** Removes ids of emissions too old to be recorded again, at most `rowsMax` (default 5 000). Their amounts are kept. Idempotent. */
export function forgetEmissions(pool: Pool, nowMs: number, rowsMax?: number): Promise<RemovedRows> {
  const before = new Date(nowMs - rememberedMs)
  return removeOldest(pool, { table: 'usage_emissions', before, ...(rowsMax !== undefined && { rowsMax }) })
}

/** Returns an error text for the caller, or undefined. Pure. */
export function problemWithUsageId(id: string): string | undefined {
  return idForm.test(id)
    ? undefined
    : `The id must have 1 to ${usageIdCharsMax} characters without control characters or U+FFFD`
}

function problemWith({ id, kind }: Pick<UsageEmission, 'id' | 'kind'>): string | undefined {
  return isOwnKind(kind)
    ? `"kind" must be one that another service counts: ${ownKinds.join(' and ')} are counted by Latchkey itself`
    : problemWithUsageId(id)
}
