import { decodeUtf8, type EventBody, readEventBody, readEventText, refused } from '../normalize.ts'
import type { ProviderCall } from '../provider.ts'
import type { Meter } from './call-view.ts'
import type { Declaration } from './schema.ts'

/** Rules for bodies of a declaration. */
export type BodyRules = Declaration['body']

/** Fields of a form in their order. */
export type FormFields = readonly (readonly [name: string, value: string])[]

const formFieldsMax = 1000
/** Passes over a body that is parsed: decode, measure the depth, parse, look for repeated members. */
const parsePasses = 4

/**
 * Reads a body in a form that the rules allow, as the JSON object that becomes the payload. JSON must satisfy `readEventBody`; a form is
 * recognized by its Content-Type. Never throws.
 */
export function readDeclaredBody(call: ProviderCall, rules: BodyRules, meter: Meter | undefined): EventBody {
  const { body } = call
  if (rules.form !== undefined && isForm(call)) {
    meter?.(body.length * (1 + parsePasses))
    const { jsonField } = rules.form
    if (jsonField === undefined) return formObject(call, meter)
    const field = fieldOf(decodeUtf8(body) ?? '', jsonField)
    return field === undefined ? refused('body_not_json') : readEventText(field)
  }
  if (rules.json === undefined) return refused('body_not_json')
  meter?.(body.length * parsePasses)
  const { arrayAs } = rules.json
  return arrayAs === undefined ? readEventBody(body) : readArrayBody(body, arrayAs)
}

/** Returns whether the Content-Type is that of a form. */
export function isForm({ headers }: ProviderCall): boolean {
  return /^application\/x-www-form-urlencoded *(;|$)/i.test(headers.get('content-type') ?? '')
}

/** Reads a body that may be an array, which becomes a member of the payload. */
function readArrayBody(body: Uint8Array, name: string): EventBody {
  const text = decodeUtf8(body)
  if (text === undefined || !/^[ \t\r\n]*\[/.test(text)) return readEventBody(body)
  const read = readEventText(`{${JSON.stringify(name)}:${text}}`)
  // Text such as `[1],"a":2` is not an array, but makes an object.
  const isArray = read.kind === 'object' && Object.keys(read.value).length === 1
  return read.kind === 'refused' || isArray ? read : refused('body_not_json')
}

/** Returns a decoded field of a form; undefined if it is missing, repeated or undecodable. Other fields are not decoded. */
function fieldOf(form: string, name: string): string | undefined {
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

/** Returns the fields of a form body; undefined for another Content-Type, over 1000 fields and undecodable text. */
export function readForm(call: ProviderCall, meter: Meter | undefined): FormFields | undefined {
  if (!isForm(call)) return undefined
  meter?.(call.body.length)
  const form = decodeUtf8(call.body)
  if (form === undefined) return undefined
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

/** Makes the payload of a form: an object of texts, with an array for a repeated name. */
function formObject(call: ProviderCall, meter: Meter | undefined): EventBody {
  const fields = readForm(call, meter)
  if (fields === undefined) return refused('body_not_json')
  const values = new Map<string, string[]>()
  for (const [name, value] of fields) {
    const known = values.get(name)
    if (known) known.push(value)
    else values.set(name, [value])
  }
  const object = Object.fromEntries([...values].map(([name, all]) => [name, all.length === 1 ? all[0] : all]))
  return { kind: 'object', text: JSON.stringify(object), value: object }
}

/** Returns the text that `{form:sorted}` stands for: each name in ascending order, followed by its distinct values in ascending order. */
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
