import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { TenantId } from '#internal/base/index.ts'
import type { Directory } from './directory.ts'
import type { DirectoryTenant } from './directory-index.ts'

/** A sealed value: AES-256-GCM, the 16-byte tag at the end of `ciphertext`. */
export interface Sealed {
  readonly keyId: string
  readonly nonce: Buffer
  readonly ciphertext: Buffer
}

/** Place of a sealed value, part of its authenticated data: a value moved elsewhere does not open. */
export interface SealedPlace {
  readonly tenantId: TenantId
  readonly field: string
}

/** Result of `open`. `keyUnknown`: sealed with a key that the ring lacks. `broken`: altered, or from another place. */
export type Opened =
  | { readonly kind: 'opened'; readonly text: string }
  | { readonly kind: 'keyUnknown'; readonly keyId: string }
  | { readonly kind: 'broken' }

/** Result of `parseKeyRing`; `message` never quotes the ring. */
export type ParsedKeyRing =
  | { readonly kind: 'ok'; readonly keyRing: KeyRing }
  | { readonly kind: 'invalid'; readonly message: string }

const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16
const keysMax = 16

/**
 * Parses a key ring of the form `id:base64key[,id2:base64key2]`, keys of 32 bytes; the first one seals. To rotate: add the new key
 * last in all processes, then move it to the front, then remove the old one once every tenant was reconciled.
 * @param random returns `count` unpredictable bytes; replaced in tests only
 */
export function parseKeyRing(
  text: string,
  random: (count: number) => Uint8Array = randomBytes,
): ParsedKeyRing {
  const keys = new Map<string, Buffer>()
  const entries = text.split(',').map((entry) => entry.trim())
  if (entries.length > keysMax) return { kind: 'invalid', message: `at most ${keysMax} keys` }
  for (const [index, entry] of entries.entries()) {
    const match = /^([A-Za-z0-9][A-Za-z0-9._-]{0,31}):([A-Za-z0-9+/]{43}=)$/.exec(entry)
    const [, id, encoded] = match ?? []
    if (id === undefined || encoded === undefined) {
      return { kind: 'invalid', message: `entry ${index + 1} must be <id>:<base64 of ${keyBytes} bytes>` }
    }
    if (keys.has(id))
      return { kind: 'invalid', message: `entry ${index + 1} repeats the id of an earlier one` }
    keys.set(id, Buffer.from(encoded, 'base64'))
  }
  const [current] = keys
  if (current === undefined) return { kind: 'invalid', message: 'at least one key' }
  return { kind: 'ok', keyRing: new KeyRing(keys, current, random) }
}

/** Seals with its first key and opens values sealed with any of its keys. */
export class KeyRing {
  readonly currentKeyId: string
  readonly #current: Buffer
  readonly #keys: ReadonlyMap<string, Buffer>
  readonly #random: (count: number) => Uint8Array

  /** See `parseKeyRing`. */
  constructor(
    keys: ReadonlyMap<string, Buffer>,
    [currentKeyId, current]: readonly [string, Buffer],
    random: (count: number) => Uint8Array,
  ) {
    this.#keys = keys
    this.currentKeyId = currentKeyId
    this.#current = current
    this.#random = random
  }

