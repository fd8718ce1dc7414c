import { and, eq, inArray, isNotNull, sql } from 'drizzle-orm'
import type { TenantId } from '#internal/base/index.ts'
import { orm, type PoolClient } from '#internal/storage/index.ts'
import type { KeyRing } from '../key-ring.ts'
import {
  apiKeys,
  directoryVersion,
  slugReservations,
  tenantSecrets,
  tenants,
  writerFence,
} from '../tables.ts'
import type { LiveTenant } from '../tenant-store.ts'
import type { Condition } from './conditions.ts'
import type { StoredKey } from './gather-tenant.ts'
import type { TenantPlan, TenantRow } from './plan-tenant.ts'

/** Fencing token of a leader: the name of its Lease, and its `leaseTransitions`. */
export type WriterFence = Readonly<typeof writerFence.$inferInsert>

/**
 * Checks the fence, as the first statement of a leader's transaction. If a later leader has written, returns false, and the transaction
 * must write nothing. Holds a shared lock until the commit: transactions of one leader run concurrently, and the first transaction of the
 * next leader waits for them. Idempotent.
 */
export async function passFence(client: PoolClient, fence: WriterFence): Promise<boolean> {
  const db = orm(client)
  // Takes the shared lock only if the row already contains this leader's fence. Otherwise the row must be updated, and two transactions
  // that both hold a shared lock would deadlock.
  const ours = await db
    .select({ name: writerFence.name })
    .from(writerFence)
    .where(and(eq(writerFence.name, fence.name), eq(writerFence.leaseTransitions, fence.leaseTransitions)))
    .for('share')
  if (ours.length === 1) return true
  const rows = await db
    .insert(writerFence)
    .values(fence)
    .onConflictDoUpdate({
      target: writerFence.name,
      set: { leaseTransitions: fence.leaseTransitions },
      setWhere: sql`${writerFence.leaseTransitions} <= ${fence.leaseTransitions}`,
    })
    .returning({ name: writerFence.name })
  return rows.length === 1
}

/** Call this last: the lock of the counter lasts until the commit, so that versions become visible in order. */
export async function publishTenant(client: PoolClient, id: TenantId): Promise<number> {
  const version = await raiseDirectoryVersion(client)
  await orm(client).update(tenants).set({ version }).where(eq(tenants.id, id))
  return version
}

/** Placeholder that `publishTenant` replaces at the end of the transaction. It is never committed. */
const versionPending = 0

export const slugReservedMs: number = 30 * 86_400_000

/** Returns the next version. Its row lock lasts until the commit, so that versions become visible in order. */
export async function raiseDirectoryVersion(client: PoolClient): Promise<number> {
  const [row] = await orm(client)
    .update(directoryVersion)
    .set({ version: sql`${directoryVersion.version} + 1` })
    .returning({ version: directoryVersion.version })
  if (row === undefined) throw new Error('the table directory_version has no row: run latchkey migrate')
  return row.version
}

/**
 * Writes the row of a tenant that is not deleted, including its slug.
 * @throws a unique violation if another such tenant has the slug or the name
 * @returns `foreign` if the id belongs to another uid, for example after a deletion; the transaction must then write nothing
 */
export async function upsertTenant(
  client: PoolClient,
  row: TenantRow,
  { nowMs, conditions }: { readonly nowMs: number; readonly conditions: readonly Condition[] },
): Promise<'inserted' | 'updated' | 'foreign'> {
  const next = { ...row, conditions, version: versionPending, updatedAtMs: nowMs, deletedAtMs: null }
  const written = await orm(client)
    .insert(tenants)
    .values({ ...next, createdAtMs: nowMs })
    .onConflictDoUpdate({ target: tenants.id, set: next, setWhere: eq(tenants.uid, row.uid) })
    .returning({ isNew: sql<boolean>`xmax = 0` })
  const [one] = written
  if (one === undefined) return 'foreign'
  if (row.slug !== null) await orm(client).delete(slugReservations).where(eq(slugReservations.slug, row.slug))
  return one.isNew ? 'inserted' : 'updated'
}

/** Stores conditions. Publishes no version, because directories do not read conditions. */
export async function updateConditions(
  client: PoolClient,
  id: TenantId,
  conditions: readonly Condition[],
): Promise<void> {
  await orm(client).update(tenants).set({ conditions }).where(eq(tenants.id, id))
}

/** @throws a unique violation for a key of another tenant */
export async function writeKeys(client: PoolClient, plan: TenantPlan, nowMs: number): Promise<void> {
  const db = orm(client)
  if (plan.keys.remove.length > 0) {
    const hashes = plan.keys.remove.map((hex) => Buffer.from(hex, 'hex'))
    await db.delete(apiKeys).where(and(eq(apiKeys.tenantId, plan.tenantId), inArray(apiKeys.sha256, hashes)))
  }
  for (const key of plan.keys.put) {
    const columns = keyColumns(key)
    const updated = await db
      .update(apiKeys)
      .set(columns)
      .where(and(eq(apiKeys.sha256, columns.sha256), eq(apiKeys.tenantId, plan.tenantId)))
      .returning({ name: apiKeys.name })
    if (updated.length === 1) continue
    await db.insert(apiKeys).values({ ...columns, tenantId: plan.tenantId, createdAtMs: nowMs })
  }
}

