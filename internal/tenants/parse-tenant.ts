import { isIP } from 'node:net'
import type { TSchema } from '@sinclair/typebox'
import { Value, type ValueError, ValueErrorType } from '@sinclair/typebox/value'
import { parseTimestamp } from '#internal/base/index.ts'
import { checkCallbackUrl } from '#internal/egress/index.ts'
import {
  type AcceptedProviderName,
  type BuiltInProviderName,
  type ProviderName,
  providerAliases,
  providerNamePattern,
  providerNames,
  reservedProviderName,
  Tenant,
  type TenantSpec,
} from './model.ts'
import { isOwnKind } from './usage-kinds.ts'

/** A problem in a manifest. `path` has the form `spec.providers[1].name`; it is empty for a problem of the whole manifest. */
export interface Problem {
  readonly path: string
  readonly message: string
}

/** Result of `parseTenant`. */
export type ParsedTenant =
  | { readonly kind: 'ok'; readonly tenant: Tenant }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[] }

const problemsMax = 50

/**
 * Validates a Tenant resource: first against the schema, then against the rules between fields. Works on a copy, where it fills defaults
 * and replaces vendor names by neutral names. Returns at most 50 problems. They never quote a value, because a misplaced secret would then
 * appear in a log.
 */
export function parseTenant(value: unknown): ParsedTenant {
  const filled = Value.Default(Tenant, structuredClone(value))
  const problems = schemaProblems(Tenant, filled, 'a Tenant')
  if (problems.length > 0) return { kind: 'invalid', problems }
  const tenant = withNeutralNames(filled as Tenant)
  const broken = checkTenantRules(tenant.spec)
  return broken.length > 0 ? { kind: 'invalid', problems: broken } : { kind: 'ok', tenant }
}

/** Converts a neutral or vendor name to a built-in provider's neutral name; returns undefined for an unknown name. */
export function neutralProviderName(name: AcceptedProviderName): BuiltInProviderName
export function neutralProviderName(name: string): BuiltInProviderName | undefined
export function neutralProviderName(name: string): BuiltInProviderName | undefined {
  if (Object.hasOwn(providerAliases, name)) return providerAliases[name as keyof typeof providerAliases]
  return providerNames.find((known) => known === name)
}

const providerNameForm = new RegExp(providerNamePattern)

/**
 * Returns the neutral name of a built-in provider, or a name that a declared provider can have, whether or not there is one; undefined for
 * any other text.
 */
export function parseProviderName(name: string): ProviderName | undefined {
  const neutral = neutralProviderName(name)
  return neutral ?? (providerNameForm.test(name) ? (name as ProviderName) : undefined)
}

