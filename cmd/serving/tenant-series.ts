import type { ForwarderObserver } from '#internal/delivery/index.ts'
import type { RequestEvent } from '#internal/http/index.ts'
import type { Metrics } from '#internal/telemetry/index.ts'
import type { Directory } from '#internal/tenants/index.ts'

/** With five results each they stay below the most series that a metric may have. */
const tenantsMax = 400
const others = 'other'

/** Where a tenant's slug is found. */
type Slugs = Pick<Directory, 'findTenantById'>

/**
 * Counts answered requests by tenant. The first 400 tenants of a process are told apart, all further ones are `other`. To be called
 * once for a process: it declares metrics.
 */
export function countRequestsByTenant(metrics: Metrics, slugs: Slugs): (event: RequestEvent) => void {
  const requests = metrics.counter({
    name: 'latchkey_tenants_requests_total',
    help: 'Answered requests by tenant (the first 400, then other), by what was asked for and what became of it.',
    labels: ['tenant', 'area', 'result'],
  })
  const slugOf = createSlugs(slugs)
  return (event) => {
    if (event.tenant !== undefined)
      requests.with(slugOf(event.tenant), areaOf(event.route), resultOf(event)).inc()
  }
}

/** Counts ends of attempts by tenant, bounded as `countRequestsByTenant` is, and tells `observer` all the same. Once for a process. */
export function countAttemptsByTenant<Observer extends ForwarderObserver>(
  observer: Observer,
  metrics: Metrics,
  slugs: Slugs,
): Observer {
  const attempts = metrics.counter({
    name: 'latchkey_tenants_attempts_total',
    help: 'Calls of callbacks by tenant (the first 400, then other), by what came of them: processed, later, failed.',
    labels: ['tenant', 'ending'],
  })
  const slugOf = createSlugs(slugs)
  return {
    ...observer,
    attempted(report) {
      attempts.with(slugOf(report.delivery.tenantId), report.ending.kind).inc()
      observer.attempted(report)
    },
  }
}

/** A slug that has been given away again stays what it was first seen as: a series does not change its name. */
function createSlugs(directory: Slugs): (tenantId: string) => string {
  const known = new Map<string, string>()
  return (tenantId) => {
    const found = known.get(tenantId)
    if (found !== undefined) return found
    const slug = directory.findTenantById(tenantId)?.slug
    if (!slug || known.size >= tenantsMax) return others
    known.set(tenantId, slug)
    return slug
  }
}

function areaOf(route: string): string {
  if (route.startsWith('/v1/record')) return 'records'
  if (route.startsWith('/v1/webhooks/') || route.startsWith('/v1/t/')) return 'webhooks'
  return route.startsWith('/v1/simulate/') ? 'simulations' : others
}

function resultOf({ status, outcome }: RequestEvent): string {
  if (status >= 500) return 'unavailable'
  if (status === 429) return 'limited'
  if (status >= 400) return 'refused'
  return outcome === 'duplicate' ? 'duplicate' : 'accepted'
}
