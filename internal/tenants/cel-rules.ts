import { portsBlocked } from '#internal/egress/index.ts'
import { ownKinds } from './usage-kinds.ts'

/** Validation rule of the API server, in the Common Expression Language. `parse-tenant.ts` checks the same for manifests in a folder. */
interface CelRule {
  readonly rule: string
  readonly message: string
  readonly fieldPath?: string
  readonly reason?: 'FieldValueRequired' | 'FieldValueForbidden'
}

/** Returns the keyword that adds rules to a schema. TypeBox ignores it; the definition of the custom resource has it. */
export function validatedBy(...rules: readonly CelRule[]) {
  return { 'x-kubernetes-validations': rules }
}

const listOf = (names: readonly string[]) => `[${names.map((name) => `'${name}'`).join(', ')}]`

/** Refuses a change of `spec.slug`. */
export const slugRule: CelRule = {
  rule: 'self == oldSelf',
  message: 'cannot be changed, since providers call URLs that hold it: create another Tenant instead',
}

// Ports over 65535 are matched by their digits, since the expression cannot read the port as a number.
const portsRefused = `${[...portsBlocked].join('|')}|[1-9][0-9]{5,}|[7-9][0-9]{4}|6[6-9][0-9]{3}|65[6-9][0-9]{2}|655[4-9][0-9]|6553[6-9]`

/** Refuse what `checkCallbackUrl` of `egress` refuses, as far as the expressions can read a URL. */
export const urlRules: readonly CelRule[] = [
  {
    rule: String.raw`isURL(self) && url(self).getHostname() != '' && !self.matches('[\\\\\\x00-\\x20\\x7f]')`,
    message: 'must be a URL such as https://hooks.example/latchkey',
  },
  { rule: "!isURL(self) || url(self).getScheme() in ['https', 'http']", message: 'must be an https URL' },
  {
    rule: "!self.matches('^[^/]*//[^/?#]*@')",
    message: 'must not contain credentials: verify the signature of deliveries instead',
  },
  { rule: "!self.contains('#')", message: 'must not have a fragment, which is never sent' },
  {
    rule: `!self.matches('^[^/]*//[^/?#]*:0*(${portsRefused})([/?]|$)')`,
    message: 'must not use a port of another protocol, nor one over 65535',
  },
]

/** Refuses an entry of `allowedCIDRs` that is no network. */
export const cidrRule: CelRule = { rule: 'isCIDR(self)', message: 'must be a CIDR such as 10.20.0.0/16' }

/** Refuses a pause of over 24 h in the retry schedule. */
export const retryWaitRule: CelRule = {
  rule: "duration(self) <= duration('24h')",
  message: 'must be a duration from 0s to 24h',
}

const schemeRule: CelRule = {
  rule: "!isURL(self.url) || url(self.url).getScheme() != 'http' || size(self.allowedCIDRs) > 0",
  message: 'must be https, unless allowedCIDRs lists the address that http may reach',
  fieldPath: '.url',
}

/** Rules between the fields of `spec.callback`. */
export const callbackRules: readonly CelRule[] = [schemeRule]

/** Rules between the fields of `spec.notifications`. */
export const notificationRules: readonly CelRule[] = [
  {
    rule: 'has(self.url) != has(self.urlSecretRef)',
    message: 'needs either url or urlSecretRef',
    reason: 'FieldValueRequired',
  },
  {
    rule: "!has(self.signingSecretRef) || self.format == 'event'",
    message: 'belongs to format event: messages of format slack are not signed',
    fieldPath: '.signingSecretRef',
    reason: 'FieldValueForbidden',
  },
  { ...schemeRule, rule: `!has(self.url) || ${schemeRule.rule}` },
]

/** Returns the rules of an entry of `spec.providers`, which has the neutral name or the vendor's name of a built-in provider. */
export function providerRules(aliases: Readonly<Record<string, string>>): readonly CelRule[] {
  const namesOf = (neutral: string) => [
    neutral,
    ...Object.keys(aliases).filter((alias) => aliases[alias] === neutral),
  ]
  const wallet = listOf(namesOf('wallet'))
  return [
    ...['storefront', 'wallet', 'gateway'].map(
      (block): CelRule => ({
        rule: `!has(self.${block}) || self.name in ${listOf(namesOf(block))}`,
        message: `belongs to provider ${namesOf(block).join(' or ')} alone: remove it`,
        fieldPath: `.${block}`,
        reason: 'FieldValueForbidden',
      }),
    ),
    ...['wallet', 'gateway'].map(
      (block): CelRule => ({
        rule: `!(self.name in ${listOf(namesOf(block))}) || has(self.${block})`,
        message: `provider ${block} needs its ${block} block`,
        fieldPath: `.${block}`,
        reason: 'FieldValueRequired',
      }),
    ),
    {
      rule: `!(self.name in ${wallet}) || !has(self.secretRef)`,
      message: 'provider wallet is verified by certificate and has no secret: remove it',
      fieldPath: '.secretRef',
      reason: 'FieldValueForbidden',
    },
    {
      rule: `self.name in ${wallet} || has(self.secretRef)`,
      message: 'every provider but wallet needs a secretRef',
      fieldPath: '.secretRef',
      reason: 'FieldValueRequired',
    },
  ]
}

/** Returns the rule that refuses a provider listed under two of its names. */
export function providersRule(aliases: Readonly<Record<string, string>>): CelRule {
  const pairs = Object.entries(aliases)
  return {
    rule: `[${pairs.map(([alias, name]) => listOf([name, alias])).join(', ')}].all(names, self.filter(entry, entry.name in names).size() <= 1)`,
    message: `a provider is listed twice: ${pairs.map(([alias, name]) => `${alias} is ${name}`).join(', ')}`,
  }
}

/** Requires the review of an enabled wallet. */
export const walletRolloutRule: CelRule = {
  rule: "self.stage != 'enabled' || has(self.review)",
  message: 'stage enabled needs a review with approvedBy and approvedAt',
  fieldPath: '.review',
  reason: 'FieldValueRequired',
}

/** Refuses a soft limit above the hard one. */
export const limitRule: CelRule = {
  rule: '!has(self.soft) || !has(self.hard) || self.soft <= self.hard',
  message: 'must not exceed hard',
  fieldPath: '.soft',
}

/** Refuses a limit on an emitted kind for a kind that Latchkey counts itself. */
export const emittedKindRule: CelRule = {
  rule: `!(self in ${listOf(ownKinds)})`,
  message: 'must not be locks or events, which have limits of their own',
}

/** Refuses payloads that outlive their events. */
export const retentionRule: CelRule = {
  rule: '!has(self.payloadDays) || !has(self.eventDays) || self.payloadDays <= self.eventDays',
  message: 'must not exceed eventDays',
  fieldPath: '.payloadDays',
}
