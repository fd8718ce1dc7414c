import { writeAudit, writeLockCommitAudit } from '#internal/access/index.ts'
import { RedisUnavailable, withTx } from '#internal/storage/index.ts'
import {
  type AnyLimitName,
  emittedLimitName,
  isEmittedKind,
  isOwnKind,
  type OwnKind,
} from '#internal/tenants/index.ts'
import { readCurrent } from './current-usage.ts'
import { type Decided, decideUsage, suspendedDecision } from './decision.ts'
import { withMissingPartitions } from './durable-meters.ts'
import { commitUsage, problemWithUsageId } from './emissions.ts'
import type { LimitBounds, LimitedTenant } from './limits.ts'
import { commitLocks, type LockCommitParts, lockLimitNames } from './lock-commits.ts'
import type { Meter, SoftCrossing } from './meter.ts'
import { type LimitUsage, type ReadUsageParts, toLimitUsage, usedOf } from './read-usage.ts'
import { findMonthAmounts } from './store.ts'
import type { UsageTurns } from './turns.ts'

export interface GuardrailParts extends ReadUsageParts, LockCommitParts {
  readonly meter: Pick<Meter, 'seed' | 'markUsed'>
  readonly turns: UsageTurns
  /** Called when a commit reaches a soft limit of an emitted kind, once per month. Must not throw. */
  onSoftCrossing(crossing: SoftCrossing): void
}

/** `suspended`: nothing new is allowed. */
export interface GuardedTenant extends LimitedTenant {
  readonly suspended: boolean
}

export interface GuardrailUsage {
  /** `locks`, `events`, or an emitted kind. */
  readonly kind: string
  /** Whole number from 1. */
  readonly amount: number
}

export interface GuardrailCommit extends GuardrailUsage {
  /** Text of the form `plainTextForm`, 1 to `usageIdCharsMax` characters. Emitted kinds share ids with emissions; `locks` do not. */
  readonly id: string
  /** Actor for the audit log. */
  readonly by: string
}

/** Decision of a guardrail with the limits that apply. */
export interface GuardrailAnswer extends Decided, GuardrailUsage {
  /** Whether the amount is counted under the id, by this call or an earlier one. */
  readonly isCommitted: boolean
  /** False for a repeat; absent if nothing is counted. */
  readonly isNew?: boolean
  /** Limits of the kind, with the usage after this call. */
  readonly limits: readonly LimitUsage[]
}

/** `conflict`: the id belongs to different usage. `busy`: nothing was counted, because too many commits of the tenant wait. */
export type GuardrailOutcome =
  | { readonly kind: 'answered'; readonly answer: GuardrailAnswer }
  | { readonly kind: 'busy' }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'refused'; readonly problem: string }

const limitsOfKind = {
  locks: lockLimitNames,
  events: ['eventsPerMinute', 'eventsPerMonth'],
} as const satisfies Record<OwnKind, readonly AnyLimitName[]>

const notLimited: LimitBounds = { soft: null, hard: null }
const badKind = {
  kind: 'refused',
  problem: 'The kind must be locks, events, or dotted lowercase of at most 64 characters',
} as const

/**
 * Decides whether a tenant may use an amount now. Reserves nothing: another call can use the rest first.
 * @throws RedisUnavailable, and errors of Postgres
 */
export async function checkGuardrail(
  parts: ReadUsageParts,
  tenant: GuardedTenant,
  usage: GuardrailUsage,
): Promise<GuardrailOutcome> {
  const { kind, amount } = usage
  const nowMs = parts.clock.now()
  const { all, emitted, overrides } = parts.limits.of(tenant)
  if (isOwnKind(kind)) {
    const used = await usedOf(parts, await readCurrent(parts, tenant.id), nowMs)
    if (limitsOfKind[kind].some((limit) => used[limit] === null)) throw new RedisUnavailable('refused')
    const limits = limitsOfKind[kind].map((limit) =>
      toLimitUsage(limit, { used: used[limit], bounds: all[limit], overrides, nowMs }),
    )
    const isOverAccepted = all.eventsPerMonth.over === 'accept'
    const decided = tenant.suspended ? suspendedDecision : decideOwn(limits, { amount, isOverAccepted })
    return answered(usage, decided, { limits, isCommitted: false })
  }
  if (!isEmittedKind(kind)) return badKind
  const bounds = emitted.get(kind) ?? notLimited
  const used = (await findMonthAmounts(parts.pool, tenant.id, [kind], nowMs)).get(kind) ?? 0
  const limit = emittedLimitName(kind)
  const decided = tenant.suspended
    ? suspendedDecision
    : decideUsage([{ limit, used, added: amount, ...bounds }])
  const limits = [toLimitUsage(limit, { used, bounds, overrides, nowMs })]
  return answered(usage, decided, { limits, isCommitted: false })
}

/** Decides on locks or events. Locks also need memory of an unknown size, so they are denied once `recordBytes` is used up. */
function decideOwn(
  limits: readonly LimitUsage[],
  { amount, isOverAccepted }: { readonly amount: number; readonly isOverAccepted: boolean },
): Decided {
  return decideUsage(
    limits.map(({ limit, used, soft, hard }) => ({
      limit,
      soft,
      hard,
      used: used ?? 0,
      added: limit === 'recordBytes' ? 1 : amount,
      isOverAccepted: isOverAccepted && limit === 'eventsPerMonth',
    })),
  )
}

