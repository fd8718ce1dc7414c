import { Type as t } from '@sinclair/typebox'
import { type Problem, schemaProblems, tenantApiVersion } from '#internal/tenants/index.ts'
import { declarationProblems } from './check.ts'
import { type Declaration, DeclarationSchema } from './schema.ts'

const providerKind = 'Provider'

/** `metadata.name` is the name of the declaration in `spec`. */
export const ProviderManifestSchema = t.Object(
  {
    apiVersion: t.Literal(tenantApiVersion),
    kind: t.Literal(providerKind),
    metadata: t.Object({ name: DeclarationSchema.properties.name }),
    spec: t.Omit(DeclarationSchema, ['name'], { additionalProperties: false }),
  },
  { description: 'Declaration of a provider as a resource.' },
)

/** Result of `parseProvider`. */
export type ParsedProvider =
  | { readonly kind: 'ok'; readonly declaration: Declaration }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[] }

/** Validates against the schema, then the rules between fields. Problems say what is allowed and quote no secret of a vector. */
export function parseProvider(value: unknown): ParsedProvider {
  const malformed = schemaProblems(ProviderManifestSchema, value, 'a Provider')
  if (malformed.length > 0) return { kind: 'invalid', problems: malformed }
  const declaration = parseChecked(value)
  const problems = declarationProblems(declaration).map(inSpec)
  return problems.length > 0 ? { kind: 'invalid', problems } : { kind: 'ok', declaration }
}

/** Parses a manifest that is known to be valid, such as one that is part of the program. */
export function parseChecked(value: unknown): Declaration {
  const { metadata, spec } = value as { metadata: { name: string }; spec: Omit<Declaration, 'name'> }
  return { ...spec, name: metadata.name }
}

function inSpec({ path, message }: Problem): Problem {
  return { path: `spec.${path}`, message }
}
