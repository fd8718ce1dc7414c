import { and, asc, eq, inArray, isNotNull, isNull, like, lt, lte, ne, or, sql } from 'drizzle-orm'
import { parseTenantId, type TenantId } from '#internal/base/index.ts'
import {
  apiKeys,
  orm,
  type Pool,
  slugReservations,
  tenantSecrets,
  tenants,
  writerFence,
} from '#internal/storage/index.ts'
import type { KeyRing, Sealed } from './key-ring.ts'
import type { ApiKeyScope, TenantSpec } from './model.ts'
import type { Condition } from './reconcile/conditions.ts'
import type {
  CallbackSuspension,
  SlugFacts,
  StoredKey,
  StoredSecret,
  StoredTenant,
} from './reconcile/facts.ts'

/** A tenant's row, its keys and its opened secrets; undefined when the uid was never seen. Three plain reads, no locks. */
export async function findStoredTenant(
  pool: Pool,
  keyRing: KeyRing,
  uid: string,
): Promise<StoredTenant | undefined> {
  const db = orm(pool)
  const [row] = await db.select().from(tenants).where(eq(tenants.uid, uid)).limit(1)
  if (row === undefined) return undefined
  const id = parseTenantId(row.id)
  const [keys, secrets] = await Promise.all([listKeys(pool, id), listSecrets(pool, keyRing, id)])
  return {
    id,
    uid: row.uid,
    namespace: row.namespace,
    name: row.name,
    slug: row.slug,
    spec: hasSpec(row.spec) ? row.spec : undefined,
    conditions: row.conditions as Condition[],
    resourceCreatedAtMs: row.resourceCreatedAt.getTime(),
    deletedAtMs: row.deletedAt?.getTime() ?? null,
    keys,
    secrets,
  }
}

/** Only parsed specs are ever written; a deleted tenant's is emptied. */
function hasSpec(spec: unknown): spec is TenantSpec {
  return typeof spec === 'object' && spec !== null && 'slug' in spec
}

async function listKeys(pool: Pool, id: TenantId): Promise<StoredKey[]> {
  const rows = await orm(pool)
    .select()
    .from(apiKeys)
    .where(eq(apiKeys.tenantId, id))
    .orderBy(asc(apiKeys.createdAt))
  return rows.map((row) => ({
    sha256Hex: row.sha256.toString('hex'),
    prefix: row.prefix,
    name: row.name,
    scopes: row.scopes as ApiKeyScope[],
    expiresAtMs: row.expiresAt?.getTime() ?? null,
    endsAtMs: row.endsAt?.getTime() ?? null,
  }))
}

async function listSecrets(pool: Pool, keyRing: KeyRing, id: TenantId): Promise<StoredSecret[]> {
  const rows = await orm(pool)
    .select()
    .from(tenantSecrets)
    .where(eq(tenantSecrets.tenantId, id))
    .orderBy(asc(tenantSecrets.field), asc(tenantSecrets.ordinal))
  return rows.map((row) => {
    const opened = keyRing.open({ tenantId: id, field: row.field }, row)
    return {
      field: row.field,
      ordinal: row.ordinal,
      keyId: row.keyId,
      value: opened.kind === 'opened' ? opened.text : undefined,
      createdAtMs: row.createdAt.getTime(),
    }
  })
}

/** Where a sealed secret stands in the order of all. */
export interface SecretCursor {
  readonly tenantId: TenantId
  readonly field: string
  readonly ordinal: number
}

/** One sealed secret with its place. */
export type SealedSecretRow = SecretCursor & Sealed

/** Sealed secrets of all tenants in the order of their key, after `after`. One read by the primary key, no lock. */
export async function listSealedSecrets(
  pool: Pool,
  after: SecretCursor | undefined,
  rowsMax: number,
): Promise<SealedSecretRow[]> {
  const { tenantId, field, ordinal, keyId, nonce, ciphertext } = tenantSecrets
  const rows = await orm(pool)
    .select({ tenantId, field, ordinal, keyId, nonce, ciphertext })
    .from(tenantSecrets)
    .where(
      after &&
        sql`(${tenantId}, ${field}, ${ordinal}) > (${after.tenantId}, ${after.field}, ${after.ordinal})`,
    )
    .orderBy(asc(tenantId), asc(field), asc(ordinal))
    .limit(rowsMax)
  return rows.map((row) => ({ ...row, tenantId: parseTenantId(row.tenantId) }))
}

