import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { queueSessionSettings } from '#internal/events/claim.ts'
import type { Ending } from '#internal/events/complete.ts'
import type { ClaimedDelivery } from '#internal/events/delivery.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/delivery-lab.ts'
import { truncateEvents } from '#test/support/truncate-events.ts'
import { CompletionQueue } from './completion-queue.ts'
import type { QueueChange } from './queue-change.ts'

let lab: DeliveryLab

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  await truncateEvents(lab.pool)
})

const ending = {
  kind: 'processed',
  attempt: { startedAtMs: 1, durationMs: 1, outcome: 'delivered', status: 204, cause: null, answer: '' },
} as const satisfies Ending

function queueOn(pool: Pool) {
  const told = { lost: 0, unwritable: [] as string[], failed: 0, opened: 0, suspended: 0 }
  const queue = new CompletionQueue({
    pool,
    leaseToken: 'lab',
    observer: {
      leasesLost: (count) => void (told.lost += count),
      unwritable: ({ eventId }, cause) => void told.unwritable.push(`${eventId} ${cause}`),
      failed: () => void (told.failed += 1),
      breakerOpened: () => void (told.opened += 1),
      callbackSuspended: () => void (told.suspended += 1),
    },
  })
  return { queue, told }
}

async function claimed(count: number): Promise<ClaimedDelivery[]> {
  const tenant = await lab.addTenant()
  await lab.accept(tenant.id, count)
  return (await lab.claim()).claimed.map(({ delivery }) => delivery)
}

/** A lease that nothing here looks at. */
const leased = (delivery: ClaimedDelivery) => ({ delivery, leaseEndsMs: 0 })

/** A pool whose only connection a test may hold, so that there is none to be had in time. */
const narrowPool = () =>
  createPool({
    url: lab.databaseUrl,
    applicationName: 'latchkey test completions',
    connectionsMax: 1,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 500,
    sessionSettings: queueSessionSettings,
  })

const waiting = 'SELECT count(*) FROM deliveries_due'

