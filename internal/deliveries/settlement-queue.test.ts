import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/delivery-lab.ts'
import { queueSessionSettings } from './claim.ts'
import type { ClaimedDelivery } from './delivery.ts'
import type { Ending } from './settle.ts'
import { SettlementQueue } from './settlement-queue.ts'

let lab: DeliveryLab

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  await lab.pool.query('TRUNCATE dedupe_keys, events, event_payloads, attempts, deliveries_due, lanes')
})

const ending: Ending = {
  kind: 'processed',
  attempt: { startedAtMs: 1, durationMs: 1, outcome: 'delivered', status: 204, cause: null, answer: '' },
}

function queueOn(pool: Pool) {
  const told = { lost: 0, failed: 0, opened: 0, suspended: 0 }
  const queue = new SettlementQueue({
    pool,
    leaseToken: 'lab',
    observer: {
      leasesLost: (count) => void (told.lost += count),
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

const waiting = 'SELECT count(*) FROM deliveries_due'

describe('the queue of settlements', () => {
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
    for (const delivery of await claimed(60)) queue.add({ delivery, ending })
    expect(queue.size).toBe(60)
    await queue.drain(10_000)
    expect(await lab.value(waiting)).toBe(0)
    expect(queue.size).toBe(0)
    expect(statements).toBe(2)
    expect(told).toEqual({ lost: 0, failed: 0, opened: 0, suspended: 0 })
  })

  test('tries again until Postgres takes it', async () => {
    const pool = createPool({
      url: lab.databaseUrl,
      applicationName: 'latchkey test settlements',
      connectionsMax: 1,
      queryTimeoutMs: 5_000,
      connectTimeoutMs: 100,
      sessionSettings: queueSessionSettings,
    })
    const { queue, told } = queueOn(pool)
    // Its only connection is held, so that there is none to be had in time.
    const client = await pool.connect()
    for (const delivery of await claimed(5)) queue.add({ delivery, ending })
    expect(await poll(() => told.failed >= 2 || undefined, { deadlineMs: 10_000 })).toBe(true)
    expect(await lab.value(waiting)).toBe(5)
    client.release()
    await queue.drain(10_000)
    expect(await lab.value(waiting)).toBe(0)
    expect(told.lost).toBe(0)
    await pool.end()
  })

  test('gives up what cannot be written in the time that is left, and says so', async () => {
    const pool = createPool({
      url: lab.databaseUrl,
      applicationName: 'latchkey test settlements',
      connectionsMax: 1,
      queryTimeoutMs: 5_000,
      connectTimeoutMs: 50,
      sessionSettings: queueSessionSettings,
    })
    const { queue, told } = queueOn(pool)
    const client = await pool.connect()
    for (const delivery of await claimed(3)) queue.add({ delivery, ending })
    await queue.drain(200)
    await lab.becomes(3, waiting)
    await poll(() => told.lost > 0 || undefined, { deadlineMs: 10_000 })
    expect(told.lost).toBe(3)
    client.release()
    await pool.end()
  })

  test('changes a lane once for all that ask for it, and counts what others have taken over', async () => {
    const { queue, told } = queueOn(lab.pool)
    const deliveries = await claimed(4)
    await lab.pool.query("UPDATE deliveries_due SET lease = 'other' WHERE event_id = $1", [
      deliveries[0]?.eventId,
    ])
    for (const delivery of deliveries)
      queue.add({ delivery, ending, laneChange: { kind: 'suspend', cause: 'gone' } })
    await queue.drain(10_000)
    expect(told).toEqual({ lost: 1, failed: 0, opened: 0, suspended: 1 })
    expect(await lab.value('SELECT suspended_cause FROM lanes')).toBe('gone')
    expect(await lab.value(waiting)).toBe(1)
  })
})
