import type { Clock, TenantId } from '#internal/base/index.ts'
import { type Pool, type PoolClient, withTx } from '#internal/storage/index.ts'
import { checkSetting, checkSettingName, conflictBetween } from './check.ts'
import type { SettingName, SettingValue } from './definitions.ts'
import {
  countOtherTenants,
  findSetting,
  listInstallationSettings,
  lockSettings,
  lockTenant,
  type StoredSetting,
  tenantsPerSettingMax,
  writeRow,
} from './store.ts'

/** Which setting is to be cleared, and by whom. */
export interface SettingClearing {
  readonly name: string
  /** null: for the whole installation. */
  readonly tenantId: TenantId | null
  /** Who does it, for the audit log: 1 to 200 printable characters. */
  readonly by: string
  /** The version that was seen, 0 for a setting that was not set: with another one there now, nothing is written. */
  readonly expectedVersion?: number | undefined
}

/** Which setting is to have which value. */
export interface SettingWriting extends SettingClearing {
  readonly value: unknown
}

/** What became of a write. `version` is 0 for what is not set any more. `present`: what is there in place of what was expected; undefined when it is not set. */
export type SettingWritten =
  | {
      readonly kind: 'written'
      readonly name: SettingName
      readonly version: number
      readonly old: SettingValue | undefined
    }
  | { readonly kind: 'conflict'; readonly present: StoredSetting | undefined }
  | { readonly kind: 'refused'; readonly problem: string }

/** What settings are written with. */
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
  return checked.kind === 'refused' ? checked : change(parts, { ...writing, ...checked })
}

/** Clears a setting, so that its default holds again; otherwise as `writeSetting`. Clearing one that is not set changes nothing. */
export async function clearSetting(parts: WritingParts, clearing: SettingClearing): Promise<SettingWritten> {
  const { name, tenantId } = clearing
  const checked = checkSettingName({ name, ofTenant: tenantId !== null })
  return checked.kind === 'refused'
    ? checked
    : change(parts, { ...clearing, name: checked.name, value: undefined })
}

interface Change extends SettingClearing {
  readonly name: SettingName
  readonly value: SettingValue | undefined
}

const namePattern = /^[^\p{Cc}\p{Cf}]{1,200}$/u

async function change({ pool, clock }: WritingParts, wanted: Change): Promise<SettingWritten> {
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
