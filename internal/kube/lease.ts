import { type KubeObject, resource } from './resource.ts'

/** A Lease. Times are `MicroTime`. */
export interface Lease extends KubeObject {
  readonly spec?: {
    readonly holderIdentity?: string
    readonly leaseDurationSeconds?: number
    readonly acquireTime?: string
    readonly renewTime?: string
    readonly leaseTransitions?: number
  }
}

/** Leases. */
export const leases = resource<Lease>({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  plural: 'leases',
  share: 'lease',
})

/** A Lease as last read. */
export interface Observation {
  readonly lease: Lease
  /** First read in this state, on the own monotonic clock: another machine's clock is not trusted. */
  readonly sinceMs: number
}

/** Records a read of a lease. Its time restarts only with a change by its holder, not with a new label. */
export function observe(before: Observation | undefined, lease: Lease, nowMs: number): Observation {
  const same = before !== undefined && hasSameHolding(before.lease, lease)
  return { lease, sinceMs: same ? before.sinceMs : nowMs }
}

function hasSameHolding(one: Lease, other: Lease): boolean {
  return (
    one.metadata.uid === other.metadata.uid &&
    one.spec?.holderIdentity === other.spec?.holderIdentity &&
    one.spec?.renewTime === other.spec?.renewTime &&
    one.spec?.leaseTransitions === other.spec?.leaseTransitions
  )
}

/** Bound of another holder's lease duration. */
const durationMsMax = 3_600_000

/** Milliseconds until the lease may be acquired; 0 when it was released, or not renewed for its duration. */
export function freeInMs({ lease, sinceMs }: Observation, nowMs: number, defaultLeaseMs: number): number {
  if (!lease.spec?.holderIdentity) return 0
  const { leaseDurationSeconds } = lease.spec
  const durationMs = leaseDurationSeconds === undefined ? defaultLeaseMs : leaseDurationSeconds * 1000
  return Math.max(0, sinceMs + Math.min(durationMs, durationMsMax) - nowMs)
}

/** Contents of an acquisition. */
export interface Holding {
  readonly holder: string
  readonly leaseMs: number
  /** Milliseconds since the Unix epoch. */
  readonly wallMs: number
}

/** Returns the lease with its new holder. Its fence is above the former one and above `fenceFloor`. */
export function acquired(lease: Lease, { holder, leaseMs, wallMs }: Holding, fenceFloor: number): Lease {
  const time = formatMicroTime(wallMs)
  return {
    ...lease,
    spec: {
      holderIdentity: holder,
      leaseDurationSeconds: Math.ceil(leaseMs / 1000),
      acquireTime: time,
      renewTime: time,
      leaseTransitions: Math.max(fenceOf(lease), fenceFloor) + 1,
    },
  }
}

/** Returns the lease with a new renewal time. */
export function renewed(lease: Lease, wallMs: number): Lease {
  return { ...lease, spec: { ...lease.spec, renewTime: formatMicroTime(wallMs) } }
}

/** Returns the lease without a holder, so that the next one need not wait. Keeps the fence. */
export function released(lease: Lease, wallMs: number): Lease {
  const time = formatMicroTime(wallMs)
  return {
    ...lease,
    spec: { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, acquireTime: time, renewTime: time },
  }
}

/** Fencing token: the number of acquisitions. */
export function fenceOf(lease: Lease): number {
  return lease.spec?.leaseTransitions ?? 0
}

/**
 * Formats a time as Kubernetes' `MicroTime`: exactly six digits of a second, since the server refuses any other number.
 * @param ms milliseconds since the Unix epoch
 */
export function formatMicroTime(ms: number): string {
  return new Date(ms).toISOString().replace(/Z$/, '000Z')
}
