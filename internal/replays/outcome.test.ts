import { beforeAll, beforeEach, expect, test } from 'bun:test'
import type { EventId, TenantId } from '#internal/base/index.ts'
import type { StatusFilter } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { listFailedEvents } from '#test/support/events/failed-events.ts'
import { openReplayLab, type ReplayLab } from '#test/support/events/replay-lab.ts'
import type { ReplayTurn } from './due.ts'
import { listReplays, type ReplayFilter, type ReplayJob, readReplay } from './job.ts'
import {
  countAgainMs,
  countDueOutcomes,
  countOutcome,
  findReplaysOfEvent,
  readReplayedIds,
  readReplayOutcome,
  saveOutcome,
} from './outcome.ts'
import { progressText, type ReplayOutcome, stageOf } from './progress.ts'
import { previewReplay, startReplay } from './start.ts'
import { stepReplay } from './step.ts'

const hourMs = 3_600_000
let lab: ReplayLab
let pool: Pool
let tenantId: TenantId

beforeAll(async () => {
  lab = await openReplayLab()
  pool = lab.reader
  return () => lab.close()
})
beforeEach(async () => {
  await lab.reset()
  tenantId = lab.tenantId
})

/** Stores events whose delivery cycle has failed. */
async function failed(count: number): Promise<EventId[]> {
  const ids = await lab.accept(tenantId, count)
  await end('delivery_failed', ids)
  return ids.toSorted()
}

/** Ends the current delivery cycle of events. */
async function end(state: string, ids: readonly EventId[]): Promise<void> {
  await lab.pool.query('DELETE FROM deliveries_due WHERE event_id = ANY($1)', [ids])
  await lab.pool.query('UPDATE events SET state = $2, completed_at = now() WHERE id = ANY($1)', [ids, state])
  await lab.pool.query('DELETE FROM failed_deliveries')
  await listFailedEvents(lab.pool)
}

const start = (filter: Partial<ReplayFilter> = {}, idempotencyKey: string = crypto.randomUUID()) =>
  startReplay(
    pool,
    {
      filter: { tenantId, fromMs: Date.now() - hourMs, ...filter },
      ratePerSecond: 1_000,
      by: 'ann',
      idempotencyKey,
    },
    Date.now(),
  )

async function replayed(filter: Partial<ReplayFilter> = { state: 'delivery_failed' }): Promise<ReplayJob> {
  const result = await start(filter)
  if (result.kind !== 'started') throw new Error(`${result.kind} instead of started`)
  await stepAll()
  return result.job
}

async function stepAll(): Promise<void> {
  for (let nth = 0; nth < 20 && (await stepReplay(pool, Date.now())).kind !== 'idle'; nth += 1)
    await lab.pool.query("UPDATE replays SET next_step_at = now() WHERE state IN ('queued', 'running')")
}

/** A turn in which no replay fails. */
const turn = (nowMs: number): ReplayTurn => ({
  nowMs,
  onFailed(_id, cause) {
    throw cause
  },
})

const none: ReplayOutcome = {
  examinedCount: 0,
  deliveredCount: 0,
  failedCount: 0,
  pendingCount: 0,
  otherCount: 0,
}

test('replay outcome: counts the events until their deliveries have ended, and excludes events that a later replay queued again', async () => {
  const ids = await failed(5)
  const started = await start()
  const id = started.kind === 'started' ? started.job.id : undefined
  if (id === undefined) throw new Error(started.kind)
  const outcome = () => readReplayOutcome(pool, id, Date.now())
  expect(await outcome()).toEqual(none)
  await stepAll()
  expect(await outcome()).toEqual({ ...none, examinedCount: 5, pendingCount: 5 })
  const set = (state: string, cycle: number, nth: number) =>
    lab.pool.query('UPDATE events SET state = $1, cycle = $2 WHERE id = $3', [state, cycle, ids[nth]])
  await set('processed', 2, 0)
  await set('delivery_failed', 2, 1)
  await set('accepted', 3, 2)
  await lab.pool.query('DELETE FROM events WHERE id = $1', [ids[3]])
  const ended = { deliveredCount: 1, failedCount: 1, pendingCount: 1, otherCount: 2 }
  expect(await outcome()).toEqual({ examinedCount: 5, ...ended })
})

test('replay outcome: covers the first 1 000 queued events', async () => {
  await failed(1_100)
  const { id } = await replayed()
  await lab.pool.query("UPDATE deliveries_due SET due_at = now() + interval '1 h'")
  await lab.pool.query('UPDATE replays SET next_step_at = now()')
  await stepAll()
  expect(await readReplayOutcome(pool, id, Date.now())).toMatchObject({
    examinedCount: 1_000,
    pendingCount: 1_000,
  })
})

