import { and, asc, eq, inArray, like, notInArray, sql } from 'drizzle-orm'
import { writeAudit } from '#internal/access/index.ts'
import { type Clock, parseTenantId, type TenantId } from '#internal/base/index.ts'
import { orm, type Pool, type PoolClient, purgeByKey, withTx } from '#internal/storage/index.ts'
import {
  emittedKindsMax,
  emittedLimitName,
  isKindLimited,
  lockLiveTenant,
  misspellingOf,
  moveRecordStores,
} from '#internal/tenants/index.ts'
import {
  checkSetting,
  checkSettingName,
  conflictBetween,
  definitionOf,
  emittedOf,
  isDeclaredPause,
  isSettingName,
  isValueOf,
  type SettingDefinition,
  type SettingName,
  type SettingValue,
  settingNames,
} from './definitions.ts'
import { settings, settingsVersion } from './tables.ts'

/** A setting with a stored value. Times are in milliseconds since the epoch. */
export interface StoredSetting
  extends Readonly<Omit<typeof settings.$inferSelect, 'name' | 'tenantId' | 'value'>> {
  readonly name: SettingName
  /** Null for the whole installation. */
  readonly tenantId: TenantId | null
  readonly value: SettingValue
}

/** Consistent snapshot of all stored settings. */
export interface SettingsRead {
  readonly version: number
  readonly settings: readonly StoredSetting[]
}

/** Maximum number of tenants with their own value of a setting. Each process keeps them in memory; claims exclude paused tenants. */
export const tenantsPerSettingMax = 200

/** Maximum number of stored pauses of declared providers in total. A limit per provider is no bound: new ones can always be declared. */
export const declaredPausesMax = 1000

const versionOnly = { version: settingsVersion.version }

export async function readSettingsVersion(pool: Pool): Promise<number> {
  return versionIn(
    await orm(pool).select(versionOnly).from(settingsVersion).prepare('settings_version').execute(),
  )
}

/**
 * Reads all stored settings, including those of tenants, and their version in one snapshot. Skips rows with an unknown name or value, which
 * a newer version of Latchkey wrote.
 */
export async function readSettings(pool: Pool): Promise<SettingsRead> {
  const rows = await orm(pool)
    .select({ ...versionOnly, setting: settings })
    .from(settingsVersion)
    .leftJoin(settings, sql`true`)
    .orderBy(asc(settings.tenantId), asc(settings.name))
  return {
    version: versionIn(rows),
    settings: rows.flatMap(({ setting }) => (setting ? toStored(setting) : [])),
  }
}

/** Reads a setting of the installation, then the same setting of a tenant. Omits each of the two that is not stored. */
export async function readSetting(
  pool: Pool,
  name: SettingName,
  tenantId: TenantId,
): Promise<readonly StoredSetting[]> {
  const rows = await orm(pool)
    .select()
    .from(settings)
    .where(and(eq(settings.name, name), inArray(settings.tenantId, ['', tenantId])))
    .orderBy(asc(settings.tenantId))
  return rows.flatMap(toStored)
}

function versionIn([row]: readonly { readonly version: number }[]): number {
  if (!row) throw new Error('the table settings_version has no row: run latchkey migrate')
  return row.version
}

function toStored({ name, tenantId, value, ...rest }: typeof settings.$inferSelect): StoredSetting[] {
  if (!isSettingName(name) || !isValueOf(name, value)) return []
  return [{ ...rest, name, tenantId: tenantId === '' ? null : parseTenantId(tenantId), value }]
}

/** A setting with its definition and value. */
export interface ListedSetting {
  readonly name: SettingName
  readonly definition: SettingDefinition
  /** Undefined if the default applies. */
  readonly stored: StoredSetting | undefined
  /** Value that applies: the stored value, otherwise the default. Null if the setting has neither. */
  readonly value: SettingValue | null
}

