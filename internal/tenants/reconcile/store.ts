import { and, eq, inArray, isNotNull, sql } from 'drizzle-orm'
import type { TenantId } from '#internal/base/index.ts'
import {
  apiKeys,
  audit,
  directoryVersion,
  orm,
  type PoolClient,
  slugReservations,
  tenantSecrets,
  tenants,
  writerFence,
} from '#internal/storage/index.ts'
import type { KeyRing } from '../key-ring.ts'
import type { LiveTenant } from '../store.ts'
import type { Condition } from './conditions.ts'
import type { StoredKey } from './facts.ts'
import type { TenantPlan, TenantRow } from './plan.ts'

/** The right to write: a Lease's name and its `leaseTransitions`. */
export interface WriterFence {
  readonly name: string
  readonly leaseTransitions: number
}

/**
 * First statement of a leader's transaction: false when a later leader has written, and then nothing may follow. A shared lock
 * until the commit: transactions of one leader go on side by side, and the next leader's first one waits for them. Repeating
 * it is safe.
 */
export async function passFence(client: PoolClient, fence: WriterFence): Promise<boolean> {
  const db = orm(client)
  // Locks nothing unless it is ours: two that both held it shared could not both go on to raise it.
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

/**
 * Gives a tenant's row the next version. Its lock on the one counter lasts until the commit, so that versions become visible in
 * order; therefore it is the last statement of its transaction, and others wait as short as can be.
 */
export async function publishTenant(client: PoolClient, id: TenantId): Promise<number> {
  const version = await raiseDirectoryVersion(client)
  await orm(client).update(tenants).set({ version }).where(eq(tenants.id, id))
  return version
}

/** Of a row whose own version is given to it at the end of its transaction; nobody ever sees it. */
export const versionPending = 0

/** The next version. Its row lock lasts until the commit, so that versions become visible in order; take it once. */
export async function raiseDirectoryVersion(client: PoolClient): Promise<number> {
  const [row] = await orm(client)
    .update(directoryVersion)
    .set({ version: sql`${directoryVersion.version} + 1` })
    .returning({ version: directoryVersion.version })
  if (row === undefined) throw new Error('the row of directory_version is missing: run the migrations')
  return row.version
}

/**
 * Writes a live tenant's row and takes its slug. A slug or name that another live tenant has fails as unique violation; false
 * when the id belongs to another uid, as after a deletion that ended it, and then nothing may follow.
 */
export async function upsertTenant(
  client: PoolClient,
  row: TenantRow,
  { version, now, conditions }: { version: number; now: number; conditions: readonly Condition[] },
): Promise<boolean> {
  const { resourceCreatedAtMs, ...columns } = row
  const at = new Date(now)
  const next = {
    ...columns,
    resourceCreatedAt: new Date(resourceCreatedAtMs),
    conditions,
    version,
    updatedAt: at,
    deletedAt: null,
  }
  const written = await orm(client)
    .insert(tenants)
    .values({ ...next, createdAt: at })
    .onConflictDoUpdate({ target: tenants.id, set: next, setWhere: eq(tenants.uid, row.uid) })
    .returning({ id: tenants.id })
  if (written.length === 0) return false
  if (row.slug !== null) await orm(client).delete(slugReservations).where(eq(slugReservations.slug, row.slug))
  return true
}

/** Writes conditions alone; directories do not read them, so the version stays. */
export async function updateConditions(
  client: PoolClient,
  id: TenantId,
  conditions: readonly Condition[],
): Promise<void> {
  await orm(client).update(tenants).set({ conditions }).where(eq(tenants.id, id))
}

/** Ends and puts keys. A key that another tenant took meanwhile fails as unique violation. */
export async function writeKeys(client: PoolClient, plan: TenantPlan, now: number): Promise<void> {
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
    await db.insert(apiKeys).values({ ...columns, tenantId: plan.tenantId, createdAt: new Date(now) })
  }
}

function keyColumns({ sha256Hex, prefix, name, scopes, expiresAtMs, endsAtMs }: StoredKey) {
  return {
    sha256: Buffer.from(sha256Hex, 'hex'),
    prefix,
    name,
    scopes: [...scopes],
    expiresAt: expiresAtMs === null ? null : new Date(expiresAtMs),
    endsAt: endsAtMs === null ? null : new Date(endsAtMs),
  }
}

