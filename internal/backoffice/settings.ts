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
import { attempt } from './attempt.ts'
import { conflict, invalid, type Outcome, ok } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachOwner } from './reach.ts'

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

/** Makes the use cases of settings. */
export function createSettingDesk(parts: BackofficeParts): SettingDesk {
  return {
    list: (actor, tenantId) =>
      attempt(parts, async () => {
        const reached = await reachOwner(parts, actor, tenantId, 'see')
        return reached.kind === 'ok' ? ok(await listSettings(parts.pool, tenantId)) : reached
      }),
    write: (actor, write) => attempt(parts, () => change(parts, actor, write)),
    clear: (actor, clear) => attempt(parts, () => change(parts, actor, { ...clear, value: undefined })),
  }
}

/** Writes a setting, or clears it where there is no value. What is there already is not written again, whatever its version. */
async function change(
  parts: BackofficeParts,
  actor: Actor,
  { name, tenantId, value, expectedVersion }: SettingWrite,
): Promise<Outcome<SettingChanged>> {
  const reached = await reachOwner(parts, actor, tenantId, 'changeSettings')
  if (reached.kind !== 'ok') return reached
  const present = (await listSettings(parts.pool, tenantId)).find((each) => each.name === name)
  if (present && (present.stored?.value ?? undefined) === value)
    return ok({ name: present.name, version: present.stored?.version ?? 0, isNew: false })
  const written = await writeOrClear(parts, {
    ...{ name, tenantId, value, by: actorName(actor) },
    ...(expectedVersion !== undefined && { expectedVersion }),
  })
  switch (written.kind) {
    case 'written':
      // Without it processes find it by their poll.
      await tellSettings(parts.redis).catch(() => undefined)
      return ok({ name: written.name, version: written.version, isNew: true })
    case 'conflict':
      return conflict(`It was changed meanwhile: ${nowOf(written.present)}. Nothing was written`)
    case 'refused':
      return invalid(written.problem)
  }
}

function writeOrClear(
  parts: BackofficeParts,
  writing: Parameters<typeof writeSetting>[1],
): Promise<SettingWritten> {
  return writing.value === undefined ? clearSetting(parts, writing) : writeSetting(parts, writing)
}

function nowOf(present: Extract<SettingWritten, { kind: 'conflict' }>['present']): string {
  return present === undefined
    ? 'it is not set'
    : `it is ${String(present.value)} in version ${present.version}, by ${present.updatedBy}`
}
