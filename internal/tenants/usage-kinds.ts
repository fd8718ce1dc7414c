import { didYouMean } from '#internal/config/index.ts'

/** Kinds of usage that Latchkey counts itself. Other services report all other kinds. */
export const ownKinds = ['locks', 'events'] as const
/** A kind of usage that Latchkey counts itself. */
export type OwnKind = (typeof ownKinds)[number]

/** Pattern of a kind of usage: dotted lowercase. */
export const usageKindPattern = '^[a-z][a-z0-9_]*([.][a-z0-9_]+)*$'
/** Maximum length of a kind of usage. */
export const usageKindCharsMax = 64
/** Maximum emitted kinds with limits in one place: a Tenant, the runtime settings, or the overrides of a tenant. */
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
 * Returns an error text if the name of a limit on an emitted kind may misspell one on an own kind: the kinds differ in one letter, such as
 * a missing plural, and not in the first. Accept the name if the kind is limited already. Pure.
 */
export function misspellingOf(limit: string): string | undefined {
  const kind = emittedKindOf(limit) ?? ''
  const own = didYouMean(kind, ownKinds, 1)
  if (own === undefined || own[0] !== kind[0]) return undefined
  return `There is no limit ${limit}: did you mean ${own}PerMonth? Otherwise first limit the kind ${kind} in spec.limits.emitted of a Tenant that uses it`
}
