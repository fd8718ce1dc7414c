import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { simulationKeyOf, simulationTenantYaml } from '#test/support/intake/simulation-calls.ts'
import { openSimulationLab, type SimulationLab } from '#test/support/intake/simulation-lab.ts'
import type { Simulation, SimulationId } from './simulation.ts'
import { claimSteps, completeStep } from './step.ts'
import {
  advanceSimulation,
  cancelSimulation,
  forgetSimulations,
  listSimulations,
  readSimulation,
  type SimulationChange,
} from './store.ts'

const names = ['acme', 'other', 'third'] as const
const yamlOf = (acme: Parameters<typeof simulationTenantYaml>[2] = {}) =>
  [
    simulationTenantYaml('acme', simulationKeyOf('acme'), acme),
    simulationTenantYaml('other', simulationKeyOf('other'), { walletStage: 'verify' }),
    simulationTenantYaml('third', simulationKeyOf('third')),
  ].join('')

let lab: SimulationLab

beforeAll(async () => {
  lab = await openSimulationLab(yamlOf())
}, 30_000)
afterAll(() => lab.close())
beforeEach(async () => {
  lab.reports.length = 0
  Object.assign(lab.intake, { paused: false, isStoreAway: false, verdict: { kind: 'free' } })
  await truncateEvents(lab.pool, 'simulations', 'audit')
})

const read = async (id: SimulationId): Promise<Simulation> => {
  const found = await readSimulation(lab.pool, { id })
  if (!found) throw new Error('it is gone')
  return found
}
const advance = (change: SimulationChange) => advanceSimulation(lab.pool, change, Date.now())
const cancel = (change: SimulationChange) => cancelSimulation(lab.pool, change, Date.now())
const sentOf = ({ events }: Simulation) => events.filter(({ sentAtMs }) => sentAtMs !== null).length

/** Returns the stored events in the order of their receipt. */
async function stored() {
  const { rows } = await lab.pool.query<{ type: string; state: string; source: string; headers: string }>(
    `SELECT type, state, source_event_id AS source, headers FROM events ORDER BY received_at, source_event_id`,
  )
  return rows
}
const typesStored = async () => (await stored()).map(({ type }) => type)
const life = ['chargeback.created', 'chargeback.under_review', 'chargeback.lost']

describe('simulator', () => {
  test.each(['card', 'wallet'] as const)(
    'simulator: sends each event of %s when the event is due, through signature verification',
    async (provider) => {
      const simulation = await lab.start('acme', { provider, stepSeconds: 60 })
      expect([simulation.state, sentOf(simulation)]).toEqual(['scheduled', 0])
      const simulator = lab.simulator()
      for (const step of [1, 2, 3]) {
        await simulator.runOnce()
        await simulator.runOnce()
        expect(await typesStored()).toEqual(life.slice(0, step))
        const now = await read(simulation.simulationId)
        expect([now.state, sentOf(now)]).toEqual([step === 3 ? 'completed' : 'running', step])
        await lab.pass(60_000)
      }
      const events = await stored()
      expect(events.map(({ source }) => source)).toEqual(simulation.events.map(({ id }) => id))
      for (const { headers, state } of events) {
        expect(state).toBe('accepted')
        expect(JSON.parse(headers)).toMatchObject({
          'latchkey-simulation': simulation.simulationId,
          'latchkey-origin': 'simulation',
          'latchkey-hops': '1',
        })
        expect(headers).not.toContain('-sig')
      }
      expect(lab.reports.map(({ outcome }) => outcome)).toEqual(['stored', 'stored', 'stored'])
      const done = await read(simulation.simulationId)
      expect(done.endedAtMs).toBeGreaterThanOrEqual(done.startedAtMs ?? Number.POSITIVE_INFINITY)
    },
  )

  test('simulator: with stepSeconds 0 all events are sent in one run, in order', async () => {
    const { simulationId: id } = await lab.start('acme', { stepSeconds: 0, outcome: 'won' })
    await lab.simulator().runOnce()
    expect(await typesStored()).toEqual(['chargeback.created', 'chargeback.under_review', 'chargeback.won'])
    expect((await read(id)).state).toBe('completed')
  })

  test('simulator: events of a tenant whose wallet stage is `verify` are stored and not delivered', async () => {
    await lab.start('other', { provider: 'wallet', stepSeconds: 0 })
    await lab.simulator().runOnce()
    expect((await stored()).map(({ state }) => state)).toEqual(['verified', 'verified', 'verified'])
    expect((await lab.pool.query('SELECT FROM deliveries_due')).rowCount).toBe(0)
  })

  test('simulator: several processes send each event once', async () => {
    for (let nth = 0; nth < 30; nth += 1) await lab.start(names[nth % 3] ?? 'acme', { stepSeconds: 0 })
    const simulators = [lab.simulator(), lab.simulator(), lab.simulator(), lab.simulator()]
    await Promise.all(simulators.map((each) => each.runOnce()))
    await lab.simulator().runOnce()
    expect(lab.reports.map(({ outcome }) => outcome)).toEqual(Array(90).fill('stored'))
    const { rows } = await lab.pool.query(
      'SELECT DISTINCT state, cardinality(sent_at) AS sent FROM simulations',
    )
    expect(rows).toEqual([{ state: 'completed', sent: 3 }])
  })
})

