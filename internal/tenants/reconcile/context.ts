import type { Clock, TenantId } from '#internal/base/index.ts'
import type { Logger } from '#internal/telemetry/index.ts'
import type { DeclarationRules } from '../providers/provider-object.ts'
import type { TenantData } from '../tenant-data.ts'
import type { TenantSource } from '../tenant-source.ts'
import type { Applied, ApplyContext } from './apply-plan.ts'
import type { GatherSources } from './gather-tenant.ts'

/** Dependencies of the controller, for every kind of source. */
export interface TenantParts extends Omit<GatherSources, 'secrets' | 'data'>, Pick<ApplyContext, 'actor'> {
  readonly source: TenantSource
  readonly data: TenantData
  readonly clock: Clock
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>
  /** Rules of Providers. Default: Providers are not reconciled, and every name of a provider counts as known. */
  readonly declarations?: DeclarationRules | undefined
  /** Prefix of `/v1/t/…` in webhook URLs. */
  readonly publicUrl?: string | undefined
  /** Notifies directories of changed rows. A failure is logged, and the directories find the change by polling. */
  readonly onChanged: () => Promise<void>
  /** Removes a deleted tenant's data from stores other than Postgres. Must be idempotent. */
  readonly onPurge: (tenantId: TenantId) => Promise<void>
  /** Resumes deliveries to a suspended callback. Must be idempotent. */
  readonly resumeCallback?: (tenantId: TenantId) => Promise<void>
  /** Grace period of a deletion, in which every process learns of the deletion; default 60 s. */
  readonly purgeAfterMs?: number
}

export interface ReconcileContext extends TenantParts, Omit<ApplyContext, 'data'> {
  readonly purgeAfterMs: number
  /** False after the leader was deposed. Checked before each write to the source. */
  readonly isHeld: () => boolean
  /** `applied`: tenants whose rows were written; `removed`: tenants whose rows were hidden. */
  readonly counts: { applied: number; removed: number }
}

/** Another writer prevented a transaction. A retry can succeed. */
export class OtherWriter extends Error {
  override readonly name = 'OtherWriter'
}

/** @throws OtherWriter if a later leader or a concurrent writer prevented the write */
export function expectMine(applied: Applied): void {
  if (applied.kind === 'deposed') throw new OtherWriter('fence check failed: a later leader has written')
  if (applied.kind === 'conflict') throw new OtherWriter('another writer updated the tenant concurrently')
}

/** Never rejects; directories find the change by polling if the notification fails. */
export async function notifyChanged({ onChanged, log }: ReconcileContext): Promise<void> {
  try {
    await onChanged()
  } catch (error) {
    log.warn(
      { cause: error },
      'tenant directories were not notified of a change and will find the change by polling',
    )
  }
}
