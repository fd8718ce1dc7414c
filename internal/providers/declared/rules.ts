import {
  type DeclarationRules,
  neutralProviderName,
  type Problem,
  reservedProviderName,
  tenantApiVersion,
  type ValidatedProvider,
} from '#internal/tenants/index.ts'
import { eventTypeTexts } from '../catalogue.ts'
import { parseProvider } from './manifest.ts'
import type { Declaration } from './schema.ts'
import { declarationText, findShipped, shippedNamesAndAliases } from './shipped-declarations.ts'
import { runVectors } from './vectors.ts'

const problemsShownMax = 5

/** Validation of Providers: the schema, reserved names and test vectors. */
export const declarationRules: DeclarationRules = {
  validate(name, spec): ValidatedProvider {
    const parsed = parseProvider({ apiVersion: tenantApiVersion, kind: 'Provider', metadata: { name }, spec })
    if (parsed.kind === 'invalid') return invalid('SpecInvalid', parsed.problems)
    const { declaration } = parsed
    const reserved = reservedName(declaration)
    if (reserved) return invalid('NameReserved', [reserved])
    const failed = runVectors(declaration)
    if (failed.length > 0) return invalid('VectorsFailed', failed.map(inSpec))
    const { aliases = [], unverified: isUnverified = false, vectors = [] } = declaration
    return {
      kind: 'valid',
      vectorsPassed: vectors.length,
      declaration: { name, aliases, isUnverified, text: declarationText(declaration) },
    }
  },
  findShipped,
  shippedNames: shippedNamesAndAliases,
}

/** First words of normalized types. */
const typeFamilies = new Set([...eventTypeTexts.keys()].map((type) => type.slice(0, type.indexOf('.'))))

/** Metric label for all declared providers. */
const labelOfDeclared = 'declared'

/**
 * Finds a name that no Provider can have: the name of another provider or of notifications, or the first word of a normalized type, since
 * unlisted types begin with the name of the provider. A shipped declaration can be replaced by a Provider of the same name.
 */
export function reservedName({ name, aliases = [] }: Declaration): Problem | undefined {
  for (const [index, each] of [name, ...aliases].entries()) {
    const path = index === 0 ? 'metadata.name' : `spec.aliases[${index - 1}]`
    if (each === reservedProviderName)
      return { path, message: `is ${each}, which is reserved for notifications: choose another name` }
    if (each === labelOfDeclared || typeFamilies.has(each))
      return { path, message: `is ${each}, a word of event types or metrics: choose another name` }
    if (neutralProviderName(each) !== undefined)
      return { path, message: `is ${each}, which is a built-in provider: choose another name` }
    const shipped = findShipped(each)
    if (shipped && shipped.name !== name)
      return {
        path,
        message: `is ${each}, which is a name of the shipped declaration ${shipped.name}: choose another name`,
      }
  }
  return undefined
}

function inSpec({ path, message }: Problem): Problem {
  return { path: `spec.${path}`, message }
}

function invalid(
  reason: Extract<ValidatedProvider, { kind: 'invalid' }>['reason'],
  problems: readonly Problem[],
): ValidatedProvider {
  const shown = problems.slice(0, problemsShownMax).map(({ path, message }) => `${path} ${message}`)
  const more = problems.length - shown.length
  return {
    kind: 'invalid',
    reason,
    message: [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('; '),
  }
}