describe('crashed process', () => {
  test('simulator: an event that was accepted before a crash is sent again as a duplicate', async () => {
    const { simulationId: id } = await lab.start('acme', { stepSeconds: 0 })
    await lab.simulator().runOnce(AbortSignal.timeout(60_000))
    const before = await stored()
    // Restores the state between the commit of the event and the completion of the step.
    await lab.pool.query(
      `UPDATE simulations SET state = 'running', sent_at = '{}', ended_at = NULL, lease = 'dead', next_at = now()`,
    )
    await lab.simulator().runOnce()
    expect(await stored()).toEqual(before)
    expect(lab.reports.slice(3).map(({ outcome }) => outcome)).toEqual([
      'duplicate',
      'duplicate',
      'duplicate',
    ])
    expect((await read(id)).state).toBe('completed')
  })

  test('simulator: a claim lasts until its lease expires, and a process whose lease has expired cannot complete the step', async () => {
    const { simulationId: id } = await lab.start('acme')
    const [taken] = await claimSteps(lab.pool, { lease: 'slow', leaseMs: 30_000, rowsMax: 5 })
    expect(taken).toMatchObject({ id, step: 0, failures: 0, isTooLate: false })
    await lab.simulator().runOnce()
    expect(await typesStored()).toEqual([])
    await lab.pass(30_000)
    await lab.simulator().runOnce()
    expect(
      await completeStep(lab.pool, { id, lease: 'slow' }, { kind: 'failed', cause: 'internal' }),
    ).toBeUndefined()
    expect((await read(id)).state).not.toBe('failed')
  })
})

