import { type Setting, settings } from './settings.ts'

/** A configuration as it may be logged: by environment name, secrets and passwords replaced, unset settings left out. */
export type PrintableConfig = Readonly<Record<string, string | number | boolean>>

/**
 * Makes a configuration printable. Accepts the configuration of any process; a field that no setting is named for is left
 * out, so that nothing unknown is printed.
 */
export function printableConfig(config: Readonly<Record<string, unknown>>): PrintableConfig {
  const printable: Record<string, string | number | boolean> = {}
  for (const [field, setting] of Object.entries(settings)) {
    const value = config[field]
    if (value !== undefined) printable[setting.env] = print(setting, value)
  }
  return printable
}

function print(setting: Setting, value: unknown): string | number | boolean {
  if (setting.secret) return '[redacted]'
  // The value was made by this setting's own parser.
  if (setting.type.print) return setting.type.print(value as never)
  return typeof value === 'number' || typeof value === 'boolean' ? value : String(value)
}
