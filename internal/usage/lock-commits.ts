import type { TenantId } from '#internal/base/index.ts'
import {
  defineScript,
  type PoolClient,
  type RedisConnection,
  type RedisScript,
} from '#internal/storage/index.ts'
import { parseLimitName, type RecordDurability } from '#internal/tenants/index.ts'
import {
  type Decided,
  decideUsage,
  suspendedDecision,
  toDecided,
  type UsageDecision,
  usageDecisions,
} from './decision.ts'
import {
  countDurableLocks,
  countedEntryBytes,
  type DurableReading,
  readDurableMeters,
  recordEntryId,
  refreshDurableMeters,
} from './durable-meters.ts'
import type { LimitBounds, LockLimitName } from './limits.ts'
import type { Meter } from './meter.ts'
import { countAt, meterKeys } from './reading.ts'
import clockLua from './scripts/clock.lua' with { type: 'text' }
import commitLocksLua from './scripts/commit-locks.lua' with { type: 'text' }
import meterLua from './scripts/meter.lua' with { type: 'text' }

/** Order in which the limits decide. */
export const lockLimitNames = [
  'locksPerMinute',
  'locksPerMonth',
  'recordBytes',
] as const satisfies readonly LockLimitName[]

/** The caller closes the Redis connection. */
export interface LockCommitParts {
  readonly redis: RedisConnection
  readonly meter: Pick<Meter, 'markUsed'>
  readonly script?: RedisScript
}

/** Locks that another service uses. */
export interface LockCommit {
  readonly tenantId: TenantId
  /** Text of 1 to `usageIdCharsMax` characters of the form `plainTextForm`. Independent of the ids of emissions. */
  readonly id: string
  readonly amount: number
  readonly limits: Readonly<Record<LockLimitName, LimitBounds>>
  /** Denies the locks, except those that were counted before. */
  readonly isSuspended: boolean
}

/**
 * See `commitUsage`. `used` and `nowMs` come from the store that counts the tenant's locks, after the call. `seed`: nothing was done, since
 * Redis has no meters of the tenant or has not counted locks since its records moved.
 */
export type LocksCommitted =
  | {
      readonly kind: 'committed' | 'repeat' | 'denied'
      readonly decided: Decided
      readonly used: Readonly<Record<LockLimitName, number>>
      readonly nowMs: number
      /** Time of the counting call by its store; distinguishes commits that reuse an id after 24 h. Equal to `nowMs` for a denial. */
      readonly committedAtMs: number
    }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'seed' }

export const lockIdsKeptMs = 24 * 3_600_000

/** @param clockSource Lua that defines `clock()` */
export function defineCommitLocksScript(clockSource: string = clockLua): RedisScript {
  return defineScript('commit-locks', '', [clockSource, meterLua, commitLocksLua])
}

const productionScript = defineCommitLocksScript()

/**
 * Decides whether a tenant may use locks now and counts them unless they are denied, once per id and atomically with acquisitions, in the
 * store of the tenant's new records. Ids are remembered for a day, unless Redis loses its data. A denied call is not remembered.
 * @param client transaction; before its end, the tenant's records are not moved to another store
 * @throws RedisUnavailable, and errors of Postgres
 */
export async function commitLocks(
  parts: LockCommitParts,
  client: PoolClient,
  commit: LockCommit,
): Promise<LocksCommitted> {
  const stores = await holdStores(client, commit.tenantId)
  const commitIn = {
    redis: (of: LockCommit) => commitInRedis(parts, of, stores.generation),
    postgres: (of: LockCommit) => commitInPostgres(client, of),
  }
  const committed = await commitAmong(commitIn, stores, commit)
  // Also marks the tenant after a repeat, because the process of the first call may have ended before its rollup.
  if (committed.kind === 'committed' || committed.kind === 'repeat') parts.meter.markUsed(commit.tenantId)
  return committed
}

interface Stores {
  readonly store: RecordDurability
  readonly before: RecordDurability | null
  readonly generation: number
}

/** Reads and locks the stores of a tenant's records, so that a move of the records waits for the end of the transaction. */
async function holdStores(client: PoolClient, tenantId: TenantId): Promise<Stores> {
  const { rows } = await client.query<Stores>({
    name: 'usage-hold-record-stores',
    text: `SELECT record_store AS store, record_store_before AS before, record_store_generation AS generation
           FROM tenants WHERE id = $1 FOR SHARE`,
    values: [tenantId],
  })
  return rows[0] ?? { store: 'redis', before: null, generation: 0 }
}

/** Commits in the current store, unless the earlier store has already counted the id. */
async function commitAmong(
  commitIn: Readonly<Record<RecordDurability, (commit: LockCommit) => Promise<LocksCommitted>>>,
  { store, before }: Stores,
  commit: LockCommit,
): Promise<LocksCommitted> {
  if (before === null || before === store) return await commitIn[store](commit)
  const onlyRepeat = { ...commit, isSuspended: true }
  const earlier = await commitIn[before](onlyRepeat)
  if (earlier.kind === 'conflict') return earlier
  if (earlier.kind !== 'repeat') return await commitIn[store](commit)
  const current = await commitIn[store](onlyRepeat)
  return 'used' in current ? { ...earlier, used: current.used, nowMs: current.nowMs } : current
}