function keyColumns({ sha256Hex, prefix, name, scopes, expiresAtMs, endsAtMs }: StoredKey) {
  return {
    sha256: Buffer.from(sha256Hex, 'hex'),
    prefix,
    name,
    scopes: [...scopes],
    expiresAtMs,
    endsAtMs,
  }
}

export async function writeSecrets(client: PoolClient, plan: TenantPlan, keyRing: KeyRing): Promise<void> {
  const db = orm(client)
  for (const { field, ordinal } of plan.secrets.remove) {
    const there = and(eq(tenantSecrets.field, field), eq(tenantSecrets.ordinal, ordinal))
    await db.delete(tenantSecrets).where(and(eq(tenantSecrets.tenantId, plan.tenantId), there))
  }
  for (const { field, ordinal, value, sourceName, sourceVersion, createdAtMs } of plan.secrets.put) {
    const { keyId, nonce, ciphertext } = keyRing.seal({ tenantId: plan.tenantId, field }, value)
    const next = { keyId, nonce, ciphertext, sourceName, sourceVersion, createdAtMs }
    await db
      .insert(tenantSecrets)
      .values({ tenantId: plan.tenantId, field, ordinal, ...next })
      .onConflictDoUpdate({
        target: [tenantSecrets.tenantId, tenantSecrets.field, tenantSecrets.ordinal],
        set: next,
      })
  }
}

/**
 * Hides a tenant: deletes its keys and secrets, and reserves its slug for a resource with the same name. `keepData` keeps the data
 * regardless of the policy, for a resource that vanished without a deletion. If the data will be removed, the row gets the tenant's id in
 * place of the uid, so that a new resource with this uid becomes another tenant immediately. Idempotent.
 */
export async function hideTenant(
  client: PoolClient,
  tenant: LiveTenant,
  { nowMs, keepData }: { readonly nowMs: number; readonly keepData: boolean },
): Promise<void> {
  const db = orm(client)
  if (keepData) {
    const retained = sql`jsonb_set(${tenants.spec}, '{deletionPolicy}', '"Retain"')`
    await db.update(tenants).set({ spec: retained }).where(eq(tenants.id, tenant.id))
  }
  await db
    .update(tenants)
    .set({ uid: uidOnceHidden, slug: null, deletedAtMs: nowMs, updatedAtMs: nowMs, conditions: [] })
    .where(eq(tenants.id, tenant.id))
  await db.delete(apiKeys).where(eq(apiKeys.tenantId, tenant.id))
  await db.delete(tenantSecrets).where(eq(tenantSecrets.tenantId, tenant.id))
  if (tenant.slug === null) return
  const { namespace, name } = tenant
  const reserved = { namespace, name, reservedUntilMs: nowMs + slugReservedMs }
  await db
    .insert(slugReservations)
    .values({ slug: tenant.slug, ...reserved })
    .onConflictDoUpdate({ target: slugReservations.slug, set: reserved })
}

const uidOnceHidden = sql`CASE WHEN ${tenants.spec} ->> 'deletionPolicy' = 'Delete' THEN ${tenants.id} ELSE ${tenants.uid} END`

export type Adoption = Readonly<Pick<typeof tenants.$inferSelect, 'id' | 'uid' | 'namespace' | 'name'>>

/**
 * Assigns a deleted tenant with retained data, and its reserved slug, to another resource. The tenant stays hidden until that resource is
 * reconciled. Returns false if there is no such tenant. The row lock prevents two adoptions of the same tenant.
 */
export async function adoptTenantRow(
  client: PoolClient,
  { id, uid, namespace, name }: Adoption,
  nowMs: number,
): Promise<boolean> {
  const db = orm(client)
  const retained = sql`${tenants.spec} ->> 'deletionPolicy' = 'Retain'`
  const [before] = await db
    .select({
      namespace: tenants.namespace,
      name: tenants.name,
      wanted: sql<string>`${tenants.spec} ->> 'slug'`,
    })
    .from(tenants)
    .where(and(eq(tenants.id, id), isNotNull(tenants.deletedAtMs), retained))
    .for('update')
  if (before === undefined) return false
  await db.update(tenants).set({ uid, namespace, name, updatedAtMs: nowMs }).where(eq(tenants.id, id))
  const kept = and(
    eq(slugReservations.slug, before.wanted),
    eq(slugReservations.namespace, before.namespace),
    eq(slugReservations.name, before.name),
  )
  await db.update(slugReservations).set({ namespace, name }).where(kept)
  return true
}