test('replay outcome: the failed events of a replay are found by their ids, and a replay of these ids covers exactly these events', async () => {
  const ids = await failed(6)
  const others = await failed(2)
  const job = await replayed({ ids, state: 'delivery_failed' })
  const again = ids.slice(0, 3)
  await end('processed', ids.slice(3, 5))
  await end('delivery_failed', again)
  const named = { replayId: job.id, outcome: 'failed' } as const
  expect((await readReplayedIds(pool, named, Date.now())).toSorted()).toEqual(again)
  expect((await readReplayedIds(pool, { replayId: job.id }, Date.now())).toSorted()).toEqual(ids)
  const filter = { tenantId, fromMs: 0, ...named }
  const preview = await previewReplay(pool, filter, Date.now())
  expect([preview.total, preview.examples.map(({ id }) => id)]).toEqual([{ count: 3, isExact: true }, again])
  expect((await start(filter, 'again')).kind).toBe('started')
  await stepAll()
  // A form that is submitted twice starts one replay, although the outcomes have changed since.
  expect((await start(filter, 'again')).kind).toBe('already_started')
  for (const other of [{ outcome: 'delivered' }, { ids: again }, { state: 'delivery_failed' }] as const)
    expect((await start({ ...filter, ...other }, 'again')).kind).toBe('conflict')
  const cycles = await lab.pool.query<{ id: EventId; cycle: number }>(
    'SELECT id, cycle FROM events ORDER BY id',
  )
  expect(Object.fromEntries(cycles.rows.map(({ id, cycle }) => [id, cycle]))).toEqual(
    Object.fromEntries(
      [...ids, ...others].map((id) => [id, others.includes(id) ? 1 : again.includes(id) ? 3 : 2]),
    ),
  )
  expect(await start(named)).toMatchObject({ kind: 'invalid' })
  expect((await readReplayOutcome(pool, job.id, Date.now())).otherCount).toBe(3)
})

test('replay start: a repeated start for events of an earlier replay is a conflict unless ids and state are the same', async () => {
  const ids = await failed(3)
  const { id: replayId } = await replayed()
  const chosen = { replayId, ids: ids.slice(0, 2), fromMs: 0 }
  expect(await start(chosen, 'key')).toMatchObject({ kind: 'started', job: { filter: chosen } })
  expect((await start(chosen, 'key')).kind).toBe('already_started')
  const others = [
    { ...chosen, ids },
    { replayId, fromMs: 0 },
    { ...chosen, state: 'processed' },
  ] as const
  for (const other of others) expect([other, (await start(other, 'key')).kind]).toEqual([other, 'conflict'])
})

test('replay outcome: the list and the replay show the same progress, after a periodic count as well as after the replay was read', async () => {
  const ids = await failed(3)
  const { id } = await replayed()
  const listed = async () => (await listReplays(pool, { tenantId, limit: 1 })).replays[0]
  const read = async () => {
    const job = await readReplay(pool, { id })
    return job && (await countOutcome(pool, job, Date.now()))
  }
  await end('processed', ids.slice(0, 2))
  await end('delivery_failed', ids.slice(2))
  await countDueOutcomes(pool, turn(Date.now() + 1_000))
  const failedAgain = await listed()
  expect([failedAgain?.progress, failedAgain && stageOf(failedAgain)]).toEqual([
    '3 queued: 2 delivered, 1 failed again',
    'failed_again',
  ])
  expect(await read()).toEqual(failedAgain)
  await end('processed', ids)
  const done = await read()
  expect([done?.progress, done && stageOf(done)]).toEqual(['3 queued: 3 delivered', 'done'])
  expect(await listed()).toEqual(done)
})

test('replay outcome: pending deliveries are counted again later, and ended deliveries are not', async () => {
  const ids = await failed(1)
  await replayed()
  const isDue = () => lab.value<boolean>('SELECT count_at IS NOT NULL FROM replays')
  await countDueOutcomes(pool, turn(Date.now() + 1_000))
  expect(await isDue()).toBe(true)
  await end('processed', ids)
  await countDueOutcomes(pool, turn(Date.now() + hourMs))
  expect(await isDue()).toBe(false)
})

