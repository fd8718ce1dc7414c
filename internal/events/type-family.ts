/**
 * Returns the text with which all types of a family such as `payment.*` begin (`payment.`), or undefined for a whole type. In SQL, a type
 * is in the family if `type ^@ prefix`. Pure.
 */
export function familyPrefixOf(type: string): string | undefined {
  return type.endsWith('.*') ? type.slice(0, -1) : undefined
}

/** Returns whether a text filters by type: a whole type, or a family such as `payment.*`, without other asterisks. Pure. */
export function isTypeFilter(text: string): boolean {
  return !(familyPrefixOf(text) ?? text).includes('*')
}

/** Returns whether a type is the wanted one, or belongs to the wanted family. Pure. */
export function isOfType(type: string, wanted: string): boolean {
  const prefix = familyPrefixOf(wanted)
  return prefix === undefined ? type === wanted : type.startsWith(prefix)
}
