import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createEventId, type EventId, systemClock, type TenantId } from '#internal/base/index.ts'
import { callbackQueueOf, type ReceivedEvent, type StatusFilter } from '#internal/events/index.ts'
import { eventReadSettings } from '#internal/events/list.ts'
import { superviseLoop } from '#internal/process/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { startReceiver } from '#test/support/events/callback-receiver.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { listFailedEvents } from '#test/support/events/failed-events.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { listReplays, type ReplayFilter, readReplay } from './job.ts'
import { cancelReplay, previewReplay, type StartReplayRequest, startReplay } from './start.ts'
import { stepReplay, stepReplays } from './step.ts'

const hourMs = 3_600_000
let lab: DeliveryLab
let pool: Pool
let tenantId: TenantId

beforeAll(async () => {
  lab = await createDeliveryLab()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 20_000, connectTimeoutMs: 5_000 }
  pool = createPool({
    url: lab.databaseUrl,
    applicationName: 'latchkey test replays',
    sessionSettings: eventReadSettings,
    ...bounds,
  })
  return async () => {
    await pool.end()
    await lab.close()
  }
})
beforeEach(async () => {
  await truncateEvents(lab.pool, 'audit', 'replays')
  tenantId = (await lab.addTenant()).id
})

/** Stores events whose delivery cycle has failed. */
async function failed(
  count: number,
  owner = tenantId,
  fields: Partial<ReceivedEvent> = {},
): Promise<EventId[]> {
  const ids = await lab.accept(owner, count, fields)
  await lab.pool.query('DELETE FROM deliveries_due WHERE event_id = ANY($1)', [ids])
  await lab.pool.query(
    "UPDATE events SET state = 'delivery_failed', completed_at = now() WHERE id = ANY($1)",
    [ids],
  )
  await lab.pool.query(
    `INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome)
     SELECT id, 'callback', expires_on, cycle, 1, now(), 5, 'failed' FROM events WHERE id = ANY($1)`,
    [ids],
  )
  await listFailedEvents(lab.pool)
  return ids.toSorted()
}

const anHour = (): ReplayFilter => ({ tenantId, state: 'delivery_failed', fromMs: Date.now() - hourMs })
const start = (fields: Partial<StartReplayRequest> = {}) =>
  startReplay(
    pool,
    { filter: anHour(), ratePerSecond: 1_000, by: 'ann', idempotencyKey: 'key', ...fields },
    Date.now(),
  )

async function started(fields: Partial<StartReplayRequest> = {}) {
  const result = await start(fields)
  if (result.kind !== 'started') throw new Error(`${result.kind} instead of started`)
  return result.job
}

const dueNowText = 'UPDATE replays SET next_step_at = now()'

/** Runs steps until no replay is due, without waiting for their times. */
async function workOff(stepsMax = 100): Promise<number> {
  for (let steps = 0; steps < stepsMax; steps += 1) {
    await lab.pool.query(dueNowText)
    const step = await stepReplay(pool, Date.now())
    if (step.kind === 'failed') throw step.cause
    if (step.kind === 'idle') return steps
  }
  return stepsMax
}

const queuedIds = async () =>
  (await lab.pool.query<{ id: EventId }>('SELECT event_id AS id FROM deliveries_due ORDER BY 1')).rows.map(
    ({ id }) => id,
  )

