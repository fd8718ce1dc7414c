import { Value, type ValueError, ValueErrorType } from '@sinclair/typebox/value'
import { type ProviderName, providerAliases, providerNames, Tenant } from './model.ts'
import { checkTenantRules, type Problem } from './model-rules.ts'

/** What `parseTenant` found. */
export type ParsedTenant =
  | { readonly kind: 'ok'; readonly tenant: Tenant }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[] }

const problemsMax = 50

/**
 * Checks a whole Tenant resource of unknown origin: form and bounds, then the rules between fields. Defaults are filled and
 * vendor names become neutral ones; the given value is not changed. At most 50 problems are named. Problems never quote a
 * value, since a misplaced secret would end in a log.
 */
export function parseTenant(value: unknown): ParsedTenant {
  const filled = Value.Default(Tenant, structuredClone(value))
  const problems = schemaProblems(filled)
  if (problems.length > 0) return { kind: 'invalid', problems }
  const tenant = withNeutralNames(filled as Tenant)
  const broken = checkTenantRules(tenant.spec)
  return broken.length > 0 ? { kind: 'invalid', problems: broken } : { kind: 'ok', tenant }
}

/** The neutral name of a provider given by either name; undefined for a name that nobody knows. */
export function neutralProviderName(name: string): ProviderName | undefined {
  if (Object.hasOwn(providerAliases, name)) return providerAliases[name as keyof typeof providerAliases]
  return providerNames.find((known) => known === name)
}

function withNeutralNames(tenant: Tenant): Tenant {
  const providers = tenant.spec.providers.map((entry) => ({
    ...entry,
    name: neutralProviderName(entry.name) ?? entry.name,
  }))
  return { ...tenant, spec: { ...tenant.spec, providers } }
}

function schemaProblems(value: unknown): Problem[] {
  const byPath = new Map<string, Problem>()
  for (const error of Value.Errors(Tenant, value)) {
    const path = dottedPath(error.path)
    // A missing field is reported twice, as missing and as of the wrong type: the first says more.
    if (!byPath.has(path)) byPath.set(path, { path, message: describe(error) })
    if (byPath.size >= problemsMax) break
  }
  return [...byPath.values()]
}

/** `/spec/providers/1/name` → `spec.providers[1].name`; a field with a dot or a slash in its name stays readable. */
function dottedPath(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part, index) => (/^[0-9]+$/.test(part) ? `[${part}]` : index === 0 ? part : `.${part}`))
    .join('')
}

function describe({ type, schema, message }: ValueError): string {
  if (type === ValueErrorType.ObjectAdditionalProperties) {
    return 'is no field of a Tenant: check its spelling and indentation'
  }
  if (type === ValueErrorType.ObjectRequiredProperty) return 'is required'
  if (type === ValueErrorType.Literal) return `must be ${schema.const}`
  if (type !== ValueErrorType.StringPattern) return message.replace(/^Expected/, 'must be')
  return Array.isArray(schema.enum)
    ? `must be one of ${schema.enum.join(', ')}`
    : `must match ${schema.pattern}`
}
