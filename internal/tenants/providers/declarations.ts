import type { StoredDeclaration } from './provider-object.ts'
import type { DeclarationChange } from './provider-store.ts'

/** Declarations in force by name and alias. A change of any of them makes it another object. */
export type Declarations = ReadonlyMap<string, StoredDeclaration>

/** Declarations of an installation without Providers. */
export const emptyDeclarations: Declarations = new Map()

/** Returns declarations with changes; the same object if there are none. Pure. */
export function withChanges(before: Declarations, changes: readonly DeclarationChange[]): Declarations {
  if (changes.length === 0) return before
  const own = new Map([...before.values()].map((each) => [each.name, each]))
  for (const { text, ...rest } of changes) {
    if (text === null) own.delete(rest.name)
    else own.set(rest.name, { ...rest, text })
  }
  const all = [...own.values()]
  const aliases = all.flatMap((each) => each.aliases.map((alias) => [alias, each] as const))
  // Names take precedence over aliases.
  return new Map([...aliases, ...all.map((each) => [each.name, each] as const)])
}
