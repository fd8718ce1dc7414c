import {
  callbackField,
  type DirectoryCallback,
  type DirectoryTenant,
  parseDurationMs,
  type SecretOpener,
} from '#internal/tenants/index.ts'
import type { RetrySchedule } from './decide.ts'
import { prepareSigningKey, type SigningKey } from './send.ts'

/** Parameters for deliveries to a tenant, computed once per version of the tenant. */
export interface PreparedTenant {
  readonly url: string
  readonly allowedCIDRs: readonly string[]
  readonly timeoutMs: number
  readonly schedule: RetrySchedule
  /** Keys of all active signing secrets. Each key adds a signature. */
  readonly keys: readonly SigningKey[]
  /** True if the key ring cannot decrypt some of the signing secrets. No delivery is sent while this is true. */
  readonly isUnreadable: boolean
}

/** A tenant that has a callback. */
export interface CalledTenant extends DirectoryTenant {
  readonly callback: DirectoryCallback
}

/** Returns whether a tenant has a callback. */
export function hasCallback(tenant: DirectoryTenant): tenant is CalledTenant {
  return tenant.callback !== undefined
}

/** Decrypts a tenant's signing secrets. */
export type OpensSecrets = Pick<SecretOpener, 'open'>

/** Caches the delivery parameters of each tenant while the tenant directory contains the tenant. */
export class PreparedTenants {
  readonly #secrets: OpensSecrets
  readonly #prepared = new WeakMap<DirectoryTenant, PreparedTenant>()

  constructor(secrets: OpensSecrets) {
    this.#secrets = secrets
  }

  /** Returns the same object for the same version of a tenant. */
  of(tenant: CalledTenant): PreparedTenant {
    let prepared = this.#prepared.get(tenant)
    if (prepared === undefined) {
      prepared = prepareTenant(this.#secrets, tenant)
      this.#prepared.set(tenant, prepared)
    }
    return prepared
  }
}

/** Computes the parameters for deliveries to a tenant. This decrypts secrets, so callers should cache the result. */
export function prepareTenant(secrets: OpensSecrets, tenant: CalledTenant): PreparedTenant {
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
