import { beforeAll, beforeEach, expect, test } from 'bun:test'
import { createEventId, type EventId, systemClock } from '#internal/base/index.ts'
import { callbackQueueOf, type StatusFilter } from '#internal/events/index.ts'
import { superviseLoop } from '#internal/process/index.ts'
import { startReceiver } from '#test/support/events/callback-receiver.ts'
import { openReplayLab, type ReplayLab } from '#test/support/events/replay-lab.ts'
import { readReplay } from './job.ts'
import { cancelReplay } from './start.ts'
import { stepReplay, stepReplays } from './step.ts'

const hourMs = 3_600_000
let lab: ReplayLab

beforeAll(async () => {
  lab = await openReplayLab()
  return () => lab.close()
})
beforeEach(() => lab.reset())

const dueNowText = 'UPDATE replays SET next_step_at = now()'

/** Runs steps until no replay is due, without waiting for their times. */
async function workOff(stepsMax = 100): Promise<number> {
  for (let steps = 0; steps < stepsMax; steps += 1) {
    await lab.pool.query(dueNowText)
    const step = await stepReplay(lab.reader, Date.now())
    if (step.kind === 'failed') throw step.cause
    if (step.kind === 'idle') return steps
  }
  return stepsMax
}

const queuedIds = async () =>
  (await lab.pool.query<{ id: EventId }>('SELECT event_id AS id FROM deliveries_due ORDER BY 1')).rows.map(
    ({ id }) => id,
  )

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
    ids.set(each.kind, await lab.failed(2, lab.tenantId, { origin: each }))
  const job = await lab.started({ filter: { ...lab.anHour(), ...(origin && { origin }) } })
  expect(job.total).toEqual({ count: 2 * kinds.length, isExact: true })
  await workOff()
  expect(await queuedIds()).toEqual(kinds.flatMap((kind) => ids.get(kind) ?? []).toSorted())
  expect((await readReplay(lab.reader, { id: job.id }))?.skipped).toEqual({})
})

test('replay job: a filter by the last attempt and by an event type family covers exactly the matching events', async () => {
  const status = '5xx' as StatusFilter
  const [wanted, other] = [await lab.failed(3), await lab.failed(2)]
  const refund = await lab.failed(2, lab.tenantId, { type: 'refund.failed' })
  const hasStatus = 'UPDATE attempts SET status = $2, duration_ms = 900 WHERE event_id = ANY($1)'
  await lab.pool.query(hasStatus, [[...wanted, ...refund], 503])
  await lab.pool.query(hasStatus, [other, 404])
  const filter = { ...lab.anHour(), status, slowerThanMs: 500, type: 'order.*' }
  const job = await lab.started({ filter })
  expect(job).toMatchObject({ filter, total: { count: 3, isExact: true } })
  expect(await lab.start({ filter })).toMatchObject({ kind: 'already_started' })
  await workOff()
  expect(await queuedIds()).toEqual(wanted)
  const selected = { ...lab.anHour(), status, ids: [...other, ...refund] }
  expect(await lab.started({ filter: selected, idempotencyKey: 'ids' })).toMatchObject({
    filter: selected,
    total: { count: 2 },
  })
  await workOff()
  expect(await queuedIds()).toEqual([...wanted, ...refund].toSorted())
})

test('replay job: queues matching events once, oldest first, and counts them', async () => {
  const ids = await lab.failed(1_100)
  await lab.accept(lab.tenantId, 3, { type: 'order.paid' })
  const others = await lab.failed(5, (await lab.addTenant()).id)
  const job = await lab.started()
  expect(job).toMatchObject({
    state: 'queued',
    total: { count: 1_100, isExact: true },
    queuedCount: 0,
    requestedBy: 'ann',
  })
  await stepReplay(lab.reader, Date.now())
  expect(await readReplay(lab.reader, { id: job.id })).toMatchObject({
    state: 'running',
    queuedCount: 500,
    examinedTo: ids[499],
  })
  const retries = async () => (await queuedIds()).filter((id) => ids.includes(id))
  expect(await retries()).toEqual(ids.slice(0, 500))
  await lab.pool.query('UPDATE deliveries_due SET due_at = now() + interval $$1 h$$')
  await workOff()
  expect(await retries()).toEqual(ids)
  const done = await readReplay(lab.reader, { id: job.id, tenantId: lab.tenantId })
  expect(done).toMatchObject({ state: 'completed', queuedCount: 1_100, skipped: {}, cause: null })
  expect(done?.endedAtMs).toBeGreaterThanOrEqual(done?.startedAtMs ?? Number.NaN)
  expect(await lab.value('SELECT count(*) FROM events WHERE cycle = 2')).toBe(1_100)
  expect((await queuedIds()).some((id) => others.includes(id))).toBe(false)
})

