import type { TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { ApiKeyScope, Condition, TenantSpec } from '#internal/tenants/index.ts'

/** A tenant's row as lists need it. */
export interface TenantRow {
  readonly id: TenantId
  readonly namespace: string
  readonly name: string
  readonly slug: string | null
  readonly displayName: string | null
  readonly isSuspended: boolean
  /** Its condition `Ready`; null before its operator has written it. */
  readonly ready: Pick<Condition, 'status' | 'reason'> | null
  readonly createdAtMs: number
}

/** All that is stored of a tenant, without secrets. */
export interface TenantRecord extends TenantRow {
  readonly conditions: readonly Condition[]
  readonly spec: TenantSpec
  readonly keys: readonly {
    readonly name: string
    readonly scopes: readonly ApiKeyScope[]
    readonly prefix: string | null
    readonly createdAtMs: number
    readonly endsAtMs: number | null
  }[]
  readonly secrets: readonly {
    readonly field: string
    readonly secretName: string
    readonly createdAtMs: number
  }[]
  readonly suspendedCallback: { readonly cause: string; readonly sinceMs: number } | null
  readonly breakerUntilMs: number | null
}

/** Where a list stands: behind this tenant. */
export interface TenantPosition {
  readonly namespace: string
  readonly name: string
}

/** Which tenants are read, by namespace and name. */
export interface TenantRowsRequest {
  readonly after: TenantPosition
  /** Absent: all. */
  readonly namespaces?: readonly string[] | undefined
  readonly rowsMax: number
}

const ms = (column: string) => `floor(extract(epoch FROM ${column}) * 1000)::bigint`
const columns = `t.id, t.namespace, t.name, t.slug, t.spec ->> 'displayName' AS "displayName", t.suspended AS "isSuspended",
  jsonb_path_query_first(t.conditions, '$[*] ? (@.type == "Ready")') AS ready, ${ms('t.resource_created_at')} AS "createdAtMs"`

/** Live tenants behind a position. By the index over namespace and name, no locks. */
export async function listTenantRows(
  pool: Pool,
  { after, namespaces, rowsMax }: TenantRowsRequest,
): Promise<readonly TenantRow[]> {
  const { rows } = await pool.query<TenantRow>(
    `SELECT ${columns} FROM tenants t WHERE t.deleted_at IS NULL AND (t.namespace, t.name) > ($1, $2)
       AND ($3::text[] IS NULL OR t.namespace = ANY($3)) ORDER BY t.namespace, t.name LIMIT $4`,
    [after.namespace, after.name, namespaces ?? null, rowsMax],
  )
  return rows
}

/** One live tenant. By its key, no locks. */
export async function findTenantRow(pool: Pool, id: TenantId): Promise<TenantRow | undefined> {
  const { rows } = await pool.query<TenantRow>(
    `SELECT ${columns} FROM tenants t WHERE t.id = $1 AND t.deleted_at IS NULL`,
    [id],
  )
  return rows[0]
}

/** The live tenant of a namespace and name. By an index, no locks. */
export async function findTenantIdByName(
  pool: Pool,
  { namespace, name }: TenantPosition,
): Promise<TenantId | undefined> {
  const { rows } = await pool.query<{ id: TenantId }>(
    'SELECT id FROM tenants WHERE namespace = $1 AND name = $2 AND deleted_at IS NULL',
    [namespace, name],
  )
  return rows[0]?.id
}

/** By which keys tenants are looked for. */
export interface KeyLookup {
  readonly prefix: string
  /** Absent: of any tenant. */
  readonly tenantId?: TenantId | undefined
  readonly rowsMax: number
}

/** Live tenants with a key that begins like this, by their ids, at most `rowsMax`. By an index, no locks. */
export async function findTenantIdsByKey(
  pool: Pool,
  { prefix, tenantId, rowsMax }: KeyLookup,
): Promise<readonly TenantId[]> {
  const { rows } = await pool.query<{ id: TenantId }>(
    `SELECT DISTINCT k.tenant_id AS id FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
     WHERE k.prefix = $1 AND ($2::text IS NULL OR k.tenant_id = $2) AND t.deleted_at IS NULL
       AND coalesce(k.ends_at, 'infinity') > now()
     ORDER BY k.tenant_id LIMIT $3`,
    [prefix, tenantId ?? null, rowsMax],
  )
  return rows.map(({ id }) => id)
}

const keysText = `(SELECT coalesce(json_agg(json_build_object('name', k.name, 'scopes', k.scopes, 'prefix', k.prefix,
    'createdAtMs', ${ms('k.created_at')}, 'endsAtMs', ${ms('least(k.expires_at, k.ends_at)')}) ORDER BY k.name, k.created_at), '[]')
  FROM api_keys k WHERE k.tenant_id = t.id)`
const secretsText = `(SELECT coalesce(json_agg(json_build_object('field', s.field, 'secretName', s.source_name,
    'createdAtMs', ${ms('s.created_at')}) ORDER BY s.field, s.ordinal), '[]')
  FROM tenant_secrets s WHERE s.tenant_id = t.id)`

/** All that is stored of one live tenant, in one statement. By keys, no locks. */
export async function readTenantRecord(pool: Pool, id: TenantId): Promise<TenantRecord | undefined> {
  const { rows } = await pool.query<TenantRecord>(
    `SELECT ${columns}, t.spec, t.conditions, ${keysText} AS keys, ${secretsText} AS secrets,
       CASE WHEN l.suspended_at IS NOT NULL
         THEN json_build_object('cause', l.suspended_cause, 'sinceMs', ${ms('l.suspended_at')}) END AS "suspendedCallback",
       CASE WHEN l.breaker_until > now() THEN ${ms('l.breaker_until')} END AS "breakerUntilMs"
     FROM tenants t LEFT JOIN lanes l ON l.tenant_id = t.id WHERE t.id = $1 AND t.deleted_at IS NULL`,
    [id],
  )
  return rows[0]
}
