import type { ProviderName } from '#internal/tenants/index.ts'
import type { EventTypes } from '../catalogue.ts'
import type { Provider } from '../provider.ts'
import { compileDeclaration, type DeclaredKeys } from './compile.ts'
import type { Declaration } from './schema.ts'

/** Adapter of a built-in provider that is a declaration. */
export interface BuiltIn extends Provider<DeclaredKeys> {
  readonly declaration: Declaration
}

/** Compiles the declaration of a built-in provider, with the functions that write its simulated calls. */
export function builtIn(
  declaration: Declaration & { readonly name: ProviderName },
  simulation: Required<Pick<Provider, 'write' | 'sign'>>,
): BuiltIn {
  return { ...compileDeclaration(declaration), declaration, ...simulation }
}

/** Returns the types of a table as a declaration has them. */
export function declaredTypes({ cases }: EventTypes): NonNullable<Declaration['types']> {
  return cases.map(({ rawType, type, conditions }) => ({ raw: rawType, type, when: conditions }))
}
