/**
 * Parses a filter by event type: a whole type, or a family such as `payment.*`, which stands for all types that begin with `payment.`.
 * Types are in lower case, so the filter is converted to it. Returns undefined if an asterisk is elsewhere than at the end. Pure.
 */
export function parseTypeFilter(text: string): string | undefined {
  const filter = text.toLowerCase()
  return (familyPrefixOf(filter) ?? filter).includes('*') ? undefined : filter
}

/**
 * Returns the text with which all types of a family such as `payment.*` begin (`payment.`), or undefined for a whole type. In SQL, a type
 * is in the family if `type ^@ prefix`. Pure.
 */
export function familyPrefixOf(type: string): string | undefined {
  return type.endsWith('.*') ? type.slice(0, -1) : undefined
}

/** Returns whether a type is the wanted one, or belongs to the wanted family. Pure. */
export function isOfType(type: string, wanted: string): boolean {
  const prefix = familyPrefixOf(wanted)
  return prefix === undefined ? type === wanted : type.startsWith(prefix)
}
