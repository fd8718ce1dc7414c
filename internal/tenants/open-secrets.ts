import type { DirectoryTenant } from './directory-index.ts'
import type { KeyRing } from './key-ring.ts'

/** The field that a provider's secrets are stored under. */
export function providerField(name: string): string {
  return `provider:${name}`
}

/** The field that the secrets which sign deliveries are stored under. */
export const callbackField = 'callback'

const nonceBytes = 12

/** Opened secrets, and how many could not be opened: sealed under a key that the ring lacks, or altered. */
export interface OpenedSecrets {
  readonly values: readonly string[]
  readonly unreadable: number
}

/**
 * Opens a tenant's live secrets of one field, in their order. Costs microseconds a secret: keep what it gives for as long as the
 * directory gives the same tenant object, since a change of secrets gives another one.
 */
export function openTenantSecrets(keyRing: KeyRing, tenant: DirectoryTenant, field: string): OpenedSecrets {
  const values: string[] = []
  let unreadable = 0
  for (const secret of tenant.secrets) {
    if (secret.field !== field) continue
    const bytes = Buffer.from(secret.sealedBase64, 'base64')
    const opened = keyRing.open(
      { tenantId: tenant.id, field },
      { keyId: secret.keyId, nonce: bytes.subarray(0, nonceBytes), ciphertext: bytes.subarray(nonceBytes) },
    )
    if (opened.kind === 'opened') values.push(opened.text)
    else unreadable += 1
  }
  return { values, unreadable }
}
