import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import type { ClaimedDelivery } from './claim.ts'
import { type Attempt, complete, type Ending } from './complete.ts'
import { readEvent } from './view.ts'

let lab: DeliveryLab

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  await truncateEvents(lab.pool)
})

const startedAtMs = Date.UTC(2026, 10, 20, 12)
const dueAtMs = Date.UTC(2027, 0, 1)
const attempt: Attempt = {
  startedAtMs,
  durationMs: 12.4,
  outcome: 'refused',
  status: 500,
  cause: null,
  answer: 'no',
}

async function claimed(count = 1): Promise<ClaimedDelivery[]> {
  const tenant = await lab.addTenant()
  await lab.accept(tenant.id, count)
  return [...(await lab.claim()).claimed]
}

const completeAll = (deliveries: readonly ClaimedDelivery[], ending: Ending, token = 'lab') =>
  complete(
    lab.pool,
    token,
    deliveries.map((delivery) => ({ delivery, ending })),
  )

const rowsOf = async (text: string) => (await lab.pool.query(text)).rows
const queue = () =>
  rowsOf('SELECT is_retry, attempts, claims, lease, due_at FROM deliveries_due ORDER BY event_id')
const states = () => rowsOf('SELECT state, completed_at IS NOT NULL AS completed FROM events')
const tried = () =>
  rowsOf('SELECT cycle, attempt, outcome, status, cause, answer, duration_ms, started_at FROM attempts')

describe('complete', () => {
  test.each([
    ['processed', 'processed'],
    ['failed', 'delivery_failed'],
  ] as const)(
    'complete: a delivery that is %s leaves the queue and sets the state of its event',
    async (kind, state) => {
      const deliveries = await claimed(3)
      const completed = await completeAll(deliveries, { kind, attempt })
      expect(completed.size).toBe(3)
      expect(await queue()).toEqual([])
      expect(await states()).toEqual(Array.from({ length: 3 }, () => ({ state, completed: true })))
      const [one, ...others] = await tried()
      expect(others).toHaveLength(2)
      expect(one).toEqual({
        cycle: 1,
        attempt: 1,
        outcome: 'refused',
        status: 500,
        cause: null,
        answer: 'no',
        duration_ms: 12,
        started_at: new Date(startedAtMs),
      })
    },
  )

  test('complete: the exchange of an attempt is stored, or `null` if the attempt has no exchange', async () => {
    const [first, second] = await claimed(2)
    if (!first || !second) throw new Error('no claims')
    const exchange = {
      url: 'https://shop.example.com/',
      signatures: 1,
      isReused: false,
      headers: [],
      headersOmitted: 0,
      isAnswerCut: false,
      problem: 'odd: \u0000 \ud800 "',
      connectMs: 3.2,
    }
    await complete(lab.pool, 'lab', [
      { delivery: first, ending: { kind: 'later', dueAtMs, attempt: { ...attempt, exchange } } },
      { delivery: second, ending: { kind: 'failed', attempt } },
    ])
    const read = async ({ eventId }: ClaimedDelivery) =>
      (await readEvent(lab.pool, { id: eventId }, Date.now()))?.attempts
    expect(await read(first)).toMatchObject([{ status: 500, exchange: { ...exchange, connectMs: 3 } }])
    expect((await read(second))?.map((each) => each.exchange)).toEqual([undefined])
    expect(
      await rowsOf('SELECT exchange FROM attempts WHERE outcome IS NOT NULL ORDER BY exchange'),
    ).toContainEqual({
      exchange: null,
    })
  })

  test('complete: a delivery that is to be retried later waits as a retry, and its attempt is counted', async () => {
    const deliveries = await claimed()
    await completeAll(deliveries, { kind: 'later', dueAtMs, attempt })
    expect(await queue()).toEqual([
      { is_retry: true, attempts: 1, claims: 0, lease: null, due_at: new Date(dueAtMs) },
    ])
    expect(await states()).toEqual([{ state: 'accepted', completed: false }])
    expect(await tried()).toHaveLength(1)
  })

  test('complete: a snoozed delivery waits without an attempt', async () => {
    const deliveries = await claimed()
    await completeAll(deliveries, { kind: 'snoozed', dueAtMs })
    expect(await queue()).toEqual([
      { is_retry: true, attempts: 0, claims: 0, lease: null, due_at: new Date(dueAtMs) },
    ])
    expect(await tried()).toEqual([])
  })

  test('complete: a snoozed delivery keeps the count of its earlier lost claims', async () => {
    const [delivery] = await claimed()
    if (!delivery) throw new Error('nothing was claimed')
    await lab.pool.query('UPDATE deliveries_due SET claims = 4')
    await completeAll([{ ...delivery, claims: 4 }], { kind: 'snoozed', dueAtMs })
    expect(await queue()).toMatchObject([{ claims: 3, lease: null }])
  })

  test('complete: the queue row of a delivery whose event was removed is deleted', async () => {
    const deliveries = await claimed()
    await completeAll(deliveries, { kind: 'expired' })
    expect([await queue(), await tried()]).toEqual([[], []])
    expect(await states()).toEqual([{ state: 'accepted', completed: false }])
  })

  test('complete: stores a replacement character for a NUL character in a response', async () => {
    const deliveries = await claimed()
    await completeAll(deliveries, { kind: 'processed', attempt: { ...attempt, answer: 'a\u0000b' } })
    expect(await tried()).toMatchObject([{ answer: 'a\ufffdb' }])
  })
})