async function commitInRedis(
  { redis, script = productionScript }: LockCommitParts,
  { tenantId, id, amount, limits, isSuspended }: LockCommit,
  generation: number,
): Promise<LocksCommitted> {
  const bounds = lockLimitNames.map((name) => limits[name])
  const { meta, side } = meterKeys(tenantId)
  const keys = [meta, side, markerKey(tenantId, id)]
  const given = bounds.flatMap(({ hard, soft }) => [hard ?? '-', soft ?? '-'])
  const args = [amount, lockIdsKeptMs, ...given, isSuspended ? 'suspended' : '-', generation]
  const reply = (await redis.evaluate(script, keys, args.map(String))) as readonly [
    kind: 'seed' | 'committed' | 'repeat' | 'denied' | 'conflict',
    decision: Decided['decision'],
    limit: string,
    sec: number,
    minuteCount: number,
    monthCount: number,
    bytes: number,
    committedAtSec: number,
  ]
  const [kind, decision, limit, sec, locksPerMinute, locksPerMonth, recordBytes, committedAtSec] = reply
  if (kind === 'seed' || kind === 'conflict') return { kind }
  const isDeniedAsSuspended = kind === 'denied' && isSuspended
  return {
    kind,
    nowMs: sec * 1000,
    committedAtMs: committedAtSec * 1000,
    used: { locksPerMinute, locksPerMonth, recordBytes },
    decided: isDeniedAsSuspended
      ? suspendedDecision
      : toDecided(decision, parseLimitName(limit) ?? null, bounds),
  }
}

function markerKey(tenantId: TenantId, id: string): string {
  return `{${tenantId}}:commit:${id}`
}

/** Arbitrary first key of the advisory locks of commits; no other lock with two keys may use this number. */
const commitLocksOfTenant = 1_702_002
/** Length of every marker. It is fixed, so that the bytes of a marker are known before the decision. */
const markerChars = 48

/** Commits of a tenant run one after another, so that their total stays within the limits. Batches of acquisitions run concurrently. */
async function commitInPostgres(
  client: PoolClient,
  { tenantId, id, amount, limits, isSuspended }: LockCommit,
): Promise<LocksCommitted> {
  await client.query({
    name: 'usage-lock-commits',
    text: 'SELECT pg_advisory_xact_lock($1, hashtext($2))',
    values: [commitLocksOfTenant, tenantId],
  })
  await refreshDurableMeters(client, [tenantId])
  const entryId = recordEntryId(tenantId, markerKey(tenantId, id))
  const before = await readReading(client, tenantId)
  const { nowMs, generation } = before
  const used = usedIn(before)
  const marker = await findMarker(client, entryId)
  const bounds = lockLimitNames.map((name) => limits[name])
  if (marker) {
    if (marker.amount !== amount) return { kind: 'conflict' }
    const decided = toDecided(marker.decision, marker.limit, bounds)
    return { kind: 'repeat', decided, used, nowMs, committedAtMs: marker.committedAtMs }
  }
  const added = {
    locksPerMinute: amount,
    locksPerMonth: amount,
    recordBytes: countedEntryBytes(tenantId, id, markerChars),
  }
  const decided = isSuspended
    ? suspendedDecision
    : decideUsage(
        lockLimitNames.map((limit) => ({ limit, used: used[limit], added: added[limit], ...limits[limit] })),
      )
  if (decided.decision === 'deny') return { kind: 'denied', decided, used, nowMs, committedAtMs: nowMs }
  const text = [amount, decided.decision, decided.limit ?? '-', nowMs].join(' ').padEnd(markerChars)
  await countDurableLocks(client, tenantId, {
    generation,
    entryId,
    key: id,
    amount,
    keptMs: lockIdsKeptMs,
    text,
  })
  const after = await readReading(client, tenantId)
  return { kind: 'committed', decided, used: usedIn(after), nowMs, committedAtMs: nowMs }
}

async function readReading(client: PoolClient, tenantId: TenantId): Promise<DurableReading> {
  const reading = (await readDurableMeters(client, [tenantId])).get(tenantId)
  if (!reading) throw new Error('Postgres returned no meters of the tenant')
  return reading
}

function usedIn({ locks, nowMs, recordBytes }: DurableReading) {
  return {
    locksPerMinute: countAt(locks?.minutes ?? [], nowMs),
    locksPerMonth: countAt(locks?.months ?? [], nowMs),
    recordBytes,
  }
}

async function findMarker(
  client: PoolClient,
  entryId: string,
): Promise<
  | {
      readonly amount: number
      readonly decision: UsageDecision
      readonly limit: LockLimitName | null
      readonly committedAtMs: number
    }
  | undefined
> {
  const { rows } = await client.query<{ record: string }>({
    name: 'usage-find-lock-commit',
    text: `SELECT record FROM record_entries WHERE id = $1::uuid AND expires_at > (SELECT record_clock() / 1000)`,
    values: [entryId],
  })
  const [amount, decision, limit, committedAtMs] = rows[0]?.record.trimEnd().split(' ') ?? []
  if (decision === undefined) return undefined
  return {
    amount: Number(amount),
    decision: usageDecisions.find((each) => each === decision) ?? 'allow',
    limit: lockLimitNames.find((each) => each === limit) ?? null,
    committedAtMs: Number(committedAtMs),
  }
}
