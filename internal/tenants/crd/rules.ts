import { portsBlocked } from '#internal/egress/index.ts'
import { type ProviderName, providerAliases, providerNames, Tenant } from '../model.ts'
import type { CelRule, KubernetesNotes } from './structural.ts'

/** Rules between fields in CEL, the same as in `parse.ts`, and key fields of lists. */
export const tenantNotes: KubernetesNotes = {
  keys: { 'spec.providers': 'name', 'spec.apiKeys': 'name' },
  rules: {
    'spec.slug': [
      {
        rule: 'self == oldSelf',
        message: 'cannot be changed, since providers call URLs that hold it: create another Tenant instead',
      },
    ],
    'spec.callback': callbackRules(),
    'spec.callback.url': urlRules(),
    'spec.callback.allowedCIDRs[]': [
      { rule: 'isCIDR(self)', message: 'must be a CIDR such as 10.20.0.0/16' },
    ],
    'spec.callback.retry.schedule[]': [
      { rule: "duration(self) <= duration('24h')", message: 'must be a duration from 0s to 24h' },
    ],
    'spec.providers': [oneNameEach()],
    'spec.providers[]': providerRules(),
    'spec.walletRollout': [
      {
        rule: "self.stage != 'enabled' || has(self.review)",
        message: 'stage enabled needs a review with approvedBy and approvedAt',
        fieldPath: '.review',
        reason: 'FieldValueRequired',
      },
    ],
    ...limitRules(),
    'spec.retention': [
      {
        rule: '!has(self.payloadDays) || !has(self.eventDays) || self.payloadDays <= self.eventDays',
        message: 'must not be over eventDays',
        fieldPath: '.payloadDays',
      },
    ],
  },
}

/** Invalid URLs are left to the rules of `url`, so that each fault is reported once. */
function callbackRules(): CelRule[] {
  return [
    {
      rule: "!isURL(self.url) || url(self.url).getScheme() != 'http' || size(self.allowedCIDRs) > 0",
      message: 'must be https, unless allowedCIDRs lists the address that http may reach',
      fieldPath: '.url',
    },
  ]
}

function urlRules(): CelRule[] {
  // One pattern: the server estimates the cost of url() results without a bound, which exceeds its budget.
  const over65535 = '[1-9][0-9]{5,}|[7-9][0-9]{4}|6[6-9][0-9]{3}|65[6-9][0-9]{2}|655[4-9][0-9]|6553[6-9]'
  const ports = `${[...portsBlocked].join('|')}|${over65535}`
  return [
    {
      rule: String.raw`isURL(self) && url(self).getHostname() != '' && !self.matches('[\\\\\\x00-\\x20\\x7f]')`,
      message: 'must be a URL such as https://hooks.example/latchkey',
    },
    {
      rule: "!isURL(self) || url(self).getScheme() in ['https', 'http']",
      message: 'must be an https URL',
    },
    {
      rule: "!self.matches('^[^/]*//[^/?#]*@')",
      message: 'must not carry credentials: check the signature of deliveries instead',
    },
    { rule: "!self.contains('#')", message: 'must not have a fragment: it would never be sent' },
    {
      rule: `!self.matches('^[^/]*//[^/?#]*:0*(${ports})([/?]|$)')`,
      message: 'must not use a port of another protocol, nor one over 65535',
    },
  ]
}

/** Names of a provider, the neutral one first. */
function namesOf(provider: ProviderName): string[] {
  const aliases = Object.entries(providerAliases).filter(([, neutral]) => neutral === provider)
  return [provider, ...aliases.map(([alias]) => alias)]
}

function listed(names: readonly string[]): string {
  return `[${names.map((name) => `'${name}'`).join(', ')}]`
}

function isProvider(provider: ProviderName): string {
  return `self.name in ${listed(namesOf(provider))}`
}

/** Refuses a vendor's name beside its neutral one; the list's key refuses equal names. The reason FieldValueDuplicate would drop the message. */
function oneNameEach(): CelRule {
  const pairs = providerNames.map(namesOf).filter((names) => names.length > 1)
  return {
    rule: `[${pairs.map(listed).join(', ')}].all(names, self.filter(entry, entry.name in names).size() <= 1)`,
    message: `a provider is listed twice: ${pairs.map(([neutral, alias]) => `${alias} is ${neutral}`).join(', ')}`,
  }
}

function providerRules(): CelRule[] {
  const blocks = ['storefront', 'wallet', 'gateway'] as const
  const strangers = blocks.map((block) => ({
    rule: `!has(self.${block}) || ${isProvider(block)}`,
    message: `belongs to provider ${namesOf(block).join(' or ')} alone: remove it`,
    fieldPath: `.${block}`,
    reason: 'FieldValueForbidden' as const,
  }))
  const missing = (['wallet', 'gateway'] as const).map((block) => ({
    rule: `!(${isProvider(block)}) || has(self.${block})`,
    message: `provider ${block} needs its ${block} block`,
    fieldPath: `.${block}`,
    reason: 'FieldValueRequired' as const,
  }))
  return [
    ...strangers,
    ...missing,
    {
      rule: `!(${isProvider('wallet')}) || !has(self.secretRef)`,
      message: 'provider wallet is verified by certificate and has no secret: remove it',
      fieldPath: '.secretRef',
      reason: 'FieldValueForbidden',
    },
    {
      rule: `${isProvider('wallet')} || has(self.secretRef)`,
      message: 'every provider but wallet needs a secretRef',
      fieldPath: '.secretRef',
      reason: 'FieldValueRequired',
    },
  ]
}

function limitRules(): Record<string, CelRule[]> {
  const rule = {
    rule: '!has(self.soft) || !has(self.hard) || self.soft <= self.hard',
    message: 'must not be over hard',
    fieldPath: '.soft',
  }
  const names = Object.keys(Tenant.properties.spec.properties.limits.properties)
  return Object.fromEntries(names.map((name) => [`spec.limits.${name}`, [rule]]))
}
