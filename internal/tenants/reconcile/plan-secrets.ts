import { callbackField, providerField } from '../open-secrets.ts'
import { callbackSecretPlace, type SecretPlace, signingSecretEntry } from '../secret-names.ts'
import type { GeneratedSecret } from '../source.ts'
import type { Complaint } from './conditions.ts'
import type { StoredSecret, TenantFacts } from './facts.ts'
import { readPlace, withoutTrailingNewline } from './read-place.ts'

/** Gives `count` unpredictable bytes. */
export type RandomBytes = (count: number) => Uint8Array

/** A live secret to be sealed and stored. */
export interface SecretToPut {
  readonly field: string
  readonly ordinal: number
  readonly value: string
  readonly sourceName: string
  readonly sourceVersion: string
  readonly createdAtMs: number
}

/** What becomes of a tenant's stored secrets. */
export interface SecretsPlan {
  readonly put: readonly SecretToPut[]
  readonly remove: readonly Pick<StoredSecret, 'field' | 'ordinal'>[]
  readonly generate: readonly GeneratedSecret[]
  readonly complaints: readonly Complaint[]
  readonly warnings: readonly string[]
}

interface Wanted {
  readonly field: string
  readonly place: SecretPlace
  readonly valuesMax: number
  readonly check: (value: string) => string | undefined
}

type Resolved =
  | { readonly kind: 'keep'; readonly complaint: Complaint }
  | { readonly kind: 'generate'; readonly generated: GeneratedSecret }
  | {
      readonly kind: 'values'
      readonly values: readonly string[]
      readonly version: string
      readonly trimmed: boolean
    }

/**
 * Compares what the Secrets hold with what is stored. Every value of a Secret is live, in the order of their names. A field
 * whose Secret cannot be used keeps what is stored; a field that the tenant no longer has ends. Values sealed under an older
 * key are sealed again. Pure.
 */
export function planSecrets(facts: TenantFacts, now: number, random: RandomBytes): SecretsPlan {
  const put: SecretToPut[] = []
  const generate: GeneratedSecret[] = []
  const complaints: Complaint[] = []
  const warnings: string[] = []
  const live = new Set<string>()
  for (const wanted of wantedSecrets(facts)) {
    const resolved = resolve(facts, wanted, random)
    if (resolved.kind === 'keep') {
      complaints.push(resolved.complaint)
      for (const { field, ordinal } of storedOf(facts, wanted.field)) live.add(`${field} ${ordinal}`)
      continue
    }
    if (resolved.kind === 'generate') generate.push(resolved.generated)
    const values = resolved.kind === 'generate' ? [resolved.generated.value] : resolved.values
    const sourceVersion = resolved.kind === 'generate' ? 'generated' : resolved.version
    if (resolved.kind === 'values' && resolved.trimmed) {
      warnings.push(`Secret ${wanted.place.name}: one trailing newline was ignored`)
    }
    values.forEach((value, ordinal) => {
      live.add(`${wanted.field} ${ordinal}`)
      const place = { field: wanted.field, ordinal, value, sourceName: wanted.place.name, sourceVersion }
      const next = changedSecret(facts, place, now)
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
    warnings,
  }
}

function wantedSecrets({ manifest }: TenantFacts): Wanted[] {
  const wanted: Wanted[] = [
    { field: callbackField, place: callbackSecretPlace(manifest), valuesMax: 3, check: signingSecretFault },
  ]
  for (const { name, secretRef } of manifest.spec.providers) {
    if (secretRef === undefined) continue
    const place = { name: secretRef.name, generated: false }
    wanted.push({ field: providerField(name), place, valuesMax: 5, check: providerSecretFault })
  }
  return wanted
}

function resolve(facts: TenantFacts, wanted: Wanted, random: RandomBytes): Resolved {
  const read = readPlace(facts, wanted.place)
  if (read.kind === 'keep') return read
  const { namespace, name, uid } = facts.manifest
  if (read.kind === 'generate') {
    const value = `whsec_${Buffer.from(random(32)).toString('base64')}`
    const owner = { uid, name }
    return {
      kind: 'generate',
      generated: { namespace, name: wanted.place.name, key: signingSecretEntry, value, owner },
    }
  }
  const entries = [...read.secret.values].sort(([one], [other]) => (one < other ? -1 : 1))
  const shown = `Secret ${namespace}/${wanted.place.name}`
  if (entries.length === 0 || entries.length > wanted.valuesMax) {
    return invalid(
      `${shown} must hold 1 to ${wanted.valuesMax} values, each a live secret: it holds ${entries.length}`,
    )
  }
  const values = entries.map(([key, text]) => ({ key, ...withoutTrailingNewline(text) }))
  for (const { key, text } of values) {
    const fault = wanted.check(text)
    if (fault !== undefined) return invalid(`${shown}, key ${key}: ${fault}`)
  }
  const distinct = [...new Set(values.map(({ text }) => text))]
  return {
    kind: 'values',
    values: distinct,
    version: read.secret.version,
    trimmed: values.some(({ trimmed }) => trimmed),
  }
}

function invalid(message: string): Resolved {
  return { kind: 'keep', complaint: { reason: 'SecretInvalid', message } }
}

function changedSecret(
  facts: TenantFacts,
  next: Omit<SecretToPut, 'createdAtMs'>,
  now: number,
): SecretToPut | undefined {
  const stored = storedOf(facts, next.field)
  const there = stored.find(({ ordinal }) => ordinal === next.ordinal)
  if (there?.value === next.value && there.keyId === facts.currentKeyId) return undefined
  // A value keeps its age when it only moves within its field or is sealed under a newer key.
  const same = stored.find(({ value }) => value === next.value)
  return { ...next, createdAtMs: same?.createdAtMs ?? now }
}

function storedOf(facts: TenantFacts, field: string): readonly StoredSecret[] {
  return facts.stored?.secrets.filter((secret) => secret.field === field) ?? []
}

/** Standard Webhooks asks for 24 to 64 bytes behind the prefix. */
function signingSecretFault(value: string): string | undefined {
  const encoded = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(value)?.[1]
  const count = encoded === undefined ? 0 : Buffer.from(encoded, 'base64').length
  return count >= 24 && count <= 64 ? undefined : 'must be whsec_ and the base64 of 24 to 64 bytes'
}

function providerSecretFault(value: string): string | undefined {
  if (value.length === 0) return 'is empty'
  return value.length > 4_096 ? 'is longer than 4096 characters' : undefined
}
