import { and, asc, eq, gt, inArray, isNull, not, or, sql } from 'drizzle-orm'
import type { TenantId } from '#internal/base/index.ts'
import { orm, type Pool } from '#internal/storage/index.ts'
import type { TenantSpec } from './model.ts'
import type { Condition } from './reconcile/conditions.ts'
import { apiKeys, tenantSecrets, tenants } from './tables.ts'

// Reads tenants that are not deleted, for display to users. All reads are plain statements that use an index and take no locks.

const { id, namespace, name, slug, spec, deletedAtMs } = tenants
const headColumns = {
  id,
  namespace,
  name,
  slug,
  suspended: tenants.suspended,
  createdAtMs: tenants.resourceCreatedAtMs,
  displayName: sql<string | null>`${spec} ->> 'displayName'`,
  ready: sql<Pick<Condition, 'status' | 'reason'> | null>`
    jsonb_path_query_first(${tenants.conditions}, '$[*] ? (@.type == "Ready")')`,
}

const storeColumns = { recordStore: tenants.recordStore, earlierRecordStore: tenants.recordStoreBefore }

/** A tenant in a list. `ready` is the status of its condition `Ready`; null before the first reconciliation. */
export type TenantHead = Awaited<ReturnType<typeof listTenantHeads>>[number]

/** Lists tenants that are not deleted, ordered by namespace and name. */
export async function listTenantHeads(
  pool: Pool,
  page: {
    readonly after?: { readonly namespace: string; readonly name: string } | undefined
    readonly namespaces?: readonly string[] | undefined
    readonly rowsMax: number
  },
) {
  const { after, namespaces, rowsMax } = page
  const isAfter = after && sql`(${namespace}, ${name}) > (${after.namespace}, ${after.name})`
  return await orm(pool)
    .select(headColumns)
    .from(tenants)
    .where(and(isNull(deletedAtMs), isAfter, namespaces && inArray(namespace, [...namespaces])))
    .orderBy(asc(namespace), asc(name))
    .limit(rowsMax)
}

/** Finds a tenant by its id; undefined if the tenant is deleted or unknown. */
export async function findTenantHead(pool: Pool, tenantId: TenantId): Promise<TenantHead | undefined> {
  const isMeant = and(eq(id, tenantId), isNull(deletedAtMs))
  const [head] = await orm(pool).select(headColumns).from(tenants).where(isMeant)
  return head
}

/**
 * Lists tenants that are not deleted, not suspended and not ready (condition `Ready`), ordered by namespace and name. Reads all tenants,
 * or those in `tenantIds`.
 */
export async function listUnreadyTenants(
  pool: Pool,
  { tenantIds, rowsMax }: { readonly tenantIds: readonly TenantId[] | undefined; readonly rowsMax: number },
): Promise<readonly { readonly id: TenantId; readonly reason: string }[]> {
  const isReady = sql`coalesce(${headColumns.ready} ->> 'status', '') = 'True'`
  const rows = await orm(pool)
    .select({ id, ready: headColumns.ready })
    .from(tenants)
    .where(
      and(
        isNull(deletedAtMs),
        eq(tenants.suspended, false),
        not(isReady),
        tenantIds && inArray(id, [...tenantIds]),
      ),
    )
    .orderBy(asc(namespace), asc(name))
    .limit(rowsMax)
  return rows.map((row) => ({ id: row.id, reason: row.ready?.reason ?? 'Unknown' }))
}

/** Lists tenants that are not deleted and have a usable API key with this prefix; with `tenantId`, only that tenant. */
export async function listTenantsOfKey(
  pool: Pool,
  { prefix, tenantId, rowsMax }: { prefix: string; tenantId: TenantId | undefined; rowsMax: number },
): Promise<readonly TenantId[]> {
  const isLive = and(isNull(deletedAtMs), or(isNull(apiKeys.endsAtMs), gt(apiKeys.endsAtMs, sql`now()`)))
  const rows = await orm(pool)
    .selectDistinct({ id })
    .from(apiKeys)
    .innerJoin(tenants, eq(id, apiKeys.tenantId))
    .where(and(eq(apiKeys.prefix, prefix), tenantId && eq(id, tenantId), isLive))
    .orderBy(asc(id))
    .limit(rowsMax)
  return rows.map((row) => row.id)
}

/** Reads all data of a tenant that is not deleted, except the values of its secrets. */
export async function readTenantSheet(pool: Pool, tenantId: TenantId) {
  const db = orm(pool)
  const { scopes, prefix, createdAtMs, expiresAtMs, endsAtMs } = apiKeys
  const endMs = sql`(extract(epoch FROM least(${expiresAtMs}, ${endsAtMs})) * 1000)::bigint`.mapWith(
    // Drizzle does not use the pool's parsers, so a bigint arrives as text.
    (ms: string): number | null => Number(ms),
  )
  const { field, sourceName } = tenantSecrets
  const [[head], keys, secrets] = await Promise.all([
    db
      .select({
        ...headColumns,
        spec: sql<TenantSpec>`${spec}`,
        conditions: tenants.conditions,
        ...storeColumns,
      })
      .from(tenants)
      .where(and(eq(id, tenantId), isNull(deletedAtMs))),
    db
      .select({ name: apiKeys.name, scopes, prefix, createdAtMs, expiresAtMs: endMs })
      .from(apiKeys)
      .where(eq(apiKeys.tenantId, tenantId))
      .orderBy(asc(apiKeys.name), asc(createdAtMs)),
    db
      .select({ field, secretName: sourceName, createdAtMs: tenantSecrets.createdAtMs })
      .from(tenantSecrets)
      .where(eq(tenantSecrets.tenantId, tenantId))
      .orderBy(asc(field), asc(tenantSecrets.ordinal)),
  ])
  return head && { ...head, keys, secrets }
}
