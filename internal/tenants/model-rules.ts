import { isIP } from 'node:net'
import { checkCallbackUrl } from '#internal/egress/index.ts'
import { parseDurationMs } from './duration.ts'
import type { TenantSpec } from './model.ts'

/** One thing that is wrong with a manifest. `path` is written as `spec.providers[1].name`; empty for the whole. */
export interface Problem {
  readonly path: string
  readonly message: string
}

const dayMs = 86_400_000

/**
 * The rules that hold between fields, which a schema cannot say. Pure; an empty list means that all hold.
 * @param spec of the schema's form, provider names already neutral
 */
export function checkTenantRules(spec: TenantSpec): Problem[] {
  return [
    ...callbackProblems(spec),
    ...spec.providers.flatMap((entry, index) => providerProblems(entry, `spec.providers[${index}]`)),
    ...repeatedNames(spec.providers, 'spec.providers'),
    ...repeatedNames(spec.apiKeys, 'spec.apiKeys'),
    ...spec.apiKeys.flatMap(({ expiresAt }, index) =>
      expiresAt === undefined ? [] : dateProblems(expiresAt, `spec.apiKeys[${index}].expiresAt`),
    ),
    ...walletProblems(spec),
    ...limitProblems(spec),
    ...retentionProblems(spec),
  ]
}

function callbackProblems({ callback }: TenantSpec): Problem[] {
  const problems: Problem[] = []
  callback.allowedCIDRs.forEach((cidr, index) => {
    if (isCidr(cidr)) return
    problems.push({
      path: `spec.callback.allowedCIDRs[${index}]`,
      message: 'must be a CIDR such as 10.20.0.0/16',
    })
  })
  callback.retry.schedule.forEach((wait, index) => {
    const waitMs = parseDurationMs(wait)
    if (waitMs !== undefined && waitMs <= dayMs) return
    problems.push({
      path: `spec.callback.retry.schedule[${index}]`,
      message: 'must be a duration from 0s to 24h',
    })
  })
  const url = checkCallbackUrl(callback.url)
  if (url.kind === 'refused') problems.push({ path: 'spec.callback.url', message: url.message })
  else if (url.url.scheme === 'http' && callback.allowedCIDRs.length === 0) {
    const message = 'must be https, unless allowedCIDRs lists the address that http may reach'
    problems.push({ path: 'spec.callback.url', message })
  }
  return problems
}

function isCidr(text: string): boolean {
  const [address, prefix, ...rest] = text.split('/')
  if (address === undefined || prefix === undefined || rest.length > 0) return false
  const family = isIP(address)
  if (family === 0 || address.includes('%') || !/^(0|[1-9][0-9]{0,2})$/.test(prefix)) return false
  // IPv4 in IPv6's clothes would be compared as IPv6 and match nothing: the plain form is asked for.
  if (family === 6 && URL.parse(`http://[${address}]/`)?.hostname.startsWith('[::ffff:')) return false
  return Number(prefix) <= (family === 4 ? 32 : 128)
}

function providerProblems(entry: TenantSpec['providers'][number], path: string): Problem[] {
  const problems: Problem[] = []
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

function repeatedNames(entries: readonly { name: string }[], path: string): Problem[] {
  const seen = new Set<string>()
  return entries.flatMap(({ name }, index) => {
    if (!seen.has(name)) {
      seen.add(name)
      return []
    }
    return [
      { path: `${path}[${index}].name`, message: `${name} stands twice: names are unique in this list` },
    ]
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

function limitProblems({ limits }: TenantSpec): Problem[] {
  return Object.entries(limits).flatMap(([name, { soft, hard }]) =>
    soft !== undefined && hard !== undefined && soft > hard
      ? [{ path: `spec.limits.${name}.soft`, message: 'must not be over hard' }]
      : [],
  )
}

function retentionProblems({ retention }: TenantSpec): Problem[] {
  const { payloadDays, eventDays } = retention
  if (payloadDays === undefined || eventDays === undefined || payloadDays <= eventDays) return []
  return [{ path: 'spec.retention.payloadDays', message: 'must not be over eventDays' }]
}

/** `Date.parse` would take 30 February for 2 March. */
function dateProblems(text: string, path: string): Problem[] {
  const [year, month = 0, day] = text.slice(0, 10).split('-').map(Number)
  const exists = new Date(Date.UTC(year ?? 0, month - 1, day)).getUTCDate() === day
  return exists ? [] : [{ path, message: 'is no date that exists' }]
}