/** Ends and puts secrets, sealed for their place. At most five values a field, so few rows. */
export async function writeSecrets(client: PoolClient, plan: TenantPlan, keyRing: KeyRing): Promise<void> {
  const db = orm(client)
  for (const { field, ordinal } of plan.secrets.remove) {
    const there = and(eq(tenantSecrets.field, field), eq(tenantSecrets.ordinal, ordinal))
    await db.delete(tenantSecrets).where(and(eq(tenantSecrets.tenantId, plan.tenantId), there))
  }
  for (const { field, ordinal, value, sourceName, sourceVersion, createdAtMs } of plan.secrets.put) {
    const { keyId, nonce, ciphertext } = keyRing.seal({ tenantId: plan.tenantId, field }, value)
    const next = { keyId, nonce, ciphertext, sourceName, sourceVersion, createdAt: new Date(createdAtMs) }
    await db
      .insert(tenantSecrets)
      .values({ tenantId: plan.tenantId, field, ordinal, ...next })
      .onConflictDoUpdate({
        target: [tenantSecrets.tenantId, tenantSecrets.field, tenantSecrets.ordinal],
        set: next,
      })
  }
}

/** One line of the audit log. `detail` must hold no secret. */
export interface AuditEntry {
  readonly actor: string
  readonly action: string
  readonly tenantId: TenantId
  readonly detail: object
}

/** Appends to the audit log inside the transaction that did the deed. */
export async function insertAudit(client: PoolClient, entry: AuditEntry, now: number): Promise<void> {
  await orm(client)
    .insert(audit)
    .values({ ...entry, at: new Date(now) })
}

/** When and how a tenant is hidden. */
export interface HidingTerms {
  readonly version: number
  readonly now: number
  readonly reservedUntilMs: number
  /** Keeps the data whatever the policy says: nobody asked for the deletion as far as is known. */
  readonly keepData: boolean
}

/**
 * Hides a tenant: keys and secrets end, its slug is kept for its name until `reservedUntilMs`. One whose data is to go gives
 * up its uid too, in place of which its own id stands: whoever comes back with that uid is another tenant, however soon.
 * Repeating it is safe.
 */
export async function hideTenant(
  client: PoolClient,
  tenant: LiveTenant,
  { version, now, reservedUntilMs, keepData }: HidingTerms,
): Promise<void> {
  const db = orm(client)
  const at = new Date(now)
  if (keepData) {
    const retained = sql`jsonb_set(${tenants.spec}, '{deletionPolicy}', '"Retain"')`
    await db.update(tenants).set({ spec: retained }).where(eq(tenants.id, tenant.id))
  }
  await db
    .update(tenants)
    .set({ uid: uidOnceHidden, slug: null, deletedAt: at, updatedAt: at, version, conditions: [] })
    .where(eq(tenants.id, tenant.id))
  await db.delete(apiKeys).where(eq(apiKeys.tenantId, tenant.id))
  await db.delete(tenantSecrets).where(eq(tenantSecrets.tenantId, tenant.id))
  if (tenant.slug === null) return
  const reserved = {
    namespace: tenant.namespace,
    name: tenant.name,
    reservedUntil: new Date(reservedUntilMs),
  }
  await db
    .insert(slugReservations)
    .values({ slug: tenant.slug, ...reserved })
    .onConflictDoUpdate({ target: slugReservations.slug, set: reserved })
}

const uidOnceHidden = sql`CASE WHEN ${tenants.spec} ->> 'deletionPolicy' = 'Delete' THEN ${tenants.id} ELSE ${tenants.uid} END`

/** Who takes over what a deleted tenant left. */
export interface Adoption {
  readonly id: TenantId
  readonly uid: string
  readonly namespace: string
  readonly name: string
}

/**
 * Gives a deleted tenant whose data was retained to another resource, with the slug that is kept for it. The tenant stays
 * hidden until that is reconciled. False when there is no such tenant; the row's lock keeps two from taking the same one.
 */
export async function adoptTenantRow(
  client: PoolClient,
  { id, uid, namespace, name }: Adoption,
  now: number,
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
    .where(and(eq(tenants.id, id), isNotNull(tenants.deletedAt), retained))
    .for('update')
  if (before === undefined) return false
  await db
    .update(tenants)
    .set({ uid, namespace, name, updatedAt: new Date(now) })
    .where(eq(tenants.id, id))
  const kept = and(
    eq(slugReservations.slug, before.wanted),
    eq(slugReservations.namespace, before.namespace),
    eq(slugReservations.name, before.name),
  )
  await db.update(slugReservations).set({ namespace, name }).where(kept)
  return true
}
