import { type Static, Type as t } from '@sinclair/typebox'
import { didYouMean } from '#internal/config/index.ts'
import { celList, type FieldRule, oneOf, ruled, strict } from './spec-fields.ts'

/** Kinds of usage that Latchkey counts itself. Other services report all other kinds. */
export const ownKinds = ['locks', 'events'] as const
/** A kind of usage that Latchkey counts itself. */
export type OwnKind = (typeof ownKinds)[number]

/** Pattern of a kind of usage: dotted lowercase. */
export const usageKindPattern = '^[a-z][a-z0-9_]*([.][a-z0-9_]+)*$'
/** Maximum length of a kind of usage. */
export const usageKindCharsMax = 64
/** Maximum number of emitted kinds with limits in a Tenant; also in the runtime settings, and in the overrides of a tenant. */
export const emittedKindsMax = 50

/** Name of the monthly limit on an emitted kind, such as `exports.rowsPerMonth`. */
export type EmittedLimitName = `${string}PerMonth`

const form = new RegExp(usageKindPattern)

/** Returns whether Latchkey counts a kind of usage itself. Pure. */
export function isOwnKind(kind: string): kind is OwnKind {
  return ownKinds.some((own) => own === kind)
}

/** Returns whether a text is an emitted kind: one that other services report. Pure. */
export function isEmittedKind(text: string): boolean {
  return text.length <= usageKindCharsMax && form.test(text) && !isOwnKind(text)
}

/** Returns the name of the monthly limit on an emitted kind. Pure. */
export function emittedLimitName(kind: string): EmittedLimitName {
  return `${kind}PerMonth`
}

/** Returns the emitted kind that a limit applies to; undefined for any other name. Pure. */
export function emittedKindOf(limit: string): string | undefined {
  const kind = limit.endsWith('PerMonth') ? limit.slice(0, -'PerMonth'.length) : ''
  return isEmittedKind(kind) ? kind : undefined
}

/**
 * Returns an error text if the emitted kind that a limit names may be a misspelt own kind: the two differ in one letter, such as a missing
 * plural s, but not in the first letter. Callers accept the name if a limit on the kind exists already. Pure.
 */
export function misspellingOf(limit: string): string | undefined {
  const kind = emittedKindOf(limit) ?? ''
  const own = didYouMean(kind, ownKinds, 1)
  if (own === undefined || own[0] !== kind[0]) return undefined
  return `There is no limit ${limit}: did you mean ${own}PerMonth? Otherwise first limit the kind ${kind} in spec.limits.emitted of a Tenant that uses it`
}

/** Maximum value of a limit. */
export const limitAmountMax = 1_000_000_000_000_000
const amount = (description: string) =>
  t.Optional(t.Integer({ minimum: 0, maximum: limitAmountMax, description }))
const bounds = {
  soft: amount('Threshold of a warning.'),
  hard: amount('Threshold from which calls are limited.'),
}

const limitRule: FieldRule<{ soft?: number; hard?: number }> = {
  rule: '!has(self.soft) || !has(self.hard) || self.soft <= self.hard',
  message: 'must not exceed `hard`',
  fieldPath: '.soft',
  holds: ({ soft, hard }) => soft === undefined || hard === undefined || soft <= hard,
}
const limit = (description: string) => t.Optional(ruled(strict(bounds, { description }), limitRule))

const emittedLimit = ruled(
  strict(
    {
      kind: ruled(
        t.String({
          pattern: usageKindPattern,
          maxLength: usageKindCharsMax,
          description: 'Kind of usage: dotted lowercase, neither locks nor events.',
        }),
        {
          rule: `!(self in ${celList(ownKinds)})`,
          message: 'must not be locks or events, which have limits of their own',
          holds: (kind) => !isOwnKind(kind),
        },
      ),
      ...bounds,
    },
    { description: 'Limit on a kind of usage in a UTC month.' },
  ),
  limitRule,
)

/** Schema of `spec.limits`. */
export const limits = strict(
  {
    locksPerMinute: limit('Locks acquired in a UTC minute.'),
    locksPerMonth: limit('Locks acquired in a UTC month.'),
    eventsPerMinute: limit('Events accepted in a UTC minute.'),
    eventsPerMonth: t.Optional(
      ruled(
        strict(
          {
            ...bounds,
            over: oneOf(['accept', 'refuse'], {
              default: 'accept',
              description: 'Accepts and marks, or refuses, events over hard.',
            }),
          },
          { description: 'Events accepted in a UTC month.' },
        ),
        limitRule,
      ),
    ),
    recordBytes: limit(
      'Size of records and locks in bytes: key, text and 144 bytes (in Postgres 256) for each.',
    ),
    emitted: t.Optional(
      t.Array(emittedLimit, {
        maxItems: emittedKindsMax,
        description:
          'Limits on usage that other services report, each for a UTC month. A kind is listed once.',
        'x-kubernetes-list-map-keys': ['kind'],
      }),
    ),
  },
  { default: {}, description: 'Usage limits. An absent limit has the platform’s default.' },
)

/** Usage limits of a tenant. An absent limit has the platform's default. */
export type Limits = Static<typeof limits>
/** Name of a limit on what Latchkey counts itself. */
export type LimitName = Exclude<keyof Limits, 'emitted'>
/** Name of any limit, including limits on emitted kinds. */
export type AnyLimitName = LimitName | EmittedLimitName
/** Names of all limits on what Latchkey counts itself, in the order of `spec.limits`. */
export const limitNames = [
  'locksPerMinute',
  'locksPerMonth',
  'eventsPerMinute',
  'eventsPerMonth',
  'recordBytes',
] as const satisfies readonly LimitName[]

/** Names that `parseLimitName` accepts, for error texts and documentation. */
export const limitNameText = `${limitNames.join(', ')}, or the kind of usage that another service reports with PerMonth, such as exports.rowsPerMonth`
/** Pattern of the names that `parseLimitName` accepts. */
export const limitNamePattern = `^(${limitNames.join('|')}|${usageKindPattern.slice(1, -1)}PerMonth)$`
/** Maximum length of the name of a limit. */
export const limitNameCharsMax = usageKindCharsMax + 'PerMonth'.length

/** Parses the name of a limit; returns undefined for any other text. Pure. */
export function parseLimitName(text: string): AnyLimitName | undefined {
  const own = limitNames.find((name) => name === text)
  return own ?? (emittedKindOf(text) === undefined ? undefined : (text as EmittedLimitName))
}