test('replay job: a replay of all states skips accepted events and expired payloads and counts them by cause', async () => {
  const ids = await lab.failed(10)
  await lab.accept(lab.tenantId, 4)
  await lab.pool.query('DELETE FROM event_payloads WHERE event_id = ANY($1)', [ids.slice(0, 3)])
  await lab.pool.query("UPDATE events SET state = 'verified' WHERE id = ANY($1)", [ids.slice(3, 5)])
  // A job covers only events that were received at least a millisecond before its start.
  await Bun.sleep(2)
  const job = await lab.started({ filter: { tenantId: lab.tenantId, fromMs: 0 } })
  expect(job.total).toEqual({ count: 10, isExact: true })
  await workOff()
  expect(await readReplay(lab.reader, { id: job.id })).toMatchObject({
    state: 'completed',
    queuedCount: 5,
    skipped: { payload_expired: 3, not_enabled: 2, already_queued: 4 },
  })
})

test('replay job: a replay by ids skips events of other tenants', async () => {
  const ids = await lab.failed(6)
  const others = await lab.failed(2, (await lab.addTenant()).id)
  await lab.started({ filter: { tenantId: lab.tenantId, fromMs: 0, ids: [...ids.slice(0, 4), ...others] } })
  await workOff()
  expect(await queuedIds()).toEqual(ids.slice(0, 4))
})

test('replay job: covers only events received before its start', async () => {
  const ids = await lab.failed(3)
  await lab.started({ filter: { tenantId: lab.tenantId, fromMs: 0, toMs: Date.now() + hourMs } })
  for (let nth = 0; nth < 3; nth += 1)
    await lab.accept(lab.tenantId, 1, { id: createEventId(Date.now() + 2_000 + nth, 90), state: 'verified' })
  await lab.pool.query("UPDATE events SET state = 'processed' WHERE state = 'verified'")
  await workOff()
  expect(await queuedIds()).toEqual(ids)
})

test('replay job: concurrent workers queue each event once', async () => {
  const ids = await lab.failed(1_200)
  const first = await lab.started()
  const second = await lab.started({ idempotencyKey: 'another' })
  for (let turn = 0; turn < 8; turn += 1) {
    await lab.pool.query("UPDATE deliveries_due SET due_at = now() + interval '1 h'")
    await lab.pool.query('UPDATE replays SET next_step_at = now()')
    await Promise.all(Array.from({ length: 4 }, () => stepReplay(lab.reader, Date.now())))
  }
  const jobs = await Promise.all([first, second].map(({ id }) => readReplay(lab.reader, { id })))
  expect(jobs.map((job) => job?.state)).toEqual(['completed', 'completed'])
  expect(jobs.reduce((sum, job) => sum + (job?.queuedCount ?? 0), 0)).toBe(1_200)
  expect(await queuedIds()).toEqual(ids)
  expect(await lab.value('SELECT max(cycle) FROM events')).toBe(2)
})

