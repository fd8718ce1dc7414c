import { isObject } from './service.ts'

/**
 * Returns the JSON text of a value with the members of each object sorted by name (by UTF-16 code units, as in RFC 8785), so that equal
 * values have equal texts. @throws for a value that is not JSON, such as a cycle
 */
export function canonicalJson(value: unknown): string {
  return sortedText(JSON.parse(JSON.stringify(value)))
}

function sortedText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedText).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value)
  const members = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${sortedText(value[name])}`)
  return `{${members.join(',')}}`
}