test('replay outcome: a count that is saved too late does not replace a newer count', async () => {
  const ids = await failed(1)
  const { id } = await replayed()
  const job = await readReplay(pool, { id })
  if (!job) throw new Error('no replay')
  const earlier = await readReplayOutcome(pool, id, Date.now())
  expect(earlier.pendingCount).toBe(1)
  await end('processed', ids)
  await countDueOutcomes(pool, turn(Date.now() + 1_000))
  await saveOutcome(pool, job, earlier, Date.now())
  const saved = await readReplay(pool, { id })
  expect(saved && stageOf(saved)).toBe('done')
  expect(await lab.value<boolean>('SELECT count_at IS NULL FROM replays')).toBe(true)
})

test('replay outcome: a replay that cannot be counted is reported at each attempt and does not delay other replays', async () => {
  await failed(2)
  const broken = await replayed()
  await lab.pool.query("UPDATE replays SET queued = ARRAY['broken:2'], count_at = now() - interval '1 h'")
  await end('delivery_failed', await lab.accept(tenantId, 1))
  const sound = await replayed()
  const failedIds: string[] = []
  const atMs = Date.now() + 1_000
  const count = (nowMs: number) =>
    countDueOutcomes(pool, { nowMs, onFailed: (id) => void failedIds.push(id) })
  await count(atMs)
  expect(failedIds).toEqual([broken.id])
  expect((await readReplay(pool, { id: sound.id }))?.outcome?.examinedCount).toBe(1)
  await count(atMs + 1_000)
  expect(failedIds).toHaveLength(1)
  await count(atMs + 60_000)
  expect(failedIds).toHaveLength(2)
})

test('replay outcome: after its signal aborts, a run stops before the next replay', async () => {
  await failed(1)
  const { id } = await replayed()
  await countDueOutcomes(pool, { ...turn(Date.now() + 1_000), signal: AbortSignal.abort() })
  expect((await readReplay(pool, { id }))?.outcome).toBeNull()
})

test.each([
  ['pending, just ended', { pendingCount: 1 }, 0, 5_000],
  ['pending for an hour', { pendingCount: 1 }, hourMs, 600_000],
  ['pending for four minutes', { pendingCount: 1, failedCount: 1 }, 240_000, 60_000],
  ['failed', { failedCount: 1 }, hourMs, 600_000],
  ['failed eight days ago', { failedCount: 1 }, 192 * hourMs, undefined],
  ['delivered', { deliveredCount: 1 }, 0, undefined],
] as const)(
  'replay outcome: the next count has the expected time for a replay that is %s',
  (_what, counts, sinceMs, expected) => {
    expect(countAgainMs({ ...none, ...counts }, sinceMs)).toBe(expected)
  },
)

test.each([
  [{ queuedCount: 0, skipped: {}, outcome: null }, '0 queued'],
  [{ queuedCount: 12, skipped: { payload_expired: 1 }, outcome: null }, '12 queued; 1 skipped'],
  [
    {
      queuedCount: 1_312,
      skipped: { payload_expired: 2, test_event: 1 },
      outcome: { examinedCount: 1_000, deliveredCount: 990, failedCount: 3, pendingCount: 6, otherCount: 1 },
    },
    '1,312 queued; of the first 1,000: 990 delivered, 3 failed again, 6 pending, 1 replayed since or deleted; 3 skipped',
  ],
] as const)('replay progress: %j is shown as %s', (facts, text) => {
  expect(progressText(facts)).toBe(text)
})

test('replays of an event: maps each delivery cycle to the replay that began this cycle, and ignores replays of other tenants', async () => {
  const [id] = (await failed(1)) as [EventId]
  const first = await replayed({ ids: [id] })
  await end('delivery_failed', [id])
  const second = await replayed({ ids: [id], status: '5xx' as StatusFilter })
  expect(second.total.count).toBe(0)
  const third = await replayed({ ids: [id], state: 'delivery_failed' })
  const asked = { id, tenantId, isWide: true }
  expect([...(await findReplaysOfEvent(pool, asked))]).toEqual([
    [3, third.id],
    [2, first.id],
  ])
  await lab.pool.query('UPDATE replays SET tenant_id = NULL WHERE id = $1', [third.id])
  expect([...(await findReplaysOfEvent(pool, asked)).keys()].toSorted()).toEqual([2, 3])
  expect([...(await findReplaysOfEvent(pool, { ...asked, isWide: false })).keys()]).toEqual([2])
  const other = (await lab.addTenant()).id
  expect([...(await findReplaysOfEvent(pool, { ...asked, tenantId: other, isWide: false }))]).toEqual([])
})
