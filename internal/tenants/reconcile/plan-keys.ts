import { createHash } from 'node:crypto'
import { apiKeyEntry, apiKeySecretPlace } from '../secret-manifest.ts'
import type { GeneratedSecret } from '../tenant-source.ts'
import type { Complaint } from './conditions.ts'
import type { StoredKey, TenantFacts } from './gather-tenant.ts'
import type { RandomBytes } from './plan-secrets.ts'
import { generatedSecret, readPlace, rotatedLifeMs, withoutTrailingNewline } from './secret-place.ts'

export interface KeysPlan {
  readonly put: readonly StoredKey[]
  /** SHA-256 (hex). These keys become invalid immediately. */
  readonly remove: readonly string[]
  readonly generate: readonly GeneratedSecret[]
  readonly secretComplaints: readonly Complaint[]
  readonly keyComplaints: readonly Complaint[]
  readonly warnings: readonly string[]
}

type ApiKeySpec = TenantFacts['manifest']['spec']['apiKeys'][number]
type Resolved =
  | {
      readonly kind: 'key'
      readonly text: string
      readonly generated?: GeneratedSecret
      readonly trimmed: boolean
    }
  | { readonly kind: 'keep'; readonly complaint: Complaint; readonly of: 'secret' | 'key' }

/** Characters of a key, including `lk_`, that are stored in plain text to identify the key. */
export const keyPrefixChars = 11

/** Returns the SHA-256 (hex) under which a key is stored and found. */
export function hashApiKey(key: string): string {
  return createHash('sha256').update(key, 'utf8').digest('hex')
}

/** Removes one trailing newline. */
export function keyText(value: string): string {
  return withoutTrailingNewline(value).text
}

/**
 * Compares the keys in Secrets with the stored keys. If a Secret's key changes, the old key stays valid for another 24 hours. If an entry
 * is removed from the spec, its keys become invalid immediately. An entry with an unusable Secret keeps its keys. Pure.
 */
export function planKeys(facts: TenantFacts, nowMs: number, random: RandomBytes): KeysPlan {
  const generate: GeneratedSecret[] = []
  const secretComplaints: Complaint[] = []
  const keyComplaints: Complaint[] = []
  const warnings: string[] = []
  const desired = new Map<string, StoredKey>()
  const kept = new Set<string>()
  for (const entry of facts.manifest.spec.apiKeys) {
    const resolved = resolve(facts, entry, desired, random)
    if (resolved.kind === 'keep') {
      kept.add(entry.name)
      const complaints = resolved.of === 'secret' ? secretComplaints : keyComplaints
      complaints.push(resolved.complaint)
      continue
    }
    if (resolved.generated !== undefined) generate.push(resolved.generated)
    if (resolved.trimmed) warnings.push(`API key ${entry.name}: one trailing newline was ignored`)
    const sha256Hex = hashApiKey(resolved.text)
    const prefix = resolved.text.slice(0, keyPrefixChars)
    desired.set(sha256Hex, { ...rulesOf(entry), sha256Hex, prefix, endsAtMs: null })
  }
  const { put, remove } = compare(facts, { desired, kept, nowMs })
  return { put, remove, generate, secretComplaints, keyComplaints, warnings }
}

function resolve(
  facts: TenantFacts,
  entry: ApiKeySpec,
  desired: ReadonlyMap<string, StoredKey>,
  random: RandomBytes,
): Resolved {
  const { manifest } = facts
  const place = apiKeySecretPlace(manifest, entry)
  const isStored = facts.stored?.keys.some(({ name, endsAtMs }) => name === entry.name && endsAtMs === null)
  const read = readPlace(facts, place, isStored === true)
  if (read.kind === 'keep') return { ...read, of: 'secret' }
  if (read.kind === 'generate') {
    const text = `lk_${Buffer.from(random(32)).toString('base64url')}`
    const { cause, secret: before } = read
    const generated = generatedSecret(manifest, place.name, {
      cause,
      before,
      values: { [apiKeyEntry]: text },
    })
    return { kind: 'key', text, generated, trimmed: false }
  }
  const shown = `API key ${entry.name} (Secret ${manifest.namespace}/${place.name}, key ${apiKeyEntry})`
  const value = read.secret.values.get(apiKeyEntry)
  if (value === undefined) return faulty('KeyMissing', `${shown}: the Secret has no such key: add it`)
  const { text, trimmed } = withoutTrailingNewline(value)
  if (!/^lk_[\x21-\x7e]{29,253}$/.test(text)) {
    return faulty('KeyInvalid', `${shown} must start with lk_ and have 32 to 256 printable characters`)
  }
  const sha256Hex = hashApiKey(text)
  if (facts.keysOfOthers.has(sha256Hex)) {
    return faulty('KeyInUse', `${shown} is the key of another tenant: use a key of this tenant only`)
  }
  const twin = desired.get(sha256Hex)
  if (twin !== undefined)
    return faulty('KeyInUse', `${shown} is the same as the API key ${twin.name}: use two different keys`)
  return { kind: 'key', text, trimmed }
}

function faulty(reason: string, message: string): Resolved {
  return { kind: 'keep', complaint: { reason, message }, of: 'key' }
}

function rulesOf(entry: ApiKeySpec): Pick<StoredKey, 'name' | 'scopes' | 'expiresAtMs'> {
  const expiresAtMs = entry.expiresAt === undefined ? null : Date.parse(entry.expiresAt)
  return { name: entry.name, scopes: [...entry.scopes].sort(), expiresAtMs }
}

interface Comparison {
  readonly desired: ReadonlyMap<string, StoredKey>
  readonly kept: ReadonlySet<string>
  readonly nowMs: number
}

function compare(
  facts: TenantFacts,
  { desired, kept, nowMs }: Comparison,
): { put: StoredKey[]; remove: string[] } {
  const put = new Map(desired)
  const remove: string[] = []
  for (const key of facts.stored?.keys ?? []) {
    const next = desired.get(key.sha256Hex) ?? afterlife(facts, key, { kept, nowMs })
    if (next === undefined) {
      remove.push(key.sha256Hex)
      continue
    }
    if (isSameKey(key, next)) put.delete(key.sha256Hex)
    else put.set(key.sha256Hex, next)
  }
  return { put: [...put.values()], remove }
}

/** Returns a stored key with the scopes and expiry of its entry in the spec; undefined if the key is invalid from now on. */
function afterlife(
  facts: TenantFacts,
  key: StoredKey,
  { kept, nowMs }: Pick<Comparison, 'kept' | 'nowMs'>,
): StoredKey | undefined {
  const entry = facts.manifest.spec.apiKeys.find(({ name }) => name === key.name)
  if (entry === undefined) return undefined
  if (key.endsAtMs !== null && key.endsAtMs <= nowMs) return undefined
  const endsAtMs = key.endsAtMs ?? (kept.has(key.name) ? null : nowMs + rotatedLifeMs)
  return { ...rulesOf(entry), sha256Hex: key.sha256Hex, prefix: key.prefix, endsAtMs }
}

function isSameKey(one: StoredKey, other: StoredKey): boolean {
  return (
    one.name === other.name &&
    one.prefix === other.prefix &&
    one.expiresAtMs === other.expiresAtMs &&
    one.endsAtMs === other.endsAtMs &&
    one.scopes.length === other.scopes.length &&
    one.scopes.every((scope) => other.scopes.includes(scope))
  )
}