/** Whether a tenant has this id or ever had it. One read, no lock. */
export async function isTenantIdKnown(pool: Pool, id: TenantId): Promise<boolean> {
  const rows = await orm(pool).select({ id: tenants.id }).from(tenants).where(eq(tenants.id, id)).limit(1)
  return rows.length > 0
}

/** A tenant that wants a slug. `createdAtMs` undefined: made just now, younger than all that are stored. */
export interface SlugWish {
  readonly id: TenantId
  readonly uid: string
  readonly slug: string
  readonly createdAtMs: number | undefined
}

/** Who else has a claim on a slug. Read without locks: the unique index decides when two write at once. */
export async function findSlugFacts(pool: Pool, wish: SlugWish): Promise<SlugFacts> {
  const db = orm(pool)
  const named = { id: tenants.id, namespace: tenants.namespace, name: tenants.name }
  const holders = db
    .select(named)
    .from(tenants)
    .where(and(eq(tenants.slug, wish.slug), isNull(tenants.deletedAt)))
    .limit(1)
  const reservations = db.select().from(slugReservations).where(eq(slugReservations.slug, wish.slug)).limit(1)
  const [[holder], [reservation], [older]] = await Promise.all([
    holders,
    reservations,
    olderClaimants(pool, wish),
  ])
  return {
    holder: holder && { id: parseTenantId(holder.id), namespace: holder.namespace, name: holder.name },
    reservation: reservation && {
      namespace: reservation.namespace,
      name: reservation.name,
      untilMs: reservation.reservedUntil.getTime(),
    },
    olderClaimant: older,
  }
}

function olderClaimants(pool: Pool, { id, uid, slug, createdAtMs }: SlugWish) {
  const createdAt = createdAtMs === undefined ? undefined : new Date(createdAtMs)
  const older =
    createdAt &&
    or(
      lt(tenants.resourceCreatedAt, createdAt),
      and(eq(tenants.resourceCreatedAt, createdAt), lt(tenants.uid, uid)),
    )
  return orm(pool)
    .select({ namespace: tenants.namespace, name: tenants.name })
    .from(tenants)
    .where(
      and(
        sql`${tenants.spec} ->> 'slug' = ${slug}`,
        isNull(tenants.slug),
        isNull(tenants.deletedAt),
        ne(tenants.id, id),
        older,
      ),
    )
    .orderBy(asc(tenants.resourceCreatedAt), asc(tenants.uid))
    .limit(1)
}

/** Which of these keys (SHA-256, hex) another tenant than `id` has. */
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

/** What is needed to remove a tenant. */
export interface LiveTenant {
  readonly id: TenantId
  readonly uid: string
  readonly namespace: string
  readonly name: string
  readonly slug: string | null
}

/** Live tenants whose uid begins with `uidPrefix`, by uid: those that one source answers for. At most `rowsMax`. */
export async function listLiveTenants(pool: Pool, uidPrefix: string, rowsMax: number): Promise<LiveTenant[]> {
  const rows = await orm(pool)
    .select({
      id: tenants.id,
      uid: tenants.uid,
      namespace: tenants.namespace,
      name: tenants.name,
      slug: tenants.slug,
    })
    .from(tenants)
    .where(and(like(tenants.uid, `${uidPrefix.replaceAll(/[\\%_]/g, '\\$&')}%`), isNull(tenants.deletedAt)))
    .orderBy(asc(tenants.uid))
    .limit(rowsMax)
  return rows.map((row) => ({ ...row, id: parseTenantId(row.id) }))
}

