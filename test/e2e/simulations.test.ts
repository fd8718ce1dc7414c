// Follows simulations from the call to the callback, with API and forwarder processes on real stores.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createWalletSigner } from '#internal/providers/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { simulationKeyOf } from '#test/support/intake/simulation-calls.ts'
import { signAsVendor } from '#test/support/intake/vendor-signatures.ts'
import { webhookId } from '#test/support/intake/wallet-calls.ts'
import { providerSecret } from '#test/support/intake/webhook-calls.ts'
import { openSimulationStack, type SimulationStack } from '#test/support/processes/simulation-stack.ts'
import { emptyTables } from '#test/support/stores/empty-tables.ts'
import { until } from '#test/support/until.ts'

/** Unique tenant, since meters in Redis outlive a test's database. */
const name = `drill-${crypto.randomUUID().slice(0, 8)}`
const apiKey = simulationKeyOf(name)
const life = ['chargeback.created', 'chargeback.under_review', 'chargeback.won']

let stack: SimulationStack
let pool: Pool

beforeAll(async () => {
  stack = await openSimulationStack(name, apiKey)
  pool = createPool({
    url: stack.databaseUrl,
    applicationName: 'test',
    connectionsMax: 2,
    queryTimeoutMs: 10_000,
    connectTimeoutMs: 5_000,
  })
}, 60_000)
afterAll(async () => {
  await pool.end()
  await stack.close()
}, 30_000)
beforeEach(async () => {
  await emptyTables(
    pool,
    'simulations',
    'dedupe_keys',
    'events',
    'event_payloads',
    'attempts',
    'deliveries_due',
    'tenant_queues',
  )
})

interface Answered {
  readonly simulationId: string
  readonly events: readonly { readonly id: string; readonly type: string }[]
}

