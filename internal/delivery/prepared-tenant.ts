import {
  callbackField,
  type DirectoryTenant,
  parseDurationMs,
  type SecretOpener,
} from '#internal/tenants/index.ts'
import type { RetrySchedule } from './decide.ts'
import { prepareSigningKey, type SigningKey } from './send.ts'

/** Parameters of deliveries to a tenant, computed once for each state of the tenant. */
export interface PreparedTenant {
  readonly url: string
  readonly allowedCIDRs: readonly string[]
  readonly timeoutMs: number
  readonly schedule: RetrySchedule
  /** Every live secret signs. */
  readonly keys: readonly SigningKey[]
  /** Some of the signing secrets cannot be opened with the key ring: nothing is sent until they can. */
  readonly isUnreadable: boolean
}

/** Opens a tenant's signing secrets. */
export type OpensSecrets = Pick<SecretOpener, 'open'>

/** Tenants ready for deliveries. Bounded by the directory: what it lets go of goes from here too. */
export class PreparedTenants {
  readonly #secrets: OpensSecrets
  readonly #prepared = new WeakMap<DirectoryTenant, PreparedTenant>()

  constructor(secrets: OpensSecrets) {
    this.#secrets = secrets
  }

  /** The same object for the same state of a tenant. */
  of(tenant: DirectoryTenant): PreparedTenant {
    let prepared = this.#prepared.get(tenant)
    if (prepared === undefined) {
      prepared = prepareTenant(this.#secrets, tenant)
      this.#prepared.set(tenant, prepared)
    }
    return prepared
  }
}

/** Works out what a delivery to a tenant needs: opens its secrets, so keep what it gives. */
export function prepareTenant(secrets: OpensSecrets, tenant: DirectoryTenant): PreparedTenant {
  const { url, rules } = tenant.callback
  const { values, unreadableKeyIds } = secrets.open(tenant, callbackField)
  return {
    url,
    allowedCIDRs: rules.allowedCIDRs,
    timeoutMs: rules.timeoutSeconds * 1000,
    schedule: {
      waitsMs: rules.retry.schedule.map((wait) => parseDurationMs(wait) ?? 0),
      jitterPercent: rules.retry.jitterPercent,
    },
    keys: values.flatMap((secret) => prepareSigningKey(secret) ?? []),
    isUnreadable: unreadableKeyIds.length > 0,
  }
}
