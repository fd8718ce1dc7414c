import { parseTenantId, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { ApiKeyScope, Limits, RecordRules, TenantSpec } from './model.ts'

/** One API key as the directory reads it. Times in milliseconds since the epoch. */
export interface DirectoryKeyRow {
  readonly sha256Base64: string
  readonly name: string
  readonly scopes: readonly ApiKeyScope[]
  readonly expiresAtMs: number | null
  readonly endsAtMs: number | null
}

/** One tenant as the directory reads it; a deleted one comes with `deleted` and must be forgotten. */
export interface DirectoryRow {
  readonly id: TenantId
  readonly namespace: string
  readonly name: string
  readonly slug: string | null
  readonly suspended: boolean
  readonly deleted: boolean
  readonly version: number
  readonly records: RecordRules
  readonly limits: Limits
  readonly callback: Omit<TenantSpec['callback'], 'signingSecretRef'>
  readonly providers: TenantSpec['providers']
  readonly walletStage: TenantSpec['walletRollout']['stage']
  readonly retention: TenantSpec['retention']
  /** Names of fields that are hidden where payloads are shown, beside the built-in ones. */
  readonly redactedFields: readonly string[]
  readonly keys: readonly DirectoryKeyRow[]
  readonly secrets: readonly DirectorySecretRow[]
}

/** One sealed secret as the directory reads it; see `KeyRing`. */
export interface DirectorySecretRow {
  readonly field: string
  readonly keyId: string
  /** Nonce and ciphertext, one after the other. */
  readonly sealedBase64: string
}

/** The place in the order of changes after which to read; `id: ''` stands before all changes of that version. */
export interface ChangeCursor {
  readonly version: number
  readonly id: string
}

type RawKey = [string, string, ApiKeyScope[], number | null, number | null]
type RawSecret = [string, string, string]
type RawRow = Omit<DirectoryRow, 'id' | 'keys' | 'secrets'> & {
  readonly id: string
  readonly keys: RawKey[]
  readonly secrets: RawSecret[]
}

// One statement per tenant with its keys and secrets, so that all are of one moment. Takes no lock that a writer waits for. The two lists
// are not named statements: a plan that is kept from when the tables were small would scan all keys for each tenant.
const columns = `
  t.id, t.namespace, t.name, t.slug, t.suspended, t.deleted_at IS NOT NULL AS deleted, t.version,
  t.spec -> 'records' AS records, t.spec -> 'limits' AS limits, (t.spec -> 'callback') - 'signingSecretRef' AS callback,
  t.spec -> 'providers' AS providers, t.spec -> 'walletRollout' ->> 'stage' AS "walletStage", t.spec -> 'retention' AS retention,
  coalesce(t.spec #> '{redaction,fields}', '[]') AS "redactedFields",
  coalesce((
    SELECT json_agg(json_build_array(encode(k.sha256, 'base64'), k.name, k.scopes,
      floor(extract(epoch FROM k.expires_at) * 1000)::bigint, floor(extract(epoch FROM k.ends_at) * 1000)::bigint))
    FROM api_keys k WHERE k.tenant_id = t.id
  ), '[]') AS keys,
  coalesce((
    SELECT json_agg(json_build_array(s.field, s.key_id, translate(encode(s.nonce || s.ciphertext, 'base64'), E'\\n', ''))
      ORDER BY s.field, s.ordinal)
    FROM tenant_secrets s WHERE s.tenant_id = t.id
  ), '[]') AS secrets`

/** The number of the last committed change of any tenant. Everything up to it is visible to the next statement. */
export async function readDirectoryVersion(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ version: number }>({
    name: 'read_directory_version',
    text: 'SELECT version FROM directory_version',
  })
  const version = rows[0]?.version
  if (version === undefined) throw new Error('the row of directory_version is missing: run the migrations')
  return version
}

/** Live tenants by id after `afterId` ('' begins). Not one snapshot over pages: read the changes since, afterwards. */
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

/** Tenants changed after the cursor, deleted ones included, in the order of their versions. Reading twice is harmless. */
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
    keys: row.keys.map(([sha256Base64, name, scopes, expiresAtMs, endsAtMs]) => ({
      sha256Base64,
      name,
      scopes,
      expiresAtMs,
      endsAtMs,
    })),
    secrets: row.secrets.map(([field, keyId, sealedBase64]) => ({ field, keyId, sealedBase64 })),
  }
}