describe('the queue of completions', () => {
  test('writes all that it was given, in few statements', async () => {
    let statements = 0
    const counting = new Proxy(lab.pool, {
      get(pool, name) {
        if (name === 'query') statements += 1
        const value: unknown = Reflect.get(pool, name, pool)
        return typeof value === 'function' ? value.bind(pool) : value
      },
    })
    const { queue, told } = queueOn(counting)
    for (const delivery of await claimed(60)) queue.add({ leased: leased(delivery), ending })
    expect(queue.size).toBe(60)
    await queue.drain(10_000)
    expect(await lab.value(waiting)).toBe(0)
    expect(queue.size).toBe(0)
    expect(statements).toBe(2)
    expect(told).toEqual({ lost: 0, unwritable: [], failed: 0, opened: 0, suspended: 0 })
  })

  test('tries again until Postgres takes it', async () => {
    const pool = narrowPool()
    const { queue, told } = queueOn(pool)
    // Its only connection is held, so that there is none to be had in time.
    const client = await pool.connect()
    for (const delivery of await claimed(5)) queue.add({ leased: leased(delivery), ending })
    expect(await poll(() => told.failed >= 2 || undefined, { deadlineMs: 10_000 })).toBe(true)
    expect(await lab.value(waiting)).toBe(5)
    client.release()
    await queue.drain(10_000)
    expect(await lab.value(waiting)).toBe(0)
    expect(told.lost).toBe(0)
    await pool.end()
  })

  test('gives up what cannot be written in the time that is left, and says so', async () => {
    const pool = narrowPool()
    const { queue, told } = queueOn(pool)
    const client = await pool.connect()
    for (const delivery of await claimed(3)) queue.add({ leased: leased(delivery), ending })
    await queue.drain(200)
    await lab.becomes(3, waiting)
    await poll(() => told.lost > 0 || undefined, { deadlineMs: 10_000 })
    expect(told.lost).toBe(3)
    client.release()
    await pool.end()
  })

  test('changes a queue once for all that ask for it, and counts what others have taken over', async () => {
    const { queue, told } = queueOn(lab.pool)
    const deliveries = await claimed(4)
    await lab.pool.query("UPDATE deliveries_due SET lease = 'other' WHERE event_id = $1", [
      deliveries[0]?.eventId,
    ])
    for (const delivery of deliveries)
      queue.add({ leased: leased(delivery), ending, queueChange: { kind: 'suspend', cause: 'gone' } })
    await queue.drain(10_000)
    expect(told).toEqual({ lost: 1, unwritable: [], failed: 0, opened: 0, suspended: 1 })
    expect(await lab.value('SELECT suspended_cause FROM tenant_queues')).toBe('gone')
    expect(await lab.value(waiting)).toBe(1)
  })

  test.each([
    ['first', 0],
    ['between others', 3],
    ['last', 6],
  ])('gives up a row that Postgres refuses, %s in its batch, and writes the others', async (_what, at) => {
    const pool = narrowPool()
    const { queue, told } = queueOn(pool)
    const deliveries = await claimed(7)
    const client = await pool.connect()
    const refused: Ending = { ...ending, attempt: { ...ending.attempt, status: 70_000 } }
    for (const [index, delivery] of deliveries.entries())
      queue.add({ leased: leased(delivery), ending: index === at ? refused : ending })
    client.release()
    await queue.drain(10_000)
    expect(told).toMatchObject({ lost: 0, unwritable: [`${deliveries[at]?.eventId ?? ''} 22003`] })
    expect([await lab.value(waiting), queue.size, [...queue.leased()].length]).toEqual([1, 0, 0])
    expect(await lab.value('SELECT event_id FROM deliveries_due')).toBe(deliveries[at]?.eventId)
    await pool.end()
  })

  test.each([
    ['first', ['suspend', 'open_breaker', 'close_breaker']],
    ['between others', ['open_breaker', 'suspend', 'close_breaker']],
    ['last', ['close_breaker', 'open_breaker', 'suspend']],
  ] as const)(
    'keeps a suspension that comes %s in its batch, and tells of it until it is written',
    async (_what, kinds) => {
      const pool = narrowPool()
      const { queue, told } = queueOn(pool)
      const [first, ...deliveries] = await claimed(4)
      if (!first) throw new Error('nothing was claimed')
      const client = await pool.connect()
      // It goes at once, the others share a batch.
      queue.add({ leased: leased(first), ending })
      for (const [index, delivery] of deliveries.entries()) {
        const kind = kinds[index] ?? 'close_breaker'
        const queueChange: QueueChange = kind === 'suspend' ? { kind, cause: 'gone' } : { kind }
        queue.add({ leased: leased(delivery), ending, queueChange })
      }
      expect([...queue.suspending]).toEqual(deliveries.slice(0, 1).map(({ tenantId }) => tenantId))
      client.release()
      await queue.drain(10_000)
      expect(told).toMatchObject({ lost: 0, suspended: 1 })
      expect(queue.suspending.size).toBe(0)
      expect(await lab.value('SELECT suspended_cause FROM tenant_queues')).toBe('gone')
      await pool.end()
    },
  )

  test('writes the end of a row that was claimed anew meanwhile under its new claim', async () => {
    const pool = narrowPool()
    const { queue, told } = queueOn(pool)
    const [delivery] = await claimed(1)
    if (!delivery) throw new Error('nothing was claimed')
    const client = await pool.connect()
    queue.add({ leased: leased(delivery), ending })
    expect(await poll(() => queue.isFailing || undefined, { deadlineMs: 10_000 })).toBe(true)
    await lab.pool.query('UPDATE deliveries_due SET leased_until = now()')
    const again = (await lab.claim({ woken: [delivery.tenantId] })).claimed[0]?.delivery
    if (!again) throw new Error('nothing was claimed')
    expect(queue.adopt(leased({ ...again, attempts: 1 }))).toBe(false)
    expect(queue.adopt(leased({ ...again, cycle: 2 }))).toBe(false)
    expect(queue.adopt(leased(again))).toBe(true)
    client.release()
    await queue.drain(10_000)
    expect([await lab.value(waiting), told.lost, queue.isFailing]).toEqual([0, 0, false])
    expect(queue.adopt(leased(again))).toBe(false)
    await pool.end()
  })

  test('writes it once more where the row was claimed anew while it was being written', async () => {
    const { queue, told } = queueOn(lab.pool)
    const [delivery] = await claimed(1)
    if (!delivery) throw new Error('nothing was claimed')
    // Nothing of what was added has reached Postgres yet when its row is claimed under another number.
    const held = await lab.pool.connect()
    await held.query('BEGIN')
    await held.query('UPDATE deliveries_due SET claims = claims + 1')
    queue.add({ leased: leased(delivery), ending })
    await lab.becomes(
      true,
      "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
    )
    expect(queue.adopt(leased({ ...delivery, claims: 2 }))).toBe(true)
    await held.query('COMMIT')
    held.release()
    await queue.drain(10_000)
    expect([await lab.value(waiting), told.lost]).toEqual([0, 0])
  })
})
