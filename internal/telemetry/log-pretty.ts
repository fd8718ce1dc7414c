const colours: Readonly<Record<string, string>> = {
  debug: '\x1b[2m',
  info: '\x1b[36m',
  warn: '\x1b[33m',
  error: '\x1b[31m',
}
const reset = '\x1b[0m'

/** One line for a person: time, level, text, then the fields as `name=value`; a stack stands below. */
export function prettyLine(line: Readonly<Record<string, unknown>>): string {
  const { time, level, service: _service, version: _version, msg, ...fields } = line
  const stacks: string[] = []
  const parts = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${short(value, stacks)}`)
  const head = `${String(time).slice(11, 23)} ${colours[String(level)] ?? ''}${String(level).padEnd(5)}${reset} ${String(msg)}`
  return `${[head, ...parts].join(' ')}\n${stacks.map((stack) => `    ${stack}\n`).join('')}`
}

function short(value: unknown, stacks: string[]): string {
  if (typeof value === 'string') return /[\s"=]/.test(value) || value === '' ? JSON.stringify(value) : value
  if (typeof value === 'number' && !Number.isInteger(value)) return value.toFixed(2)
  if (typeof value !== 'object' || value === null) return String(value)
  if ('stack' in value && typeof value.stack === 'string' && 'message' in value) {
    stacks.push(value.stack.replaceAll('\n', '\n    '))
    return JSON.stringify(value.message)
  }
  return JSON.stringify(value)
}
