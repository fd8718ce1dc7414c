import type { TenantId } from '#internal/base/index.ts'
import type { ListedSetting, SettingName, SettingValue, StoredSetting } from '#internal/settings/index.ts'

/** A table of settings for people, with those of tenants below. Ends without a line feed. */
export function listText(listed: readonly ListedSetting[], ofTenants: readonly StoredSetting[]): string {
  const rows = listed.map(({ name, value, stored }) => [
    name,
    printed(value),
    stored ? writtenBy(stored) : 'default',
  ])
  const tenants = ofTenants.map((each) => [
    each.tenantId ?? '',
    each.name,
    printed(each.value),
    writtenBy(each),
  ])
  const table = columns([['SETTING', 'VALUE', ''], ...rows])
  return tenants.length === 0
    ? table
    : `${table}\n\n${columns([['TENANT', 'SETTING', 'VALUE', ''], ...tenants])}`
}

/** One setting for people: what holds, since when, and what it does. Ends without a line feed. */
export function settingText({ name, value, stored, definition }: ListedSetting): string {
  const origin = stored ? `${writtenBy(stored)}; by default ${printed(definition.default)}` : 'the default'
  return `${name} = ${printed(value)}   (${origin})\n${definition.doc}\nIt has to be ${definition.expected}.`
}

/** One setting for programs. */
export function settingJson(
  { name, value, stored, definition }: ListedSetting,
  tenantId: TenantId | null,
): object {
  return {
    ...{ name, tenantId, value, default: definition.default },
    version: stored?.version ?? 0,
    updatedAt: stored ? new Date(stored.updatedAtMs).toISOString() : null,
    updatedBy: stored?.updatedBy ?? null,
    ...{ expected: definition.expected, doc: definition.doc },
  }
}

/** What a write came to. */
export interface WrittenSetting {
  readonly name: SettingName
  readonly old: SettingValue | undefined
  /** undefined: it was cleared. */
  readonly value: SettingValue | undefined
  readonly version: number
}

/** Says to people what was written. Ends without a line feed. */
export function writtenText({ name, old, value, version }: WrittenSetting): string {
  const before = old === undefined ? 'was not set' : `was ${printed(old)}`
  if (value === undefined) return old === undefined ? `${name} was not set` : `${name} is cleared (${before})`
  return `${name} = ${printed(value)} (${before}), version ${version}: in force within 2 s`
}

function writtenBy({ version, updatedAtMs, updatedBy }: StoredSetting): string {
  return `version ${version}, ${new Date(updatedAtMs).toISOString()} by ${updatedBy}`
}

function printed(value: SettingValue | null): string {
  return value === null ? 'none' : String(value)
}

function columns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_cell, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0))) ?? []
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
