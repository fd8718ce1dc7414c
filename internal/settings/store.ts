import { writeAudit } from '#internal/access/index.ts'
import { type Clock, parseTenantId, type TenantId } from '#internal/base/index.ts'
import { type Pool, type PoolClient, purgeByKey, withTx } from '#internal/storage/index.ts'
import {
  checkSetting,
  checkSettingName,
  conflictBetween,
  isSettingName,
  isValueOf,
  type SettingDefinition,
  type SettingName,
  type SettingValue,
  settingDefinitions,
  settingNames,
} from './definitions.ts'

/** A setting that was set. Times in milliseconds since the epoch. */
export interface StoredSetting {
  readonly name: SettingName
  /** null: for the whole installation. */
  readonly tenantId: TenantId | null
  readonly value: SettingValue
  /** Another one after every write. */
  readonly version: number
  readonly updatedAtMs: number
  readonly updatedBy: string
}

/** All settings of one moment. */
export interface SettingsRead {
  /** Grows with every write of any setting. */
  readonly version: number
  readonly settings: readonly StoredSetting[]
}

/** Tenants that one setting may be set for, so that all fit in every process and in every claim. */
export const tenantsPerSettingMax = 200

interface RawSetting {
  readonly name: string
  readonly tenantId: string
  readonly value: unknown
  readonly version: number
  readonly updatedAtMs: number
  readonly updatedBy: string
}

const columns = `name, tenant_id AS "tenantId", value, version,
  floor(extract(epoch FROM updated_at) * 1000)::bigint AS "updatedAtMs", updated_by AS "updatedBy"`

/** The number of the last committed write of any setting. One row, no lock. */
export async function readSettingsVersion(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ version: number }>({
    name: 'read_settings_version',
    text: 'SELECT version FROM settings_version',
  })
  return versionIn(rows)
}

/**
 * Reads all settings that are set, those of tenants too. A row that this version of Latchkey does not know, by name or value, is
 * left out: a newer one wrote it.
 */
export async function readSettings(pool: Pool): Promise<SettingsRead> {
  // One statement, so that rows and version are of one moment. Takes no lock.
  const { rows } = await pool.query<{ version: number; settings: RawSetting[] }>({
    name: 'read_settings',
    text: `SELECT v.version, coalesce((SELECT json_agg(s ORDER BY s."tenantId", s.name)
             FROM (SELECT ${columns} FROM settings) s), '[]') AS settings
           FROM settings_version v`,
  })
  return { version: versionIn(rows), settings: rows[0]?.settings.flatMap(toStored) ?? [] }
}

/** Reads one setting; undefined when it is not set. One row by its key, no lock. */
export async function findSetting(
  connection: Pool | PoolClient,
  { name, tenantId }: Pick<StoredSetting, 'name' | 'tenantId'>,
): Promise<StoredSetting | undefined> {
  const { rows } = await connection.query<RawSetting>({
    name: 'find_setting',
    text: `SELECT ${columns} FROM settings WHERE tenant_id = $1 AND name = $2`,
    values: [tenantId ?? '', name],
  })
  return rows.flatMap(toStored)[0]
}

/** Keeps other writers away until the transaction ends, and gives the present version. */
export async function lockSettings(client: PoolClient): Promise<number> {
  const { rows } = await client.query<{ version: number }>('SELECT version FROM settings_version FOR UPDATE')
  return versionIn(rows)
}

// The lock lets a deletion wait until the setting is there, so that its purge finds it.
/** Returns whether the tenant exists, and keeps it from being deleted until the transaction ends. */
export async function lockTenant(client: PoolClient, tenantId: TenantId): Promise<boolean> {
  const { rowCount } = await client.query(
    'SELECT FROM tenants WHERE id = $1 AND deleted_at IS NULL FOR SHARE',
    [tenantId],
  )
  return rowCount === 1
}

/** Counts the other tenants with this setting. Exact while the version's row is locked. */
export async function countOtherTenants(
  client: PoolClient,
  { name, tenantId }: Pick<StoredSetting, 'name' | 'tenantId'>,
): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    `SELECT count(*) FROM settings WHERE name = $1 AND tenant_id NOT IN ('', $2)`,
    [name, tenantId ?? ''],
  )
  return rows[0]?.count ?? 0
}

/** The installation's settings as far as they are set. */
export async function listInstallationSettings(client: PoolClient): Promise<readonly StoredSetting[]> {
  const { rows } = await client.query<RawSetting>(`SELECT ${columns} FROM settings WHERE tenant_id = ''`)
  return rows.flatMap(toStored)
}

/** Write of one row; without a value the row is removed. */
export interface SettingChange extends Omit<StoredSetting, 'value'> {
  readonly value: SettingValue | undefined
  /** Value before the write, for the audit log. */
  readonly old: SettingValue | undefined
}

/** Writes or removes a setting, raises the version to the change's, and says so in the audit log. */
export async function writeRow(client: PoolClient, change: SettingChange): Promise<void> {
  const { name, tenantId, value, version, updatedAtMs, updatedBy, old } = change
  const key = [tenantId ?? '', name]
  await client.query('UPDATE settings_version SET version = $1', [version])
  if (value === undefined) await client.query('DELETE FROM settings WHERE tenant_id = $1 AND name = $2', key)
  else
    await client.query(
      `INSERT INTO settings (tenant_id, name, value, version, updated_at, updated_by) VALUES ($1, $2, $3, $4, $5, $6)
       ON CONFLICT (tenant_id, name) DO UPDATE SET value = excluded.value, version = excluded.version,
         updated_at = excluded.updated_at, updated_by = excluded.updated_by`,
      [...key, JSON.stringify(value), version, new Date(updatedAtMs), updatedBy],
    )
  const action = value === undefined ? 'settings.cleared' : 'settings.set'
  const detail = { name, old: old ?? null, new: value ?? null, version }
  await writeAudit(client, { actor: updatedBy, action, tenantId, detail }, updatedAtMs)
}

