import { createRedactor, isSecretName } from '#internal/redaction/index.ts'

type Verdict = 'keep' | 'redact' | 'rename'
type JudgeName = (name: string) => Verdict

/** Names whose values are redacted, besides secret names: alone or at the end of a longer name, regardless of case, `-` and `_`. */
const redactedNames =
  /(?:authorization|cookie|apikey|locktoken|token|body|payload|password|secret|keyring|privatekey|headers|stringdata)$/

const depthMax = 4
const membersMax = 64
const textMax = 8192
const namesRememberedMax = 2000
const censored = '[redacted]'
/** Reserved members of a log line: no field can replace its time or level. `__proto__` cannot be set as a member. */
const ownNames = new Set(['time', 'level', 'service', 'version', 'msg', '__proto__'])

export function createNameJudge(): JudgeName {
  const verdicts = new Map<string, Verdict>()
  return (name) => {
    const known = verdicts.get(name)
    if (known !== undefined) return known
    const plain = plainName(name)
    const hidden = plain === 'key' || redactedNames.test(plain) || isSecretName(name)
    const verdict = hidden ? 'redact' : ownNames.has(name) ? 'rename' : 'keep'
    if (verdicts.size < namesRememberedMax) verdicts.set(name, verdict)
    return verdict
  }
}

/**
 * Creates the redaction of log fields. It replaces values under redacted names, and secrets inside texts, and truncates fields beyond the
 * maximum depth, number of members and text length. It never throws.
 */
export function createFieldCleaner(judge: JudgeName) {
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

  /**
   * Keeps only the name, message, code, stack and cause of an error, because an error of the database driver may contain the failed row.
   * Also omits the message and stack of a Drizzle error, which contain parameters.
   */
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

  return (fields: object, into: Record<string, unknown>): void => {
    try {
      cleanMembers(fields, into, 0)
    } catch (error) {
      // A getter or toJSON threw. The line must still be written.
      into._unprintable = error instanceof Error ? error.name : true
    }
  }
}

/** Creates the fast path. It prints `,"name":value…` if all fields are plain strings and numbers, else returns undefined. Never throws. */
export function createFlatPrinter(judge: JudgeName) {
  // Consecutive lines often have the same route or outcome.
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
  return (fields: object): string | undefined => {
    try {
      return print(fields)
    } catch {
      // A getter threw. The slow path reports it in the line.
      return undefined
    }
  }
}

/** Signs of a possible secret. A text with one of them gets the full redaction. */
const tellTales = /lk_|:\/\/|@|eyJ|sec_|_live_|earer /

/** Text that needs no JSON escaping. */
const plainText = /^[ !#-[\]-~]{0,256}$/

function isPlain(text: string): boolean {
  return plainText.test(text) && !tellTales.test(text)
}

function printValue(value: unknown): string | undefined {
  if (typeof value === 'string') return isPlain(value) ? `"${value}"` : undefined
  return typeof value === 'number' && Number.isFinite(value) ? String(value) : undefined
}

function plainName(name: string): string {
  return name.toLowerCase().replace(/[-_]/g, '')
}

const redactor = createRedactor()

function cleanText(value: string): string {
  return redactor.text(value.length > textMax ? `${value.slice(0, textMax)}…` : value)
}
