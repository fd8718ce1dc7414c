import type { Clock, TenantId } from '#internal/base/index.ts'
import type { CallbackBounds } from '#internal/egress/index.ts'
import type { EventRecorder, KubeClient, Leadership } from '#internal/kube/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { KeyRing } from '../key-ring.ts'
import type { TenantLog } from '../log.ts'
import type { RandomBytes } from '../reconcile/plan-secrets.ts'
import type { ClusterView } from './cluster-view.ts'
import type { ClusterSecrets } from './tenant-secrets.ts'

/** What the operator does its work with, whoever leads. */
export interface OperatorParts {
  readonly client: KubeClient
  readonly view: ClusterView
  readonly secrets: ClusterSecrets
  readonly events: Pick<EventRecorder, 'record'>
  readonly pool: Pool
  readonly keyRing: KeyRing
  readonly clock: Clock
  readonly log: TenantLog
  readonly random: RandomBytes
  /** Platform limits on callback networks and ports. */
  readonly callbackBounds: CallbackBounds
  /** What stands before `/v1/t/…` in the URLs to hand out. */
  readonly publicUrl: string | undefined
  /** Called after rows changed, so that directories look at once. A failure is logged; polling makes up for it. */
  readonly onChanged: () => Promise<void>
  /** Removes what other stores keep of a tenant whose data is to go. Repeating it must be safe. */
  readonly onPurge: (tenantId: TenantId) => Promise<void>
  /** Lets the deliveries of a suspended callback go on. Repeating it must be safe. */
  readonly resumeCallback: (tenantId: TenantId) => Promise<void>
  /** How long after its deletion a tenant's data goes, default 60 s: until then every process has heard of it. */
  readonly purgeAfterMs?: number
}

/** The parts in the hands of a leader. */
export interface LeaderContext extends OperatorParts {
  readonly leadership: Leadership
}

/** Under this name leaders are fenced in Postgres. */
export const fenceName = 'operator'
