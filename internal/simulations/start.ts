import { isDeepStrictEqual } from 'node:util'
import { and, eq, isNull, sql } from 'drizzle-orm'
import { writeAudit } from '#internal/access/index.ts'
import { type ApiError, apiError, dayAfter, type TenantId } from '#internal/base/index.ts'
import type { Callers } from '#internal/intake/index.ts'
import { orm, type Pool, withTx } from '#internal/storage/index.ts'
import { type DirectoryTenant, type ProviderName, tenants } from '#internal/tenants/index.ts'
import { stepsCount } from './chargeback.ts'
import { type Chargeback, createSimulationId, type Simulation, simulationOf } from './simulation.ts'
import { simulations } from './tables.ts'

const unreadableRetrySeconds = 30

/** Result of checking whether a tenant can have a simulation. `problem` says what to change. */
export type Readiness =
  | { readonly kind: 'ready' | 'suspended' | 'unreadable' }
  | { readonly kind: 'notReady'; readonly problem: string }

/** Checks whether intake would accept calls of the provider for the tenant. A paused provider counts as ready: its simulations wait. */
export function readinessFor(
  callers: Pick<Callers, 'byTenant'>,
  tenant: DirectoryTenant,
  { provider }: { readonly provider: ProviderName },
): Readiness {
  const caller = callers.byTenant(tenant, provider)
  if (caller.kind === 'caller') {
    const isSet = provider !== 'wallet' || caller.settings.wallet !== undefined
    return isSet ? { kind: 'ready' } : { kind: 'notReady', problem: problems.wallet_not_set(provider) }
  }
  switch (caller.cause) {
    case 'provider_paused':
      return { kind: 'ready' }
    case 'tenant_suspended':
      return { kind: 'suspended' }
    case 'secrets_unreadable':
      return { kind: 'unreadable' }
    case 'provider_not_configured':
    case 'provider_not_enabled':
    case 'secrets_missing':
      return { kind: 'notReady', problem: problems[caller.cause](provider) }
    default:
      return { kind: 'notReady', problem: problems.other(provider) }
  }
}

export function refuseUnready(
  callers: Pick<Callers, 'byTenant'>,
  tenant: DirectoryTenant,
  asked: { readonly provider: ProviderName },
): ApiError | undefined {
  const readiness = readinessFor(callers, tenant, asked)
  if (readiness.kind === 'notReady') return apiError('provider_not_ready', readiness.problem)
  if (readiness.kind === 'unreadable')
    return apiError('secrets_unreadable', undefined, { 'Retry-After': String(unreadableRetrySeconds) })
  return readiness.kind === 'suspended' ? apiError('tenant_suspended') : undefined
}

const problems = {
  provider_not_configured: (provider: string) =>
    `This tenant does not take calls of "${provider}": add it to spec.providers of its Tenant, or name another provider`,
  provider_not_enabled: (provider: string) =>
    `"${provider}" is not rolled out to this tenant: its spec.walletRollout.stage is "off", which the platform team changes`,
  secrets_missing: (provider: string) =>
    `No signing secret of "${provider}" is in force for this tenant: see the conditions of its Tenant`,
  wallet_not_set: (provider: string) =>
    `"${provider}" has no webhookId in this tenant: set it in spec.providers of its Tenant`,
  other: (provider: string) =>
    `This tenant takes no calls of "${provider}": set the provider up in its Tenant, or name another one`,
}

/** Maximum open simulations of a tenant. A simulation is open until it has ended. */
export const openPerTenantMax = 100

/** Request to start a simulation. */
export interface StartSimulationRequest {
  readonly tenantId: TenantId
  readonly chargeback: Chargeback
  /** Actor for the audit log; 1 to 200 characters. */
  readonly by: string
  /** Unique within the tenant. While the simulation exists, a repeat with this key returns it. */
  readonly idempotencyKey?: string | undefined
  /** If false, no new simulation starts, but one that was started earlier with the same key is returned. Default: true. */
  readonly isReady?: boolean
  readonly days: number
}

/** `conflict`: the key was used with a different request. `too_many`: the tenant has `openPerTenantMax` open simulations. */
export type StartSimulationResult =
  | { readonly kind: 'started' | 'already_started'; readonly simulation: Simulation }
  | { readonly kind: 'conflict' | 'too_many' | 'unknown_tenant' | 'not_ready' }

/**
 * Stores a simulation, whose first event is due immediately, and an audit entry. Idempotent if an idempotency key is given.
 * @throws errors of Postgres; the simulation may or may not have been stored, and a repeat with the same key is safe
 */
export async function startSimulation(
  pool: Pool,
  request: StartSimulationRequest,
  nowMs: number,
): Promise<StartSimulationResult> {
  const { tenantId, chargeback, by, idempotencyKey, isReady = true, days } = request
  return await withTx(pool, async (client) => {
    const db = orm(client)
    // Locks the tenant against concurrent starts of simulations and against its deletion, so that the count is exact and no simulation
    // outlives its tenant.
    const [tenant] = await db
      .select({ id: tenants.id })
      .from(tenants)
      .where(and(eq(tenants.id, tenantId), isNull(tenants.deletedAtMs)))
      .for('no key update')
    if (tenant === undefined) return { kind: 'unknown_tenant' }
    const ofTenant = eq(simulations.tenantId, tenantId)
    if (idempotencyKey !== undefined) {
      const isSameKey = and(ofTenant, eq(simulations.idempotencyKey, idempotencyKey))
      const [known] = await db.select().from(simulations).where(isSameKey)
      if (known && !isDeepStrictEqual(known.request, chargeback)) return { kind: 'conflict' }
      if (known) return { kind: 'already_started', simulation: simulationOf(known) }
    }
    if (!isReady) return { kind: 'not_ready' }
    const open = await db.$count(simulations, and(ofTenant, isNull(simulations.endedAt)))
    if (open >= openPerTenantMax) return { kind: 'too_many' }
    // The due times come from the clock of Postgres, which claims compare them with.
    const dueAt = sql`ARRAY(SELECT now() + step * ${chargeback.stepSeconds}::integer * interval '1 s'
      FROM generate_series(0, ${stepsCount - 1}::integer) step ORDER BY step)`
    const [row] = await db
      .insert(simulations)
      .values({
        id: createSimulationId(nowMs),
        tenantId,
        idempotencyKey: idempotencyKey ?? null,
        request: chargeback,
        requestedBy: by,
        state: 'scheduled',
        dueAt,
        nextAt: sql`now()`,
        createdAt: sql`now()`,
        expiresOn: dayAfter(nowMs, days),
      })
      .returning()
    if (row === undefined) throw new Error('INSERT INTO simulations returned no row')
    const detail = { simulationId: row.id, provider: chargeback.provider }
    await writeAudit(client, { actor: by, action: 'simulations.started', tenantId, detail }, nowMs)
    return { kind: 'started', simulation: simulationOf(row) }
  })
}
