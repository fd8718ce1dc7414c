import { formatMicroTime } from './micro-time.ts'
import { type KubeObject, resource } from './resource.ts'

/** A lease as the API server keeps it. Times are `MicroTime`. */
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

/** A lease as it was last seen. */
export interface Observation {
  readonly lease: Lease
  /** When it was first seen like this, by our own monotonic clock: another machine's clock is never believed. */
  readonly sinceMs: number
}

/** Takes a new sight of a lease: the time starts anew only if its holder did something, not if somebody labelled it. */
export function observe(before: Observation | undefined, lease: Lease, nowMs: number): Observation {
  const same = before !== undefined && saysTheSame(before.lease, lease)
  return { lease, sinceMs: same ? before.sinceMs : nowMs }
}

function saysTheSame(one: Lease, other: Lease): boolean {
  return (
    one.metadata.uid === other.metadata.uid &&
    one.spec?.holderIdentity === other.spec?.holderIdentity &&
    one.spec?.renewTime === other.spec?.renewTime &&
    one.spec?.leaseTransitions === other.spec?.leaseTransitions
  )
}

/** A holder may ask for more or less than we would; within reason it is heeded. */
const durationMsMax = 3_600_000

/**
 * In how many milliseconds the lease is anybody's: 0 when it was given back, or when its holder has done nothing for as long as
 * it promised to.
 */
export function freeInMs({ lease, sinceMs }: Observation, nowMs: number, defaultLeaseMs: number): number {
  if (!lease.spec?.holderIdentity) return 0
  const { leaseDurationSeconds } = lease.spec
  const durationMs = leaseDurationSeconds === undefined ? defaultLeaseMs : leaseDurationSeconds * 1000
  return Math.max(0, sinceMs + Math.min(durationMs, durationMsMax) - nowMs)
}

/** What a holder writes. */
export interface Holding {
  readonly holder: string
  readonly leaseMs: number
  /** Milliseconds since the Unix epoch. */
  readonly wallMs: number
}

/** The lease as its new holder writes it. The fence is above all that went before and above `fenceFloor`. */
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

/** The lease as its holder renews it. */
export function renewed(lease: Lease, wallMs: number): Lease {
  return { ...lease, spec: { ...lease.spec, renewTime: formatMicroTime(wallMs) } }
}

/** The lease as its holder gives it back: the next one need not wait. The count of holders stays. */
export function released(lease: Lease, wallMs: number): Lease {
  const time = formatMicroTime(wallMs)
  return {
    ...lease,
    spec: { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, acquireTime: time, renewTime: time },
  }
}

/** How often the lease was acquired: a number that grows with each leadership. */
export function fenceOf(lease: Lease): number {
  return lease.spec?.leaseTransitions ?? 0
}
