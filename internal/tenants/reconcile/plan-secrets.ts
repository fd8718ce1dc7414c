import { checkCallbackUrl } from '#internal/egress/index.ts'
import { callbackField, notificationsField, notificationsUrlField, providerField } from '../key-ring.ts'
import {
  callbackSecretPlace,
  notificationsSecretPlace,
  notificationsUrlPlace,
  previousSigningSecretEntry,
  type SecretManifest,
  type SecretPlace,
  signingSecretEntry,
} from '../secret-manifest.ts'
import type { tenantSecrets } from '../tables.ts'
import type { GeneratedSecret } from '../tenant-source.ts'
import type { Complaint } from './conditions.ts'
import type { StoredSecret, TenantFacts } from './gather-tenant.ts'
import {
  type Generation,
  generatedSecret,
  type PlaceRead,
  previousUntilMsOf,
  readPlace,
  rotatedLifeMs,
  withoutTrailingNewline,
} from './secret-place.ts'

/** Must return unpredictable bytes. */
export type RandomBytes = (count: number) => Uint8Array

export type SecretToPut = Pick<
  typeof tenantSecrets.$inferInsert,
  'field' | 'ordinal' | 'sourceName' | 'sourceVersion' | 'createdAtMs'
> & { readonly value: string }

export interface SecretsPlan {
  readonly put: readonly SecretToPut[]
  readonly remove: readonly Pick<StoredSecret, 'field' | 'ordinal'>[]
  readonly generate: readonly GeneratedSecret[]
  readonly complaints: readonly Complaint[]
  readonly weak: readonly string[]
  readonly warnings: readonly string[]
}

/** `SecretInvalid` makes the whole Secret unusable; `SecretTooShort` does not affect its other values. */
interface ValueFault {
  readonly reason: 'SecretInvalid' | 'SecretTooShort'
  readonly message: string
}

interface Wanted {
  readonly field: string
  readonly place: SecretPlace
  readonly valuesMax: number
  readonly check: (value: string) => ValueFault | undefined
  /** Minimum length without a warning. Shorter values are used, but cause a warning. */
  readonly charactersRecommended: number
}

type Resolved =
  | { readonly kind: 'keep'; readonly complaints: readonly Complaint[] }
  | {
      readonly kind: 'values'
      readonly values: readonly string[]
      readonly version: string
      readonly trimmed: boolean
      readonly complaints: readonly Complaint[]
      readonly weak: readonly string[]
      /** Secret to write before its values are stored in Postgres. */
      readonly generated?: GeneratedSecret
    }

/**
 * Compares the values in Secrets with the stored values. Every value of a Secret is used, in the order of the Secret's entries, unless it
 * is too short to verify calls. A field with an unusable Secret keeps its stored values if they are still permitted. The values of a
 * removed field are deleted. Values encrypted with an older key are encrypted again. Pure.
 */
export function planSecrets(facts: TenantFacts, nowMs: number, random: RandomBytes): SecretsPlan {
  const put: SecretToPut[] = []
  const generate: GeneratedSecret[] = []
  const complaints: Complaint[] = []
  const weak: string[] = []
  const warnings: string[] = []
  const live = new Set<string>()
  for (const wanted of wantedSecrets(facts)) {
    const resolved = resolve(facts, wanted, { nowMs, random })
    const unreadable = storedOf(facts, wanted.field).filter(({ value }) => value === undefined)
    if (resolved.kind === 'keep') {
      complaints.push(...resolved.complaints)
      if (unreadable.length > 0) complaints.push(keptUnreadable(wanted, unreadable))
      for (const { field, ordinal, value } of storedOf(facts, wanted.field))
        if (value === undefined || wanted.check(value) === undefined) live.add(`${field} ${ordinal}`)
      continue
    }
    if (unreadable.length > 0) {
      warnings.push(
        `Secret ${wanted.place.name}: stored values that the key ring does not open are replaced (they were sealed with ${keyIdsOf(unreadable)})`,
      )
    }
    complaints.push(...resolved.complaints)
    weak.push(...resolved.weak)
    if (resolved.generated !== undefined) generate.push(resolved.generated)
    const { values, version: sourceVersion, trimmed } = resolved
    if (trimmed) warnings.push(`Secret ${wanted.place.name}: one trailing newline was ignored`)
    values.forEach((value, ordinal) => {
      live.add(`${wanted.field} ${ordinal}`)
      const place = { field: wanted.field, ordinal, value, sourceName: wanted.place.name, sourceVersion }
      const next = changedSecret(facts, place, nowMs)
      if (next !== undefined) put.push(next)
    })
  }
  const remove = (facts.stored?.secrets ?? []).filter(
    ({ field, ordinal }) => !live.has(`${field} ${ordinal}`),
  )
  return {
    put,
    remove: remove.map(({ field, ordinal }) => ({ field, ordinal })),
    generate,
    complaints,
    weak,
    warnings: [...warnings, ...weak],
  }
}

