import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { systemClock } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import { queueSessionSettings } from '#internal/events/claim.ts'
import type { Attempt, Ending } from '#internal/events/complete.ts'
import { callbackQueueOf } from '#internal/events/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { CompletionQueue } from './completion-queue.ts'
import type { QueueChange } from './decide.ts'
import { Delivery } from './delivery.ts'

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
  const observed = { lost: 0, unwritable: [] as string[], failed: 0, opened: 0, suspended: 0 }
  const ended: Delivery[] = []
  const queue = new CompletionQueue({
    pool,
    leaseToken: 'lab',
    clock: systemClock,
    onEnded: (delivery) => ended.push(delivery),
    observer: {
      leasesLost: (count) => void (observed.lost += count),
      unwritable: ({ eventId }, cause) => void observed.unwritable.push(`${eventId} ${cause}`),
      failed: () => void (observed.failed += 1),
      breakerOpened: () => void (observed.opened += 1),
      callbackSuspended: () => void (observed.suspended += 1),
      notificationsSuspended: () => undefined,
    },
  })
  return { queue, observed, ended }
}

/** Returns claimed deliveries whose callbacks have responded. */
async function answered(count: number): Promise<Delivery[]> {
  const tenant = await lab.addTenant()
  await lab.accept(tenant.id, count)
  return (await lab.claim()).claimed.map((claim) => {
    const delivery = new Delivery(claim, 0, {
      tenantId: tenant.id,
      queueId: callbackQueueOf(tenant.id),
      sinceMs: 0,
      kind: 'shared',
    })
    delivery.to('loading')
    delivery.to('sending')
    return delivery
  })
}

/** Creates a pool with one connection. A test holds it to make all statements time out. */
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

