import { type Actor, actorName, writeAudit } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { withTx } from '#internal/storage/index.ts'
import type { LimitName } from '#internal/tenants/index.ts'
import {
  clearLimitOverride,
  readUsage,
  recordUsage,
  setLimitOverride,
  tellLimits,
  type UsageEmission,
  type UsageReport,
} from '#internal/usage/index.ts'
import { conflict, type Done, invalid, type Outcome, ok } from './outcome.ts'
import type { DeskParts, UseCase } from './parts.ts'
import { reachTenant } from './reach.ts'

/** Time range of a usage report. If the range is longer than 62 days, only its last 62 days are returned. Default: the last 24 hours. */
interface UsageRequest {
  readonly tenantId: TenantId
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
}

const dayMs = 86_400_000

/** Reads the usage by hour, and the current usage against each limit with its override. */
async function read(parts: DeskParts, actor: Actor, request: UsageRequest): Promise<Outcome<UsageReport>> {
  const reached = await reachTenant(parts, actor, request.tenantId)
  if (reached.kind !== 'ok') return reached
  const { toMs = parts.clock.now(), fromMs = toMs - dayMs } = request
  if (fromMs >= toMs) return invalid('The start must be before the end')
  return ok(await readUsage(parts, reached.value, { fromMs, toMs }))
}

/** Adds usage that another service counted. Each emission id is counted only once. */
async function emit(parts: DeskParts, actor: Actor, emission: UsageEmission): Promise<Outcome<Done>> {
  const { tenantId, id, kind, count, at } = emission
  const reached = await reachTenant(parts, actor, tenantId, 'emitUsage')
  if (reached.kind !== 'ok') return reached
  const nowMs = parts.clock.now()
  const recorded = await withTx(parts.pool, async (client) => {
    const result = await recordUsage(client, emission, nowMs)
    if (result.kind !== 'recorded') return result
    const detail = { id, meter: kind, amount: count, at: new Date(at).toISOString() }
    await writeAudit(client, { actor: actorName(actor), action: 'usage.emitted', tenantId, detail }, nowMs)
    return result
  })
  switch (recorded.kind) {
    case 'recorded':
    case 'known':
      return ok({ isNew: recorded.kind === 'recorded' })
    case 'conflict':
      return conflict('Different usage was recorded with this id: use a new id')
    case 'refused':
      return invalid(recorded.problem)
  }
}

interface LimitOverrideRequest {
  readonly tenantId: TenantId
  readonly limit: LimitName
  /** Null removes the limit. */
  readonly hard: number | null
  /** Must be in the future, at most 366 days from now. */
  readonly untilMs: number
  /** 1 to 500 printable characters. */
  readonly reason: string
}

/** Overrides a hard limit until a given time. `isNew` is false if the same override is already set. */
const override: UseCase<LimitOverrideRequest, Done> = async (parts, actor, request) => {
  const reached = await reachTenant(parts, actor, request.tenantId, 'changeSettings')
  if (reached.kind !== 'ok') return reached
  const by = actorName(actor)
  const nowMs = parts.clock.now()
  const { limits } = await readUsage(parts, reached.value, { fromMs: nowMs, toMs: nowMs })
  const present = limits.find(({ limit }) => limit === request.limit)?.override
  const isSame =
    present !== undefined &&
    present.by === by &&
    present.hard === request.hard &&
    present.untilMs === request.untilMs &&
    present.reason === request.reason
  if (isSame) return ok({ isNew: false })
  const written = await setLimitOverride(parts, { ...request, by })
  if (written.kind === 'refused') return invalid(written.problem)
  await notifyLimits(parts)
  return ok({ isNew: true })
}

/** Ends an override before its time. `isNew` is false if no override was set. */
const clearOverride: UseCase<Pick<LimitOverrideRequest, 'tenantId' | 'limit'>, Done> = async (
  parts,
  actor,
  { tenantId, limit },
) => {
  const reached = await reachTenant(parts, actor, tenantId, 'changeSettings')
  if (reached.kind !== 'ok') return reached
  const existed = await clearLimitOverride(parts, { tenantId, limit, by: actorName(actor) })
  await notifyLimits(parts)
  return ok({ isNew: existed })
}

/** Reloads the limits in this process immediately and notifies the other processes, which would otherwise find the change by polling. */
async function notifyLimits({ redis, limits }: DeskParts): Promise<void> {
  await Promise.all([tellLimits(redis), limits.look()].map((sent) => sent.catch(() => undefined)))
}

/** Use cases of usage and limits. */
export const usageCases = { read, emit, override, clearOverride }
