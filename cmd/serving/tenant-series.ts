import type { ForwarderObserver } from '#internal/delivery/index.ts'
import type { RequestEvent } from '#internal/http/index.ts'
import type { Metrics } from '#internal/telemetry/index.ts'
import type { Directory } from '#internal/tenants/index.ts'

/**
 * Maximum number of tenants with their own series. If each tenant uses one API area, its five results give at most 2,000 series, the
 * maximum per metric.
 */
const tenantsMax = 400
const others = 'other'

type Slugs = Pick<Directory, 'findTenantById'>

/**
 * Declares a metric and counts requests by tenant slug. The first 400 tenants that a process sees get their own series; later tenants share
 * the series `other`. Call once per process.
 */
export function countRequestsByTenant(metrics: Metrics, slugs: Slugs): (event: RequestEvent) => void {
  const requests = metrics.counter({
    name: 'latchkey_tenants_requests_total',
    help: 'Requests by tenant slug (first 400 per process, then other), API area and result.',
    labels: ['tenant', 'area', 'result'],
  })
  const slugOf = createSlugs(slugs)
  return (event) => {
    if (event.tenant !== undefined)
      requests.with(slugOf(event.tenant), areaOf(event.route), resultOf(event)).inc()
  }
}

/** Wraps `observer` to count delivery attempts by tenant, with the same maximum as `countRequestsByTenant`. Call once per process. */
export function countAttemptsByTenant<Observer extends ForwarderObserver>(
  observer: Observer,
  metrics: Metrics,
  slugs: Slugs,
): Observer {
  const attempts = metrics.counter({
    name: 'latchkey_tenants_attempts_total',
    help: 'Delivery attempts by tenant slug (first 400 per process, then other) and resulting state: processed, later, failed.',
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

/** Keeps the first slug seen of each tenant, so that a series never changes its name when a slug is reassigned. */
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