function keptUnreadable({ place }: Wanted, unreadable: readonly StoredSecret[]): Complaint {
  const message = `the key ring does not open the stored values of Secret ${place.name} (they were sealed with ${keyIdsOf(unreadable)}), so calls that need it get 503: correct the Secret or the key ring`
  return { reason: 'StoredUnreadable', message }
}

function keyIdsOf(secrets: readonly StoredSecret[]): string {
  return [...new Set(secrets.map(({ keyId }) => keyId))].join(', ')
}

function wantedSecrets({ manifest }: TenantFacts): Wanted[] {
  const wanted: Wanted[] = []
  const signing = [
    { field: callbackField, place: callbackSecretPlace(manifest) },
    { field: notificationsField, place: notificationsSecretPlace(manifest) },
  ]
  for (const { field, place } of signing)
    if (place)
      wanted.push({ field, place, valuesMax: 3, check: signingSecretFault, charactersRecommended: 0 })
  const ofUrl = notificationsUrlPlace(manifest)
  if (ofUrl)
    wanted.push({
      field: notificationsUrlField,
      place: ofUrl,
      valuesMax: 1,
      check: urlFault,
      charactersRecommended: 0,
    })
  for (const { name, secretRef } of manifest.spec.providers) {
    if (secretRef === undefined) continue
    const place = { name: secretRef.name, generated: false }
    wanted.push({
      field: providerField(name),
      place,
      valuesMax: 5,
      check: providerSecretFault,
      charactersRecommended,
    })
  }
  return wanted
}

function resolve(
  facts: TenantFacts,
  wanted: Wanted,
  moment: { readonly nowMs: number; readonly random: RandomBytes },
): Resolved {
  const read = readPlace(facts, wanted.place, storedOf(facts, wanted.field).length > 0)
  if (read.kind === 'keep') return { kind: 'keep', complaints: [read.complaint] }
  if (read.kind === 'generate')
    return signWith(facts, wanted, generateSigning(storedOf(facts, wanted.field), read, moment))
  const { namespace } = facts.manifest
  const ended = wanted.place.generated ? endPrevious(read.secret, moment.nowMs) : undefined
  if (ended !== undefined) return signWith(facts, wanted, ended)
  const entries = wanted.place.generated
    ? [...ownSigningEntries(read.secret)]
    : [...read.secret.values].sort(([one], [other]) => (one < other ? -1 : 1))
  const shown = `Secret ${namespace}/${wanted.place.name}`
  if (entries.length === 0 || entries.length > wanted.valuesMax) {
    return invalid(
      `${shown} must contain 1 to ${wanted.valuesMax} values, each a live secret; it contains ${entries.length}`,
    )
  }
  const values = entries.map(([key, text]) => ({ key, ...withoutTrailingNewline(text) }))
  const complaints = values.flatMap(({ key, text }) => {
    const fault = wanted.check(text)
    return fault ? [{ reason: fault.reason, message: `${shown}, key ${key}: ${fault.message}` }] : []
  })
  const good = values.filter(({ text }) => wanted.check(text) === undefined)
  if (good.length === 0 || complaints.some(({ reason }) => reason === 'SecretInvalid'))
    return { kind: 'keep', complaints }
  const distinct = [...new Set(good.map(({ text }) => text))]
  const { charactersRecommended: least } = wanted
  return {
    kind: 'values',
    values: distinct,
    version: read.secret.version,
    trimmed: good.some(({ trimmed }) => trimmed),
    complaints,
    weak: good
      .filter(({ text }) => charactersOf(text) < least)
      .map(({ key }) => `${shown}, key ${key} has fewer than ${least} characters: use a longer secret`),
  }
}

function signWith(facts: TenantFacts, wanted: Wanted, generation: Generation): Resolved {
  const generated = generatedSecret(facts.manifest, wanted.place.name, generation)
  const values = [...ownSigningEntries({ values: new Map(Object.entries(generated.values)) }).values()]
  return { kind: 'values', values, version: 'generated', trimmed: false, complaints: [], weak: [], generated }
}

