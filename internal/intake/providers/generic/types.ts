import { isDottedType, unlistedType } from '../../event-type.ts'

/** A type that has the form of normalized ones is kept as it is; any other becomes `generic.<raw>`. */
export function genericType(rawType: string): string {
  return isDottedType(rawType) ? rawType : unlistedType('generic', rawType)
}