describe('complete without the lease', () => {
  const processed = { kind: 'processed', attempt } as const

  test.each([
    ['another worker owns the row', "UPDATE deliveries_due SET lease = 'other'"],
    ['the row was released', 'UPDATE deliveries_due SET lease = NULL'],
    ['the row was claimed again, even by the same process', 'UPDATE deliveries_due SET claims = claims + 1'],
    ['the attempt was completed before', 'UPDATE deliveries_due SET attempts = attempts + 1'],
    ['the row is in another cycle', 'UPDATE deliveries_due SET cycle = cycle + 1'],
    ['the row no longer exists', 'DELETE FROM deliveries_due'],
  ])('complete: writes nothing without the lease (%s)', async (_what, change) => {
    const deliveries = await claimed()
    await lab.pool.query(change)
    const before = await queue()
    expect(await completeAll(deliveries, processed)).toEqual(new Set())
    expect(await completeAll(deliveries, { kind: 'later', dueAtMs, attempt })).toEqual(new Set())
    expect(await queue()).toEqual(before)
    expect(await tried()).toEqual([])
    expect(await states()).toEqual([{ state: 'accepted', completed: false }])
  })

  test('complete: completes the other deliveries of a batch when one lease is lost', async () => {
    const deliveries = await claimed(3)
    const [lost] = deliveries
    await lab.pool.query("UPDATE deliveries_due SET lease = 'other' WHERE event_id = $1", [lost?.eventId])
    const completed = await completeAll(deliveries, processed)
    expect(completed.size).toBe(2)
    expect(completed.has(`${lost?.eventId}/callback` as never)).toBe(false)
    expect(await lab.value('SELECT count(*) FROM deliveries_due')).toBe(1)
  })

  test('complete: does not change an event whose row in the queue belongs to another tenant', async () => {
    const deliveries = await claimed()
    const stranger = await lab.addTenant()
    await lab.pool.query('UPDATE deliveries_due SET tenant_id = $1', [stranger.id])
    await completeAll(deliveries, processed)
    expect(await states()).toEqual([{ state: 'accepted', completed: false }])
  })

  test('complete: a repeated call writes nothing', async () => {
    const deliveries = await claimed()
    expect((await completeAll(deliveries, processed)).size).toBe(1)
    expect((await completeAll(deliveries, processed)).size).toBe(0)
    expect(await tried()).toHaveLength(1)
  })
})

describe('complete: effects elsewhere', () => {
  test('complete: creates missing partitions', async () => {
    const deliveries = await claimed()
    const tables = await rowsOf(
      "SELECT relname FROM pg_class WHERE relname LIKE 'attempts_2%' AND relkind = 'r'",
    )
    for (const { relname } of tables) await lab.pool.query(`DROP TABLE ${String(relname)}`)
    expect((await completeAll(deliveries, { kind: 'processed', attempt })).size).toBe(1)
    expect(await tried()).toHaveLength(1)
  })

  test.each([
    ['is woken if it sleeps', "next_due_at = 'infinity'", true],
    ['is brought forward if it is due later', "next_due_at = '2028-01-01'", true],
    ['is not changed if it is due earlier', "next_due_at = '2026-12-01'", false],
    [
      'is woken if it was empty at its last check, which may not see the retry',
      "next_due_at = '2026-12-01', idle_checks = 1",
      false,
    ],
  ])('complete: the tenant queue of a retry %s', async (_what, set, moved) => {
    const deliveries = await claimed()
    await lab.pool.query(`UPDATE tenant_queues SET ${set}`)
    await completeAll(deliveries, { kind: 'later', dueAtMs, attempt })
    const [queue] = await rowsOf('SELECT next_due_at, idle_checks FROM tenant_queues')
    const expected = moved ? new Date(dueAtMs) : new Date('2026-12-01')
    expect(queue).toMatchObject({ idle_checks: 0 })
    expect(new Date(queue.next_due_at).toISOString().slice(0, 10)).toBe(expected.toISOString().slice(0, 10))
  })
})
