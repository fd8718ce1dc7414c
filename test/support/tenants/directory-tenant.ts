import { type TenantId, tenantIdFromBytes } from '#internal/base/index.ts'
import { type DirectoryTenant, retryScheduleDefault } from '#internal/tenants/index.ts'

/** Builds a tenant as the directory returns it, with the model's defaults. */
export function directoryTenant(fields: Partial<DirectoryTenant> = {}): DirectoryTenant {
  return {
    id: someTenantId(),
    namespace: 'shops',
    name: 'acme',
    slug: 'acme',
    suspended: false,
    recordStore: { current: 'redis', before: null, generation: 0, fence: 0 },
    records: { requireLockToken: false, ttlSecondsMax: 2_592_000, bodyBytesMax: 262_144 },
    limits: {},
    callback: {
      url: 'https://hooks.example/',
      rules: {
        timeoutSeconds: 15,
        allowedCIDRs: [],
        retryOnRedelivery: false,
        retry: {
          schedule: [...retryScheduleDefault],
          jitterPercent: 20,
        },
      },
    },
    providers: [],
    walletStage: 'off',
    retention: { payloadDays: 30, eventDays: 90 },
    redactedFields: [],
    secrets: [],
    ...fields,
  }
}

/** Returns a new tenant id. */
export function someTenantId(): TenantId {
  return tenantIdFromBytes(crypto.getRandomValues(new Uint8Array(16)))
}