describe('replay jobs', () => {
  test.each([
    ['without an origin, all events but test events', undefined, ['provider', 'service', 'simulation']],
    ['of an origin, only its events', 'service', ['service']],
  ] as const)('replay job: a filter %s', async (_what, origin, kinds) => {
    const ids = new Map<string, EventId[]>()
    const actor = 'user:ada'
    for (const each of [
      { kind: 'provider' },
      { kind: 'service', actor },
      { kind: 'simulation', simulationId: 'sim_1' },
      { kind: 'test', actor },
    ] as const)
      ids.set(each.kind, await failed(2, tenantId, { origin: each }))
    const job = await started({ filter: { ...anHour(), ...(origin && { origin }) } })
    expect(job.total).toEqual({ count: 2 * kinds.length, isExact: true })
    await workOff()
    expect(await queuedIds()).toEqual(kinds.flatMap((kind) => ids.get(kind) ?? []).toSorted())
    expect((await readReplay(pool, { id: job.id }))?.skipped).toEqual({})
  })

  test('replay job: a filter by the last attempt and by an event type family covers exactly the matching events', async () => {
    const status = '5xx' as StatusFilter
    const [wanted, other] = [await failed(3), await failed(2)]
    const refund = await failed(2, tenantId, { type: 'refund.failed' })
    const hasStatus = 'UPDATE attempts SET status = $2, duration_ms = 900 WHERE event_id = ANY($1)'
    await lab.pool.query(hasStatus, [[...wanted, ...refund], 503])
    await lab.pool.query(hasStatus, [other, 404])
    const filter = { ...anHour(), status, slowerThanMs: 500, type: 'order.*' }
    const job = await started({ filter })
    expect(job).toMatchObject({ filter, total: { count: 3, isExact: true } })
    expect(await start({ filter })).toMatchObject({ kind: 'already_started' })
    await workOff()
    expect(await queuedIds()).toEqual(wanted)
    const selected = { ...anHour(), status, ids: [...other, ...refund] }
    expect(await started({ filter: selected, idempotencyKey: 'ids' })).toMatchObject({
      filter: selected,
      total: { count: 2 },
    })
    await workOff()
    expect(await queuedIds()).toEqual([...wanted, ...refund].toSorted())
  })

  test('replay job: queues matching events once, oldest first, and counts them', async () => {
    const ids = await failed(1_100)
    await lab.accept(tenantId, 3, { type: 'order.paid' })
    const others = await failed(5, (await lab.addTenant()).id)
    const job = await started()
    expect(job).toMatchObject({
      state: 'queued',
      total: { count: 1_100, isExact: true },
      queuedCount: 0,
      requestedBy: 'ann',
    })
    await stepReplay(pool, Date.now())
    expect(await readReplay(pool, { id: job.id })).toMatchObject({
      state: 'running',
      queuedCount: 500,
      examinedTo: ids[499],
    })
    const retries = async () => (await queuedIds()).filter((id) => ids.includes(id))
    expect(await retries()).toEqual(ids.slice(0, 500))
    await lab.pool.query('UPDATE deliveries_due SET due_at = now() + interval $$1 h$$')
    await workOff()
    expect(await retries()).toEqual(ids)
    const done = await readReplay(pool, { id: job.id, tenantId })
    expect(done).toMatchObject({ state: 'completed', queuedCount: 1_100, skipped: {}, cause: null })
    expect(done?.endedAtMs).toBeGreaterThanOrEqual(done?.startedAtMs ?? Number.NaN)
    expect(await lab.value('SELECT count(*) FROM events WHERE cycle = 2')).toBe(1_100)
    expect((await queuedIds()).some((id) => others.includes(id))).toBe(false)
  })

  test('replay job: a replay of all states skips accepted events and expired payloads and counts them by cause', async () => {
    const ids = await failed(10)
    await lab.accept(tenantId, 4)
    await lab.pool.query('DELETE FROM event_payloads WHERE event_id = ANY($1)', [ids.slice(0, 3)])
    await lab.pool.query("UPDATE events SET state = 'verified' WHERE id = ANY($1)", [ids.slice(3, 5)])
    // A job covers events that were received in an earlier millisecond.
    await Bun.sleep(2)
    const job = await started({ filter: { tenantId, fromMs: 0 } })
    expect(job.total).toEqual({ count: 10, isExact: true })
    await workOff()
    expect(await readReplay(pool, { id: job.id })).toMatchObject({
      state: 'completed',
      queuedCount: 5,
      skipped: { payload_expired: 3, not_enabled: 2, already_queued: 4 },
    })
  })

  test('replay job: a replay by ids skips events of other tenants', async () => {
    const ids = await failed(6)
    const others = await failed(2, (await lab.addTenant()).id)
    await started({ filter: { tenantId, fromMs: 0, ids: [...ids.slice(0, 4), ...others] } })
    await workOff()
    expect(await queuedIds()).toEqual(ids.slice(0, 4))
  })

  test('replay job: covers only events received before its start', async () => {
    const ids = await failed(3)
    await started({ filter: { tenantId, fromMs: 0, toMs: Date.now() + hourMs } })
    for (let nth = 0; nth < 3; nth += 1)
      await lab.accept(tenantId, 1, { id: createEventId(Date.now() + 2_000 + nth, 90), state: 'verified' })
    await lab.pool.query("UPDATE events SET state = 'processed' WHERE state = 'verified'")
    await workOff()
    expect(await queuedIds()).toEqual(ids)
  })

  test('replay job: concurrent workers queue each event once', async () => {
    const ids = await failed(1_200)
    const first = await started()
    const second = await started({ idempotencyKey: 'another' })
    for (let turn = 0; turn < 8; turn += 1) {
      await lab.pool.query("UPDATE deliveries_due SET due_at = now() + interval '1 h'")
      await lab.pool.query('UPDATE replays SET next_step_at = now()')
      await Promise.all(Array.from({ length: 4 }, () => stepReplay(pool, Date.now())))
    }
    const jobs = await Promise.all([first, second].map(({ id }) => readReplay(pool, { id })))
    expect(jobs.map((job) => job?.state)).toEqual(['completed', 'completed'])
    expect(jobs.reduce((sum, job) => sum + (job?.queuedCount ?? 0), 0)).toBe(1_200)
    expect(await queuedIds()).toEqual(ids)
    expect(await lab.value('SELECT max(cycle) FROM events')).toBe(2)
  })

  test('replay job: an aborted step has no effect and is repeated', async () => {
    const ids = await failed(700)
    const job = await started()
    await lab.pool.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '55000'; END$$`)
    await lab.pool.query(
      'CREATE TRIGGER refuse BEFORE UPDATE OF queued_count ON replays FOR EACH ROW EXECUTE FUNCTION refuse()',
    )
    try {
      expect(await stepReplay(pool, Date.now())).toMatchObject({ kind: 'failed', id: job.id })
    } finally {
      await lab.pool.query('DROP TRIGGER refuse ON replays')
      await lab.pool.query('DROP FUNCTION refuse')
    }
    expect(await queuedIds()).toEqual([])
    expect(await readReplay(pool, { id: job.id })).toMatchObject({ queuedCount: 0, cause: '55000' })
    await workOff()
    expect(await queuedIds()).toEqual(ids)
    expect(await readReplay(pool, { id: job.id })).toMatchObject({ state: 'completed', queuedCount: 700 })
  })

  test('replay job: fails after ten failed steps in a row without blocking other jobs', async () => {
    await failed(5)
    const bad = await started()
    const good = await started({ idempotencyKey: 'another', filter: { ...anHour(), fromMs: 5 } })
    // No scan can use a filter whose ids are not a list, so every step fails.
    await lab.pool.query(`UPDATE replays SET filter = filter || '{"ids":"none"}' WHERE id = $1`, [bad.id])
    for (let turn = 0; turn < 12; turn += 1) {
      await lab.pool.query('UPDATE replays SET next_step_at = now() WHERE id = $1', [bad.id])
      await stepReplay(pool, Date.now())
    }
    await stepReplay(pool, Date.now())
    expect(await readReplay(pool, { id: bad.id })).toMatchObject({
      state: 'failed',
      cause: 'internal',
    })
    expect(await readReplay(pool, { id: good.id })).toMatchObject({ queuedCount: 5 })
  })

  test('replay job: queues no more events per second than its rate', async () => {
    await failed(30)
    await started({ ratePerSecond: 4 })
    await stepReplay(pool, Date.now())
    expect(await stepReplay(pool, Date.now())).toEqual({ kind: 'idle' })
    expect(await lab.value('SELECT queued_count FROM replays')).toBe(2)
    const waitS = Number(
      await lab.value<string>('SELECT extract(epoch FROM next_step_at - now()) FROM replays'),
    )
    expect(waitS).toBeGreaterThan(-0.5)
    expect(waitS).toBeLessThanOrEqual(0.5)
    // A step that is an hour late causes no burst.
    await lab.pool.query("UPDATE replays SET next_step_at = now() - interval '1 h'")
    let steps = 0
    while ((await stepReplay(pool, Date.now())).kind !== 'idle') steps += 1
    expect(steps).toBeLessThanOrEqual(3)
  })

  test('replay job: waits while its tenant has 1 000 due retries', async () => {
    await failed(5)
    const job = await started()
    const busy = `INSERT INTO deliveries_due (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at, is_retry)
      SELECT 'evt_busy' || n, 'callback', $1, current_date, current_date, 1, 1, now(), true FROM generate_series(1, 1000) n`
    await lab.pool.query(busy, [tenantId])
    expect(await stepReplay(pool, Date.now())).toMatchObject({ kind: 'waiting' })
    expect(await readReplay(pool, { id: job.id })).toMatchObject({ isWaiting: true, queuedCount: 0 })
    await lab.pool.query("DELETE FROM deliveries_due WHERE event_id = 'evt_busy7'")
    await workOff()
    expect(await readReplay(pool, { id: job.id })).toMatchObject({ isWaiting: false, queuedCount: 5 })
  })

  test('replay job: a cancelled job queues no further events and writes an audit row', async () => {
    await failed(700)
    const job = await started()
    await stepReplay(pool, Date.now())
    const stranger = (await lab.addTenant()).id
    expect(await cancelReplay(pool, { id: job.id, by: 'bob', tenantId: stranger })).toEqual({
      kind: 'not_found',
    })
    expect(await cancelReplay(pool, { id: job.id, by: 'bob' })).toMatchObject({ kind: 'cancelled' })
    expect(await cancelReplay(pool, { id: job.id, by: 'bob' })).toMatchObject({ kind: 'ended' })
    expect(await workOff()).toBe(0)
    expect(await readReplay(pool, { id: job.id })).toMatchObject({ state: 'cancelled', queuedCount: 500 })
    const { rows } = await lab.pool.query('SELECT actor, action, tenant_id FROM audit ORDER BY id')
    expect(rows).toEqual([
      { actor: 'ann', action: 'replays.started', tenant_id: tenantId },
      { actor: 'bob', action: 'replays.cancelled', tenant_id: tenantId },
    ])
  })

  test('replay job: fails if it is unfinished after a week', async () => {
    const job = await started()
    await lab.pool.query("UPDATE replays SET created_at = now() - interval '8 days'")
    await stepReplay(pool, Date.now())
    expect(await readReplay(pool, { id: job.id })).toMatchObject({ state: 'failed', cause: 'too_old' })
  })

  test('replay job: new events do not wait for the events of the job', async () => {
    const receiver = startReceiver()
    const tenant = await lab.addTenant({ url: receiver.url })
    const ids = await failed(400, tenant.id)
    await started({ filter: { ...anHour(), tenantId: tenant.id } })
    const { forwarder, stop } = lab.forwarder()
    const replayer = superviseLoop({
      name: 'replays',
      intervalMs: 100,
      turnMsMax: 5_000,
      onError: () => undefined,
      runOnce: (signal) =>
        stepReplays(
          { pool, clock: systemClock },
          (step) => step.kind === 'stepped' && forwarder.notify(step.queueIds),
          signal,
        ),
    })
    const fresh = await lab.accept(tenant.id, 20)
    forwarder.notify([callbackQueueOf(tenant.id)])
    const calls = await receiver.received(420)
    await lab.becomes('completed', 'SELECT state FROM replays')
    await replayer.stop()
    await stop()
    await receiver.stop()
    expect(new Set(calls.map(({ id }) => id))).toEqual(new Set([...ids, ...fresh]))
    const lastFresh = calls.findLastIndex(({ id }) => fresh.some((one) => one === id))
    expect(lastFresh).toBeLessThan(300)
  })
})

describe('startReplay', () => {
  test('start of a replay: a repeated request with the same key returns the same job, and a different request with this key is refused', async () => {
    const filter = anHour()
    const job = await started({ filter })
    const repeats = await Promise.all(Array.from({ length: 10 }, () => start({ filter })))
    expect(repeats.map((repeat) => repeat.kind === 'already_started' && repeat.job.id)).toEqual(
      repeats.map(() => job.id),
    )
    expect(await start({ filter: { ...filter, type: 'order.paid' } })).toEqual({ kind: 'conflict' })
    expect(await start({ filter, ratePerSecond: 5 })).toEqual({ kind: 'conflict' })
    const other = (await lab.addTenant()).id
    expect(await start({ filter: { ...filter, tenantId: other } })).toMatchObject({ kind: 'started' })
    expect(await lab.value('SELECT count(*) FROM audit')).toBe(2)
  })

  test('start of a replay: enforces the limits per tenant and for all tenants', async () => {
    const many = await Promise.all(
      Array.from({ length: 6 }, (_none, nth) => start({ idempotencyKey: `k${nth}` })),
    )
    expect(many.filter(({ kind }) => kind === 'started')).toHaveLength(2)
    expect(many.find(({ kind }) => kind === 'too_many')).toEqual({ kind: 'too_many', whose: 'own', max: 2 })
    for (let nth = 2; nth < 20; nth += 1) {
      const owner = (await lab.addTenant()).id
      expect(await start({ filter: { ...anHour(), tenantId: owner } })).toMatchObject({ kind: 'started' })
    }
    const { tenantId: _mine, ...everybody } = anHour()
    expect(await start({ filter: everybody })).toEqual({ kind: 'too_many', whose: 'all', max: 20 })
  })

  test('start of a replay: waiting jobs do not count towards the limit, and some slots are reserved for the platform', async () => {
    const ofAnother = async (isByTenant: boolean) =>
      start({ filter: { ...anHour(), tenantId: (await lab.addTenant()).id }, isByTenant })
    const refused = { kind: 'too_many', whose: 'all', max: 15 } as const
    for (let nth = 0; nth < 15; nth += 1) expect(await ofAnother(true)).toMatchObject({ kind: 'started' })
    expect(await ofAnother(true)).toEqual(refused)
    expect(await ofAnother(false)).toMatchObject({ kind: 'started' })
    const { tenantId: _mine, ...everybody } = anHour()
    expect(await start({ filter: everybody })).toMatchObject({ kind: 'started' })
    await lab.pool.query('UPDATE replays SET is_waiting = true')
    expect(await ofAnother(true)).toMatchObject({ kind: 'started' })
  })

  test.each<[string, Partial<StartReplayRequest>]>([
    ['a rate of 0', { ratePerSecond: 0 }],
    ['a rate above the maximum', { ratePerSecond: 1_001 }],
    ['a fractional rate', { ratePerSecond: 1.5 }],
    ['an empty key', { idempotencyKey: '' }],
    ['an actor of 201 characters', { by: 'x'.repeat(201) }],
    ['an end before its start', { filter: { fromMs: 2, toMs: 1 } }],
    ['an empty list of ids', { filter: { fromMs: 0, ids: [] } }],
  ])('start of a replay: a request with %s is refused', async (_what, fields) => {
    expect(await start(fields)).toMatchObject({ kind: 'invalid' })
    expect(await lab.value('SELECT count(*) FROM replays')).toBe(0)
  })

  test('start of a replay: an unknown tenant is refused', async () => {
    await lab.pool.query('UPDATE tenants SET deleted_at = now() WHERE id = $1', [tenantId])
    expect(await start()).toEqual({ kind: 'unknown_tenant' })
  })
})

describe('previewReplay and listReplays', () => {
  test('replay preview: returns the count, the first events and the newest event', async () => {
    const ids = await failed(60)
    await lab.accept(tenantId, 2)
    const preview = await previewReplay(pool, { tenantId, fromMs: 0 }, Date.now() + 1)
    expect(preview.total).toEqual({ count: 60, isExact: true })
    expect(preview.examples.map(({ id }) => id)).toEqual(ids.slice(0, 20))
    const newest = await previewReplay(pool, anHour(), Date.now() + 1)
    expect([newest.newest?.id]).toEqual(ids.slice(-1))
    expect(await lab.value('SELECT count(*) FROM deliveries_due')).toBe(2)
  })

  test('replay preview: the count is a lower bound above 10 000 events', async () => {
    const [one] = await failed(1)
    await lab.pool.query(
      `INSERT INTO events SELECT substr(id, 1, 21) || lpad(to_hex(n), 9, '0'), expires_on, tenant_id, provider, source_event_id || n, raw_type,
         type, occurred_at, received_at, headers, payload_bytes, payload_expires_on, 'processed', 1, now()
       FROM events, generate_series(1, 12000) n WHERE id = $1`,
      [one],
    )
    const { total } = await previewReplay(pool, { tenantId, fromMs: 0 }, Date.now() + 1)
    expect(total).toEqual({ count: 10_000, isExact: false })
  })

  test('list of replays: returns pages, newest first, within the tenant', async () => {
    const mine = [await started(), await started({ idempotencyKey: 'b', filter: { ...anHour(), fromMs: 1 } })]
    const other = (await lab.addTenant()).id
    const others = await started({ filter: { ...anHour(), tenantId: other } })
    const first = await listReplays(pool, { limit: 2 })
    expect(first.replays.map(({ id }) => id)).toEqual(
      [others.id, ...mine.map(({ id }) => id)].toSorted().toReversed().slice(0, 2),
    )
    const second = await listReplays(pool, { limit: 2, ...(first.next && { after: first.next }) })
    expect(second.replays).toHaveLength(1)
    expect(second.next).toBeUndefined()
    const own = await listReplays(pool, { tenantId, limit: 10 })
    expect(new Set(own.replays.map(({ id }) => id))).toEqual(new Set(mine.map(({ id }) => id)))
    expect(await readReplay(pool, { id: others.id, tenantId })).toBeUndefined()
  })
})
