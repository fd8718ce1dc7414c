import { type Pool, type PoolClient, sqlErrorOf, withTx } from '#internal/storage/index.ts'
import type { KeyRing } from '../key-ring.ts'
import { lockRecordDefault, moveRecordStore } from '../record-stores.ts'
import type { AuditEntry, TenantData } from '../tenant-data.ts'
import type { TenantSecrets } from '../tenant-source.ts'
import type { LiveTenant } from '../tenant-store.ts'
import type { Complaint } from './conditions.ts'
import { changesTenant, type TenantPlan } from './plan-tenant.ts'
import {
  type Adoption,
  adoptTenantRow,
  hideTenant,
  passFence,
  publishTenant,
  updateConditions,
  upsertTenant,
  type WriterFence,
  writeKeys,
  writeSecrets,
} from './tenant-writes.ts'

export interface ApplyContext {
  readonly pool: Pool
  readonly keyRing: KeyRing
  readonly data: Pick<TenantData, 'writeAudit'>
  readonly actor: string
  /** Fence of this leader. After a later leader has written, transactions with this fence change nothing. */
  readonly fence?: WriterFence
}

/**
 * Result of a write. `conditions`: only columns that directories do not read were written, so no version was published. `conflict`: the
 * slug, a key or a Secret's name was taken after the facts were gathered, so the caller must gather them again. `deposed`: a later leader
 * has written, so the caller must stop.
 */
export type Applied =
  | { readonly kind: 'applied'; readonly version: number }
  | { readonly kind: 'conditions' }
  | { readonly kind: 'unchanged' }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'deposed' }
  /** Nothing was applied. The caller must plan again without that Secret. */
  | ({ readonly kind: 'refused'; readonly secret: string } & Complaint)

/**
 * Applies a plan: writes the generated Secrets, then all rows in one transaction. A plan without changes writes nothing. If the transaction
 * fails, the next plan finds the written Secrets and uses them.
 */
export async function applyPlan(
  context: ApplyContext,
  secrets: Pick<TenantSecrets, 'writeSecret'>,
  plan: TenantPlan,
  nowMs: number,
): Promise<Applied> {
  if (!changesTenant(plan) && !plan.conditionsChanged && plan.generate.length === 0)
    return { kind: 'unchanged' }
  for (const secret of plan.generate) {
    const written = await secrets.writeSecret(secret)
    if (written.kind === 'taken') return { kind: 'conflict' }
    if (written.kind === 'refused') return { ...written, secret: secret.name }
  }
  // At this point, the plan has at most repaired Secrets whose values are already stored, so no row changes.
  if (!changesTenant(plan) && !plan.conditionsChanged) return { kind: 'unchanged' }
  return await inFencedTx(context, async (client) => {
    if (!changesTenant(plan)) {
      await updateConditions(client, plan.tenantId, plan.conditions)
      return { kind: 'conditions' }
    }
    await lockRecordDefault(client)
    const written = await upsertTenant(client, plan.row, { nowMs, conditions: plan.conditions })
    if (written === 'foreign') return { kind: 'conflict' }
    await writeKeys(client, plan, nowMs)
    await writeSecrets(client, plan, context.keyRing)
    await context.data.writeAudit(client, auditOf(plan, context.actor), nowMs)
    await moveRecordStore(client, plan.tenantId, written === 'inserted')
    return { kind: 'applied', version: await publishTenant(client, plan.tenantId) }
  })
}

/** Hides a tenant. Its data is removed later if the policy requires that; `keepData` keeps it regardless of the policy. */
export async function removeTenant(
  context: ApplyContext,
  tenant: LiveTenant,
  { nowMs, keepData = false }: { readonly nowMs: number; readonly keepData?: boolean },
): Promise<Applied> {
  return await inFencedTx(context, async (client) => {
    await hideTenant(client, tenant, { nowMs, keepData })
    const detail = { namespace: tenant.namespace, name: tenant.name, slug: tenant.slug, uid: tenant.uid }
    await context.data.writeAudit(
      client,
      { actor: context.actor, action: 'tenants.deleted', tenantId: tenant.id, detail },
      nowMs,
    )
    return { kind: 'applied', version: await publishTenant(client, tenant.id) }
  })
}

/** Assigns the retained data of a deleted tenant to a Tenant. Returns `conflict` if no retained data exists under that id. */
export async function adoptTenant(
  context: ApplyContext,
  adoption: Adoption,
  nowMs: number,
): Promise<Applied> {
  return await inFencedTx(context, async (client) => {
    if (!(await adoptTenantRow(client, adoption, nowMs))) return { kind: 'conflict' }
    const { id: tenantId, ...detail } = adoption
    await context.data.writeAudit(
      client,
      { actor: context.actor, action: 'tenants.adopted', tenantId, detail },
      nowMs,
    )
    return { kind: 'conditions' }
  })
}

async function inFencedTx(
  context: ApplyContext,
  write: (client: PoolClient) => Promise<Applied>,
): Promise<Applied> {
  try {
    return await withTx(context.pool, async (client) => {
      if (context.fence !== undefined && !(await passFence(client, context.fence))) return { kind: 'deposed' }
      return await write(client)
    })
  } catch (error) {
    if (conflictCodes.has(sqlErrorOf(error)?.code)) return { kind: 'conflict' }
    throw error
  }
}

/** SQLSTATE codes of unique_violation and deadlock_detected. */
const conflictCodes: ReadonlySet<string | undefined> = new Set(['23505', '40P01'])

function auditOf(plan: TenantPlan, actor: string): AuditEntry {
  const detail = {
    namespace: plan.row.namespace,
    name: plan.row.name,
    slug: plan.row.slug,
    keysPut: plan.keys.put.map(({ name }) => name),
    keysEnded: plan.keys.remove.length,
    secretsPut: plan.secrets.put.map(({ field }) => field),
    secretsEnded: plan.secrets.remove.map(({ field }) => field),
  }
  const action = plan.rowChange === 'none' ? 'tenants.credentials' : (`tenants.${plan.rowChange}` as const)
  return { actor, action, tenantId: plan.tenantId, detail }
}
