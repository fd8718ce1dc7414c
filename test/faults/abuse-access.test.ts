import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { internalRoutes } from '#internal/backoffice/http.ts'
import { pages } from '#internal/dashboard/pages/pages.ts'
import { startDashboard } from '#test/support/dashboard/dashboard.ts'
import { openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { until } from '#test/support/until.ts'

// Keys of the demo tenant in config/samples/dev/demo.yaml.
const defaultKey = 'lk_demo_0000000000000000000000000000'
const viewerKey = 'lk_demo_viewer_000000000000000000000'

type Fields = Readonly<Record<string, string>>

/** Ids in paths of the demo tenant's pages. */
interface DemoIds {
  readonly tenant: string
  readonly event: string
  readonly replay: string
  readonly simulation: string
}

const day = () => new Date(Date.now() - 86_400_000).toISOString().slice(0, 19)
const soon = () => new Date(Date.now() + 3_600_000).toISOString().slice(0, 19)

/** Complete form for each `POST` page, so that only authorization can refuse it. A new page without one fails the test. */
const forms: Readonly<Record<string, (ids: DemoIds) => Fields>> = {
  '/events/:id/payload': () => ({}),
  '/events/:id/replay': () => ({ cycle: '1' }),
  '/events/:id/retry': () => ({}),
  '/events/search': ({ tenant }) => ({ tenant, text: 'a text', from: day() }),
  '/replays': () => ({ from: day(), to: soon(), rate: '50', key: crypto.randomUUID() }),
  '/replays/:id/cancel': () => ({}),
  '/tenants/:tenant/test': () => ({ key: 'planted' }),
  '/tenants/:tenant/notifications/test': () => ({}),
  '/tenants/:tenant/resume': () => ({}),
  '/usage/override': ({ tenant }) => ({
    tenant,
    limit: 'eventsPerMonth',
    kind: 'none',
    expiresAt: soon(),
    reason: 'r',
    sure: 'yes',
  }),
  '/usage/override/clear': ({ tenant }) => ({ tenant, limit: 'eventsPerMonth' }),
  '/simulations/new': ({ tenant }) => ({ tenant, amount: '1', currency: 'EUR', key: 'planted' }),
  '/simulations/:simulation/advance': ({ simulation }) => ({ event: `evt_${simulation}_1` }),
  '/simulations/:simulation/cancel': () => ({}),
  '/settings/change': ({ tenant }) => ({ tenant, name: 'forwarding.paused', value: 'true', version: '0' }),
  '/settings/clear': ({ tenant }) => ({ tenant, name: 'forwarding.paused', version: '0' }),
}

/** Request bodies of the internal API. */
const bodies: Readonly<Record<string, (ids: DemoIds) => object>> = {
  'PUT /internal/v1/tenants/:tenantId/usage/:emissionId': () => ({
    kind: 'exports.rows',
    amount: 1,
    occurredAt: new Date().toISOString(),
  }),
  'PUT /internal/v1/tenants/:tenantId/limits/:limit/override': () => ({
    hard: 1,
    expiresAt: `${soon()}Z`,
    reason: 'a test',
  }),
  'POST /internal/v1/guardrails/check': ({ tenant }) => ({
    tenantId: tenant,
    kind: 'locks',
    commit: true,
    id: 'planted',
  }),
  'PUT /internal/v1/settings/:name': () => ({ value: true }),
  'PUT /internal/v1/tenants/:tenantId/settings/:name': () => ({ value: true }),
  'POST /internal/v1/tenants/:tenantId/simulations': () => ({ amount: 1, currency: 'EUR' }),
  'POST /internal/v1/events': ({ tenant }) => ({
    tenantId: tenant,
    provider: 'card',
    sourceEventId: 'planted',
    type: 'a.b',
    payload: {},
  }),
  'POST /internal/v1/events/:eventId/replays': () => ({ cycle: 1 }),
  'POST /internal/v1/event-searches': ({ tenant }) => ({
    tenantId: tenant,
    from: `${day()}Z`,
    text: 'a text',
  }),
  'POST /internal/v1/replays': ({ tenant }) => ({ tenantId: tenant, from: `${day()}Z` }),
  'POST /internal/v1/simulations/:simulationId/advance': ({ simulation }) => ({
    sourceEventId: `evt_${simulation}_1`,
  }),
}

/** Requests open to every signed-in user: they change the session, this browser or the user's own views, or nothing; no tenant. */
const ownForms = [
  '/sign-out',
  '/theme',
  '/namespaces',
  '/events/views',
  '/events/views/delete',
  '/refused/verify',
]
const pagesMax = 400
/** Maximum links that are followed to pages of different events, or of different attempts. */
const perShapeMax = 20

let dashboard: Awaited<ReturnType<typeof startDashboard>>
let viewer: Awaited<ReturnType<typeof openDashboardSession>>
let ids: DemoIds

beforeAll(async () => {
  dashboard = await startDashboard()
  viewer = await openDashboardSession(dashboard.origin, viewerKey)
  ids = await seed()
}, 120_000)
afterAll(() => dashboard?.close())

async function call(token: string, method: string, path: string, body?: object) {
  const response = await fetch(`${dashboard.origin}${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${token}`,
      'Idempotency-Key': 'abuse-access',
      ...(body && { 'Content-Type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: response.status, text: await response.text() }
}

async function read<Value>(path: string): Promise<Value> {
  const { status, text } = await call(dashboard.token, 'GET', path)
  if (status !== 200) throw new Error(`${path} was answered ${status}: ${text}`)
  return JSON.parse(text) as Value
}

/** Creates a simulation, an event of it and a replay for the demo tenant, so that every page has an object to act on. */
async function seed(): Promise<DemoIds> {
  const simulated = await fetch(`${dashboard.api}/v1/simulate/chargeback`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${defaultKey}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': 'seed',
    },
    body: JSON.stringify({ amount: 4200, currency: 'EUR', stepSeconds: 3_600 }),
  })
  const { simulationId } = (await simulated.json()) as { simulationId: string }
  const { id: tenant } = await read<{ id: string }>('/internal/v1/tenants/lookup?slug=demo')
  const event = await until('an event of the simulation', async () => {
    const { items } = await read<{ items: { id: string }[] }>(`/internal/v1/events?tenantId=${tenant}`)
    return items[0]?.id
  })
  const started = await call(dashboard.token, 'POST', '/internal/v1/replays', {
    tenantId: tenant,
    from: `${day()}Z`,
    ratePerSecond: 1,
  })
  const { replay } = JSON.parse(started.text) as { replay: { id: string } }
  return { tenant, event, replay: replay.id, simulation: simulationId }
}

function pathOf(path: string): string {
  const { tenant, event, replay, simulation } = ids
  const values: Record<string, string> = {
    tenant,
    tenantId: tenant,
    eventId: event,
    replayId: replay,
    simulation,
    simulationId: simulation,
    id: path.startsWith('/replays') ? replay : event,
    emissionId: 'e-1',
    limit: 'eventsPerMonth',
    name: 'forwarding.paused',
    subscriptionName: 'shop',
  }
  return path.replaceAll(/:(\w+)/g, (_whole, name: string) => values[name] ?? '')
}

/** Returns the audit log without sign-ins: a line for each change and each revealed payload. */
async function deeds(): Promise<readonly unknown[]> {
  const { items } = await read<{ items: { action: string }[] }>('/internal/v1/audit-entries?limit=100')
  return items.filter(({ action }) => !action.startsWith('sessions.'))
}

function printAnswers(attack: string, answers: ReadonlyMap<string, number>): void {
  const byStatus = Map.groupBy(answers.values(), (status) => status)
  const counts = [...byStatus].map(([status, all]) => `${all.length} answered ${status}`).join(', ')
  console.log(`${attack}: ${answers.size} tried, ${counts}`)
}

describe('viewer', () => {
  test('dashboard viewer: every form returns 403 and changes nothing', async () => {
    const actions = pages
      .filter(({ method, path }) => method === 'POST' && !ownForms.includes(path))
      .map(({ path }) => path)
    expect(Object.keys(forms).toSorted()).toEqual(actions.toSorted())
    const before = await deeds()
    const answers = new Map<string, number>()
    for (const path of actions)
      answers.set(path, (await viewer.post(pathOf(path), forms[path]?.(ids))).status)
    printAnswers('viewer, forms of the dashboard', answers)
    expect([...answers].filter(([, status]) => status !== 403)).toEqual([])
    expect(await deeds()).toEqual(before)
  })

  test('dashboard viewer: every write of the internal API returns 403 and changes nothing', async () => {
    const before = await deeds()
    const answers = new Map<string, number>()
    for (const { method, path } of internalRoutes) {
      const name = `${method} ${path}`
      if (method === 'GET' || name === 'POST /internal/v1/replay-previews') continue
      answers.set(name, (await call(viewerKey, method, pathOf(path), bodies[name]?.(ids))).status)
    }
    const payload = '/internal/v1/events/:eventId/payload'
    answers.set(`GET ${payload}`, (await call(viewerKey, 'GET', pathOf(payload))).status)
    printAnswers('viewer, writes of the internal API', answers)
    expect([...answers].filter(([, status]) => status !== 403)).toEqual([])
    expect(await deeds()).toEqual(before)
  })

  test('dashboard viewer: no page links to a forbidden page or has a form that changes data', async () => {
    const seen = new Map<string, number>()
    const shapes = new Map<string, number>()
    const forbidden: string[] = []
    const waiting = ['/', `/events/${ids.event}`, `/replays/${ids.replay}`, `/simulations/${ids.simulation}`]
    const eventType = '/event-types/payment.succeeded'
    while (waiting.length > 0 && seen.size < pagesMax) {
      const path = waiting.shift() ?? '/'
      if (seen.has(path)) continue
      const { status, html } = await viewer.get(path)
      seen.set(path, status)
      for (const [, action] of html.matchAll(/<form[^>]*method="post"[^>]*action="([^"]*)"/g))
        if (action !== undefined && !ownForms.includes(action)) forbidden.push(`${path}: form ${action}`)
      // Counts lists with other filters or cursors as one page, and the types of the event catalogue as well. Skips the documentation,
      // which is public.
      for (const [, href = ''] of html.matchAll(/<a [^>]*href="(\/[^"]*)"/g)) {
        const page = href.startsWith('/event-types/') ? eventType : href.replaceAll('&amp;', '&')
        const isOther = /[?&](after|range|values|state|provider|type|from|to|cause|with|within)=/.test(href)
        const shape = page.replaceAll(/evt_\w+/g, 'evt').replaceAll(/\d+-\d+/g, 'attempt')
        const seenOfShape = shapes.get(shape) ?? 0
        if (isOther || page.startsWith('/docs/') || seenOfShape >= perShapeMax) continue
        shapes.set(shape, seenOfShape + 1)
        waiting.push(page)
      }
    }
    printAnswers('viewer, linked pages', seen)
    expect(seen.size).toBeGreaterThan(15)
    expect(seen.size).toBeLessThan(pagesMax)
    expect(forbidden).toEqual([])
    expect([...seen].filter(([, status]) => status !== 200)).toEqual([])
  })

  test('dashboard viewer: the payload is redacted, and no page offers to reveal the payload', async () => {
    const { status, html } = await viewer.get(`/events/${ids.event}`)
    expect([status, html.includes('payload, redacted')]).toEqual([200, true])
    expect(html).not.toContain('Reveal as received')
    expect(html).toContain('a key with the scope')
  })
})
