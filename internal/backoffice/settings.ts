import type { Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { ListedSetting, SettingName } from '#internal/settings/index.ts'
import type { Outcome } from './outcome.ts'

/** Which setting is to be cleared. */
export interface SettingClear {
  readonly name: string
  /** null: for the whole installation. */
  readonly tenantId: TenantId | null
  /** The version that was seen, 0 for one that was not set: with another one there now it is a conflict. */
  readonly expectedVersion?: number | undefined
}

/** Which setting is to have which value. */
export interface SettingWrite extends SettingClear {
  readonly value: unknown
}

/** A setting after a write: `version` is 0 where it is not set any more; `isNew` is false where nothing had to be written. */
export interface SettingChanged {
  readonly name: SettingName
  readonly version: number
  readonly isNew: boolean
}

/** Runtime settings: the installation's (null), or a tenant's own. */
export interface SettingDesk {
  list(actor: Actor, tenantId: TenantId | null): Promise<Outcome<readonly ListedSetting[]>>
  write(actor: Actor, write: SettingWrite): Promise<Outcome<SettingChanged>>
  clear(actor: Actor, clear: SettingClear): Promise<Outcome<SettingChanged>>
}
