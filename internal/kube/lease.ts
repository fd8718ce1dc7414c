import { type KubeObject, resource } from './resource.ts'

/** A Kubernetes Lease. Its times have the format `MicroTime`. */
export interface Lease extends KubeObject {
  readonly spec?: {
    readonly holderIdentity?: string
    readonly leaseDurationSeconds?: number
    readonly acquireTime?: string
    readonly renewTime?: string
    readonly leaseTransitions?: number
  }
}

/** The Kubernetes resource of Leases. */
export const leases = resource<Lease>({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  plural: 'leases',
  share: 'lease',
})

export interface Observation {
  readonly lease: Lease
  /** Local monotonic time at which the lease was first seen in this state; clocks of other machines are not trusted. */
  readonly sinceMs: number
}

/** `sinceMs` restarts only when the holder changes the lease, not when its labels change. */
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

/** Maximum lease duration accepted from another holder. */
const durationMsMax = 3_600_000

/** Returns the time until the lease is free: 0 if it was released, or was not renewed within its duration. */
export function freeInMs({ lease, sinceMs }: Observation, nowMs: number, defaultLeaseMs: number): number {
  if (!lease.spec?.holderIdentity) return 0
  const { leaseDurationSeconds } = lease.spec
  const durationMs = leaseDurationSeconds === undefined ? defaultLeaseMs : leaseDurationSeconds * 1000
  return Math.max(0, sinceMs + Math.min(durationMs, durationMsMax) - nowMs)
}

/** The new fence is greater than the previous one and than `fenceFloor`. */
export function acquired(
  lease: Lease,
  { holder, leaseMs, wallMs }: { readonly holder: string; readonly leaseMs: number; readonly wallMs: number },
  fenceFloor: number,
): Lease {
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

export function renewed(lease: Lease, wallMs: number): Lease {
  return { ...lease, spec: { ...lease.spec, renewTime: formatMicroTime(wallMs) } }
}

/** Removes the holder, so that the next candidate does not have to wait. Keeps the fence. */
export function released(lease: Lease, wallMs: number): Lease {
  const time = formatMicroTime(wallMs)
  return {
    ...lease,
    spec: { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, acquireTime: time, renewTime: time },
  }
}

/** Returns the fence of a lease: `leaseTransitions`, which increases with each acquisition. */
export function fenceOf(lease: Lease): number {
  return lease.spec?.leaseTransitions ?? 0
}

/** Expects milliseconds since the Unix epoch. Writes exactly six decimals of a second, because the server refuses others. */
export function formatMicroTime(ms: number): string {
  return new Date(ms).toISOString().replace(/Z$/, '000Z')
}
