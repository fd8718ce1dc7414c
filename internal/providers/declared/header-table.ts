import type { JsonSchema } from '#internal/http/index.ts'
import { eventIdSchema, header, lowerNames } from '../provider.ts'
import type { HeaderTable } from './call.ts'
import { hashBytes, hmacHashOf } from './keys.ts'
import type { Declaration, Scheme } from './schema.ts'
import { digestPattern, signatureCharsMax } from './signature.ts'

/** Compiles the headers of a declaration. The schema of each header follows from its use. */
export function compileHeaders({ headers = {}, signature: { schemes }, event }: Declaration): HeaderTable {
  const idKeys = event.id.flatMap(({ header: keys = [] }) => keys)
  const schemaOf = (key: string): JsonSchema | undefined => {
    const signing = schemes.find(({ signature }) => signature.header === key)
    if (signing) return signatureSchema(signing)
    if (schemes.some(({ timestamp }) => timestamp?.header === key && timestamp.unit === 's')) {
      return { type: 'string', pattern: '^[0-9]{1,12}$' }
    }
    return idKeys.includes(key) ? eventIdSchema : undefined
  }
  return Object.fromEntries(
    Object.entries(headers).map(([key, { names, description = '' }]) => [
      key,
      header(names, description, schemaOf(key)),
    ]),
  )
}

/** Lowercase names of headers with signatures or secrets. */
export function secretHeaders({ signature: { schemes } }: Declaration, headers: HeaderTable): string[] {
  const keys = schemes.flatMap(({ signature: { header: key, moreHeaders = [] } }) => [
    ...(key === undefined ? [] : [key]),
    ...moreHeaders,
  ])
  const older = schemes.map(({ signature: { olderHeaders = [] } }) => ({ names: olderHeaders }))
  const own = keys.flatMap((key) => (headers[key] ? [headers[key]] : []))
  return [...new Set(lowerNames(...own, ...older))]
}

function signatureSchema({
  algorithm,
  encoding,
  signature: { pairs, prefix = '' },
  timestamp,
}: Scheme): JsonSchema | undefined {
  if (pairs) {
    const { separator, assign } = pairs
    const time = timestamp?.pair
    const value = { type: 'string', maxLength: signatureCharsMax }
    if (time !== undefined && timestamp?.unit === 's') {
      const other = `${escaped(separator)}[^${assign}${separator}]+${escaped(assign)}[^${assign}${separator}]*`
      return { ...value, pattern: `^${escaped(time)}${escaped(assign)}[0-9]{1,12}(${other})+$` }
    }
    const pair = `[^${assign}${separator}]+${escaped(assign)}[^${assign}${separator}]+`
    return { ...value, pattern: `^${pair}(${escaped(separator)}${pair})*$` }
  }
  const hash = hmacHashOf(algorithm)
  if (hash === undefined || encoding === undefined) return undefined
  return { type: 'string', pattern: `^${escaped(prefix)}${digestPattern(encoding, hashBytes[hash])}$` }
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}
