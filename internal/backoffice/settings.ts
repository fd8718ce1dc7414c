import { type Actor, actorName } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { allProviderNames, findProviderName } from '#internal/providers/index.ts'
import {
  checkSettingName,
  clearSetting,
  type KnownProviderNames,
  type ListedSetting,
  listSettings,
  listTenantSettings,
  type SettingName,
  type SettingWritten,
  type TenantSetting,
  tellSettings,
  writeSetting,
} from '#internal/settings/index.ts'
import type { SettingChanged, SettingCleared } from './http-answers.ts'
import type { ValueOf } from './http-schemas.ts'
import { conflict, defined, invalid, notFound, type Outcome, ok } from './outcome.ts'
import type { DeskParts, UseCase } from './parts.ts'
import { reachOwner } from './reach.ts'

const list: UseCase<TenantId | null, readonly ListedSetting[]> = async (parts, actor, tenantId) => {
  const reached = await reachOwner(parts, actor, tenantId, 'see')
  return reached.kind === 'ok'
    ? ok(await listSettings(parts.pool, tenantId, pauseSettingsOf(parts, tenantId)))
    : reached
}

/** Returns the names of the pause settings of a tenant's providers. None for the installation, whose stored pauses are listed anyway. */
function pauseSettingsOf({ directory }: DeskParts, tenantId: TenantId | null): readonly string[] {
  const tenant = tenantId === null ? undefined : directory.findTenantById(tenantId)
  const declarations = directory.declarations()
  return (tenant?.providers ?? []).flatMap(({ name }) => {
    const known = findProviderName(name, declarations)
    return known === undefined ? [] : [`providers.${known}.paused`]
  })
}

const listOfTenants: UseCase<null, readonly TenantSetting[]> = async (parts, actor) => {
  const reached = await reachOwner(parts, actor, null, 'see')
  return reached.kind === 'ok' ? ok(await listTenantSettings(parts.pool)) : reached
}

interface SettingClear {
  readonly name: string
  /** Null selects the installation. */
  readonly tenantId: TenantId | null
  /** Version that the caller saw, 0 if the setting was not stored. If the stored version differs, the write is refused as a conflict. */
  readonly expectedVersion?: number | undefined
}

interface SettingWrite extends SettingClear {
  readonly value: unknown
}

/** Reads a setting. `name` may contain a provider's alias or its vendor's name. */
const read: UseCase<Pick<SettingClear, 'name' | 'tenantId'>, ListedSetting> = async (
  parts,
  actor,
  { name, tenantId },
) => {
  const reached = await reachOwner(parts, actor, tenantId, 'see')
  return reached.kind === 'ok' ? find(parts, name, tenantId) : reached
}

async function find(
  { pool, directory }: DeskParts,
  given: string,
  tenantId: TenantId | null,
): Promise<Outcome<ListedSetting>> {
  const providers: KnownProviderNames = {
    nameOf: (name) => findProviderName(name, directory.declarations()),
    all: () => allProviderNames(directory.declarations()),
  }
  const named = checkSettingName({ name: given, ofTenant: tenantId !== null, providers })
  if (named.kind === 'refused') return { ...notFound, problem: named.problem }
  const found = (await listSettings(pool, tenantId, [named.name])).find(({ name }) => name === named.name)
  if (found === undefined) return notFound
  // A stored pause of a provider that no longer exists can still be read and cleared.
  return named.kind === 'unknownProvider' && found.stored === undefined
    ? { ...notFound, problem: named.problem }
    : ok(found)
}

/** Writes a setting. Does nothing if the same value is already stored. */
const write: UseCase<SettingWrite, ValueOf<typeof SettingChanged>> = async (
  parts,
  actor,
  { value, ...asked },
) => {
  const found = await findToChange(parts, actor, asked)
  if (found.kind !== 'ok') return found
  const { name, stored } = found.value
  if (stored !== undefined && stored.value === value)
    return ok({ name, version: stored.version, previousValue: stored.value, isNew: false })
  const done = await doneOf(parts, await writeSetting(parts, { ...changeOf(actor, asked, name), value }))
  if (done.kind !== 'ok') return done
  const { version, old: previousValue = null } = done.value
  return ok({ name, version, previousValue, isNew: true })
}

const clear: UseCase<SettingClear, ValueOf<typeof SettingCleared>> = async (parts, actor, asked) => {
  const found = await findToChange(parts, actor, asked)
  if (found.kind !== 'ok') return found
  const { name, stored } = found.value
  if (stored === undefined) return ok({ name, existed: false, previousValue: null })
  const done = await doneOf(parts, await clearSetting(parts, changeOf(actor, asked, name)))
  if (done.kind !== 'ok') return done
  const { old } = done.value
  return ok({ name, existed: old !== undefined, previousValue: old ?? null })
}

async function findToChange(
  parts: DeskParts,
  actor: Actor,
  { name, tenantId }: SettingClear,
): Promise<Outcome<ListedSetting>> {
  const reached = await reachOwner(parts, actor, tenantId, 'changeSettings')
  return reached.kind === 'ok' ? find(parts, name, tenantId) : reached
}

function changeOf(actor: Actor, { tenantId, expectedVersion }: SettingClear, name: SettingName) {
  return { name, tenantId, by: actorName(actor), ...defined({ expectedVersion }) }
}

async function doneOf(
  { redis }: DeskParts,
  written: SettingWritten,
): Promise<Outcome<Extract<SettingWritten, { kind: 'written' }>>> {
  switch (written.kind) {
    case 'written':
      // If the notification is lost, other processes still find the change by polling.
      await tellSettings(redis).catch(() => undefined)
      return ok(written)
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

export const settingCases = { list, listOfTenants, read, write, clear }
