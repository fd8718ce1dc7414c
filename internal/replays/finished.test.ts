import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { type NoticeParts, noticeProblems } from '#internal/events/index.ts'
import { queueIdOf } from '#internal/events/model.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { listFailedEvents } from '#test/support/events/failed-events.ts'
import { openReplayLab, type ReplayLab } from '#test/support/events/replay-lab.ts'
import type { ReplayTurn } from './due.ts'
import { notifyOfFinishedReplays } from './finished.ts'
import { startReplay } from './start.ts'
import { stepReplay } from './step.ts'

const hourMs = 3_600_000
let lab: ReplayLab
let pool: Pool
let tenant: DirectoryTenant

beforeAll(async () => {
  lab = await openReplayLab()
  pool = lab.reader
}, 60_000)
afterAll(() => lab.close())
beforeEach(async () => {
  await lab.reset()
  tenant = await lab.addTenant({ notifications: { url: 'http://127.0.0.1:9/' } })
})

function parts(): NoticeParts & { readonly counted: string[] } {
  const counted: string[] = []
  return {
    pool,
    directory: { findTenantById: (id) => (id === tenant.id ? tenant : undefined) },
    retentionDefaults: () => ({ payloadDays: 30, eventDays: 90 }),
    onNotified: (type) => void counted.push(type),
    counted,
  }
}

/** A turn in which no replay fails. */
const turn = (nowMs: number): ReplayTurn => ({
  nowMs,
  onFailed(_id, cause) {
    throw cause
  },
})

/** Replays this many failed events of a tenant until the job has ended. */
async function replayed(count: number, tenantId: TenantId): Promise<void> {
  await lab.accept(tenantId, count)
  await lab.pool.query('DELETE FROM deliveries_due')
  await lab.pool.query("UPDATE events SET state = 'delivery_failed', completed_at = now()")
  await listFailedEvents(lab.pool)
  const filter = { tenantId, state: 'delivery_failed' as const, fromMs: Date.now() - hourMs }
  const asked = { filter, ratePerSecond: 1_000, by: 'ann', idempotencyKey: crypto.randomUUID() }
  expect((await startReplay(pool, asked, Date.now())).kind).toBe('started')
  while ((await stepReplay(pool, Date.now())).kind !== 'idle')
    await lab.pool.query("UPDATE replays SET next_step_at = now() WHERE state IN ('queued', 'running')")
}

const end = (state: string, count: number) =>
  lab.pool.query(
    `WITH ended AS (DELETE FROM deliveries_due WHERE event_id IN (SELECT event_id FROM deliveries_due ORDER BY 1 LIMIT $2)
       RETURNING event_id)
     UPDATE events SET state = $1, completed_at = now() WHERE id IN (SELECT event_id FROM ended)`,
    [state, count],
  )
const payloads = async () => {
  const { rows } = await pool.query<{ payload: string }>(
    "SELECT payload FROM event_payloads JOIN events ON id = event_id WHERE type = 'latchkey.replay.finished'",
  )
  return rows.map(({ payload }) => JSON.parse(payload) as unknown)
}

test('finished replays: when all deliveries have ended, several processes together notify the owner only once', async () => {
  await replayed(5, tenant.id)
  const all = [parts(), parts(), parts()]
  const settled = async (laterMs: number) =>
    (await Promise.all(all.map((each) => notifyOfFinishedReplays(each, turn(Date.now() + laterMs))))).flat()
  await end('processed', 3)
  expect(await settled(0)).toEqual([])
  await end('delivery_failed', 2)
  expect(await settled(60_000)).toEqual([queueIdOf({ tenantId: tenant.id, destination: 'notifications' })])
  expect(await settled(120_000)).toEqual([])
  expect(await payloads()).toMatchObject([
    {
      state: 'completed',
      queued: 5,
      skipped: 0,
      delivered: 3,
      failed: 2,
      pending: 0,
      tenant: { name: 'acme' },
    },
  ])
  for (const payload of await payloads())
    expect(noticeProblems('latchkey.replay.finished', payload)).toEqual([])
  expect(all.flatMap(({ counted }) => counted)).toEqual(['latchkey.replay.finished'])
})

test('finished replays: a replay whose notification fails each time is reported and does not delay other replays', async () => {
  await replayed(1, tenant.id)
  await lab.pool.query("UPDATE replays SET queued = ARRAY['broken:2']")
  await replayed(1, tenant.id)
  await end('processed', 2)
  const [broken] = (await lab.pool.query<{ id: string }>('SELECT id FROM replays ORDER BY id LIMIT 1')).rows
  const failedIds: string[] = []
  const later = { nowMs: Date.now() + 1_000, onFailed: (id: string) => void failedIds.push(id) }
  expect(await notifyOfFinishedReplays(parts(), later)).toHaveLength(1)
  expect(failedIds).toEqual([broken?.id ?? ''])
  expect(await payloads()).toHaveLength(1)
})

test('finished replays: after a day the owner is notified even if deliveries are still pending', async () => {
  await replayed(2, tenant.id)
  await notifyOfFinishedReplays(parts(), turn(Date.now() + 23 * hourMs))
  expect(await payloads()).toEqual([])
  await notifyOfFinishedReplays(parts(), turn(Date.now() + 25 * hourMs))
  expect(await payloads()).toMatchObject([{ queued: 2, delivered: 0, failed: 0, pending: 2 }])
})

test('finished replays: for a tenant without notifications, the owner is not notified and the replay is not examined again', async () => {
  const other = await lab.addTenant()
  await replayed(1, other.id)
  await end('processed', 1)
  await notifyOfFinishedReplays(parts(), turn(Date.now() + hourMs))
  expect(await payloads()).toEqual([])
  expect(await lab.value('SELECT count(*) FROM replays WHERE notify_at IS NOT NULL')).toBe(0)
})

test('finished replays: a replay of events of all kinds does not include notifications', async () => {
  await lab.accept(tenant.id, 1, { provider: 'latchkey', origin: { kind: 'notification' } })
  await replayed(1, tenant.id)
  expect(await lab.value('SELECT queued_count FROM replays')).toBe(1)
  expect(await lab.value("SELECT state FROM events WHERE provider = 'latchkey'")).toBe('delivery_failed')
})
