import type { ResourceName } from '../reconcile/facts.ts'
import type { TenantManifest } from '../source.ts'
import { parseTenantObject, slugOf, type TenantObject } from './tenant-object.ts'

/**
 * A Tenant of the cluster that wants the same slug and is older, whether or not it was reconciled: of two that come at once the
 * older one gets it, whichever is worked on first. Pure.
 */
export function olderInCluster(
  tenants: Iterable<TenantObject>,
  { uid, spec, createdAtMs = Number.POSITIVE_INFINITY }: TenantManifest,
): ResourceName | undefined {
  let oldest: TenantManifest | undefined
  for (const object of tenants) {
    if (slugOf(object) !== spec.slug || object.metadata.uid === uid) continue
    if (object.metadata.deletionTimestamp !== undefined) continue
    const parsed = parseTenantObject(object)
    if (parsed.kind === 'ok' && isOlder(parsed.manifest, oldest ?? { uid, createdAtMs }))
      oldest = parsed.manifest
  }
  return oldest && { namespace: oldest.namespace, name: oldest.name }
}

type Claim = Pick<TenantManifest, 'uid' | 'createdAtMs'>

function isOlder(one: Claim, other: Claim): boolean {
  const [oneMs = Number.POSITIVE_INFINITY, otherMs = Number.POSITIVE_INFINITY] = [
    one.createdAtMs,
    other.createdAtMs,
  ]
  return oneMs === otherMs ? one.uid < other.uid : oneMs < otherMs
}
