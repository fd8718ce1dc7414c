import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { type EventId, expiryDayOf } from '#internal/base/index.ts'
import { replayEvent } from '#internal/replays/replay-event.ts'
import type { Pool } from '#internal/storage/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { complete, type Ending } from './complete.ts'
import { requeueFailed } from './cycles.ts'
import { scanEvents } from './list.ts'
import { rangeOf } from './list-source.ts'
import { forgetFailedDeliveries } from './retention.ts'

let lab: DeliveryLab

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  await truncateEvents(lab.pool, 'audit')
})

const columns = `id, tenant_id, expires_on::text, provider, source_event_id, raw_type, type, occurred_at, payload_bytes,
  payload_expires_on::text, cycle, completed_at`
const listed = async () => (await lab.pool.query(`SELECT ${columns} FROM failed_deliveries ORDER BY id`)).rows
const failed = async () =>
  (await lab.pool.query(`SELECT ${columns} FROM events WHERE state = 'delivery_failed' ORDER BY id`)).rows

async function accepted(count = 1): Promise<EventId[]> {
  const tenant = await lab.addTenant()
  return await lab.accept(tenant.id, count)
}

/** Completes the delivery cycles of all due deliveries. */
async function end(kind: 'processed' | 'failed' | 'expired'): Promise<void> {
  const { claimed } = await lab.claim()
  const attempt = { startedAtMs: Date.now(), durationMs: 1, outcome: 'refused', status: 500 } as const
  const ending: Ending =
    kind === 'expired' ? { kind } : { kind, attempt: { ...attempt, cause: null, answer: null } }
  const completed = await complete(
    lab.pool,
    'lab',
    claimed.map((delivery) => ({ delivery, ending })),
  )
  expect(completed.size).toBeGreaterThan(0)
}

const replay = async (id: EventId | undefined) =>
  id &&
  expect(await replayEvent(lab.pool, { eventId: id, by: 'ann' }, Date.now())).toMatchObject({
    kind: 'queued',
  })

describe('failed_deliveries', () => {
  test('failed events: the statement that completes a failed event adds it to the list', async () => {
    await accepted(3)
    await end('failed')
    expect(await listed()).toEqual(await failed())
    expect(await listed()).toHaveLength(3)
  })

  test.each(['processed', 'expired'] as const)(
    'failed events: an event that was %s is not listed',
    async (kind) => {
      await accepted(2)
      await end(kind)
      expect(await listed()).toEqual([])
    },
  )

  test.each([
    ['replayed', replay],
    [
      'sent again by its provider',
      async (id?: EventId) => id && (await requeueFailed(lab.pool, [{ eventId: id }], Date.now())),
    ],
  ] as const)(
    'failed events: an event that is %s is not listed until it fails again',
    async (_how, again) => {
      const [id, other] = await accepted(2)
      await end('failed')
      await again(id)
      expect(await listed()).toMatchObject([{ id: other }])
      await end('failed')
      expect(await listed()).toEqual(await failed())
      expect(new Map((await listed()).map((each) => [each.id, each.cycle]))).toEqual(
        new Map([
          [id, 2],
          [other, 1],
        ]),
      )
    },
  )

  test('requeueFailed: skips an event whose retention day has passed, and does not restore payloads', async () => {
    const [id] = await accepted(1)
    if (id === undefined) throw new Error('no event')
    await end('failed')
    const afterItsDay = Date.parse(expiryDayOf(id)) + 1
    const candidate = { eventId: id, payload: '{}', payloadExpiresOn: '2031-01-01' }
    expect(await requeueFailed(lab.pool, [candidate], afterItsDay)).toEqual([])
    expect(await listed()).toMatchObject([{ id }])
  })

  test('failed events: an entry that the replay did not see is removed when the replay is delivered', async () => {
    const [id] = await accepted()
    await end('failed')
    await lab.pool.query('CREATE TABLE left_behind AS SELECT * FROM failed_deliveries')
    await replay(id)
    await lab.pool.query('INSERT INTO failed_deliveries SELECT * FROM left_behind')
    await end('processed')
    expect(await listed()).toEqual([])
  })

  test('failed events: a new delivery cycle keeps the entry of another destination', async () => {
    const [id] = await accepted()
    await end('failed')
    await lab.pool.query(
      `INSERT INTO failed_deliveries SELECT (jsonb_populate_record(f, '{"destination": "another"}')).* FROM failed_deliveries f`,
    )
    await replay(id)
    const { rows } = await lab.pool.query('SELECT destination FROM failed_deliveries')
    expect(rows).toEqual([{ destination: 'another' }])
  })
})

test('failed events: an event whose texts all have their maximum length can be listed', async () => {
  const tenant = await lab.addTenant()
  const long = '€'.repeat(255)
  const type = `${'a'.repeat(200)}.${'b'.repeat(54)}`
  await lab.accept(tenant.id, 1, { sourceEventId: long, rawType: long, type })
  await end('failed')
  expect(await listed()).toMatchObject([{ source_event_id: long, raw_type: long, type }])
})

test('scanEvents: searchedTo is the last examined entry even if entries are removed during the scan', async () => {
  const ids = (await accepted(6)).toSorted()
  await end('failed')
  const forgetful = {
    async query(...of: unknown[]) {
      const result = await (lab.pool.query as (...of: unknown[]) => Promise<unknown>)(...of)
      await lab.pool.query('DELETE FROM failed_deliveries')
      return result
    },
  } as unknown as Pool
  const filter = { state: 'delivery_failed', type: 'order.none' } as const
  const scan = {
    filter,
    range: rangeOf(filter, Date.now()),
    order: 'oldest',
    rowsMax: 2,
    examinedMax: 4,
  } as const
  expect(await scanEvents(forgetful, scan)).toEqual({ events: [], searchedTo: ids[3] })
})

test('failed events: an entry is removed on the day its event expires and not earlier', async () => {
  const [id] = await accepted(2)
  if (id === undefined) throw new Error('no event')
  await end('failed')
  const overMs = Date.parse(`${expiryDayOf(id)}T01:00:00Z`)
  expect(await forgetFailedDeliveries(lab.pool, overMs - 1)).toEqual({ removed: 0, hasMore: false })
  expect(await forgetFailedDeliveries(lab.pool, overMs)).toEqual({ removed: 2, hasMore: false })
})
