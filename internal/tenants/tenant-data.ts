import type { TenantId } from '#internal/base/index.ts'
import type { Pool, PoolClient, PurgeStep } from '#internal/storage/index.ts'

/**
 * Functions of other modules that access a tenant's rows. The process passes them in, because those modules import this one.
 * Every function throws errors of Postgres.
 */
export interface TenantData {
  /** Rows that refer to other rows are deleted first. */
  readonly purgeSteps: readonly PurgeStep[]
  countEventsLeft(pool: Pool, id: TenantId, countMax: number): Promise<number>
  /** Returns the suspensions of a tenant's callback and notifications; undefined where there is none. */
  findSuspensions(
    pool: Pool,
    id: TenantId,
  ): Promise<{
    readonly callback: CallbackSuspension | undefined
    readonly notifications: CallbackSuspension | undefined
  }>
  /** Includes tenants whose notifications are suspended. */
  listSuspendedTenants(pool: Pool, rowsMax: number): Promise<readonly TenantId[]>
  /** Writes in the transaction of the audited change. */
  writeAudit(client: PoolClient, entry: AuditEntry, nowMs: number): Promise<void>
}

/** No delivery is attempted until the callback is resumed. */
export interface CallbackSuspension {
  /** `gone`: the callback responded 410. `disabled`: its response contained the header `webhook-delivery: disable`. */
  readonly cause: string
  readonly suspendedAtMs: number
}

/** `detail` must not contain secrets. */
export interface AuditEntry {
  readonly actor: string
  readonly action: `tenants.${'adopted' | 'changed' | 'created' | 'credentials' | 'deleted' | 'restored'}`
  readonly tenantId: TenantId
  readonly detail: Readonly<Record<string, unknown>>
}