describe('retried steps', () => {
  test.each<[string, () => void, string]>([
    ['a paused provider', () => void (lab.intake.paused = true), 'provider_paused'],
    ['an unavailable store', () => void (lab.intake.isStoreAway = true), 'store_unavailable'],
    [
      'a limit of the minute',
      () =>
        void (lab.intake.verdict = {
          kind: 'limited',
          limit: 'eventsPerMinute',
          quota: 1,
          retryAfterMs: 9_000,
        }),
      'events_per_minute',
    ],
  ])('simulator: retries after %s', async (_name, trouble, cause) => {
    const { simulationId: id } = await lab.start('acme', { stepSeconds: 0 })
    trouble()
    const simulator = lab.simulator()
    await simulator.runOnce()
    expect(await read(id)).toMatchObject({ state: 'running', cause })
    expect(await typesStored()).toEqual([])
    Object.assign(lab.intake, { paused: false, isStoreAway: false, verdict: { kind: 'free' } })
    await simulator.runOnce()
    expect(lab.reports).toHaveLength(1)
    await lab.pass(60_000)
    await simulator.runOnce()
    expect(await typesStored()).toEqual(life)
    expect(await read(id)).toMatchObject({ state: 'completed', cause: null })
  })

  test('simulator: does not send an event that is seven days late', async () => {
    const { simulationId: id } = await lab.start('acme', { stepSeconds: 0 })
    // No process ran for seven days, so the event is no longer sent.
    await lab.pass(7 * 86_400_000 + 1_000)
    await lab.simulator().runOnce()
    expect(await read(id)).toMatchObject({ state: 'failed', cause: 'too_late' })
    await lab.simulator().runOnce()
    expect(await typesStored()).toEqual([])
  })

  test('simulator: an event over the monthly limit is accepted and marked as over the limit', async () => {
    lab.intake.verdict = { kind: 'over' }
    await lab.start('acme', { stepSeconds: 0 })
    await lab.simulator().runOnce()
    expect((await lab.pool.query('SELECT FROM events WHERE over_limit')).rowCount).toBe(3)
  })
})

describe('changed tenant', () => {
  test('simulator: simulations of a suspended tenant wait, and simulations whose provider was removed fail', async () => {
    const card = await lab.start('acme', { stepSeconds: 60 })
    await lab.simulator().runOnce()
    await lab.apply(yamlOf({ spec: ['suspended: true'] }))
    await lab.pass(60_000)
    await lab.simulator().runOnce()
    expect(await read(card.simulationId)).toMatchObject({ state: 'running', cause: 'tenant_suspended' })
    await lab.apply(yamlOf({ providers: ['wallet'] }))
    await lab.pass(60_000)
    await lab.simulator().runOnce()
    expect(await read(card.simulationId)).toMatchObject({ state: 'failed', cause: 'provider_not_configured' })
    expect(await typesStored()).toEqual(life.slice(0, 1))
    await lab.apply(yamlOf())
  })
})

