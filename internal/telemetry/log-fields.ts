import { createRedactor, isSecretName } from '#internal/redaction/index.ts'

/** What a field's name says about its value. */
export type Verdict = 'keep' | 'redact' | 'rename'

/** Says what a field's name means for its value. */
export type JudgeName = (name: string) => Verdict

/** Turns the fields of a log line into what may be printed. Never throws. */
export type CleanFields = (fields: object, into: Record<string, unknown>) => void

/** Prints fields as JSON, `,"name":value` for each, if all are plain texts and numbers; else undefined. Never throws. */
export type PrintFlat = (fields: object) => string | undefined

/**
 * Names whose values are never logged, beside those that are never shown; compared without case, `-` and `_`, alone or as the end
 * of a longer name.
 */
export const redactedFieldNames: readonly string[] = [
  'authorization',
  'cookie',
  'apiKey',
  'lockToken',
  'token',
  'body',
  'payload',
  'password',
  'secret',
  'keyRing',
  'privateKey',
  'headers',
  'stringData',
]

const depthMax = 4
const membersMax = 64
const textMax = 8192
const namesRememberedMax = 2000
const censored = '[redacted]'
/** Taken by the line itself, so that no field can pass for its time or level; `__proto__` would not become a member at all. */
const ownNames = new Set(['time', 'level', 'service', 'version', 'msg', '__proto__'])

/**
 * Makes the function that judges names, once for each.
 * @throws RangeError for an empty list: a process that redacts nothing must not start
 */
export function createNameJudge(redactedNames: readonly string[]): JudgeName {
  const redacted = redactedNames.map(plainName)
  if (redacted.length === 0 || redacted.includes(''))
    throw new RangeError('the list of redacted fields is empty')
  const verdicts = new Map<string, Verdict>()
  return (name) => {
    const known = verdicts.get(name)
    if (known !== undefined) return known
    const plain = plainName(name)
    const hidden = plain === 'key' || redacted.some((each) => plain.endsWith(each)) || isSecretName(name)
    const verdict = hidden ? 'redact' : ownNames.has(name) ? 'rename' : 'keep'
    if (verdicts.size < namesRememberedMax) verdicts.set(name, verdict)
    return verdict
  }
}

/**
 * Makes the function that cleans fields. Values under redacted names and secrets inside texts are
 * replaced; depth, members and text are cut at their bounds.
 */
export function createFieldCleaner(judge: JudgeName): CleanFields {
  const cleanMembers = (source: object, into: Record<string, unknown>, depth: number): void => {
    let members = 0
    for (const name of Object.keys(source)) {
      members += 1
      if (members > membersMax) {
        into._cut = true
        return
      }
      const verdict = judge(name)
      const target = verdict === 'rename' ? `${name}_` : name
      into[target] = verdict === 'redact' ? censored : clean(Reflect.get(source, name), depth)
    }
  }

  const clean = (value: unknown, depth: number): unknown => {
    if (typeof value === 'string') return cleanText(value)
    if (typeof value !== 'object' || value === null) return typeof value === 'bigint' ? String(value) : value
    if (value instanceof Error) return cleanError(value, depth)
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'invalid date' : value.toISOString()
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`
    if (depth >= depthMax) return '[deep]'
    if (Array.isArray(value)) return value.slice(0, membersMax).map((each) => clean(each, depth + 1))
    if ('toJSON' in value && typeof value.toJSON === 'function') return clean(value.toJSON(), depth + 1)
    const into: Record<string, unknown> = {}
    cleanMembers(value, into, depth + 1)
    return into
  }

  /** Keeps these members only: a driver's error may carry the row that it failed on, and Drizzle's has parameters in its message. */
  const cleanError = (error: Error, depth: number): unknown => {
    const isQueryError = 'query' in error && 'params' in error
    return {
      name: error.name,
      message: isQueryError ? 'a query failed' : cleanText(error.message),
      ...('code' in error && { code: String(error.code) }),
      ...(error.stack !== undefined && !isQueryError && { stack: cleanText(error.stack) }),
      ...(error.cause !== undefined && depth < depthMax && { cause: clean(error.cause, depth + 1) }),
    }
  }

  return (fields, into) => {
    try {
      cleanMembers(fields, into, 0)
    } catch (error) {
      // A getter or toJSON of somebody's object threw; the line must still come out.
      into._unprintable = error instanceof Error ? error.name : true
    }
  }
}

/** Makes the quick way for lines with nothing to clean in them, which those of requests are. */
export function createFlatPrinter(judge: JudgeName): PrintFlat {
  // Of a field's values the next is often the last one again: a route, an outcome.
  const lastOf = new Map<string, { readonly value: string; readonly member: string }>()
  const printMember = (name: string, value: unknown): string | undefined => {
    const last = lastOf.get(name)
    if (last !== undefined && last.value === value) return last.member
    const printed = printValue(value)
    if (printed === undefined || judge(name) !== 'keep' || !isPlain(name)) return undefined
    const member = `,"${name}":${printed}`
    if (typeof value === 'string' && (last !== undefined || lastOf.size < namesRememberedMax))
      lastOf.set(name, { value, member })
    return member
  }
  const print = (fields: object): string | undefined => {
    let text = ''
    for (const name of Object.keys(fields)) {
      const value: unknown = Reflect.get(fields, name)
      if (value === undefined) continue
      const member = printMember(name, value)
      if (member === undefined) return undefined
      text += member
    }
    return text
  }
  return (fields) => {
    try {
      return print(fields)
    } catch {
      // A getter threw; the cleaner says so in its line.
      return undefined
    }
  }
}

/** What most secrets have in them that give themselves away; a text with one of these is looked at closely. */
const tellTales = ['lk_', '://', '@', 'eyJ', 'sec_', '_live_', 'earer ']

/** Text that stands in JSON as it is. */
const plainText = /^[ !#-[\]-~]{0,256}$/

/** Whether a text may stand in a line as it is, and `cleanText` would find nothing to do in it. */
function isPlain(text: string): boolean {
  return plainText.test(text) && !tellTales.some((part) => text.includes(part))
}

function printValue(value: unknown): string | undefined {
  if (typeof value === 'string') return isPlain(value) ? `"${value}"` : undefined
  return typeof value === 'number' && Number.isFinite(value) ? String(value) : undefined
}

function plainName(name: string): string {
  return name.toLowerCase().replace(/[-_]/g, '')
}

const redactor = createRedactor()

/** Cuts a text at its bound and takes out what gives itself away by its shape, as wherever else texts are shown. */
function cleanText(value: string): string {
  return redactor.text(value.length > textMax ? `${value.slice(0, textMax)}…` : value)
}
