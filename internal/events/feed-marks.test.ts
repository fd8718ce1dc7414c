import { beforeAll, beforeEach, expect, test } from 'bun:test'
import { createEventId, type TenantId } from '#internal/base/index.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { feedStart } from './feed.ts'
import { findFeedPositionAt, forgetFeedMarks, markFeed } from './feed-marks.ts'
import { lowestIdOf } from './list-source.ts'

const minuteMs = 60_000
const dayMs = 86_400_000
let lab: DeliveryLab
let tenantId: TenantId

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  await truncateEvents(lab.pool, 'feed_marks')
  tenantId = (await lab.addTenant()).id
})

/** Records a mark as if it were this time. */
async function markAt(ms: number): Promise<void> {
  await markFeed(lab.pool)
  await lab.pool.query('UPDATE feed_marks SET at = $1 WHERE at = (SELECT max(at) FROM feed_marks)', [
    new Date(ms),
  ])
}

test('markFeed: records a transaction number at most once in half a minute', async () => {
  expect(await markFeed(lab.pool)).toBe('marked')
  expect(await markFeed(lab.pool)).toBe('recent')
  await lab.pool.query(`UPDATE feed_marks SET at = at - interval '31 s'`)
  expect(await markFeed(lab.pool)).toBe('marked')
  expect(await lab.value('SELECT count(*) FROM feed_marks')).toBe(2)
})

test('markFeed: removes marks whose transaction number is above the current one, and reports that once', async () => {
  await markAt(Date.now() - dayMs)
  await lab.pool.query(`INSERT INTO feed_marks VALUES (now(), '4611686018427387904')`)
  expect(await markFeed(lab.pool)).toBe('went_back')
  expect(await markFeed(lab.pool)).toBe('recent')
  expect(await lab.value('SELECT count(*) FROM feed_marks')).toBe(2)
})

test('findFeedPositionAt: without an earlier mark, or with a mark of another cluster, the feed is read from its start', async () => {
  expect(await findFeedPositionAt(lab.pool, Date.now())).toEqual(feedStart)
  await markAt(Date.now())
  expect(await findFeedPositionAt(lab.pool, Date.now())).toEqual(feedStart)
  await lab.pool.query(`INSERT INTO feed_marks VALUES (now() - interval '1 h', '4611686018427387904')`)
  expect(await findFeedPositionAt(lab.pool, Date.now())).toEqual(feedStart)
})

test('findFeedPositionAt: every event received at or after the given time is after the position, including spooled events', async () => {
  const startMs = Date.now() - dayMs
  const seed = Math.random()
  const pick = (count: number, at: number) => Math.floor(((Math.sin(at * 12.9898 + seed) + 1) / 2) * count)
  for (let step = 0; step < 60; step += 1) {
    const stepMs = startMs + step * 10 * minuteMs
    if (pick(3, step) > 0) await markAt(stepMs)
    // Most events are stored when they are received, some come from the spool, and one has a clock that is four minutes ahead.
    const received = [0, pick(10, step + 100), -pick(120, step + 200), 9 + pick(5, step + 300)]
    await acceptEvents(
      lab.pool,
      received.map((minutes) =>
        receivedEvent({ tenantId, id: createEventId(stepMs + minutes * minuteMs, 90) }, stepMs),
      ),
    )
  }
  for (let fromMs = startMs - 30 * minuteMs; fromMs < startMs + 650 * minuteMs; fromMs += 7 * minuteMs) {
    const { transaction } = await findFeedPositionAt(lab.pool, fromMs)
    const passed = await lab.value<number>(
      'SELECT count(*) FROM events WHERE id >= $1 AND stored_by < $2::xid8',
      [lowestIdOf(fromMs), transaction],
    )
    expect([seed, passed]).toEqual([seed, 0])
  }
  const { transaction } = await findFeedPositionAt(lab.pool, startMs + 600 * minuteMs)
  const left = 'SELECT count(*) FROM events WHERE stored_by >= $1::xid8'
  expect(await lab.value<number>(left, [transaction])).toBeLessThan(40)
}, 60_000)

test('forgetFeedMarks: removes marks that are older than every event', async () => {
  await markAt(Date.now() - 257 * dayMs)
  await markAt(Date.now() - 255 * dayMs)
  expect(await forgetFeedMarks(lab.pool, Date.now())).toEqual({ removed: 1, hasMore: false })
})
