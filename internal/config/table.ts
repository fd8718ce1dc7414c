import { processNames, type Setting, settings } from './settings.ts'

/** The configuration table of the documentation, in Markdown, one row a setting; ends without a line feed. */
export function configTable(): string {
  const rows = Object.values(settings).map(rowOf)
  return ['| Name | Type | Default | Used by | |', '|---|---|---|---|---|', ...rows].join('\n')
}

function rowOf(setting: Setting): string {
  const secret = setting.secret ? ' Secret.' : ''
  const cells = [
    `\`${setting.env}\``,
    setting.type.name,
    defaultOf(setting),
    usersOf(setting),
    setting.doc + secret,
  ]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

function defaultOf(setting: Setting): string {
  const note = setting.default === undefined ? setting.defaultNote : `\`${setting.default}\``
  if (!setting.requiredBy) return note ?? ''
  return note === undefined ? 'required' : `required; ${note}`
}

function usersOf(setting: Setting): string {
  return setting.usedBy.length === processNames.length ? 'all' : setting.usedBy.join(', ')
}