async function simulate(body: object): Promise<Answered> {
  const response = await fetch(`${stack.api.url}/v1/simulate/chargeback`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${apiKey}` },
    body: JSON.stringify({ amount: 4200, currency: 'EUR', outcome: 'won', ...body }),
  })
  expect(response.status).toBe(202)
  return (await response.json()) as Answered
}

interface Forwarded {
  readonly provider: string
  readonly type: string
  readonly payload: { readonly id: string }
  readonly headers: Readonly<Record<string, string>>
}

/** Returns the callback's calls after the first `count`, each verified with its secret. */
async function forwardedSince(before: number, count: number): Promise<Forwarded[]> {
  const calls = (await stack.receiver.received(before + count)).slice(before)
  expect(calls.map(({ verified }) => verified)).toEqual(calls.map(() => true))
  return calls.map(({ body }) => JSON.parse(body) as Forwarded)
}

const rowCount = async (table: string) => (await pool.query(`SELECT FROM ${table}`)).rowCount

const settled = (events: number) =>
  until('every event processed', async () => (await rowCount("events WHERE state = 'processed'")) === events)

/** Waits until this API has counted `count` steps with this outcome. */
const stepsAre = (provider: string, outcome: string, count: number) =>
  until(`${count} steps ${outcome}`, async () => {
    const metrics = await (await fetch(`${stack.api.opsUrl}/metrics`)).text()
    const line = `latchkey_simulations_steps_total{provider="${provider}",outcome="${outcome}"} ${count}`
    return metrics.includes(`\n${line}\n`)
  })

describe('simulations', () => {
  test.each(['card', 'wallet'] as const)(
    'simulations: a dispute of provider %s delivers all its events to the callback',
    async (provider) => {
      const before = stack.receiver.calls.length
      const { simulationId, events } = await simulate({ provider, stepSeconds: 1, reference: 'order-1042' })
      const forwarded = await forwardedSince(before, 3)
      expect(forwarded.map(({ type }) => type)).toEqual(life)
      expect(forwarded.map(({ payload }) => payload.id)).toEqual(events.map(({ id }) => id))
      for (const event of forwarded) {
        expect(event.provider).toBe(provider)
        expect(event.headers['latchkey-simulation']).toBe(simulationId)
        expect(JSON.stringify(event.payload)).toContain('order-1042')
      }
      await settled(3)
      await stepsAre(provider, 'stored', 3)
      expect(stack.api.output()).not.toContain(providerSecret)
    },
    30_000,
  )

  test('simulations: simulated events count as usage', async () => {
    const used = async () => {
      const text = `SELECT coalesce(sum(amount), 0)::int AS n FROM usage_hourly WHERE meter = 'events'`
      return (await pool.query<{ n: number }>(text)).rows[0]?.n ?? 0
    }
    await simulate({ stepSeconds: 0 })
    await settled(3)
    // Every event of this file was forwarded once.
    const all = new Set(stack.receiver.calls.map(({ id }) => id)).size
    expect(all).toBeGreaterThanOrEqual(3)
    await until('usage of these events', async () => (await used()) === all)
  }, 30_000)
})

describe('simulations, forgery', () => {
  test('simulations: a caller that sets the simulation header cannot forge a simulated event', async () => {
    const before = stack.receiver.calls.length
    const body = JSON.stringify({ id: 'evt_1', type: 'charge.dispute.created', created: 1_795_000_000 })
    const atMs = Math.floor(Date.now() / 1000) * 1000
    const signature = await signAsVendor('card', { body, atMs, webhookId: '' }, providerSecret)
    const response = await fetch(`${stack.api.url}/v1/t/${name}/webhooks/card`, {
      method: 'POST',
      headers: { 'Card-Signature': signature, 'Latchkey-Simulation': 'sim_06gzx3byyxdccqxb8v47jbp37g' },
      body,
    })
    expect(response.status).toBe(200)
    const [event] = await forwardedSince(before, 1)
    expect(event?.type).toBe('chargeback.created')
    expect(event?.headers).not.toHaveProperty('latchkey-simulation')
    await settled(1)
  }, 30_000)

  test('simulations: a caller with its own signing key cannot forge an event', async () => {
    const body = Buffer.from(JSON.stringify({ id: 'WH-1', event_type: 'CUSTOMER.DISPUTE.CREATED' }))
    const signer = await createWalletSigner()
    const headers = signer.sign({ body, webhookId, atMs: Date.now() })
    const response = await fetch(`${stack.api.url}/v1/t/${name}/webhooks/wallet`, {
      method: 'POST',
      headers,
      body,
    })
    expect([response.status, await response.json()]).toEqual([400, { error: 'invalid signature' }])
    expect(await rowCount('events')).toBe(0)
  })
})

test('simulations: after a kill between storing an event and recording the step, another API adds no duplicates', async () => {
  await pool.query(`
    CREATE FUNCTION hold_notes() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;
    CREATE TRIGGER hold_notes BEFORE UPDATE ON simulations FOR EACH ROW
      WHEN (cardinality(NEW.sent_at) > cardinality(OLD.sent_at)) EXECUTE FUNCTION hold_notes()`)
  const before = stack.receiver.calls.length
  const { events } = await simulate({ stepSeconds: 0 })
  await until('the first event', async () => (await rowCount('events')) === 1)
  await stack.killApi()
  await pool.query('DROP FUNCTION hold_notes CASCADE')
  const { rows } = await pool.query('SELECT state, sent_at, lease IS NULL AS free FROM simulations')
  expect(rows).toEqual([{ state: 'running', sent_at: [], free: false }])
  // Simulates the expiry of the killed process's lease.
  await pool.query('UPDATE simulations SET next_at = now()')
  await stack.startApi()
  await settled(3)
  const forwarded = await forwardedSince(before, 3)
  expect(forwarded.map(({ payload }) => payload.id).toSorted()).toEqual(events.map(({ id }) => id).toSorted())
  await stepsAre('card', 'stored', 2)
  await stepsAre('card', 'duplicate', 1)
  expect([await rowCount("simulations WHERE state = 'completed'"), await rowCount('events')]).toEqual([1, 3])
}, 60_000)
