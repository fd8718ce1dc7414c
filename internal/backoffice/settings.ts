import { type Actor, actorName } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import {
  clearSetting,
  type ListedSetting,
  listSettings,
  type SettingName,
  type SettingWritten,
  tellSettings,
  writeSetting,
} from '#internal/settings/index.ts'
import { conflict, type Done, defined, invalid, type Outcome, ok } from './outcome.ts'
import type { DeskParts, UseCase } from './parts.ts'
import { reachOwner } from './reach.ts'

/** Lists the runtime settings of a tenant, or of the installation if `tenantId` is null. */
const list: UseCase<TenantId | null, readonly ListedSetting[]> = async (parts, actor, tenantId) => {
  const reached = await reachOwner(parts, actor, tenantId, 'see')
  return reached.kind === 'ok' ? ok(await listSettings(parts.pool, tenantId)) : reached
}

interface SettingClear {
  readonly name: string
  /** Null selects the installation. */
  readonly tenantId: TenantId | null
  /** The version that the caller saw, or 0 if the setting was not set. The write is refused as a conflict if the stored version differs. */
  readonly expectedVersion?: number | undefined
}

interface SettingWrite extends SettingClear {
  readonly value: unknown
}

interface SettingChanged extends Done {
  readonly name: SettingName
  /** 0 if the setting is no longer set. */
  readonly version: number
}

/** Writes a setting, or clears it if the value is undefined. Does nothing if the same value is already stored. */
const write: UseCase<SettingWrite, SettingChanged> = async (
  parts,
  actor,
  { name, tenantId, value, expectedVersion },
) => {
  const reached = await reachOwner(parts, actor, tenantId, 'changeSettings')
  if (reached.kind !== 'ok') return reached
  const present = (await listSettings(parts.pool, tenantId)).find((each) => each.name === name)
  if (present && (present.stored?.value ?? undefined) === value)
    return ok({ name: present.name, version: present.stored?.version ?? 0, isNew: false })
  const change = { name, tenantId, value, by: actorName(actor), ...defined({ expectedVersion }) }
  const written = await (value === undefined ? clearSetting(parts, change) : writeSetting(parts, change))
  switch (written.kind) {
    case 'written':
      // If the notification is lost, other processes still find the change by polling.
      await tellSettings(parts.redis).catch(() => undefined)
      return ok({ name: written.name, version: written.version, isNew: true })
    case 'conflict':
      return conflict(
        `The setting was changed in the meantime: ${presentText(written.present)}. Nothing was written`,
      )
    case 'refused':
      return invalid(written.problem)
  }
}

function presentText(present: Extract<SettingWritten, { kind: 'conflict' }>['present']): string {
  return present === undefined
    ? 'it is not set'
    : `it is ${String(present.value)} in version ${present.version}, by ${present.updatedBy}`
}

/** Clears a setting, so that the default applies. */
function clear(parts: DeskParts, actor: Actor, request: SettingClear): Promise<Outcome<SettingChanged>> {
  return write(parts, actor, { ...request, value: undefined })
}

/** Use cases of settings. */
export const settingCases = { list, write, clear }
