import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { apiAreas } from '#cmd/api/telemetry.ts'
import { createLogger, createMetrics, type Metrics } from '#internal/telemetry/index.ts'
import { createRequestObserver } from './observe.ts'
import type { RequestEvent } from './server.ts'

let metrics: Metrics
beforeEach(() => {
  metrics = createMetrics({ service: 'test', version: '1' })
})
afterEach(() => metrics.close())

/** Returns an observer of requests of tenants with these slugs. */
function observerOf(slugOf: (tenantId: string) => string | undefined) {
  const log = createLogger({
    service: 'test',
    version: '1',
    level: 'error',
    destination: { write: (bytes) => bytes.length },
  })
  const observe = createRequestObserver({
    log,
    metrics,
    clock: { now: () => 0 },
    tenants: { slugOf, areas: apiAreas },
  })
  return (event: RequestEvent) => observe(event, undefined)
}

const event = (change: Partial<RequestEvent>): RequestEvent => ({
  requestId: 'r',
  method: 'POST',
  route: '/v1/webhooks/:provider',
  status: 200,
  outcome: 'stored',
  durationMs: 1,
  tenant: 'acme',
  ...change,
})
/** Every tenant is called as its id is. */
const all = (id: string) => id

async function shown(): Promise<string[]> {
  const { text } = await metrics.render()
  return text.split('\n').filter((line) => line.startsWith('latchkey_tenants_requests_total{'))
}

describe('requests by tenant', () => {
  test.each<[string, Partial<RequestEvent>, string]>([
    ['a new event', {}, 'area="webhooks",result="accepted"'],
    ['a duplicate event', { outcome: 'duplicate' }, 'area="webhooks",result="duplicate"'],
    [
      'a wrong signature',
      { route: '/v1/t/:tenantSlug/webhooks/:provider', status: 400, outcome: 'invalid_signature' },
      'area="webhooks",result="refused"',
    ],
    ['a limited call', { status: 429, outcome: 'limit_exceeded' }, 'area="webhooks",result="limited"'],
    ['an unavailable store', { route: '/v1/record', status: 503 }, 'area="records",result="unavailable"'],
    ['a batch of checks', { route: '/v1/record/batch' }, 'area="records",result="accepted"'],
    [
      'a simulation',
      { route: '/v1/simulate/chargeback', status: 202 },
      'area="simulations",result="accepted"',
    ],
    ['another route', { route: '/v1/openapi.json' }, 'area="other",result="accepted"'],
  ])(
    'requests by tenant: the series that counts %s has the expected labels',
    async (_what, change, labels) => {
      observerOf(all)(event(change))
      expect(await shown()).toEqual([`latchkey_tenants_requests_total{tenant="acme",${labels}} 1`])
    },
  )

  test('requests by tenant: does not count requests without a tenant', async () => {
    observerOf(all)(event({ tenant: undefined }))
    expect(await shown()).toEqual([])
  })

  test('requests by tenant: 400 known tenants get their own series, and all others share the series `other`', async () => {
    const count = observerOf((id) => (id === 'gone' ? undefined : id))
    count(event({ tenant: 'gone' }))
    for (let each = 0; each < 402; each += 1) count(event({ tenant: `t${each}` }))
    const lines = await shown()
    expect(lines.length).toBe(401)
    expect(lines.filter((line) => line.includes('tenant="other"'))).toEqual([
      'latchkey_tenants_requests_total{tenant="other",area="webhooks",result="accepted"} 3',
    ])
  })
})
