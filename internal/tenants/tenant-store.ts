import { and, asc, eq, getTableColumns, inArray, isNotNull, isNull, lt, lte, ne, or, sql } from 'drizzle-orm'
import type { TenantId } from '#internal/base/index.ts'
import { orm, type Pool, type PoolClient } from '#internal/storage/index.ts'
import type { KeyRing, Sealed } from './key-ring.ts'
import type { TenantSpec } from './model.ts'
import type {
  ResourceName,
  StoredKey,
  StoredSecret,
  StoredTenant,
  TenantFacts,
} from './reconcile/gather-tenant.ts'
import { apiKeys, slugReservations, tenantSecrets, tenants, writerFence } from './tables.ts'

// All reads in this file are plain statements without row locks, except `lockLiveTenant`.

export async function findStoredTenant(
  pool: Pool,
  keyRing: KeyRing,
  uid: string,
): Promise<StoredTenant | undefined> {
  const [row] = await orm(pool).select().from(tenants).where(eq(tenants.uid, uid)).limit(1)
  if (row === undefined) return undefined
  const [keys, secrets] = await Promise.all([listKeys(pool, row.id), listSecrets(pool, keyRing, row.id)])
  return { ...row, spec: hasSpec(row.spec) ? row.spec : undefined, keys, secrets }
}

function hasSpec(spec: (typeof tenants.$inferSelect)['spec']): spec is TenantSpec {
  return 'slug' in spec
}

async function listKeys(pool: Pool, id: TenantId): Promise<StoredKey[]> {
  const { tenantId, createdAtMs, ...columns } = getTableColumns(apiKeys)
  const rows = await orm(pool).select(columns).from(apiKeys).where(eq(tenantId, id)).orderBy(asc(createdAtMs))
  return rows.map(({ sha256, ...row }) => ({ ...row, sha256Hex: sha256.toString('hex') }))
}

async function listSecrets(pool: Pool, keyRing: KeyRing, id: TenantId): Promise<StoredSecret[]> {
  const rows = await orm(pool)
    .select()
    .from(tenantSecrets)
    .where(eq(tenantSecrets.tenantId, id))
    .orderBy(asc(tenantSecrets.field), asc(tenantSecrets.ordinal))
  return rows.map((row) => {
    const opened = keyRing.open(row, row)
    const { field, ordinal, keyId, createdAtMs } = row
    return { field, ordinal, keyId, createdAtMs, value: opened.kind === 'opened' ? opened.text : undefined }
  })
}

export type SecretCursor = Pick<typeof tenantSecrets.$inferSelect, 'tenantId' | 'field' | 'ordinal'>

export async function listSealedSecrets(
  pool: Pool,
  after: SecretCursor | undefined,
  rowsMax: number,
): Promise<(SecretCursor & Sealed)[]> {
  const { tenantId, field, ordinal, keyId, nonce, ciphertext } = tenantSecrets
  return await orm(pool)
    .select({ tenantId, field, ordinal, keyId, nonce, ciphertext })
    .from(tenantSecrets)
    .where(
      after &&
        sql`(${tenantId}, ${field}, ${ordinal}) > (${after.tenantId}, ${after.field}, ${after.ordinal})`,
    )
    .orderBy(asc(tenantId), asc(field), asc(ordinal))
    .limit(rowsMax)
}

/** Returns whether the id is that of a tenant, deleted or not. */
export async function isTenantIdKnown(pool: Pool, id: TenantId): Promise<boolean> {
  const rows = await orm(pool).select({ id: tenants.id }).from(tenants).where(eq(tenants.id, id)).limit(1)
  return rows.length > 0
}

/** Takes no locks: the unique index decides between concurrent writers. Without `createdAtMs`, every other claimant counts as older. */
export async function findSlugFacts(
  pool: Pool,
  wish: {
    readonly id: TenantId
    readonly uid: string
    readonly slug: string
    readonly createdAtMs: number | undefined
  },
): Promise<TenantFacts['slug']> {
  const db = orm(pool)
  const { id, namespace, name } = tenants
  const [[holder], [reservation], [olderClaimant]] = await Promise.all([
    db
      .select({ id, namespace, name })
      .from(tenants)
      .where(and(eq(tenants.slug, wish.slug), isNull(tenants.deletedAtMs)))
      .limit(1),
    db.select().from(slugReservations).where(eq(slugReservations.slug, wish.slug)).limit(1),
    olderClaimants(pool, wish),
  ])
  return {
    holder,
    reservation: reservation && { ...reservation, untilMs: reservation.reservedUntilMs },
    olderClaimant,
  }
}

function olderClaimants(pool: Pool, { id, uid, slug, createdAtMs }: Parameters<typeof findSlugFacts>[1]) {
  const { namespace, name, resourceCreatedAtMs } = tenants
  const older =
    createdAtMs === undefined
      ? undefined
      : or(
          lt(resourceCreatedAtMs, createdAtMs),
          and(eq(resourceCreatedAtMs, createdAtMs), lt(tenants.uid, uid)),
        )
  const waits = and(sql`${tenants.spec} ->> 'slug' = ${slug}`, isNull(tenants.slug))
  return orm(pool)
    .select({ namespace, name })
    .from(tenants)
    .where(and(waits, isNull(tenants.deletedAtMs), ne(tenants.id, id), older))
    .orderBy(asc(resourceCreatedAtMs), asc(tenants.uid))
    .limit(1)
}

