import { type Actor, actorName, writeAudit } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { withTx } from '#internal/storage/index.ts'
import { type AnyLimitName, emittedKindOf, misspellingOf } from '#internal/tenants/index.ts'
import {
  checkGuardrail,
  clearLimitOverride,
  commitGuardrail,
  findOverrides,
  type GuardrailAnswer,
  type LimitsReport,
  readLimits,
  readUsage,
  recordUsage,
  setLimitOverride,
  tellLimits,
  type UsageEmission,
  type UsageReport,
} from '#internal/usage/index.ts'
import type { Done, Removed } from './http-answers.ts'
import { invalid, invalidRange, keyReused, type Outcome, ok, overloaded } from './outcome.ts'
import type { DeskParts, SharedDeskParts, UseCase } from './parts.ts'
import { reachTenant } from './reach.ts'

const dayMs = 86_400_000

async function read(
  parts: SharedDeskParts,
  actor: Actor,
  request: {
    readonly tenantId: TenantId
    readonly fromMs?: number | undefined
    readonly toMs?: number | undefined
  },
): Promise<Outcome<UsageReport>> {
  const reached = await reachTenant(parts, actor, request.tenantId)
  if (reached.kind !== 'ok') return reached
  const { toMs = parts.clock.now(), fromMs = toMs - dayMs } = request
  if (fromMs >= toMs) return invalidRange
  return ok(await readUsage(parts, reached.value, { fromMs, toMs }))
}

const listLimits: UseCase<TenantId, LimitsReport> = async (parts, actor, tenantId) => {
  const reached = await reachTenant(parts, actor, tenantId)
  return reached.kind === 'ok' ? ok(await readLimits(parts, reached.value)) : reached
}

/** Counts usage that another service emits, once per id. */
async function emit(parts: DeskParts, actor: Actor, emission: UsageEmission): Promise<Outcome<Done>> {
  const { tenantId, id, kind, amount, occurredAtMs } = emission
  const reached = await reachTenant(parts, actor, tenantId, 'emitUsage')
  if (reached.kind !== 'ok') return reached
  const [by, nowMs] = [actorName(actor), parts.clock.now()]
  const bounds = parts.limits.of(reached.value).emitted.get(kind) ?? { soft: null, hard: null }
  const record = () =>
    withTx(parts.pool, async (client) => {
      const result = await recordUsage(client, emission, { bounds, nowMs, by })
      if (result.kind !== 'recorded') return result
      const detail = { id, kind, amount, occurredAt: new Date(occurredAtMs).toISOString() }
      await writeAudit(client, { actor: by, action: 'usage.emitted', tenantId, detail }, nowMs)
      return result
    })
  const turn = await parts.turns.run(tenantId, record)
  if (turn.kind === 'busy') return overloaded
  const recorded = turn.value
  if (recorded.kind === 'recorded' && recorded.crossing) parts.onSoftCrossing(recorded.crossing)
  switch (recorded.kind) {
    case 'recorded':
    case 'known':
      return ok({ isNew: recorded.kind === 'recorded' })
    case 'conflict':
      return keyReused('Different usage is already recorded with this id: use a new id')
    case 'refused':
      return invalid(recorded.problem)
  }
}

/** Decides whether a tenant may use an amount now. With an id, counts it in the same step. A denial is a result, not a `Refusal`. */
const check: UseCase<
  {
    readonly tenantId: TenantId
    readonly kind: string
    readonly amount: number
    /** Id under which the amount is counted. Omit to count nothing. */
    readonly id?: string | undefined
  },
  GuardrailAnswer
> = async (parts, actor, request) => {
  const { tenantId, kind, amount, id } = request
  const reached = await reachTenant(parts, actor, tenantId, id === undefined ? 'see' : 'emitUsage')
  if (reached.kind !== 'ok') return reached
  const outcome = await (id === undefined
    ? checkGuardrail(parts, reached.value, { kind, amount })
    : commitGuardrail(parts, reached.value, { kind, amount, id, by: actorName(actor) }))
  switch (outcome.kind) {
    case 'answered':
      return ok(outcome.answer)
    case 'busy':
      return overloaded
    case 'conflict':
      return keyReused('Different usage is already counted with this id: use a new id')
    case 'refused':
      return invalid(outcome.problem)
  }
}

interface LimitOverrideRequest {
  readonly tenantId: TenantId
  readonly limit: AnyLimitName
  /** Null removes the limit. */
  readonly hard: number | null
  /** Must be in the future, at most 366 days from now. */
  readonly expiresAtMs: number
  /** 1 to 500 characters without control characters. */
  readonly reason: string
}

/** Overrides a hard limit until a given time. `isNew` is false if the same override is already set. */
const override: UseCase<LimitOverrideRequest, Done> = async (parts, actor, request) => {
  const reached = await reachTenant(parts, actor, request.tenantId, 'changeSettings')
  if (reached.kind !== 'ok') return reached
  const misspelling = misspellingOf(request.limit)
  const isLimited = parts.limits.of(reached.value).emitted.has(emittedKindOf(request.limit) ?? '')
  if (misspelling !== undefined && !isLimited) return invalid(misspelling)
  const by = actorName(actor)
  const nowMs = parts.clock.now()
  const stored = await findOverrides(parts.pool, request.tenantId)
  const present = stored.find(({ limit }) => limit === request.limit)
  const isSame =
    present !== undefined &&
    present.expiresAtMs > nowMs &&
    present.updatedBy === by &&
    present.hard === request.hard &&
    present.expiresAtMs === request.expiresAtMs &&
    present.reason === request.reason
  if (isSame) return ok({ isNew: false })
  const written = await setLimitOverride(parts, { ...request, by })
  if (written.kind === 'refused') return invalid(written.problem, written.field)
  await notifyLimits(parts)
  return ok({ isNew: true })
}

/** Removes an override before its end time. `existed` is false if there was none. */
const clearOverride: UseCase<Pick<LimitOverrideRequest, 'tenantId' | 'limit'>, Removed> = async (
  parts,
  actor,
  { tenantId, limit },
) => {
  const reached = await reachTenant(parts, actor, tenantId, 'changeSettings')
  if (reached.kind !== 'ok') return reached
  const existed = await clearLimitOverride(parts, { tenantId, limit, by: actorName(actor) })
  await notifyLimits(parts)
  return ok({ existed })
}

/** Reloads the limits of this process immediately. Other processes are notified, and otherwise find the change by polling. */
async function notifyLimits({ redis, limits }: DeskParts): Promise<void> {
  await Promise.all([tellLimits(redis), limits.look()].map((sent) => sent.catch(() => undefined)))
}

export const usageReadCases = { read }

export const usageCases = { limits: listLimits, emit, check, override, clearOverride }