function withNeutralNames(tenant: Tenant): Tenant {
  const providers = tenant.spec.providers.map((entry) => ({
    ...entry,
    // The schema has checked the form.
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

/** Converts a JSON pointer such as `/spec/providers/1/name` to `spec.providers[1].name`. */
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

const dayMs = 86_400_000

/** Checks the rules between fields, which the schema cannot express. Expects neutral provider names. Pure. */
function checkTenantRules(spec: TenantSpec): Problem[] {
  return [
    ...callbackProblems(spec),
    ...notificationProblems(spec),
    ...spec.providers.flatMap((entry, index) => providerProblems(entry, `spec.providers[${index}]`)),
    ...repeatedNames(spec.providers, 'spec.providers', 'name'),
    ...repeatedNames(spec.apiKeys, 'spec.apiKeys', 'name'),
    ...spec.apiKeys.flatMap(({ expiresAt }, index) =>
      expiresAt === undefined ? [] : dateProblems(expiresAt, `spec.apiKeys[${index}].expiresAt`),
    ),
    ...walletProblems(spec),
    ...limitProblems(spec),
    ...retentionProblems(spec),
  ]
}

function callbackProblems({ callback }: TenantSpec): Problem[] {
  if (callback === undefined) return []
  const problems = cidrProblems(callback.allowedCIDRs, 'spec.callback')
  callback.retry.schedule.forEach((wait, index) => {
    const waitMs = parseDurationMs(wait)
    if (waitMs !== undefined && waitMs <= dayMs) return
    problems.push({
      path: `spec.callback.retry.schedule[${index}]`,
      message: 'must be a duration from 0s to 24h',
    })
  })
  return [...problems, ...urlProblems(callback.url, callback.allowedCIDRs, 'spec.callback.url')]
}

function notificationProblems({ notifications }: TenantSpec): Problem[] {
  if (notifications === undefined) return []
  const { url, urlSecretRef, format, signingSecretRef, allowedCIDRs } = notifications
  const problems = cidrProblems(allowedCIDRs, 'spec.notifications')
  if ((url === undefined) === (urlSecretRef === undefined))
    problems.push({ path: 'spec.notifications', message: 'needs either url or urlSecretRef' })
  if (url !== undefined) problems.push(...urlProblems(url, allowedCIDRs, 'spec.notifications.url'))
  if (format === 'slack' && signingSecretRef !== undefined) {
    const message = 'belongs to format event: messages of format slack are not signed'
    problems.push({ path: 'spec.notifications.signingSecretRef', message })
  }
  return problems
}

function cidrProblems(allowedCIDRs: readonly string[], path: string): Problem[] {
  return allowedCIDRs.flatMap((cidr, index) =>
    isCidr(cidr)
      ? []
      : [{ path: `${path}.allowedCIDRs[${index}]`, message: 'must be a CIDR such as 10.20.0.0/16' }],
  )
}

function urlProblems(text: string, allowedCIDRs: readonly string[], path: string): Problem[] {
  const checked = checkCallbackUrl(text)
  if (checked.kind === 'refused') return [{ path, message: checked.message }]
  if (checked.url.scheme === 'https' || allowedCIDRs.length > 0) return []
  return [{ path, message: 'must be https, unless allowedCIDRs lists the address that http may reach' }]
}

function isCidr(text: string): boolean {
  const [address, prefix, ...rest] = text.split('/')
  if (address === undefined || prefix === undefined || rest.length > 0) return false
  const family = isIP(address)
  if (family === 0 || address.includes('%') || !/^(0|[1-9][0-9]{0,2})$/.test(prefix)) return false
  // An IPv4-mapped IPv6 network is refused, because it would be compared as IPv6 and never match.
  if (family === 6 && URL.parse(`http://[${address}]/`)?.hostname.startsWith('[::ffff:')) return false
  return Number(prefix) <= (family === 4 ? 32 : 128)
}

function providerProblems(entry: TenantSpec['providers'][number], path: string): Problem[] {
  const problems: Problem[] = []
  if (entry.name === reservedProviderName)
    problems.push({ path: `${path}.name`, message: 'is reserved for notifications' })
  for (const block of ['storefront', 'wallet', 'gateway'] as const) {
    if (entry[block] === undefined || entry.name === block) continue
    problems.push({ path: `${path}.${block}`, message: `belongs to provider ${block}, not to ${entry.name}` })
  }
  if (entry.name === 'wallet') {
    if (entry.wallet === undefined) problems.push({ path, message: 'provider wallet needs its wallet block' })
    if (entry.secretRef !== undefined) {
      problems.push({
        path: `${path}.secretRef`,
        message: 'provider wallet is verified by certificate and has no secret: remove it',
      })
    }
    return problems
  }
  if (entry.secretRef === undefined)
    problems.push({ path, message: `provider ${entry.name} needs a secretRef` })
  if (entry.name === 'gateway' && entry.gateway === undefined) {
    problems.push({ path, message: 'provider gateway needs its gateway block' })
  }
  return problems
}

function repeatedNames<Field extends string>(
  entries: readonly Readonly<Record<Field, string>>[],
  path: string,
  field: Field,
): Problem[] {
  const seen = new Set<string>()
  return entries.flatMap(({ [field]: name }, index) => {
    if (!seen.has(name)) {
      seen.add(name)
      return []
    }
    const message = `${name} is repeated: ${field}s are unique in this list`
    return [{ path: `${path}[${index}].${field}`, message }]
  })
}

function walletProblems({ walletRollout }: TenantSpec): Problem[] {
  const problems: Problem[] = []
  if (walletRollout.stage === 'enabled' && walletRollout.review === undefined) {
    problems.push({
      path: 'spec.walletRollout.review',
      message: 'stage enabled needs a review with approvedBy and approvedAt',
    })
  }
  if (walletRollout.review !== undefined) {
    problems.push(...dateProblems(walletRollout.review.approvedAt, 'spec.walletRollout.review.approvedAt'))
  }
  return problems
}

function limitProblems({ limits: { emitted = [], ...own } }: TenantSpec): Problem[] {
  const path = (index: number) => `spec.limits.emitted[${index}]`
  const all = [
    ...Object.entries(own).map(([name, bounds]) => ({ path: `spec.limits.${name}`, bounds })),
    ...emitted.map((bounds, index) => ({ path: path(index), bounds })),
  ]
  return [
    ...all.flatMap(({ path: at, bounds: { soft, hard } }) =>
      soft !== undefined && hard !== undefined && soft > hard
        ? [{ path: `${at}.soft`, message: 'must not exceed hard' }]
        : [],
    ),
    ...emitted.flatMap(({ kind }, index) =>
      isOwnKind(kind) ? [{ path: `${path(index)}.kind`, message: `${kind} have limits of their own` }] : [],
    ),
    ...repeatedNames(emitted, 'spec.limits.emitted', 'kind'),
  ]
}

function retentionProblems({ retention }: TenantSpec): Problem[] {
  const { payloadDays, eventDays } = retention
  if (payloadDays === undefined || eventDays === undefined || payloadDays <= eventDays) return []
  return [{ path: 'spec.retention.payloadDays', message: 'must not exceed eventDays' }]
}

/** Checks that a date exists; the pattern has been checked before. */
function dateProblems(text: string, path: string): Problem[] {
  return parseTimestamp(text) === undefined ? [{ path, message: 'is not an existing date' }] : []
}

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Converts a duration such as `90s`, `1h30m` or `250ms` to milliseconds. Returns undefined for any other text. */
export function parseDurationMs(text: string): number | undefined {
  if (!/^([0-9]{1,12}(ms|s|m|h))+$/.test(text)) return undefined
  let totalMs = 0
  for (const [, count, unit] of text.matchAll(/([0-9]+)(ms|s|m|h)/g)) {
    totalMs += Number(count) * (unitMs[unit ?? ''] ?? Number.NaN)
  }
  return totalMs
}