describe('completion queue', () => {
  test('completion queue: writes 60 deliveries in two statements', async () => {
    let statements = 0
    const counting = new Proxy(lab.pool, {
      get(pool, name) {
        if (name === 'query') statements += 1
        const value: unknown = Reflect.get(pool, name, pool)
        return typeof value === 'function' ? value.bind(pool) : value
      },
    })
    const { queue, observed } = queueOn(counting)
    for (const delivery of await answered(60)) queue.add(delivery, ending)
    expect(queue.size).toBe(60)
    await queue.drain(10_000)
    expect(await lab.value(waiting)).toBe(0)
    expect(queue.size).toBe(0)
    expect(statements).toBe(2)
    expect(observed).toEqual({ lost: 0, unwritable: [], failed: 0, opened: 0, suspended: 0 })
  })

  test('completion queue: retries while Postgres is unavailable until it succeeds', async () => {
    const pool = narrowPool()
    const { queue, observed } = queueOn(pool)
    // The test holds the only connection of the pool, so that every statement times out.
    const client = await pool.connect()
    for (const delivery of await answered(5)) queue.add(delivery, ending)
    expect(await poll(() => observed.failed >= 2 || undefined, { deadlineMs: 10_000 })).toBe(true)
    expect(await lab.value(waiting)).toBe(5)
    client.release()
    await queue.drain(10_000)
    expect(await lab.value(waiting)).toBe(0)
    expect(observed.lost).toBe(0)
    await pool.end()
  })

  test('completion queue: on stop, gives up after the time limit and reports the unwritten deliveries', async () => {
    const pool = narrowPool()
    const { queue, observed } = queueOn(pool)
    const client = await pool.connect()
    for (const delivery of await answered(3)) queue.add(delivery, ending)
    await queue.drain(200)
    await lab.becomes(3, waiting)
    await poll(() => observed.lost > 0 || undefined, { deadlineMs: 10_000 })
    expect(observed.lost).toBe(3)
    client.release()
    await pool.end()
  })

  test('completion queue: several suspensions of a tenant are written as one change, and lost leases are counted', async () => {
    const { queue, observed } = queueOn(lab.pool)
    const deliveries = await answered(4)
    await lab.pool.query("UPDATE deliveries_due SET lease = 'other' WHERE event_id = $1", [
      deliveries[0]?.claim.eventId,
    ])
    for (const delivery of deliveries) queue.add(delivery, ending, { kind: 'suspend', cause: 'gone' })
    await queue.drain(10_000)
    expect(observed).toEqual({ lost: 1, unwritable: [], failed: 0, opened: 0, suspended: 1 })
    expect(await lab.value('SELECT suspended_cause FROM tenant_queues')).toBe('gone')
    expect(await lab.value(waiting)).toBe(1)
  })

  test.each<[string, string, number, Partial<Attempt>]>([
    ['first', '22003', 0, { status: 70_000 }],
    ['between others', '22003', 3, { status: 70_000 }],
    ['last', '22003', 6, { status: 70_000 }],
    ['with an index row that is too large', '54000', 3, { answer: randomBytes(6_000).toString('base64') }],
  ])(
    'completion queue: gives up a row that Postgres rejects and writes the others (%s, SQLSTATE %s)',
    async (_what, sqlState, at, attempt) => {
      // Makes Postgres reject a long response. The schema itself has no index over a text that a callback controls.
      await lab.pool.query('CREATE INDEX wide_answers ON attempts (answer)')
      const pool = narrowPool()
      const { queue, observed, ended } = queueOn(pool)
      const deliveries = await answered(7)
      const client = await pool.connect()
      const refused: Ending = { ...ending, attempt: { ...ending.attempt, ...attempt } }
      for (const [index, delivery] of deliveries.entries())
        queue.add(delivery, index === at ? refused : ending)
      client.release()
      await queue.drain(10_000)
      await lab.pool.query('DROP INDEX wide_answers')
      expect(observed).toMatchObject({
        lost: 0,
        unwritable: [`${deliveries[at]?.claim.eventId ?? ''} ${sqlState}`],
      })
      expect([await lab.value(waiting), queue.size, ended.length]).toEqual([1, 0, 7])
      expect(await lab.value('SELECT event_id FROM deliveries_due')).toBe(
        deliveries[at]?.claim.eventId as string,
      )
      await pool.end()
    },
  )

  test.each([
    ['first', ['suspend', 'open_breaker', 'close_breaker']],
    ['between others', ['open_breaker', 'suspend', 'close_breaker']],
    ['last', ['close_breaker', 'open_breaker', 'suspend']],
  ] as const)(
    'completion queue: a suspension wins over other changes of its batch and is reported until it is written (position: %s)',
    async (_what, kinds) => {
      const pool = narrowPool()
      const { queue, observed } = queueOn(pool)
      const [first, ...deliveries] = await answered(4)
      if (!first) throw new Error('nothing was claimed')
      const client = await pool.connect()
      // The first delivery is written immediately; the others share a batch.
      queue.add(first, ending)
      for (const [index, delivery] of deliveries.entries()) {
        const kind = kinds[index] ?? 'close_breaker'
        const queueChange: QueueChange = kind === 'suspend' ? { kind, cause: 'gone' } : { kind }
        queue.add(delivery, ending, queueChange)
      }
      expect([...queue.suspending]).toEqual(deliveries.slice(0, 1).map(({ queueId }) => queueId))
      client.release()
      await queue.drain(10_000)
      expect(observed).toMatchObject({ lost: 0, suspended: 1 })
      expect(queue.suspending.size).toBe(0)
      expect(await lab.value('SELECT suspended_cause FROM tenant_queues')).toBe('gone')
      await pool.end()
    },
  )

  test('completion queue: after a row is claimed again before its statement, its outcome is written under the new claim', async () => {
    const pool = narrowPool()
    const { queue, observed } = queueOn(pool)
    const [delivery] = await answered(1)
    if (!delivery) throw new Error('nothing was claimed')
    const client = await pool.connect()
    queue.add(delivery, ending)
    expect(await poll(() => queue.isFailing || undefined, { deadlineMs: 10_000 })).toBe(true)
    await lab.pool.query('UPDATE deliveries_due SET leased_until = now()')
    const again = (await lab.claim({ notified: [callbackQueueOf(delivery.claim.tenantId)] })).claimed[0]
    if (!again) throw new Error('nothing was claimed')
    expect(delivery.adopt({ ...again, attempts: 1 }, 0)).toBe(false)
    expect(delivery.adopt({ ...again, cycle: 2 }, 0)).toBe(false)
    expect(delivery.adopt(again, 0)).toBe(true)
    client.release()
    await queue.drain(10_000)
    expect([await lab.value(waiting), observed.lost, queue.isFailing]).toEqual([0, 0, false])
    expect(delivery.state).toBe('done')
    await pool.end()
  })

  test('completion queue: after a row is claimed again during its statement, its outcome is written a second time', async () => {
    const { queue, observed } = queueOn(lab.pool)
    const [delivery] = await answered(1)
    if (!delivery) throw new Error('nothing was claimed')
    // The row is claimed again before the outcome of its delivery is written.
    const held = await lab.pool.connect()
    await held.query('BEGIN')
    await held.query('UPDATE deliveries_due SET claims = claims + 1')
    queue.add(delivery, ending)
    await lab.becomes(
      true,
      "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
    )
    expect(delivery.adopt({ ...delivery.claim, claims: 2 }, 0)).toBe(true)
    await held.query('COMMIT')
    held.release()
    await queue.drain(10_000)
    expect([await lab.value(waiting), observed.lost]).toEqual([0, 0])
  })
})