/** The live tenant of a name, whatever its uid. One read by an index, no lock. */
export async function findLiveTenant(
  pool: Pool,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<LiveTenant | undefined> {
  const { id, uid, slug } = tenants
  const [row] = await orm(pool)
    .select({ id, uid, slug, namespace: tenants.namespace, name: tenants.name })
    .from(tenants)
    .where(and(eq(tenants.namespace, namespace), eq(tenants.name, name), isNull(tenants.deletedAt)))
    .limit(1)
  return row && { ...row, id: parseTenantId(row.id) }
}

/** A deleted tenant whose data is still to go. */
export interface PendingPurge {
  readonly id: TenantId
  readonly deletedAtMs: number
}

/** The id of the tenant, deleted or not, whose resource has this uid. One read, no lock. */
export async function findTenantIdOfUid(pool: Pool, uid: string): Promise<TenantId | undefined> {
  const [row] = await orm(pool).select({ id: tenants.id }).from(tenants).where(eq(tenants.uid, uid)).limit(1)
  return row && parseTenantId(row.id)
}

/** The id of the live tenant that has this id or slug, for people who name one; no slug looks like an id. One read, no lock. */
export async function findLiveTenantId(pool: Pool, idOrSlug: string): Promise<TenantId | undefined> {
  const isMeant = or(eq(tenants.id, idOrSlug), eq(tenants.slug, idOrSlug))
  const [row] = await orm(pool)
    .select({ id: tenants.id })
    .from(tenants)
    .where(and(isMeant, isNull(tenants.deletedAt)))
    .limit(1)
  return row && parseTenantId(row.id)
}

/** What is still to go of the tenants that had a name, by their id. One read, no lock. */
export async function listPendingPurges(
  pool: Pool,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<PendingPurge[]> {
  const rows = await orm(pool)
    .select({ id: tenants.id, deletedAt: tenants.deletedAt })
    .from(tenants)
    .where(
      and(
        eq(tenants.namespace, namespace),
        eq(tenants.name, name),
        isNotNull(tenants.deletedAt),
        sql`${tenants.spec} ->> 'deletionPolicy' = 'Delete'`,
      ),
    )
    .orderBy(asc(tenants.id))
    .limit(100)
  return rows.map((row) => ({ id: parseTenantId(row.id), deletedAtMs: row.deletedAt?.getTime() ?? 0 }))
}

/** The highest `leaseTransitions` that wrote under this name; 0 when none did. */
export async function findWriterFence(pool: Pool, name: string): Promise<number> {
  const [row] = await orm(pool).select().from(writerFence).where(eq(writerFence.name, name)).limit(1)
  return row?.leaseTransitions ?? 0
}

/** Tenants deleted at `untilMs` or before whose data is to go and has not gone yet. */
export async function listTenantsToPurge(pool: Pool, untilMs: number, rowsMax: number): Promise<TenantId[]> {
  const rows = await orm(pool)
    .select({ id: tenants.id })
    .from(tenants)
    .where(
      and(lte(tenants.deletedAt, new Date(untilMs)), sql`${tenants.spec} ->> 'deletionPolicy' = 'Delete'`),
    )
    .orderBy(asc(tenants.id))
    .limit(rowsMax)
  return rows.map(({ id }) => parseTenantId(id))
}

/** Whether and why the tenant's deliveries stand still because its callback asked to be left alone. One read by a key, no lock. */
export async function findCallbackSuspension(
  pool: Pool,
  tenantId: TenantId,
): Promise<CallbackSuspension | undefined> {
  const { rows } = await pool.query<{ cause: string; since: Date }>(
    `SELECT suspended_cause AS cause, suspended_at AS since FROM tenant_queues WHERE tenant_id = $1 AND suspended_at IS NOT NULL`,
    [tenantId],
  )
  const [row] = rows
  return row && { cause: row.cause, sinceMs: row.since.getTime() }
}

/** Live tenants whose callbacks are suspended, at most `rowsMax`. A read by an index of those alone, no lock. */
export async function listSuspendedCallbacks(
  pool: Pool,
  rowsMax: number,
): Promise<readonly Pick<LiveTenant, 'uid' | 'namespace' | 'name'>[]> {
  const { rows } = await pool.query<Pick<LiveTenant, 'uid' | 'namespace' | 'name'>>(
    `SELECT t.uid, t.namespace, t.name FROM tenant_queues l JOIN tenants t ON t.id = l.tenant_id
     WHERE l.suspended_at IS NOT NULL AND t.deleted_at IS NULL LIMIT $1`,
    [rowsMax],
  )
  return rows
}
