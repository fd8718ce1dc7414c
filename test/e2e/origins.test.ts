// Follows the origin of an event from intake to the callback, the stored row, the internal API and the dashboard.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { originKinds as allKinds, type EventOrigin, type OriginKind } from '#internal/events/index.ts'
import { adminToken, openBackofficeOn } from '#test/support/backoffice.ts'
import { type DashboardSession, openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { simulationKeyOf } from '#test/support/intake/simulation-calls.ts'
import { signAsVendor } from '#test/support/intake/vendor-signatures.ts'
import { providerSecret } from '#test/support/intake/webhook-calls.ts'
import { openSimulationStack, type SimulationStack } from '#test/support/processes/simulation-stack.ts'
import { until } from '#test/support/until.ts'

/** Notifications go to another receiver: see forwarder-notifications.test.ts. */
type CalledKind = Exclude<OriginKind, 'notification'>
const originKinds = allKinds.filter((kind): kind is CalledKind => kind !== 'notification')

/** Unique tenant, since meters in Redis outlive a test's database. */
const name = `origin-${crypto.randomUUID().slice(0, 8)}`
const apiKey = simulationKeyOf(name)

let stack: SimulationStack
let backoffice: Awaited<ReturnType<typeof openBackofficeOn>>
let session: DashboardSession
let tenantId: string

beforeAll(async () => {
  stack = await openSimulationStack(name, apiKey)
  backoffice = await openBackofficeOn(stack)
  session = await openDashboardSession(backoffice.url, adminToken)
  tenantId = backoffice.directory.findTenantBySlug(name)?.id ?? ''
  for (const kind of originKinds) await enter(kind)
}, 60_000)
afterAll(async () => {
  await backoffice.close()
  await stack.close()
}, 30_000)

async function post(url: string, body: string, headers: Record<string, string> = {}) {
  const response = await fetch(url, { method: 'POST', body, headers })
  const text = await response.text()
  expect([response.status < 300, response.status < 300 ? '' : text]).toEqual([true, ''])
  return JSON.parse(text) as Readonly<Record<string, unknown>>
}

/** Calls the internal API as the local admin. */
const internal = (path: string, body: object) =>
  post(`${backoffice.url}/internal/v1/${path}`, JSON.stringify(body), {
    Authorization: `Bearer ${adminToken}`,
    'Content-Type': 'application/json',
  })

/** An event that was entered, with its origin and the values that its entry returned. */
interface Entered {
  readonly id: string
  readonly origin: EventOrigin
  readonly headers: Readonly<Record<string, string>>
}

/** How an event enters with each origin; returns its origin and the headers that the callback receives. */
const entries: Record<CalledKind, () => Promise<Omit<Entered, 'id'>>> = {
  async provider() {
    const body = JSON.stringify({ id: 'evt_one', type: 'charge.dispute.created', created: 1_795_000_000 })
    const atMs = Math.floor(Date.now() / 1000) * 1000
    const signature = await signAsVendor('card', { body, atMs, webhookId: '' }, providerSecret)
    const forged = { 'Latchkey-Origin': 'test', 'Latchkey-Simulation': 'sim_06gzx3byyxdccqxb8v47jbp37g' }
    await post(`${stack.api.url}/v1/t/${name}/webhooks/card`, body, {
      'Card-Signature': signature,
      ...forged,
    })
    return { origin: { kind: 'provider' }, headers: {} }
  },
  async service() {
    const given = { provider: 'card', sourceEventId: 'evt_two', type: 'chargeback.created', payload: {} }
    await internal('events', { tenantId, ...given, headers: { 'Latchkey-Origin': 'provider' } })
    return { origin: { kind: 'service', actor: 'operator:dev' }, headers: { 'latchkey-origin': 'service' } }
  },
  async simulation() {
    const asked = { amount: 4200, currency: 'EUR', outcome: 'won', stepSeconds: 3_600 }
    const url = `${stack.api.url}/v1/simulate/chargeback`
    const answer = await post(url, JSON.stringify(asked), { Authorization: `Bearer ${apiKey}` })
    const simulationId = String(answer['simulationId'])
    return {
      origin: { kind: 'simulation', simulationId },
      headers: { 'latchkey-origin': 'simulation', 'latchkey-simulation': simulationId },
    }
  },
  async test() {
    await internal(`tenants/${tenantId}/callback/test`, {})
    return { origin: { kind: 'test', actor: 'operator:dev' }, headers: { 'latchkey-origin': 'test' } }
  },
}

const entered = new Map<CalledKind, Entered>()

async function enter(kind: CalledKind): Promise<void> {
  const before = stack.receiver.calls.length
  const { origin, headers } = await entries[kind]()
  const { id = '' } = (await stack.receiver.received(before + 1))[before] ?? {}
  entered.set(kind, { id, origin, headers })
}

function enteredAs(kind: CalledKind): Entered {
  const found = entered.get(kind)
  if (found === undefined) throw new Error(`no event of origin ${kind} was entered`)
  return found
}

test.each(originKinds)(
  'origin %s: the callback receives the headers of this origin, and no forged headers',
  (kind) => {
    const { id, headers } = enteredAs(kind)
    const call = stack.receiver.calls.find((each) => each.id === id)
    expect(call?.verified).toBe(true)
    const delivered = JSON.parse(call?.body ?? '') as { id: string; headers: Record<string, string> }
    const own = Object.entries(delivered.headers).filter(([each]) =>
      /^latchkey-(origin|simulation)$/.test(each),
    )
    expect(delivered.id).toBe(id)
    expect(Object.fromEntries(own)).toEqual(headers)
  },
)

test.each(originKinds)(
  'origin %s: is stored, together with the actor or simulation that caused the event',
  async (kind) => {
    const { id, origin } = enteredAs(kind)
    const { rows } = await backoffice.pool.query('SELECT origin, origin_by FROM events WHERE id = $1', [id])
    const by = 'actor' in origin ? origin.actor : 'simulationId' in origin ? origin.simulationId : null
    expect(rows).toEqual([{ origin: kind, origin_by: by }])
  },
)

test.each(originKinds)(
  'origin %s: the internal API returns this origin and can filter by it',
  async (kind) => {
    const { id, origin } = enteredAs(kind)
    const read = async (path: string) => {
      const url = `${backoffice.url}/internal/v1/events${path}`
      return (await fetch(url, { headers: { Authorization: `Bearer ${adminToken}` } })).json()
    }
    expect(await read(`/${id}`)).toMatchObject({ event: { id, origin } })
    expect(await read(`?origin=${kind}`)).toMatchObject({ items: [{ id, origin }] })
    await until('the delivery', async () => {
      const { items } = (await read(`?origin=${kind}&state=processed`)) as { items: { id: string }[] }
      return items.length === 1 && items[0]?.id === id
    })
  },
)

/** Texts of the event page, besides those of the other origins. */
const texts: Record<CalledKind, readonly string[]> = {
  provider: ['The provider card called', 'The signature was verified'],
  service: ['operator:dev handed in this event of card', 'verified no signature', 'Handed in</span>'],
  simulation: ['made this event of card', 'No provider sent it', 'Simulated</span>', '/simulations/sim_'],
  test: ['operator:dev sent this event to test the callback', 'never retried or replayed', 'Test</span>'],
}

test.each(originKinds)(
  'origin %s: the dashboard can filter by this origin and states how the event was created',
  async (kind) => {
    const { id } = enteredAs(kind)
    const list = (await session.get(`/events?origin=${kind}`)).html
    const linked = [...list.matchAll(/href="\/events\/(evt_\w+)/g)].map(([, each]) => each ?? '')
    expect([...new Set(linked)]).toEqual([id])
    const page = `${(await session.get(`/events/${id}`)).html} ${list}`
    for (const [each, parts] of Object.entries(texts)) {
      for (const part of parts) {
        const isBadge = part.endsWith('</span>')
        if (each === kind) expect(page).toContain(part)
        else if (!isBadge && part !== 'No provider sent it') expect(page).not.toContain(part)
      }
    }
    expect(page.includes('/replay"')).toBe(kind !== 'test')
  },
)
