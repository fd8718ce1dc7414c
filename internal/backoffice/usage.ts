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
import { attempt } from './attempt.ts'
import { conflict, invalid, type Outcome, ok } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachTenant } from './reach.ts'

/** Whose usage, and which hours: at most 62 days, of which the last ones are given. Default: the last 24 hours. */
export interface UsageRequest {
  readonly tenantId: TenantId
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
}

/** Which hard limit holds until when, and why. */
export interface LimitOverrideRequest {
  readonly tenantId: TenantId
  readonly limit: LimitName
  /** null: no limit for that time. */
  readonly hard: number | null
  /** Later than now, and at most a year. */
  readonly untilMs: number
  /** 1 to 500 printable characters. */
  readonly reason: string
}

/** What was done: `isNew` is false where it had been so before, and nothing was written. */
export interface Done {
  readonly isNew: boolean
}

/** Usage, and the limits that it is held to. */
export interface UsageDesk {
  /** Usage by the hour, and of now against each limit with its override. */
  read(actor: Actor, request: UsageRequest): Promise<Outcome<UsageReport>>
  /** Adds what another service counted, once for each id. */
  emit(actor: Actor, emission: UsageEmission): Promise<Outcome<Done>>
  override(actor: Actor, request: LimitOverrideRequest): Promise<Outcome<Done>>
  clearOverride(
    actor: Actor,
    request: Pick<LimitOverrideRequest, 'tenantId' | 'limit'>,
  ): Promise<Outcome<Done>>
}

const dayMs = 86_400_000

/** Makes the use cases of usage. */
export function createUsageDesk(parts: BackofficeParts): UsageDesk {
  return {
    read: (actor, request) => attempt(parts, () => read(parts, actor, request)),
    emit: (actor, emission) => attempt(parts, () => emit(parts, actor, emission)),
    override: (actor, request) => attempt(parts, () => override(parts, actor, request)),
    clearOverride: (actor, request) => attempt(parts, () => clearOverride(parts, actor, request)),
  }
}

async function read(
  parts: BackofficeParts,
  actor: Actor,
  request: UsageRequest,
): Promise<Outcome<UsageReport>> {
  const reached = await reachTenant(parts, actor, request.tenantId)
  if (reached.kind !== 'ok') return reached
  const { toMs = parts.clock.now(), fromMs = toMs - dayMs } = request
  if (fromMs >= toMs) return invalid('The time it begins at has to lie before the one it ends at')
  return ok(await readUsage(parts, reached.value, { fromMs, toMs }))
}

async function emit(parts: BackofficeParts, actor: Actor, emission: UsageEmission): Promise<Outcome<Done>> {
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
      return conflict('Something else was recorded under this id: use a new one')
    case 'refused':
      return invalid(recorded.problem)
  }
}

async function override(
  parts: BackofficeParts,
  actor: Actor,
  request: LimitOverrideRequest,
): Promise<Outcome<Done>> {
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
  await told(parts)
  return ok({ isNew: true })
}

async function clearOverride(
  parts: BackofficeParts,
  actor: Actor,
  { tenantId, limit }: Pick<LimitOverrideRequest, 'tenantId' | 'limit'>,
): Promise<Outcome<Done>> {
  const reached = await reachTenant(parts, actor, tenantId, 'changeSettings')
  if (reached.kind !== 'ok') return reached
  const cleared = await clearLimitOverride(parts, { tenantId, limit, by: actorName(actor) })
  if (cleared.kind === 'refused') return invalid(cleared.problem)
  await told(parts)
  return ok({ isNew: cleared.kind === 'cleared' && cleared.existed })
}

/** Without it the other processes find it by their poll; this one looks at once. */
async function told({ redis, limits }: BackofficeParts): Promise<void> {
  await Promise.all([tellLimits(redis), limits.look()].map((telling) => telling.catch(() => undefined)))
}
