import { parseTenantId, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type {
  ApiKeyScope,
  CallbackSpec,
  Limits,
  NotificationsSpec,
  RecordDurability,
  RecordRules,
  TenantSpec,
} from './model.ts'

/** An API key in a directory row. `expiresAtMs` is its expiry or the end of its rotation, whichever is earlier. */
export interface DirectoryKeyRow {
  readonly sha256Base64: string
  readonly name: string
  readonly scopes: readonly ApiKeyScope[]
  readonly expiresAtMs: number | null
}

/** A tenant with its keys and secrets. If `deleted` is true, the directory must remove the tenant. */
export interface DirectoryRow {
  readonly id: TenantId
  readonly namespace: string
  readonly name: string
  /** Slug of the tenant; null while another tenant holds the wanted slug. A tenant without a slug is not served. */
  readonly slug: string | null
  readonly suspended: boolean
  readonly deleted: boolean
  readonly version: number
  readonly records: RecordRules
  readonly recordStore: RecordStoreOfTenant
  readonly limits: Limits
  /** Null for a tenant that only pulls its events. */
  readonly callback: Omit<CallbackSpec, 'signingSecretRef'> | null
  /** Null for a tenant that gets no notifications. `url` is absent if a Secret contains it. */
  readonly notifications: Omit<NotificationsSpec, 'signingSecretRef' | 'urlSecretRef'> | null
  readonly providers: TenantSpec['providers']
  readonly walletStage: TenantSpec['walletRollout']['stage']
  readonly retention: TenantSpec['retention']
  /** Fields masked in displayed payloads, in addition to the built-in ones. */
  readonly redactedFields: readonly string[]
  readonly keys: readonly DirectoryKeyRow[]
  readonly secrets: readonly DirectorySecretRow[]
}

/** Where a tenant's records and locks are. */
export interface RecordStoreOfTenant {
  /** Store of new records and locks. */
  readonly current: RecordDurability
  /** Store that had them before and can still have some of them; null if it has none. */
  readonly before: RecordDurability | null
  /** Number of moves between stores. */
  readonly generation: number
  /** The last fence that an earlier store gave before its last record or lock ended. */
  readonly fence: number
}

/** An encrypted secret; see `KeyRing`. */
export interface DirectorySecretRow {
  readonly field: string
  readonly keyId: string
  /** Nonce followed by ciphertext, in base64. */
  readonly sealedBase64: string
}

/**
 * Position in the list of changes, which is ordered by version and tenant id. With an empty `id`, it precedes all changes of its version.
 */
export interface ChangeCursor {
  readonly version: number
  readonly id: string
}

type RawKey = [string, string, ApiKeyScope[], number | null]
type RawSecret = [string, string, string]
type RawRow = Omit<DirectoryRow, 'id' | 'keys' | 'secrets'> & {
  readonly id: string
  readonly keys: RawKey[]
  readonly secrets: RawSecret[]
}

// SQL text instead of the query builder, because each process reads all tenants with one consistent statement that includes keys and
// secrets. The statements are not prepared: a generic plan cached while the tables were small would scan all keys for each tenant.
const columns = `
  t.id, t.namespace, t.name, t.slug, t.suspended, t.deleted_at IS NOT NULL AS deleted, t.version,
  t.spec -> 'records' AS records,
  json_build_object('current', t.record_store, 'before', t.record_store_before, 'generation', t.record_store_generation,
    'fence', t.record_fence) AS "recordStore", t.spec -> 'limits' AS limits, (t.spec -> 'callback') - 'signingSecretRef' AS callback,
  (t.spec -> 'notifications') - 'signingSecretRef' - 'urlSecretRef' AS notifications,
  t.spec -> 'providers' AS providers, t.spec -> 'walletRollout' ->> 'stage' AS "walletStage", t.spec -> 'retention' AS retention,
  coalesce(t.spec #> '{redaction,fields}', '[]') AS "redactedFields",
  coalesce((
    SELECT json_agg(json_build_array(encode(k.sha256, 'base64'), k.name, k.scopes,
      floor(extract(epoch FROM least(k.expires_at, k.ends_at)) * 1000)::bigint))
    FROM api_keys k WHERE k.tenant_id = t.id
  ), '[]') AS keys,
  coalesce((
    SELECT json_agg(json_build_array(s.field, s.key_id, translate(encode(s.nonce || s.ciphertext, 'base64'), E'\\n', ''))
      ORDER BY s.field, s.ordinal)
    FROM tenant_secrets s WHERE s.tenant_id = t.id
  ), '[]') AS secrets`

/** Reads the version of the last committed change. The next statement sees all changes up to that version. */
export async function readDirectoryVersion(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ version: number }>({
    name: 'read_directory_version',
    text: 'SELECT version FROM directory_version',
  })
  const version = rows[0]?.version
  if (version === undefined) throw new Error('the table directory_version has no row: run latchkey migrate')
  return version
}

/**
 * Lists tenants that are not deleted, ordered by id, starting after `afterId` ('' for the first page). The pages are not one snapshot:
 * callers must afterwards read the changes made since the first page.
 */
export async function listDirectoryPage(
  pool: Pool,
  afterId: string,
  rowsMax: number,
): Promise<DirectoryRow[]> {
  const { rows } = await pool.query<RawRow>({
    text: `SELECT ${columns} FROM tenants t WHERE t.deleted_at IS NULL AND t.id > $1 ORDER BY t.id LIMIT $2`,
    values: [afterId, rowsMax],
  })
  return rows.map(toDirectoryRow)
}

/** Lists the tenants that changed after the cursor, ordered by version. Includes deleted tenants. */
export async function listDirectoryChanges(
  pool: Pool,
  after: ChangeCursor,
  rowsMax: number,
): Promise<DirectoryRow[]> {
  const { rows } = await pool.query<RawRow>({
    text: `SELECT ${columns} FROM tenants t WHERE (t.version, t.id) > ($1, $2) ORDER BY t.version, t.id LIMIT $3`,
    values: [after.version, after.id, rowsMax],
  })
  return rows.map(toDirectoryRow)
}

function toDirectoryRow(row: RawRow): DirectoryRow {
  return {
    ...row,
    id: parseTenantId(row.id),
    keys: row.keys.map(([sha256Base64, name, scopes, expiresAtMs]) => ({
      sha256Base64,
      name,
      scopes,
      expiresAtMs,
    })),
    secrets: row.secrets.map(([field, keyId, sealedBase64]) => ({ field, keyId, sealedBase64 })),
  }
}