/**
 * Lists all settings that can apply to the installation (null) or to a tenant: those of fixed names in display order, then the stored
 * limits on emitted kinds and the stored pauses of declared providers. Also lists those of `asked`, even if not stored.
 */
export async function listSettings(
  pool: Pool,
  tenantId: TenantId | null,
  asked: readonly string[] = [],
): Promise<readonly ListedSetting[]> {
  const read = await readSettings(pool)
  const storedNames = read.settings.flatMap(({ name, tenantId: owner }) =>
    emittedOf(name) || (isDeclaredPause(name) && owner === tenantId) ? [name] : [],
  )
  return [...new Set<SettingName>([...settingNames, ...storedNames, ...asked.filter(isSettingName)])]
    .filter((name) => tenantId === null || definitionOf(name).scope === 'any')
    .map((name) => {
      const definition = definitionOf(name)
      const stored = read.settings.find((each) => each.name === name && each.tenantId === tenantId)
      return { name, definition, stored, value: stored?.value ?? definition.default }
    })
}

/** A setting that is stored for one tenant. */
export interface TenantSetting extends ListedSetting {
  readonly tenantId: TenantId
  readonly stored: StoredSetting
}

/** Lists the settings that are stored for single tenants, by tenant and name; at most `tenantsPerSettingMax` of each name. */
export async function listTenantSettings(pool: Pool): Promise<readonly TenantSetting[]> {
  const read = await readSettings(pool)
  return read.settings.flatMap((stored) => {
    const { name, tenantId, value } = stored
    return tenantId === null ? [] : [{ name, tenantId, stored, value, definition: definitionOf(name) }]
  })
}

export interface SettingClearing {
  readonly name: string
  /** Null for the whole installation. */
  readonly tenantId: TenantId | null
  /** Actor in the audit log: 1 to 200 printable characters. */
  readonly by: string
  /** Version of the stored value, 0 for none. If it differs, nothing is written (compare-and-set). */
  readonly expectedVersion?: number | undefined
}

export interface SettingWriting extends SettingClearing {
  readonly value: unknown
}

/**
 * Result of a write. `version` is 0 for a cleared setting. `conflict`: the setting does not have the expected version, and `present` is the
 * stored setting, or undefined if no value is stored.
 */
export type SettingWritten =
  | {
      readonly kind: 'written'
      readonly name: SettingName
      readonly version: number
      readonly old: SettingValue | undefined
    }
  | { readonly kind: 'conflict'; readonly present: StoredSetting | undefined }
  | { readonly kind: 'refused'; readonly problem: string }

export interface WritingParts {
  readonly pool: Pool
  readonly clock: Clock
}

/**
 * Writes a setting and its audit entry in one transaction. Refuses unknown names, invalid values, unknown tenants and contradictions with
 * other settings. Callers must then call `tellSettings`. Repeating the call writes again, with a new version. @throws errors of Postgres;
 * if the commit failed, the setting may or may not be written
 */
export async function writeSetting(parts: WritingParts, writing: SettingWriting): Promise<SettingWritten> {
  const { name, value, tenantId } = writing
  const checked = checkSetting({ name, ofTenant: tenantId !== null, value })
  return checked.kind === 'refused' ? checked : applyChange(parts, { ...writing, ...checked })
}

/** Clears a setting, so that its default applies; otherwise works like `writeSetting`. Changes nothing if no value is stored. */
export async function clearSetting(parts: WritingParts, clearing: SettingClearing): Promise<SettingWritten> {
  const { name, tenantId } = clearing
  const checked = checkSettingName({ name, ofTenant: tenantId !== null })
  return checked.kind === 'ok'
    ? applyChange(parts, { ...clearing, name: checked.name, value: undefined })
    : { ...checked, kind: 'refused' }
}

const namePattern = /^[^\p{Cc}\p{Cf}]{1,200}$/u

