import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { TenantId } from '#internal/base/index.ts'

/** A sealed value: AES-256-GCM, the 16-byte tag at the end of `ciphertext`. */
export interface Sealed {
  readonly keyId: string
  readonly nonce: Buffer
  readonly ciphertext: Buffer
}

/** Where a sealed value belongs; a value moved elsewhere does not open. */
export interface SealedPlace {
  readonly tenantId: TenantId
  readonly field: string
}

/** What `open` gives. `keyUnknown`: sealed under a key that the ring lacks. `broken`: altered, or of another place. */
export type Opened =
  | { readonly kind: 'opened'; readonly text: string }
  | { readonly kind: 'keyUnknown'; readonly keyId: string }
  | { readonly kind: 'broken' }

/** Seals under its first key and opens what any of its keys sealed. */
export interface KeyRing {
  readonly currentKeyId: string
  /** The ids of all its keys, the first one first. */
  readonly keyIds: readonly string[]
  seal(place: SealedPlace, text: string): Sealed
  open(place: SealedPlace, sealed: Sealed): Opened
}

/** What `parseKeyRing` found; a problem never quotes the ring. */
export type ParsedKeyRing =
  | { readonly kind: 'ok'; readonly keyRing: KeyRing }
  | { readonly kind: 'invalid'; readonly message: string }

const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16
const keysMax = 16

/**
 * Reads a key ring of the form `id:base64key[,id2:base64key2]`, keys of 32 bytes; the first one seals. To rotate, add the
 * new key last in all processes, then put it first, then drop the old one once every tenant was reconciled.
 * @param random gives `count` unpredictable bytes; replaced in tests only
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
  return { kind: 'ok', keyRing: new AesGcmKeyRing(keys, current, random) }
}

class AesGcmKeyRing implements KeyRing {
  readonly currentKeyId: string
  readonly keyIds: readonly string[]
  readonly #current: Buffer
  readonly #keys: ReadonlyMap<string, Buffer>
  readonly #random: (count: number) => Uint8Array

  constructor(
    keys: ReadonlyMap<string, Buffer>,
    current: readonly [string, Buffer],
    random: (count: number) => Uint8Array,
  ) {
    this.#keys = keys
    this.keyIds = [...keys.keys()]
    this.currentKeyId = current[0]
    this.#current = current[1]
    this.#random = random
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
      // `final` fails for one reason only: the tag does not fit the data, the key or the place.
      return { kind: 'broken' }
    }
  }

  /** Keeps the keys out of logs and of `JSON.stringify`. */
  toJSON(): { keyIds: string[] } {
    return { keyIds: [...this.keyIds] }
  }
}

/** A tenant's id holds no line feed, so that no two places give the same bytes. */
function authenticatedData({ tenantId, field }: SealedPlace): Buffer {
  return Buffer.from(`${tenantId}\n${field}`, 'utf8')
}
