/**
 * Parses a filter by event type: a complete type, or a family such as `payment.*`, which matches all types that begin with `payment.`.
 * Converts the filter to lower case, in which types are stored. Returns undefined if an asterisk is elsewhere than at the end.
 */
export function parseTypeFilter(text: string): string | undefined {
  const filter = text.toLowerCase()
  return (familyPrefixOf(filter) ?? filter).includes('*') ? undefined : filter
}

/** Returns the prefix `payment.` of a family `payment.*`, or undefined for a type. In SQL, `type ^@ prefix` tests membership. */
export function familyPrefixOf(type: string): string | undefined {
  return type.endsWith('.*') ? type.slice(0, -1) : undefined
}

/** Returns whether a type is the wanted one, or belongs to the wanted family. */
export function isOfType(type: string, wanted: string): boolean {
  const prefix = familyPrefixOf(wanted)
  return prefix === undefined ? type === wanted : type.startsWith(prefix)
}
