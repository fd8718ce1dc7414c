import type { TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import {
  type SettingDefinition,
  type SettingName,
  type SettingValue,
  settingDefinitions,
  settingNames,
} from './definitions.ts'
import { readSettings, type StoredSetting } from './store.ts'

/** A setting with what is known of it. */
export interface ListedSetting {
  readonly name: SettingName
  readonly definition: SettingDefinition
  /** What was set; undefined where the default holds. */
  readonly stored: StoredSetting | undefined
  /** What holds: what was set, or else the default; null where nothing does. */
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