function versionIn(rows: readonly { readonly version: number }[]): number {
  const version = rows[0]?.version
  if (version === undefined) throw new Error('the row of settings_version is missing: run the migrations')
  return version
}

function toStored({ name, tenantId, value, ...rest }: RawSetting): StoredSetting[] {
  if (!isSettingName(name) || !isValueOf(name, value)) return []
  return [{ ...rest, name, tenantId: tenantId === '' ? null : parseTenantId(tenantId), value }]
}

/** A setting with what is known of it. */
export interface ListedSetting {
  readonly name: SettingName
  readonly definition: SettingDefinition
  /** Value that is set; undefined where the default applies. */
  readonly stored: StoredSetting | undefined
  /** Value in force: the one that is set, else the default; null for none. */
  readonly value: SettingValue | null
}

/** All settings that the installation (null) or a tenant can have, in their order, with what is set now. One query, no lock. */
export async function listSettings(pool: Pool, tenantId: TenantId | null): Promise<readonly ListedSetting[]> {
  const { settings } = await readSettings(pool)
  return settingNames
    .filter((name) => tenantId === null || settingDefinitions[name].scope === 'any')
    .map((name) => {
      const definition = settingDefinitions[name]
      const stored = settings.find((each) => each.name === name && each.tenantId === tenantId)
      return { name, definition, stored, value: stored?.value ?? definition.default }
    })
}

/** Setting to clear, and the actor. */
export interface SettingClearing {
  readonly name: string
  /** null: for the whole installation. */
  readonly tenantId: TenantId | null
  /** Actor for the audit log: 1 to 200 printable characters. */
  readonly by: string
  /** The version that was seen, 0 for a setting that was not set: with another one there now, nothing is written. */
  readonly expectedVersion?: number | undefined
}

/** Setting to write, with its value. */
export interface SettingWriting extends SettingClearing {
  readonly value: unknown
}

/** Result of a write. `version` is 0 for what is not set any more. `present`: what is there in place of what was expected; undefined when it is not set. */
export type SettingWritten =
  | {
      readonly kind: 'written'
      readonly name: SettingName
      readonly version: number
      readonly old: SettingValue | undefined
    }
  | { readonly kind: 'conflict'; readonly present: StoredSetting | undefined }
  | { readonly kind: 'refused'; readonly problem: string }

/** Dependencies of writing settings. */
export interface WritingParts {
  readonly pool: Pool
  readonly clock: Clock
}

/**
 * Sets a setting, and says so in the audit log in the same commit. Refuses unknown names, values out of bounds, unknown tenants
 * and what contradicts another setting. Tell `tellSettings` afterwards. Repeating it writes again, under another version.
 * @throws what Postgres throws; whether it was written is then unknown when the commit itself failed
 */
export async function writeSetting(parts: WritingParts, writing: SettingWriting): Promise<SettingWritten> {
  const { name, value, tenantId } = writing
  const checked = checkSetting({ name, ofTenant: tenantId !== null, value })
  return checked.kind === 'refused' ? checked : applyChange(parts, { ...writing, ...checked })
}

/** Clears a setting, so that its default holds again; otherwise as `writeSetting`. Clearing one that is not set changes nothing. */
export async function clearSetting(parts: WritingParts, clearing: SettingClearing): Promise<SettingWritten> {
  const { name, tenantId } = clearing
  const checked = checkSettingName({ name, ofTenant: tenantId !== null })
  return checked.kind === 'refused'
    ? checked
    : applyChange(parts, { ...clearing, name: checked.name, value: undefined })
}

interface Change extends SettingClearing {
  readonly name: SettingName
  readonly value: SettingValue | undefined
}

const namePattern = /^[^\p{Cc}\p{Cf}]{1,200}$/u

async function applyChange({ pool, clock }: WritingParts, wanted: Change): Promise<SettingWritten> {
  if (!namePattern.test(wanted.by))
    return { kind: 'refused', problem: 'Who writes has to be named, in 1 to 200 printable characters' }
  return withTx(pool, async (client) => {
    const version = 1 + (await lockSettings(client))
    const present = await findSetting(client, wanted)
    const { name, tenantId, value, expectedVersion } = wanted
    if (expectedVersion !== undefined && expectedVersion !== (present?.version ?? 0))
      return { kind: 'conflict', present }
    const old = present?.value
    if (value === undefined && present === undefined) return { kind: 'written', name, version: 0, old }
    const problem = await problemOf(client, wanted)
    if (problem !== undefined) return { kind: 'refused', problem }
    const [updatedAtMs, updatedBy] = [clock.now(), wanted.by]
    await writeRow(client, { name, tenantId, value, version, updatedAtMs, updatedBy, old })
    return { kind: 'written', name, version: value === undefined ? 0 : version, old }
  })
}

async function problemOf(client: PoolClient, { name, tenantId, value }: Change): Promise<string | undefined> {
  if (tenantId === null) {
    const values: Record<string, SettingValue | undefined> = {}
    for (const each of await listInstallationSettings(client)) values[each.name] = each.value
    values[name] = value
    return conflictBetween(values)
  }
  if (value === undefined) return undefined
  if (!(await lockTenant(client, tenantId))) return 'There is no such tenant'
  const others = await countOtherTenants(client, { name, tenantId })
  if (others < tenantsPerSettingMax) return undefined
  return `${name} is set for ${tenantsPerSettingMax} tenants, which is all that it may be: clear some, or set it for the installation`
}

/** Removes a deleted tenant's settings. */
export const purgeSettings = purgeByKey('settings', ['name'])