  /** Ids of all keys. The first one seals. */
  get keyIds(): readonly string[] {
    return [...this.#keys.keys()]
  }

  seal(place: SealedPlace, text: string): Sealed {
    const nonce = Buffer.from(this.#random(nonceBytes))
    const cipher = createCipheriv('aes-256-gcm', this.#current, nonce, { authTagLength: tagBytes })
    cipher.setAAD(authenticatedData(place))
    const ciphertext = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
    return { keyId: this.currentKeyId, nonce, ciphertext }
  }

  open(place: SealedPlace, sealed: Sealed): Opened {
    const key = this.#keys.get(sealed.keyId)
    if (key === undefined) return { kind: 'keyUnknown', keyId: sealed.keyId }
    if (sealed.nonce.length !== nonceBytes || sealed.ciphertext.length < tagBytes) return { kind: 'broken' }
    const decipher = createDecipheriv('aes-256-gcm', key, sealed.nonce, { authTagLength: tagBytes })
    decipher.setAAD(authenticatedData(place))
    decipher.setAuthTag(sealed.ciphertext.subarray(-tagBytes))
    const opened = decipher.update(sealed.ciphertext.subarray(0, -tagBytes))
    try {
      return { kind: 'opened', text: Buffer.concat([opened, decipher.final()]).toString('utf8') }
    } catch {
      // The only failure of `final`: the tag does not match data, key and place.
      return { kind: 'broken' }
    }
  }

  /** Keeps the keys out of logs and `JSON.stringify`. */
  toJSON(): { keyIds: string[] } {
    return { keyIds: [...this.#keys.keys()] }
  }
}

/** Unambiguous: a tenant id contains no line feed. */
function authenticatedData({ tenantId, field }: SealedPlace): Buffer {
  return Buffer.from(`${tenantId}\n${field}`, 'utf8')
}

/** Returns the `field` of a provider's secrets. */
export function providerField(name: string): string {
  return `provider:${name}`
}

/** `field` of the secrets that sign deliveries. */
export const callbackField = 'callback'

/** Maximum tenants counted as unreadable; further ones are still reported. */
const unreadableTenantsMax = 10_000

/** Secrets of one field. */
export interface OpenedSecrets {
  readonly values: readonly string[]
  /** Key id of each secret that does not open: the ring lacks the key, or the value was altered. */
  readonly unreadableKeyIds: readonly string[]
}

/** Secrets of one field that do not open. Holds no value. */
export interface UnreadableSecrets {
  readonly tenant: DirectoryTenant
  readonly field: string
  readonly keyIds: readonly string[]
}

/** Options of a `SecretOpener`. */
export interface SecretOpenerOptions {
  readonly keyRing: KeyRing
  readonly directory: Pick<Directory, 'findTenantById'>
  /** Called once per tenant state and field with secrets that do not open. Must not throw. */
  onUnreadable(unreadable: UnreadableSecrets): void
}

/**
 * Opens a tenant's live secrets of one field, in order. Costs microseconds per secret: cache the result while the directory returns
 * the same tenant object, since changed secrets give another object.
 */
export function openTenantSecrets(keyRing: KeyRing, tenant: DirectoryTenant, field: string): OpenedSecrets {
  const values: string[] = []
  const unreadableKeyIds: string[] = []
  for (const secret of tenant.secrets) {
    if (secret.field !== field) continue
    const bytes = Buffer.from(secret.sealedBase64, 'base64')
    const opened = keyRing.open(
      { tenantId: tenant.id, field },
      { keyId: secret.keyId, nonce: bytes.subarray(0, nonceBytes), ciphertext: bytes.subarray(nonceBytes) },
    )
    if (opened.kind === 'opened') values.push(opened.text)
    else unreadableKeyIds.push(secret.keyId)
  }
  return { values, unreadableKeyIds }
}

/** Opens secrets for a process: reports secrets that do not open once per change, and counts the affected tenants. */
export class SecretOpener {
  readonly #options: SecretOpenerOptions
  readonly #reported = new WeakMap<DirectoryTenant, Set<string>>()
  readonly #unreadable = new Map<string, DirectoryTenant>()

  constructor(options: SecretOpenerOptions) {
    this.#options = options
  }

  /** Opens a tenant's secrets of one field, as `openTenantSecrets` does. */
  open(tenant: DirectoryTenant, field: string): OpenedSecrets {
    const opened = openTenantSecrets(this.#options.keyRing, tenant, field)
    if (opened.unreadableKeyIds.length > 0) this.#report(tenant, field, opened.unreadableKeyIds)
    return opened
  }

  /** Counts unchanged tenants with secrets that did not open; at most 10 000. */
  countUnreadableTenants(): number {
    for (const [id, tenant] of this.#unreadable)
      if (this.#options.directory.findTenantById(id) !== tenant) this.#unreadable.delete(id)
    return this.#unreadable.size
  }

  #report(tenant: DirectoryTenant, field: string, keyIds: readonly string[]): void {
    const fields = this.#reported.get(tenant) ?? new Set()
    if (fields.has(field)) return
    this.#reported.set(tenant, fields.add(field))
    if (this.#unreadable.size < unreadableTenantsMax) this.#unreadable.set(tenant.id, tenant)
    this.#options.onUnreadable({ tenant, field, keyIds: [...new Set(keyIds)] })
  }
}
