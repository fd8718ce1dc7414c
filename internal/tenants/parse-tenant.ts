import type { TSchema } from '@sinclair/typebox'
import { Value, type ValueError, ValueErrorType } from '@sinclair/typebox/value'
import { parseTimestamp, timestampPattern } from '#internal/base/index.ts'
import { Tenant } from './model.ts'
import type { FieldRule } from './spec-fields.ts'
import { neutralProviderName } from './spec-providers.ts'

/** A problem in a manifest. `path` has the form `spec.providers[1].name`; it is empty for a problem of the whole manifest. */
export interface Problem {
  readonly path: string
  readonly message: string
}

const problemsMax = 50

/**
 * Validates a Tenant resource: first against the schema, then against the rules between fields. Returns a copy with defaults filled in
 * and with neutral names in place of vendor names, or at most 50 problems. They never quote a value, because a misplaced secret would
 * then appear in a log.
 */
export function parseTenant(
  value: unknown,
):
  | { readonly kind: 'ok'; readonly tenant: Tenant }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[] } {
  const filled = Value.Default(Tenant, structuredClone(value))
  const problems = schemaProblems(Tenant, filled, 'a Tenant')
  if (problems.length > 0) return { kind: 'invalid', problems }
  const tenant = withNeutralNames(filled as Tenant)
  const broken = ruleProblems(Tenant.properties.spec, tenant.spec, 'spec')
  return broken.length > 0 ? { kind: 'invalid', problems: broken } : { kind: 'ok', tenant }
}

function withNeutralNames(tenant: Tenant): Tenant {
  const providers = tenant.spec.providers.map((entry) => ({
    ...entry,
    // A name that is not built in stays unchanged; the schema has checked its form.
    name: neutralProviderName(entry.name) ?? entry.name,
  }))
  return { ...tenant, spec: { ...tenant.spec, providers } }
}

/**
 * Validates a manifest against its schema. Returns at most 50 problems, one for each path, which never quote a value.
 * @param kind of the manifest, such as `a Tenant`
 */
export function schemaProblems(schema: TSchema, value: unknown, kind: string): Problem[] {
  const byPath = new Map<string, Problem>()
  for (const error of Value.Errors(schema, value)) {
    const path = dottedPath(error.path)
    // A missing field causes two errors, "missing" and "wrong type". The first one is more useful.
    if (!byPath.has(path)) byPath.set(path, { path, message: describe(error, kind) })
    if (byPath.size >= problemsMax) break
  }
  return [...byPath.values()]
}

/** `/spec/providers/1/name` becomes `spec.providers[1].name`. */
function dottedPath(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part, index) => (/^[0-9]+$/.test(part) ? `[${part}]` : index === 0 ? part : `.${part}`))
    .join('')
}

function describe({ type, schema, message }: ValueError, kind: string): string {
  if (type === ValueErrorType.ObjectAdditionalProperties) {
    return `is not a field of ${kind}: check its spelling and indentation`
  }
  if (type === ValueErrorType.ObjectRequiredProperty) return 'is required'
  if (type === ValueErrorType.Literal) return `must be ${schema.const}`
  if (type !== ValueErrorType.StringPattern) return message.replace(/^Expected/, 'must be')
  return Array.isArray(schema.enum)
    ? `must be one of ${schema.enum.join(', ')}`
    : `must match ${schema.pattern}`
}

/**
 * Checks what TypeBox does not check: the rules of fields (`FieldRule`), whether each date exists, and whether the keys of each list are
 * distinct. Expects a value that the schema accepts, with neutral provider names. Pure.
 */
function ruleProblems(schema: TSchema, value: unknown, path: string): Problem[] {
  if (value === undefined) return []
  const rules = (schema['x-kubernetes-validations'] ?? []) as readonly FieldRule<never>[]
  const problems = rules
    .filter(({ holds }) => holds?.(value as never) === false)
    .map(({ message, fieldPath = '' }) => ({ path: `${path}${fieldPath}`, message }))
  if (typeof value === 'string' && schema.pattern === timestampPattern && parseTimestamp(value) === undefined)
    problems.push({ path, message: 'is not a valid calendar date' })
  if (Array.isArray(value)) {
    const [key] = (schema['x-kubernetes-list-map-keys'] ?? []) as readonly string[]
    if (key !== undefined) problems.push(...repeatedKeys(value, key, path))
    return [
      ...problems,
      ...value.flatMap((each, index) => ruleProblems(schema.items, each, `${path}[${index}]`)),
    ]
  }
  const fields = Object.entries((schema.properties ?? {}) as Record<string, TSchema>)
  const inner = value as Readonly<Record<string, unknown>>
  return [
    ...problems,
    ...fields.flatMap(([name, field]) => ruleProblems(field, inner[name], `${path}.${name}`)),
  ]
}

function repeatedKeys(
  entries: readonly Readonly<Record<string, string>>[],
  key: string,
  path: string,
): Problem[] {
  const names = entries.map((entry) => entry[key] ?? '')
  return names.flatMap((name, index) => {
    if (names.indexOf(name) === index) return []
    return [
      { path: `${path}[${index}].${key}`, message: `${name} is repeated: ${key}s are unique in this list` },
    ]
  })
}