async function applyChange(
  { pool, clock }: WritingParts,
  wanted: SettingClearing & { readonly name: SettingName; readonly value: SettingValue | undefined },
): Promise<SettingWritten> {
  if (!namePattern.test(wanted.by))
    return { kind: 'refused', problem: 'The actor must be named, in 1 to 200 printable characters' }
  return withTx(pool, async (client) => {
    const db = orm(client)
    const { name, tenantId, value = null, expectedVersion, by } = wanted
    // Locks the version row, so that writes run one after another: no other write changes what the checks below have read.
    const version = 1 + versionIn(await db.select().from(settingsVersion).for('update'))
    const isThis = and(eq(settings.tenantId, tenantId ?? ''), eq(settings.name, name))
    const [present] = (await db.select().from(settings).where(isThis)).flatMap(toStored)
    if (expectedVersion !== undefined && expectedVersion !== (present?.version ?? 0))
      return { kind: 'conflict', present }
    const old = present?.value
    if (value === null && present === undefined) return { kind: 'written', name, version: 0, old }
    const problem = await problemOf(client, wanted, present === undefined)
    if (problem !== undefined) return { kind: 'refused', problem }
    const nowMs = clock.now()
    await db.update(settingsVersion).set({ version })
    if (value === null) await db.delete(settings).where(isThis)
    else {
      const row = { value, version, updatedAtMs: nowMs, updatedBy: by }
      const target = [settings.tenantId, settings.name]
      const insert = db.insert(settings).values({ tenantId: tenantId ?? '', name, ...row })
      await insert.onConflictDoUpdate({ target, set: row })
    }
    if (name === 'records.durability') await moveRecordStores(client)
    const action = value === null ? 'settings.cleared' : 'settings.set'
    const detail = { name, old: old ?? null, new: value, version }
    await writeAudit(client, { actor: by, action, tenantId, detail }, nowMs)
    return { kind: 'written', name, version: value === null ? 0 : version, old }
  })
}

async function problemOf(
  client: PoolClient,
  { name, tenantId, value }: Parameters<typeof applyChange>[1],
  isNew: boolean,
): Promise<string | undefined> {
  const db = orm(client)
  if (isNew && value !== undefined && isDeclaredPause(name)) {
    const isDeclared = and(
      like(settings.name, 'providers.%.paused'),
      notInArray(settings.name, [...settingNames]),
    )
    if ((await db.$count(settings, isDeclared)) >= declaredPausesMax)
      return `${declaredPausesMax} pauses of declared providers are set, which is the maximum: clear some`
  }
  if (tenantId === null) {
    const rows = await db.select().from(settings).where(eq(settings.tenantId, ''))
    const values = Object.fromEntries(rows.flatMap(toStored).map((each) => [each.name, each.value]))
    const kind = emittedOf(name)?.kind
    if (value !== undefined && kind !== undefined) {
      const misspelling = misspellingOf(emittedLimitName(kind))
      const isStored = Object.keys(values).some((each) => emittedOf(each)?.kind === kind)
      if (misspelling !== undefined && !isStored && !(await isKindLimited(client, kind))) return misspelling
    }
    const kinds = new Set([...Object.keys(values), name].flatMap((each) => emittedOf(each)?.kind ?? []))
    return value !== undefined && emittedOf(name) !== undefined && kinds.size > emittedKindsMax
      ? `Limits of ${emittedKindsMax} emitted kinds are set, which is the maximum: clear some`
      : conflictBetween({ ...values, [name]: value })
  }
  if (value === undefined) return undefined
  if (!(await lockLiveTenant(client, tenantId))) return 'There is no such tenant'
  const isOther = and(eq(settings.name, name), notInArray(settings.tenantId, ['', tenantId]))
  if ((await db.$count(settings, isOther)) < tenantsPerSettingMax) return undefined
  return `${name} is set for ${tenantsPerSettingMax} tenants, which is the maximum: clear some, or set it for the installation`
}

/** Deletes the settings of a deleted tenant. */
export const purgeSettings = purgeByKey('settings', ['name'])