/** Returns those of the given SHA-256 (hex) whose keys belong to another tenant. */
export async function findKeysOfOthers(
  pool: Pool,
  id: TenantId,
  sha256sHex: readonly string[],
): Promise<ReadonlySet<string>> {
  if (sha256sHex.length === 0) return new Set()
  const hashes = sha256sHex.map((hex) => Buffer.from(hex, 'hex'))
  const rows = await orm(pool)
    .select({ sha256: apiKeys.sha256 })
    .from(apiKeys)
    .where(and(inArray(apiKeys.sha256, hashes), ne(apiKeys.tenantId, id)))
  return new Set(rows.map(({ sha256 }) => sha256.toString('hex')))
}

const { id, uid, namespace, name, slug, deletedAtMs } = tenants
const liveColumns = { id, uid, namespace, name, slug }

/** The row of a tenant that is not deleted. */
export type LiveTenant = Pick<typeof tenants.$inferSelect, keyof typeof liveColumns>

/** Lists tenants that are not deleted, ordered by uid. */
export async function listLiveTenants(pool: Pool, rowsMax: number): Promise<LiveTenant[]> {
  return await orm(pool)
    .select(liveColumns)
    .from(tenants)
    .where(isNull(deletedAtMs))
    .orderBy(asc(uid))
    .limit(rowsMax)
}

export async function listLiveTenantsById(pool: Pool, ids: readonly TenantId[]): Promise<LiveTenant[]> {
  return await orm(pool)
    .select(liveColumns)
    .from(tenants)
    // Passes the ids as one array, since a statement accepts at most 65 535 parameters.
    .where(and(sql`${id} = ANY(${sql.param(ids)}::text[])`, isNull(deletedAtMs)))
}

/** Finds the tenant that has a namespace and name and is not deleted, regardless of its uid. */
export async function findLiveTenant(pool: Pool, place: ResourceName): Promise<LiveTenant | undefined> {
  const isNamed = and(eq(namespace, place.namespace), eq(name, place.name))
  const [row] = await orm(pool)
    .select(liveColumns)
    .from(tenants)
    .where(and(isNamed, isNull(deletedAtMs)))
    .limit(1)
  return row
}

/** Finds the id of the tenant with a uid, deleted or not. */
export async function findTenantIdOfUid(pool: Pool, wanted: string): Promise<TenantId | undefined> {
  const [row] = await orm(pool).select({ id }).from(tenants).where(eq(uid, wanted)).limit(1)
  return row?.id
}

const losesData = sql`${tenants.spec} ->> 'deletionPolicy' = 'Delete'`

export async function listPendingPurges(
  pool: Pool,
  place: ResourceName,
): Promise<
  {
    readonly id: TenantId
    readonly deletedAtMs: number
  }[]
> {
  const isNamed = and(eq(namespace, place.namespace), eq(name, place.name))
  const rows = await orm(pool)
    .select({ id, deletedAtMs })
    .from(tenants)
    .where(and(isNamed, isNotNull(deletedAtMs), losesData))
    .orderBy(asc(id))
    .limit(100)
  return rows.map((row) => ({ ...row, deletedAtMs: row.deletedAtMs ?? 0 }))
}

/** Lists tenants that were deleted at `untilMs` or earlier and whose data has not been deleted yet. */
export async function listTenantsToPurge(pool: Pool, untilMs: number, rowsMax: number): Promise<TenantId[]> {
  const rows = await orm(pool)
    .select({ id })
    .from(tenants)
    .where(and(lte(deletedAtMs, untilMs), losesData))
    .orderBy(asc(id))
    .limit(rowsMax)
  return rows.map((row) => row.id)
}

/** Returns the highest fencing token of a Lease with which a leader has written to Postgres; 0 if there is none. */
export async function findWriterFence(pool: Pool, lease: string): Promise<number> {
  const [row] = await orm(pool).select().from(writerFence).where(eq(writerFence.name, lease)).limit(1)
  return row?.leaseTransitions ?? 0
}

/** Raises and returns the fencing token, so that earlier leaders can write nothing from then on. */
export async function raiseWriterFence(client: PoolClient, fence: string): Promise<number> {
  const raised = { leaseTransitions: sql`${writerFence.leaseTransitions} + 1` }
  const [row] = await orm(client)
    .insert(writerFence)
    .values({ name: fence, leaseTransitions: 1 })
    .onConflictDoUpdate({ target: writerFence.name, set: raised })
    .returning({ fence: writerFence.leaseTransitions })
  if (!row) throw new Error('the fencing token was not raised')
  return row.fence
}

/**
 * Returns whether a tenant exists, and blocks its deletion until the transaction ends, so that the tenant's purge finds all rows that the
 * transaction adds.
 */
export async function lockLiveTenant(client: PoolClient, tenantId: TenantId): Promise<boolean> {
  const isLive = and(eq(id, tenantId), isNull(deletedAtMs))
  const rows = await orm(client).select({ id }).from(tenants).where(isLive).for('share')
  return rows.length === 1
}

/** Returns whether a tenant that is not deleted limits an emitted kind. Reads all tenants. @throws errors of Postgres */
export async function isKindLimited(client: PoolClient, kind: string): Promise<boolean> {
  const limiting = JSON.stringify({ limits: { emitted: [{ kind }] } })
  const isLimiting = and(isNull(deletedAtMs), sql`${tenants.spec} @> ${limiting}::jsonb`)
  return (await orm(client).select({ id }).from(tenants).where(isLimiting).limit(1)).length > 0
}