test('replay job: an aborted step has no effect and is repeated', async () => {
  const ids = await lab.failed(700)
  const job = await lab.started()
  await lab.pool.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '55000'; END$$`)
  await lab.pool.query(
    'CREATE TRIGGER refuse BEFORE UPDATE OF queued_count ON replays FOR EACH ROW EXECUTE FUNCTION refuse()',
  )
  try {
    expect(await stepReplay(lab.reader, Date.now())).toMatchObject({ kind: 'failed', id: job.id })
  } finally {
    await lab.pool.query('DROP TRIGGER refuse ON replays')
    await lab.pool.query('DROP FUNCTION refuse')
  }
  expect(await queuedIds()).toEqual([])
  expect(await readReplay(lab.reader, { id: job.id })).toMatchObject({ queuedCount: 0, cause: '55000' })
  await workOff()
  expect(await queuedIds()).toEqual(ids)
  expect(await readReplay(lab.reader, { id: job.id })).toMatchObject({ state: 'completed', queuedCount: 700 })
})

test('replay job: fails after ten failed steps in a row without blocking other jobs', async () => {
  await lab.failed(5)
  const bad = await lab.started()
  const good = await lab.started({ idempotencyKey: 'another', filter: { ...lab.anHour(), fromMs: 5 } })
  // No scan can use a filter whose ids are not a list, so every step fails.
  await lab.pool.query(`UPDATE replays SET filter = filter || '{"ids":"none"}' WHERE id = $1`, [bad.id])
  for (let turn = 0; turn < 12; turn += 1) {
    await lab.pool.query('UPDATE replays SET next_step_at = now() WHERE id = $1', [bad.id])
    await stepReplay(lab.reader, Date.now())
  }
  await stepReplay(lab.reader, Date.now())
  expect(await readReplay(lab.reader, { id: bad.id })).toMatchObject({
    state: 'failed',
    cause: 'internal',
  })
  expect(await readReplay(lab.reader, { id: good.id })).toMatchObject({ queuedCount: 5 })
})

test('replay job: queues no more events per second than its rate', async () => {
  await lab.failed(30)
  await lab.started({ ratePerSecond: 4 })
  await stepReplay(lab.reader, Date.now())
  expect(await stepReplay(lab.reader, Date.now())).toEqual({ kind: 'idle' })
  expect(await lab.value('SELECT queued_count FROM replays')).toBe(2)
  const waitS = Number(
    await lab.value<string>('SELECT extract(epoch FROM next_step_at - now()) FROM replays'),
  )
  expect(waitS).toBeGreaterThan(-0.5)
  expect(waitS).toBeLessThanOrEqual(0.5)
  // A step that is an hour late causes no burst.
  await lab.pool.query("UPDATE replays SET next_step_at = now() - interval '1 h'")
  let steps = 0
  while ((await stepReplay(lab.reader, Date.now())).kind !== 'idle') steps += 1
  expect(steps).toBeLessThanOrEqual(3)
})

test('replay job: waits while its tenant has 1 000 due retries', async () => {
  await lab.failed(5)
  const job = await lab.started()
  const busy = `INSERT INTO deliveries_due (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at, is_retry)
    SELECT 'evt_busy' || n, 'callback', $1, current_date, current_date, 1, 1, now(), true FROM generate_series(1, 1000) n`
  await lab.pool.query(busy, [lab.tenantId])
  expect(await stepReplay(lab.reader, Date.now())).toMatchObject({ kind: 'waiting' })
  expect(await readReplay(lab.reader, { id: job.id })).toMatchObject({ isWaiting: true, queuedCount: 0 })
  await lab.pool.query("DELETE FROM deliveries_due WHERE event_id = 'evt_busy7'")
  await workOff()
  expect(await readReplay(lab.reader, { id: job.id })).toMatchObject({ isWaiting: false, queuedCount: 5 })
})

test('replay job: a cancelled job queues no further events and writes an audit row', async () => {
  await lab.failed(700)
  const job = await lab.started()
  await stepReplay(lab.reader, Date.now())
  const stranger = (await lab.addTenant()).id
  expect(await cancelReplay(lab.reader, { id: job.id, by: 'bob', tenantId: stranger })).toEqual({
    kind: 'not_found',
  })
  expect(await cancelReplay(lab.reader, { id: job.id, by: 'bob' })).toMatchObject({ kind: 'cancelled' })
  expect(await cancelReplay(lab.reader, { id: job.id, by: 'bob' })).toMatchObject({ kind: 'ended' })
  expect(await workOff()).toBe(0)
  expect(await readReplay(lab.reader, { id: job.id })).toMatchObject({ state: 'cancelled', queuedCount: 500 })
  const { rows } = await lab.pool.query('SELECT actor, action, tenant_id FROM audit ORDER BY id')
  expect(rows).toEqual([
    { actor: 'ann', action: 'replays.started', tenant_id: lab.tenantId },
    { actor: 'bob', action: 'replays.cancelled', tenant_id: lab.tenantId },
  ])
})

test('replay job: fails if it is unfinished after a week', async () => {
  const job = await lab.started()
  await lab.pool.query("UPDATE replays SET created_at = now() - interval '8 days'")
  await stepReplay(lab.reader, Date.now())
  expect(await readReplay(lab.reader, { id: job.id })).toMatchObject({ state: 'failed', cause: 'too_old' })
})

test('replay job: the deliveries of new events do not wait for those of the job', async () => {
  const receiver = startReceiver()
  const tenant = await lab.addTenant({ url: receiver.url })
  const ids = await lab.failed(400, tenant.id)
  await lab.started({ filter: { ...lab.anHour(), tenantId: tenant.id } })
  const { forwarder, stop } = lab.forwarder()
  const replayer = superviseLoop({
    name: 'replays',
    intervalMs: 100,
    turnMsMax: 5_000,
    onError: () => undefined,
    runOnce: (signal) =>
      stepReplays(
        { pool: lab.reader, clock: systemClock },
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