/** Generates a signing secret; the previous one stays valid for 24 hours. For an edited Secret, returns the stored signing secrets. */
function generateSigning(
  known: readonly StoredSecret[],
  { cause, secret: before }: Extract<PlaceRead, { kind: 'generate' }>,
  { nowMs, random }: Parameters<typeof resolve>[2],
): Generation {
  const [stored, storedPrevious] = known.map(({ value }) => value)
  if (cause === 'edited' && stored !== undefined) {
    const previousUntilMs = storedPrevious === undefined || !before ? undefined : previousUntilMsOf(before)
    const previous = previousUntilMs === undefined ? undefined : storedPrevious
    return { cause, before, values: signingEntries(stored, previous), previousUntilMs }
  }
  const created = `whsec_${Buffer.from(random(32)).toString('base64')}`
  return {
    cause,
    before,
    values: signingEntries(created, stored),
    previousUntilMs: stored === undefined ? undefined : nowMs + rotatedLifeMs,
  }
}

/** Removes the previous signing secret once it is no longer valid; until then returns undefined. */
function endPrevious(before: SecretManifest, nowMs: number): Generation | undefined {
  const current = before.values.get(signingSecretEntry)
  if (current === undefined || !before.values.has(previousSigningSecretEntry)) return undefined
  const untilMs = previousUntilMsOf(before)
  if (untilMs !== undefined && nowMs < untilMs) return undefined
  return { cause: 'previousEnded', before, values: signingEntries(current, undefined) }
}

function signingEntries(current: string, previous: string | undefined): Record<string, string> {
  return { [signingSecretEntry]: current, ...(previous && { [previousSigningSecretEntry]: previous }) }
}

/** Latchkey's entries of a Secret; the current signing secret comes first. */
function ownSigningEntries({ values }: Pick<SecretManifest, 'values'>): ReadonlyMap<string, string> {
  const own = [signingSecretEntry, previousSigningSecretEntry]
  return new Map(
    [...values]
      .filter(([entry]) => own.includes(entry))
      .sort(([one], [other]) => own.indexOf(one) - own.indexOf(other)),
  )
}

function invalid(message: string): Resolved {
  return { kind: 'keep', complaints: [{ reason: 'SecretInvalid', message }] }
}

function changedSecret(
  facts: TenantFacts,
  next: Omit<SecretToPut, 'createdAtMs'>,
  nowMs: number,
): SecretToPut | undefined {
  const stored = storedOf(facts, next.field)
  const there = stored.find(({ ordinal }) => ordinal === next.ordinal)
  if (there?.value === next.value && there.keyId === facts.currentKeyId) return undefined
  // A value keeps its creation time if it moves within its field or is encrypted with a newer key.
  const same = stored.find(({ value }) => value === next.value)
  return { ...next, createdAtMs: same?.createdAtMs ?? nowMs }
}

function storedOf(facts: TenantFacts, field: string): readonly StoredSecret[] {
  return facts.stored?.secrets.filter((secret) => secret.field === field) ?? []
}

/** Standard Webhooks requires 24 to 64 bytes after the prefix. */
function signingSecretFault(value: string): ValueFault | undefined {
  const encoded = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(value)?.[1]
  const count = encoded === undefined ? 0 : Buffer.from(encoded, 'base64').length
  if (count >= 24 && count <= 64) return undefined
  return { reason: 'SecretInvalid', message: 'must be whsec_ followed by the base64 of 24 to 64 bytes' }
}

/** Checks the form of a URL without quoting it. Its address is checked for the condition and again at each call. */
function urlFault(value: string): ValueFault | undefined {
  const checked = checkCallbackUrl(value)
  return checked.kind === 'refused' ? { reason: 'SecretInvalid', message: checked.message } : undefined
}

/** Minimum length. With one signed call, an attacker can find a shorter secret by brute force. */
const charactersMin = 8
/** Recommended length: 96 bits at 6 bits per character. */
const charactersRecommended = 16
const charactersMax = 4_096

function providerSecretFault(value: string): ValueFault | undefined {
  if (value.trim() === '') return { reason: 'SecretTooShort', message: 'is blank: use the provider’s secret' }
  if (charactersOf(value) < charactersMin) {
    const message = `has fewer than ${charactersMin} characters and is not used to verify calls: use a longer secret`
    return { reason: 'SecretTooShort', message }
  }
  if (value.length <= charactersMax) return undefined
  return { reason: 'SecretInvalid', message: `is longer than ${charactersMax} characters` }
}

/** Ignores the prefix of Standard Webhooks and surrounding white space, which add no entropy. */
function charactersOf(value: string): number {
  return Array.from(value.trim().replace(/^whsec_/, '')).length
}
