import { type Static, Type as t } from '@sinclair/typebox'
import { celList, type FieldRule, oneOf, ruled, secretRef, strict } from './spec-fields.ts'

/** Neutral names of built-in providers. */
export const providerNames = ['card', 'storefront', 'codehost', 'generic', 'wallet', 'gateway'] as const
/** The neutral name of a built-in provider. */
export type BuiltInProviderName = (typeof providerNames)[number]
declare const declared: unique symbol
/** Name of a provider: of a built-in one, or of one that is declared. Events, columns and secrets use only these names. */
export type ProviderName = BuiltInProviderName | (string & { readonly [declared]: true })

/** Form of the names and aliases of all providers. */
export const providerNamePattern = '^[a-z][a-z0-9_-]{1,39}$'
/** Name of the provider of notifications, which no provider of a tenant can have. */
export const reservedProviderName = 'latchkey'

/** Neutral names by vendors' names, which are accepted wherever a neutral name is accepted. */
export const providerAliases = {
  stripe: 'card',
  shopify: 'storefront',
  github: 'codehost',
  paypal: 'wallet',
  braintree: 'gateway',
} as const satisfies Record<string, BuiltInProviderName>

/** A neutral name or a vendor's name of a built-in provider. `neutralProviderName` converts it. */
export type AcceptedProviderName = BuiltInProviderName | keyof typeof providerAliases
/** All names of built-in providers, neutral names first. */
export const acceptedProviderNames = [
  ...providerNames,
  ...(Object.keys(providerAliases) as (keyof typeof providerAliases)[]),
] as const satisfies readonly AcceptedProviderName[]
/** Documentation of the vendors' names. */
export const providerAliasText = Object.entries(providerAliases)
  .map(([alias, name]) => `${alias} for ${name}`)
  .join(', ')

/** Converts a neutral or vendor name to a built-in provider's neutral name; returns undefined for an unknown name. */
export function neutralProviderName(name: AcceptedProviderName): BuiltInProviderName
export function neutralProviderName(name: string): BuiltInProviderName | undefined
export function neutralProviderName(name: string): BuiltInProviderName | undefined {
  if (Object.hasOwn(providerAliases, name)) return providerAliases[name as keyof typeof providerAliases]
  return providerNames.find((known) => known === name)
}

const providerNameForm = new RegExp(providerNamePattern)

/**
 * Returns the neutral name of a built-in provider, or a name that a declared provider can have, even if no such provider exists; undefined
 * for any other text.
 */
export function parseProviderName(name: string): ProviderName | undefined {
  const neutral = neutralProviderName(name)
  return neutral ?? (providerNameForm.test(name) ? (name as ProviderName) : undefined)
}

/** Schema of the name of a tenant's provider. */
export const ProviderNameSchema = t.String({
  pattern: providerNamePattern,
  maxLength: 40,
  description: `${providerNames.join(', ')}; a vendor's name: ${providerAliasText}; or the name of a shipped declaration or of a Provider.`,
})

const namesOf = (neutral: BuiltInProviderName): readonly string[] =>
  acceptedProviderNames.filter((name) => neutralProviderName(name) === neutral)

const providerFields = strict(
  {
    name: ProviderNameSchema,
    enabled: t.Boolean({ default: true, description: 'false refuses webhook calls of this provider.' }),
    secretRef: t.Optional(secretRef('Secret with 1 to 5 live signing secrets.')),
    acceptUnverified: t.Optional(
      t.Boolean({
        description:
          'true accepts a declaration that was not compared with a call of the vendor; without it, its calls are refused.',
      }),
    ),
    storefront: t.Optional(
      strict(
        {
          shopDomain: t.String({
            pattern: '^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$',
            maxLength: 253,
            description: 'Shop domain; calls of other shops are refused.',
          }),
        },
        { description: 'Settings of the storefront provider.' },
      ),
    ),
    wallet: t.Optional(
      strict(
        {
          webhookId: t.String({
            pattern: '^[A-Za-z0-9_-]{1,64}$',
            maxLength: 64,
            description: 'Webhook id at the provider, part of the signed content.',
          }),
          environment: oneOf(['live', 'sandbox'], { description: 'Environment of the provider.' }),
        },
        { description: 'Settings of the wallet provider.' },
      ),
    ),
    gateway: t.Optional(
      strict(
        {
          publicKey: t.String({
            pattern: '^[A-Za-z0-9_-]{1,128}$',
            maxLength: 128,
            description: 'Public key of the account.',
          }),
        },
        { description: 'Settings of the gateway provider, which is reserved: its calls are refused.' },
      ),
    ),
  },
  { description: 'A provider that may call.' },
)

const walletNames = celList(namesOf('wallet'))

/** In a folder, vendor names are replaced by neutral names before the rules are checked. */
const providerRules: readonly FieldRule<Static<typeof providerFields>>[] = [
  {
    message: 'is reserved for notifications',
    fieldPath: '.name',
    holds: ({ name }) => name !== reservedProviderName,
  },
  ...(['storefront', 'wallet', 'gateway'] as const).map(
    (block): FieldRule<Static<typeof providerFields>> => ({
      rule: `!has(self.${block}) || self.name in ${celList(namesOf(block))}`,
      message: `belongs to provider ${namesOf(block).join(' or ')} alone: remove it`,
      fieldPath: `.${block}`,
      reason: 'FieldValueForbidden',
      holds: (entry) => entry[block] === undefined || entry.name === block,
    }),
  ),
  ...(['wallet', 'gateway'] as const).map(
    (block): FieldRule<Static<typeof providerFields>> => ({
      rule: `!(self.name in ${celList(namesOf(block))}) || has(self.${block})`,
      message: `provider ${block} needs its ${block} block`,
      fieldPath: `.${block}`,
      reason: 'FieldValueRequired',
      holds: (entry) => entry.name !== block || entry[block] !== undefined,
    }),
  ),
  {
    rule: `!(self.name in ${walletNames}) || !has(self.secretRef)`,
    message: 'the provider `wallet` is verified by certificate and needs no secret: remove secretRef',
    fieldPath: '.secretRef',
    reason: 'FieldValueForbidden',
    holds: (entry) => entry.name !== 'wallet' || entry.secretRef === undefined,
  },
  {
    rule: `self.name in ${walletNames} || has(self.secretRef)`,
    message: 'every provider except `wallet` needs a secretRef',
    fieldPath: '.secretRef',
    reason: 'FieldValueRequired',
    holds: (entry) => entry.name === 'wallet' || entry.secretRef !== undefined,
  },
]

const aliasPairs = Object.entries(providerAliases)

/** Refuses a provider listed under two names. In a folder both are already the same neutral name, which a list contains only once. */
const aliasRule: FieldRule<unknown> = {
  rule: `[${aliasPairs.map(([alias, name]) => celList([name, alias])).join(', ')}].all(names, self.filter(entry, entry.name in names).size() <= 1)`,
  message: `a provider is listed twice: ${aliasPairs.map(([alias, name]) => `${alias} is ${name}`).join(', ')}`,
}

/** Schema of `spec.providers`. */
export const providers = ruled(
  t.Array(ruled(providerFields, ...providerRules), {
    maxItems: 50,
    default: [],
    description: 'Providers that may call.',
    'x-kubernetes-list-map-keys': ['name'],
  }),
  aliasRule,
)
