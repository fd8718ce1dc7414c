import type { Directory } from './directory.ts'
import type { DirectoryTenant } from './directory-index.ts'
import type { KeyRing } from './key-ring.ts'

/** The field that a provider's secrets are stored under. */
export function providerField(name: string): string {
  return `provider:${name}`
}

/** The field that the secrets which sign deliveries are stored under. */
export const callbackField = 'callback'

const nonceBytes = 12
/** Tenants with unreadable secrets that are counted; further ones are still reported. */
const unreadableTenantsMax = 10_000

/** The secrets of one field: the values that could be opened, and the key ids of those that could not. */
export interface OpenedSecrets {
  readonly values: readonly string[]
  /** One key id per secret that the ring cannot open: it lacks the key, or the sealed value was altered. */
  readonly unreadableKeyIds: readonly string[]
}

/** Secrets of one field that could not be opened. Holds no value. */
export interface UnreadableSecrets {
  readonly tenant: DirectoryTenant
  readonly field: string
  readonly keyIds: readonly string[]
}

/** What a `SecretOpener` works with. */
export interface SecretOpenerOptions {
  readonly keyRing: KeyRing
  readonly directory: Pick<Directory, 'findTenantById'>
  /** Called once per tenant state and field whose secrets cannot all be opened. Must not throw. */
  onUnreadable(unreadable: UnreadableSecrets): void
}

/**
 * Opens a tenant's live secrets of one field, in their order. Costs microseconds per secret: keep the result for as long as the
 * directory returns the same tenant object, since a change of secrets gives another one.
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

/** Opens secrets for a whole process: reports what cannot be opened once per change, and counts it while it lasts. */
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

  /** Tenants with secrets that this process tried to open and could not, and that have not changed since. At most 10 000. */
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
