import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { TenantId } from '#internal/base/index.ts'
import type { Directory, DirectoryTenant } from './directory.ts'

/** AES-256-GCM. The last 16 bytes of `ciphertext` are the authentication tag. */
export interface Sealed {
  readonly keyId: string
  readonly nonce: Buffer
  readonly ciphertext: Buffer
}

/** Owner and field of an encrypted value. Both are authenticated data, so a value that is moved to another place does not decrypt. */
export interface SealedPlace {
  readonly tenantId: TenantId
  readonly field: string
}

const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16
const keysMax = 16

/**
 * Parses a key ring of the form `id:base64key[,id2:base64key2]` with keys of 32 bytes. The first key encrypts; all keys decrypt. Rotation
 * has three steps: add the new key at the end in all processes, move it to the front, and remove the old key after every tenant was
 * reconciled. A `message` never quotes the ring.
 * @param random returns `count` unpredictable bytes; replaced in tests only
 */
export function parseKeyRing(
  text: string,
  random: (count: number) => Uint8Array = randomBytes,
):
  | { readonly kind: 'ok'; readonly keyRing: KeyRing }
  | { readonly kind: 'invalid'; readonly message: string } {
  const keys = new Map<string, Buffer>()
  const entries = text.split(',').map((entry) => entry.trim())
  if (entries.length > keysMax)
    return { kind: 'invalid', message: `the key ring must contain at most ${keysMax} keys` }
  for (const [index, entry] of entries.entries()) {
    const match = /^([A-Za-z0-9][A-Za-z0-9._-]{0,31}):([A-Za-z0-9+/]{43}=)$/.exec(entry)
    const [, id, encoded] = match ?? []
    if (id === undefined || encoded === undefined) {
      return {
        kind: 'invalid',
        message: `key ring entry ${index + 1} must be <id>:<base64 of ${keyBytes} bytes>`,
      }
    }
    if (keys.has(id))
      return { kind: 'invalid', message: `key ring entry ${index + 1} repeats the id of an earlier entry` }
    keys.set(id, Buffer.from(encoded, 'base64'))
  }
  const [current] = keys
  if (current === undefined) return { kind: 'invalid', message: 'the key ring must contain at least one key' }
  return { kind: 'ok', keyRing: new KeyRing(keys, current, random) }
}

/** Encrypts values with its first key and decrypts values that any of its keys encrypted. */
export class KeyRing {
  readonly currentKeyId: string
  readonly #current: Buffer
  readonly #keys: ReadonlyMap<string, Buffer>
  readonly #random: (count: number) => Uint8Array

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

  /** Ids of all keys. The key of the first id encrypts. */
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

  /** Decrypts a value. `keyUnknown`: the ring lacks its key. `broken`: the value was changed or belongs to another tenant or field. */
  open(
    place: SealedPlace,
    sealed: Sealed,
  ):
    | { readonly kind: 'opened'; readonly text: string }
    | { readonly kind: 'keyUnknown'; readonly keyId: string }
    | { readonly kind: 'broken' } {
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
      // Decryption fails only if the tag does not match the data, the key, the tenant and the field.
      return { kind: 'broken' }
    }
  }

  /** Keeps the keys out of logs and `JSON.stringify`. */
  toJSON(): { keyIds: string[] } {
    return { keyIds: [...this.#keys.keys()] }
  }
}

/** Returns the authenticated data of a place, which differs for any two places, because a tenant id contains no line feed. */
function authenticatedData({ tenantId, field }: SealedPlace): Buffer {
  return Buffer.from(`${tenantId}\n${field}`, 'utf8')
}

/** Returns the `field` value for the secrets of a provider. */
export function providerField(name: string): string {
  return `provider:${name}`
}

/** The `field` value for the secrets that sign deliveries. */
export const callbackField = 'callback'

/** The `field` value for the secrets that sign notifications. */
export const notificationsField = 'notifications'
/** The `field` value for the URL of notifications that a Secret contains. */
export const notificationsUrlField = 'notifications:url'

/** Maximum number of tenants that `countUnreadableTenants` counts. `onUnreadable` also reports tenants beyond it. */
const unreadableTenantsMax = 10_000

export interface SecretOpenerOptions {
  readonly keyRing: KeyRing
  readonly directory: Pick<Directory, 'findTenantById'>
  /** Called once per version of a tenant and field if secrets do not decrypt. Must not throw. */
  onUnreadable(unreadable: {
    readonly tenant: DirectoryTenant
    readonly field: string
    readonly keyIds: readonly string[]
  }): void
}

/**
 * Decrypts a tenant's secrets of one field, in their stored order. Decrypting one secret takes microseconds. Callers can cache the result
 * while the directory returns the same tenant object, since a change of secrets creates another object. `unreadableKeyIds` names the keys
 * of secrets that do not decrypt, because the ring lacks the key or the value was changed.
 */
export function openTenantSecrets(
  keyRing: KeyRing,
  tenant: DirectoryTenant,
  field: string,
): { readonly values: readonly string[]; readonly unreadableKeyIds: readonly string[] } {
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

/** Decrypts secrets for a process. Reports secrets that do not decrypt once per change, and counts the affected tenants. */
export class SecretOpener {
  readonly #options: SecretOpenerOptions
  readonly #reported = new WeakMap<DirectoryTenant, Set<string>>()
  readonly #unreadable = new Map<string, DirectoryTenant>()

  constructor(options: SecretOpenerOptions) {
    this.#options = options
  }

  open(tenant: DirectoryTenant, field: string): ReturnType<typeof openTenantSecrets> {
    const opened = openTenantSecrets(this.#options.keyRing, tenant, field)
    if (opened.unreadableKeyIds.length > 0) this.#report(tenant, field, opened.unreadableKeyIds)
    return opened
  }

  /** Returns the number of tenants whose secrets did not decrypt and have not changed since; at most 10 000. */
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