describe('manual changes', () => {
  test('advanceSimulation: makes the next event due now and does not change the times of later events', async () => {
    const { simulationId: id, events } = await lab.start('acme', { stepSeconds: 3_600 })
    await lab.simulator().runOnce()
    const advanced = await advance({ id, by: 'ada' })
    if (advanced.kind !== 'advanced') throw new Error(advanced.kind)
    expect(advanced.simulation.events[1]?.dueAtMs).toBeLessThan(Date.now() + 60_000)
    expect(advanced.simulation.events[2]).toEqual({ ...events[2], sentAtMs: null } as never)
    await lab.simulator().runOnce()
    expect(await typesStored()).toEqual(life.slice(0, 2))
    expect((await advance({ id, by: 'ada' })).kind).toBe('advanced')
    await lab.simulator().runOnce()
    expect((await advance({ id, by: 'ada' })).kind).toBe('ended')
    const { rows } = await lab.pool.query(
      "SELECT actor, detail FROM audit WHERE action = 'simulations.advanced'",
    )
    expect(rows).toEqual([
      { actor: 'ada', detail: { simulationId: id, sourceEventId: events[1]?.id } },
      { actor: 'ada', detail: { simulationId: id, sourceEventId: events[2]?.id } },
    ])
  })

  test('advanceSimulation: an event under a lease is not claimed by a second process', async () => {
    const { simulationId: id } = await lab.start('acme')
    const claim = { lease: 'one', leaseMs: 30_000, rowsMax: 5 }
    await claimSteps(lab.pool, claim)
    await advance({ id, by: 'ada' })
    expect(await claimSteps(lab.pool, { ...claim, lease: 'two' })).toEqual([])
    expect(await completeStep(lab.pool, { id, lease: 'one' }, { kind: 'sent' })).toBe('running')
  })

  test('cancelSimulation: sends no further event and records an event in flight', async () => {
    const { simulationId: id } = await lab.start('acme', { stepSeconds: 0 })
    const claim = { lease: 'one', leaseMs: 30_000, rowsMax: 5 }
    await claimSteps(lab.pool, claim)
    expect(await cancel({ id, by: 'ada' })).toMatchObject({ kind: 'cancelled' })
    expect(await completeStep(lab.pool, { id, lease: 'one' }, { kind: 'sent' })).toBe('cancelled')
    await lab.pass(86_400_000)
    await lab.simulator().runOnce()
    const now = await read(id)
    expect([now.state, sentOf(now), await typesStored()]).toEqual(['cancelled', 1, []])
    expect(await cancel({ id, by: 'ada' })).toMatchObject({ kind: 'ended' })
    const { rowCount } = await lab.pool.query("SELECT FROM audit WHERE action = 'simulations.cancelled'")
    expect(rowCount).toBe(1)
  })

  test('simulation store: another tenant’s simulation is not found', async () => {
    const { simulationId: id } = await lab.start('acme')
    const other = { id, tenantId: lab.tenant('other').id }
    expect(await readSimulation(lab.pool, other)).toBeUndefined()
    expect(await advance({ ...other, by: 'eve' })).toEqual({ kind: 'not_found' })
    expect(await cancel({ ...other, by: 'eve' })).toEqual({ kind: 'not_found' })
    expect((await read(id)).state).toBe('scheduled')
  })

  test('listSimulations: returns simulations newest first, by pages, tenant and state', async () => {
    const started: Simulation[] = []
    for (let nth = 0; nth < 7; nth += 1) started.push(await lab.start(nth % 2 === 0 ? 'acme' : 'other'))
    const ids = started.map(({ simulationId }) => simulationId).toReversed()
    const first = await listSimulations(lab.pool, { limit: 4 })
    const second = await listSimulations(lab.pool, { limit: 4, ...(first.next && { after: first.next }) })
    const listed = [...first.simulations, ...second.simulations].map(({ simulationId }) => simulationId)
    // Simulations of the same millisecond have no defined order.
    expect(listed).toEqual(ids.toSorted().toReversed())
    expect(second.next).toBeUndefined()
    const tenantId = lab.tenant('other').id
    expect((await listSimulations(lab.pool, { tenantId, limit: 100 })).simulations).toHaveLength(3)
    await cancel({ id: started[1]?.simulationId as SimulationId, by: 'ada' })
    const { simulations } = await listSimulations(lab.pool, { tenantId, state: 'cancelled', limit: 100 })
    expect(simulations.map(({ simulationId }) => simulationId)).toEqual([
      started[1]?.simulationId as SimulationId,
    ])
    expect(listSimulations(lab.pool, { limit: 101 })).rejects.toThrow(RangeError)
  })
})

test('claimSteps: alternates between tenants', async () => {
  for (let nth = 0; nth < 20; nth += 1) await lab.start('acme')
  await lab.start('other')
  await lab.start('third')
  const taken = await claimSteps(lab.pool, { lease: 'fair', leaseMs: 30_000, rowsMax: 4 })
  const counts = Map.groupBy(taken, ({ tenantId }) => tenantId)
  expect(names.map((name) => counts.get(lab.tenant(name).id)?.length)).toEqual([2, 1, 1])
})

test('forgetSimulations: deletes ended simulations after eventDays and keeps open simulations', async () => {
  const [ended, running] = [
    await lab.start('acme', { stepSeconds: 0 }),
    await lab.start('other', { stepSeconds: 60 }),
  ]
  await lab.simulator().runOnce()
  const inDays = (days: number) => Date.now() + days * 86_400_000
  expect(await forgetSimulations(lab.pool, inDays(90))).toEqual({ removed: 0, hasMore: false })
  expect(await forgetSimulations(lab.pool, inDays(91))).toEqual({ removed: 1, hasMore: false })
  expect(await readSimulation(lab.pool, { id: ended.simulationId })).toBeUndefined()
  expect((await read(running.simulationId)).state).toBe('running')
})
