import type { EventBody } from './call.ts'

/** Fields in their order. */
export type FormFields = readonly (readonly [name: string, value: string])[]

const formFieldsMax = 1000

/** Returns undefined if the field is missing, repeated or undecodable. Other fields are not decoded. */
export function formField(form: string, name: string): string | undefined {
  const start = `${encodeURIComponent(name)}=`
  let found: string | undefined
  let at = 0
  while (at <= form.length) {
    const and = form.indexOf('&', at)
    const end = and < 0 ? form.length : and
    if (form.startsWith(start, at)) {
      if (found !== undefined) return undefined
      found = form.slice(at + start.length, end)
    }
    at = end + 1
  }
  return found === undefined ? undefined : decodeComponent(found)
}

function decodeComponent(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

/** Parses a form. Returns undefined for more than 1000 fields, and for undecodable text. */
export function parseForm(form: string): FormFields | undefined {
  const fields: (readonly [string, string])[] = []
  let at = 0
  while (at < form.length) {
    const and = form.indexOf('&', at)
    const end = and < 0 ? form.length : and
    const pair = form.slice(at, end)
    at = end + 1
    if (pair === '') continue
    const equals = pair.indexOf('=')
    const name = decodeComponent(equals < 0 ? pair : pair.slice(0, equals))
    const value = decodeComponent(equals < 0 ? '' : pair.slice(equals + 1))
    if (name === undefined || value === undefined || fields.length === formFieldsMax) return undefined
    fields.push([name, value])
  }
  return fields
}

/** Converts fields to an object of texts. The value of a repeated name is an array of texts. */
export function formObject(fields: FormFields): EventBody {
  const values = new Map<string, string[]>()
  for (const [name, value] of fields) {
    const known = values.get(name)
    if (known) known.push(value)
    else values.set(name, [value])
  }
  const object = Object.fromEntries([...values].map(([name, all]) => [name, all.length === 1 ? all[0] : all]))
  return { kind: 'object', text: JSON.stringify(object), value: object }
}

/** Text of `{form:sorted}`: each name in ascending order, followed by its distinct values in ascending order. */
export function sortedForm(fields: FormFields): string {
  const sorted = [...fields].sort(([a, x], [b, y]) => compare(a, b) || compare(x, y))
  return sorted
    .filter(([name, value], index) => {
      const before = sorted[index - 1]
      return before === undefined || before[0] !== name || before[1] !== value
    })
    .map(([name, value]) => name + value)
    .join('')
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
