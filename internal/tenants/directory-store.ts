import { parseTenantId, type TenantId } from '#internal/base/index.ts'
import { type Pool, type PoolClient, withTx } from '#internal/storage/index.ts'
import { encodedSql } from './directory-codec.ts'

export interface DirectoryKeyRow {
  readonly sha256Base64: string
  /** Text of the column `encodedSql.key`. */
  readonly rules: string
}

/** If `deleted` is true, the directory must remove the tenant. */
export interface DirectoryRow {
  readonly id: TenantId
  readonly namespace: string
  readonly name: string
  readonly slug: string | null
  readonly suspended: boolean
  readonly deleted: boolean
  /** Null for a tenant that only pulls its events. */
  readonly callbackUrl: string | null
  /** Text of the column `encodedSql.notifications`; null for a tenant that gets none. */
  readonly notifications: string | null
  /** Text of the column `encodedSql.rules`. */
  readonly rules: string
}

export interface DirectorySecretRow {
  readonly field: string
  readonly keyId: string
  /** Nonce followed by ciphertext, in base64. */
  readonly sealedBase64: string
}

/** Gets each tenant before its keys and secrets. */
export interface DirectorySink {
  put(row: DirectoryRow): void
  addKey(tenantId: string, key: DirectoryKeyRow): void
  addSecret(tenantId: string, secret: DirectorySecretRow): void
  /** True after the sink has skipped a tenant. A complete read then stops. */
  readonly overfull: boolean
}

interface TextRow extends Omit<DirectoryRow, 'id' | 'suspended' | 'deleted'> {
  readonly id: string
  readonly suspended: 't' | 'f'
  readonly deleted: 't' | 'f'
  readonly version: string
}

/** Leaves columns as the texts that Postgres sends. `pg` would parse the JSON of each row. */
const asTexts = { getTypeParser: () => (text: string) => text }

const tenantColumns = `
  t.id, t.namespace, t.name, t.slug, t.suspended, t.deleted_at IS NOT NULL AS deleted, t.version,
  t.spec #>> '{callback,url}' AS "callbackUrl",
  ${encodedSql.notifications} AS notifications, ${encodedSql.rules} AS rules`
const keyColumns = `k.tenant_id AS "tenantId", encode(k.sha256, 'base64') AS "sha256Base64", ${encodedSql.key} AS rules`
const secretColumns = `s.tenant_id AS "tenantId", s.field, s.key_id AS "keyId",
  translate(encode(s.nonce || s.ciphertext, 'base64'), E'\\n', '') AS "sealedBase64"`
const secretOrder = 's.tenant_id, s.field, s.ordinal'

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
 * Passes all tenants that are not deleted to the sink, then all keys, then all secrets, and stops if the sink is overfull. Cursors read the
 * tables in their stored order: by index, each of 100 000 rows would be a random access. The three reads are not one snapshot: callers must
 * afterwards read the changes made since before this call.
 */
export async function readDirectory(
  pool: Pool,
  sink: DirectorySink,
  options: { readonly pageRows: number; readonly signal: AbortSignal },
): Promise<void> {
  await withTx(pool, async (client) => {
    const tenants = `SELECT ${tenantColumns} FROM tenants t WHERE t.deleted_at IS NULL`
    for await (const rows of cursorPages<TextRow>(client, 'directory_tenants', tenants, options)) {
      for (const row of rows) sink.put(toDirectoryRow(row))
      if (sink.overfull) break
    }
    const keys = `SELECT ${keyColumns} FROM api_keys k`
    for await (const rows of cursorPages<DirectoryKeyRow & { tenantId: string }>(
      client,
      'directory_keys',
      keys,
      options,
    ))
      for (const row of rows) sink.addKey(row.tenantId, row)
    const secrets = `SELECT ${secretColumns} FROM tenant_secrets s ORDER BY ${secretOrder}`
    for await (const rows of cursorPages<DirectorySecretRow & { tenantId: string }>(
      client,
      'directory_secrets',
      secrets,
      options,
    ))
      for (const row of rows) sink.addSecret(row.tenantId, row)
  })
}

/** Postgres produces the next page while the caller handles one. */
async function* cursorPages<Row extends object>(
  client: PoolClient,
  name: string,
  select: string,
  { pageRows, signal }: Parameters<typeof readDirectory>[2],
): AsyncGenerator<readonly Row[]> {
  await client.query(`DECLARE ${name} NO SCROLL CURSOR FOR ${select}`)
  const fetchPage = () => {
    const page = client.query<Row>({ text: `FETCH ${pageRows} FROM ${name}`, types: asTexts })
    // Prevents an unhandled rejection: a caller that stops early does not await the page that was requested ahead.
    page.catch(() => undefined)
    return page
  }
  let next: ReturnType<typeof fetchPage> | undefined = fetchPage()
  while (next !== undefined) {
    signal.throwIfAborted()
    const rows: readonly Row[] = (await next).rows
    next = rows.length < pageRows ? undefined : fetchPage()
    yield rows
  }
}

/** Reads changes, including deletions, ordered by version and id. An `after` with an empty `id` precedes all changes of its version. */
export async function readDirectoryChanges(
  pool: Pool,
  sink: DirectorySink,
  after: { readonly version: number; readonly id: string },
  rowsMax: number,
): Promise<{ readonly count: number; readonly last: typeof after | undefined }> {
  // One statement, so that a tenant gets the keys and secrets of its version. It is not prepared: a generic plan cached while the tables
  // were small would scan all keys for each tenant.
  const { rows } = await pool.query<TextRow & { readonly keys: string; readonly secrets: string }>({
    text: `SELECT ${tenantColumns},
        coalesce((SELECT json_agg(k) FROM (
          SELECT encode(k.sha256, 'base64') AS "sha256Base64", (${encodedSql.key})::text AS rules FROM api_keys k WHERE k.tenant_id = t.id
        ) k), '[]') AS keys,
        coalesce((SELECT json_agg(s) FROM (
          SELECT ${secretColumns} FROM tenant_secrets s WHERE s.tenant_id = t.id ORDER BY ${secretOrder}
        ) s), '[]') AS secrets
      FROM tenants t WHERE (t.version, t.id) > ($1, $2) ORDER BY t.version, t.id LIMIT $3`,
    values: [after.version, after.id, rowsMax],
    types: asTexts,
  })
  for (const row of rows) {
    sink.put(toDirectoryRow(row))
    for (const key of JSON.parse(row.keys) as DirectoryKeyRow[]) sink.addKey(row.id, key)
    for (const secret of JSON.parse(row.secrets) as DirectorySecretRow[]) sink.addSecret(row.id, secret)
  }
  const last = rows.at(-1)
  return { count: rows.length, last: last && { version: Number(last.version), id: last.id } }
}

function toDirectoryRow(row: TextRow): DirectoryRow {
  const { namespace, name, slug, callbackUrl, notifications, rules } = row
  const flags = { suspended: row.suspended === 't', deleted: row.deleted === 't' }
  return { id: parseTenantId(row.id), namespace, name, slug, ...flags, callbackUrl, notifications, rules }
}