/**
 * Decides whether a tenant may use an amount now and counts it in the same atomic step unless it is denied, once per id: an emitted kind in
 * Postgres, `locks` in the store of the tenant's records. Postgres commits an amount with its audit entry. Redis counts it before the entry
 * is written: if Redis' reply is lost, the call fails, and a repeat writes the entry. Commits of a tenant in a process run one by one.
 * @throws RedisUnavailable, and errors of Postgres; repeating the call unchanged is safe
 */
export async function commitGuardrail(
  parts: GuardrailParts,
  tenant: GuardedTenant,
  commit: GuardrailCommit,
): Promise<GuardrailOutcome> {
  if (commit.kind === 'events')
    return {
      kind: 'refused',
      problem:
        'Events cannot be committed, because Latchkey counts them when it accepts them: check without commit',
    }
  if (commit.kind !== 'locks' && !isEmittedKind(commit.kind)) return badKind
  const count = commit.kind === 'locks' ? commitOfLocks : commitEmitted
  const turn = await parts.turns.run(tenant.id, () => count(parts, tenant, commit))
  return turn.kind === 'done' ? turn.value : turn
}

async function commitEmitted(
  { pool, clock, limits: inForce, onSoftCrossing }: GuardrailParts,
  tenant: GuardedTenant,
  commit: GuardrailCommit,
): Promise<GuardrailOutcome> {
  const { id, kind, amount, by } = commit
  const nowMs = clock.now()
  const isSuspended = tenant.suspended
  const { emitted, overrides } = inForce.of(tenant)
  const bounds = emitted.get(kind) ?? notLimited
  const result = await withTx(pool, async (client) => {
    const usage = { tenantId: tenant.id, id, kind, amount }
    const committed = await commitUsage(client, usage, { bounds, nowMs, by, isSuspended })
    if (committed.kind === 'committed')
      await writeAudit(client, auditOf(tenant, commit, committed.decided), nowMs)
    return committed
  })
  if (result.kind === 'conflict' || result.kind === 'refused') return result
  if (result.kind === 'committed' && result.crossing) onSoftCrossing(result.crossing)
  const { decided, used } = result
  const limits = [toLimitUsage(emittedLimitName(kind), { used, bounds, overrides, nowMs })]
  return answered(commit, decided, { limits, ...countedAs(result.kind) })
}

async function commitOfLocks(
  parts: GuardrailParts,
  tenant: GuardedTenant,
  commit: GuardrailCommit,
): Promise<GuardrailOutcome> {
  const { id, amount } = commit
  const problem = problemWithUsageId(id)
  if (problem !== undefined) return { kind: 'refused', problem }
  const { all, overrides } = parts.limits.of(tenant)
  const locks = { tenantId: tenant.id, id, amount, limits: all, isSuspended: tenant.suspended }
  // The transaction begins before the count, so that nothing is counted while Postgres cannot store the audit entry.
  const count = () =>
    withMissingPartitions(parts.pool, () =>
      withTx(parts.pool, async (client) => {
        const committed = await commitLocks(parts, client, locks)
        if (committed.kind === 'committed' || committed.kind === 'repeat')
          await writeLockCommitAudit(client, auditOfLocks(tenant, commit, committed), parts.clock.now())
        return committed
      }),
    )
  let result = await count()
  if (result.kind === 'seed') {
    // Seeds outside of the transaction, because seeding needs a connection of its own.
    await parts.meter.seed(tenant.id)
    result = await count()
  }
  if (result.kind === 'seed') throw new RedisUnavailable('refused')
  if (result.kind === 'conflict') return { kind: 'conflict' }
  const { decided, used, nowMs } = result
  const limits = lockLimitNames.map((limit) =>
    toLimitUsage(limit, { used: used[limit], bounds: all[limit], overrides, nowMs }),
  )
  return answered(commit, decided, { limits, ...countedAs(result.kind) })
}

function auditOf({ id: tenantId }: LimitedTenant, commit: GuardrailCommit, { decision }: Decided) {
  const { id, kind, amount, by } = commit
  return { actor: by, action: 'usage.committed', tenantId, detail: { id, kind, amount, decision } } as const
}

/** Creates the audit entry of a commit. A repeat creates an entry with the same id and time, of which a unique index keeps only one. */
function auditOfLocks(
  tenant: LimitedTenant,
  commit: GuardrailCommit,
  { decided, committedAtMs }: { readonly decided: Decided; readonly committedAtMs: number },
) {
  const { detail, ...entry } = auditOf(tenant, commit, decided)
  return { ...entry, detail: { ...detail, committedAt: new Date(committedAtMs).toISOString() } }
}

function countedAs(kind: 'committed' | 'repeat' | 'denied') {
  return kind === 'denied' ? { isCommitted: false } : { isCommitted: true, isNew: kind === 'committed' }
}

function answered(
  { kind, amount }: GuardrailUsage,
  decided: Decided,
  rest: Pick<GuardrailAnswer, 'limits' | 'isCommitted' | 'isNew'>,
): GuardrailOutcome {
  return { kind: 'answered', answer: { ...decided, kind, amount, ...rest } }
}
