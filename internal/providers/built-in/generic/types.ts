import { isDottedType, unlistedType } from '../../normalize.ts'

/** Keeps a type that has the normalized form. Any other type becomes `generic.<raw>`. */
export function genericType(rawType: string): string {
  return isDottedType(rawType) ? rawType : unlistedType('generic', rawType)
}
