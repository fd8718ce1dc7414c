import type { TenantId } from '#internal/base/index.ts'
import { defineScript, type RedisConnection, type RedisScript } from '#internal/storage/index.ts'
import { parseLimitName } from '#internal/tenants/index.ts'
import { type Decided, suspendedDecision, toDecided } from './decision.ts'
import type { LimitBounds, LockLimitName } from './limits.ts'
import type { Meter } from './meter.ts'
import { meterKeys } from './reading.ts'
import clockLua from './scripts/clock.lua' with { type: 'text' }
import commitLocksLua from './scripts/commit-locks.lua' with { type: 'text' }
import meterLua from './scripts/meter.lua' with { type: 'text' }

/** Limits that apply to a commit of locks, in the order in which they decide. */
export const lockLimitNames = [
  'locksPerMinute',
  'locksPerMonth',
  'recordBytes',
] as const satisfies readonly LockLimitName[]

/** Dependencies of `commitLocks`. The caller closes the Redis connection. */
export interface LockCommitParts {
  readonly redis: RedisConnection
  readonly meter: Pick<Meter, 'markUsed'>
  /** Default: the production script. Only tests replace it. */
  readonly script?: RedisScript
}

/** Locks that another service uses. */
export interface LockCommit {
  readonly tenantId: TenantId
  /** Id of the usage in the other service: 1 to `usageIdCharsMax` characters, as `plainTextForm`. Independent of the ids of emissions. */
  readonly id: string
  readonly amount: number
  readonly limits: Readonly<Record<LockLimitName, LimitBounds>>
  /** True denies the locks, except those that were counted before. */
  readonly isSuspended: boolean
}

/**
 * Result of `commitLocks`; see `UsageCommitted`. `used` and `nowMs` are by Redis, after the call. `seed`: Redis has no meters of the tenant,
 * and nothing was done.
 */
export type LocksCommitted =
  | {
      readonly kind: 'committed' | 'repeat' | 'denied'
      readonly decided: Decided
      readonly used: Readonly<Record<LockLimitName, number>>
      readonly nowMs: number
      /** Redis time of the counting call; distinguishes commits that reuse an id after 24 h. Equal to `nowMs` for a denial. */
      readonly committedAtMs: number
    }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'seed' }

/** Milliseconds for which the id of a commit of locks is remembered. */
export const lockIdsKeptMs = 24 * 3_600_000

/** Defines the script that counts locks of other services. @param clockSource Lua that defines `clock()` */
export function defineCommitLocksScript(clockSource: string = clockLua): RedisScript {
  return defineScript('commit-locks', '', [clockSource, meterLua, commitLocksLua])
}

const productionScript = defineCommitLocksScript()

type Reply = readonly [
  kind: 'seed' | 'committed' | 'repeat' | 'denied' | 'conflict',
  decision: Decided['decision'],
  limit: string,
  sec: number,
  minuteCount: number,
  monthCount: number,
  bytes: number,
  committedAtSec: number,
]

/**
 * Decides whether a tenant may use locks now, and counts them unless they are denied, once per id and in one atomic step together with
 * acquisitions. Ids are remembered for a day, unless Redis loses its data. A denied call is not remembered.
 * @throws RedisUnavailable
 */
export async function commitLocks(
  { redis, meter, script = productionScript }: LockCommitParts,
  { tenantId, id, amount, limits, isSuspended }: LockCommit,
): Promise<LocksCommitted> {
  const bounds = lockLimitNames.map((name) => limits[name])
  const { meta, side } = meterKeys(tenantId)
  const keys = [meta, side, `{${tenantId}}:commit:${id}`]
  const given = bounds.flatMap(({ hard, soft }) => [hard ?? '-', soft ?? '-'])
  const args = [amount, lockIdsKeptMs, ...given, isSuspended ? 'suspended' : '-']
  const reply = (await redis.evaluate(script, keys, args.map(String))) as Reply
  const [kind, decision, limit, sec, locksPerMinute, locksPerMonth, recordBytes, committedAtSec] = reply
  if (kind === 'seed' || kind === 'conflict') return { kind }
  // A repeat too: the process of the first call may have ended before its rollup.
  if (kind !== 'denied') meter.markUsed(tenantId)
  const isDeniedAsSuspended = kind === 'denied' && isSuspended
  return {
    ...{ kind, nowMs: sec * 1000, committedAtMs: committedAtSec * 1000 },
    used: { locksPerMinute, locksPerMonth, recordBytes },
    decided: isDeniedAsSuspended
      ? suspendedDecision
      : toDecided(decision, parseLimitName(limit) ?? null, bounds),
  }
}
