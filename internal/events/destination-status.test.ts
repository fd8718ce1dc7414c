import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import {
  countHeldDeliveries,
  listCallbackStatuses,
  readCallbacksDigest,
  readDestinationStatus,
} from './destination-status.ts'
import { closeBreaker, openBreaker, resumeQueues, suspendQueue } from './tenant-queue.ts'

let lab: DeliveryLab
let tenantId: TenantId
let otherId: TenantId
const running = { all: false, tenants: new Set<TenantId>() }

beforeAll(async () => {
  lab = await createDeliveryLab()
}, 30_000)
afterAll(() => lab.close())
beforeEach(async () => {
  await truncateEvents(lab.pool)
  await lab.pool.query('DELETE FROM destination_alerts')
  tenantId = (await lab.addTenant()).id
  otherId = (await lab.addTenant()).id
  await lab.accept(tenantId, 3)
  await lab.accept(otherId, 2)
})

const queue = () => ({ tenantId, destination: 'callback' })
const trouble = async () => (await readDestinationStatus(lab.pool, queue())).trouble
const suspend = () => suspendQueue(lab.pool, queue(), { cause: 'gone', nowMs: Date.now() })
const alert = (values: string) =>
  lab.pool.query(
    `INSERT INTO destination_alerts (tenant_id, destination, since, failures, cause, last_failure_at, last_success_at, open, check_at)
     VALUES ($1, 'callback', now() - interval '1 h', 9, ${values}, now())`,
    [tenantId],
  )

describe('callback halts', () => {
  test.each([
    ['an open breaker', 30_000, undefined, { kind: 'failing', breaker: 'open' }],
    ['a half-open breaker', -1, undefined, { kind: 'failing', breaker: 'half_open' }],
    [
      'a failure a minute ago, and a success since',
      undefined,
      `'http_500', now() - interval '1 min', now(), NULL`,
      { kind: 'failing', breaker: 'closed' },
    ],
    [
      'no failure for five minutes, but no recovery either',
      undefined,
      `'http_500', now() - interval '2 h', '-infinity', 'failing'`,
      { kind: 'failing', breaker: 'closed' },
    ],
    [
      'no failure for five minutes after short trouble',
      undefined,
      `'http_500', now() - interval '6 min', now(), NULL`,
      undefined,
    ],
    [
      'a suspension a minute ago that has ended, and a success since',
      undefined,
      `'gone', now() - interval '1 min', now(), 'suspended'`,
      undefined,
    ],
  ])('destination status: reports the expected trouble for %s', async (_case, openMs, values, expected) => {
    if (openMs !== undefined) await openBreaker(lab.pool, queue(), openMs)
    if (values !== undefined) await alert(values)
    if (expected === undefined) expect(await trouble()).toBeUndefined()
    else expect(await trouble()).toMatchObject(expected)
    const listed = await listCallbackStatuses(lab.pool, { tenantIds: undefined, rowsMax: 10 })
    expect(listed.map((each) => each.tenantId)).toEqual(expected === undefined ? [] : [tenantId])
    expect(await listCallbackStatuses(lab.pool, { tenantIds: [otherId], rowsMax: 10 })).toEqual([])
  })

  test('destination status: a suspension is not reported as trouble, but the time between its end and the next successful delivery is', async () => {
    await suspend()
    const status = await readDestinationStatus(lab.pool, queue())
    expect(status).toMatchObject({ suspension: { cause: 'gone' }, trouble: undefined })
    await resumeQueues(lab.pool, tenantId)
    expect(await trouble()).toMatchObject({ kind: 'resumed', breaker: 'half_open' })
    await closeBreaker(lab.pool, queue())
    expect(await trouble()).toBeUndefined()
  })

  test('readCallbacksDigest: the digest differs after a suspension, a resumption, the first success after it, and trouble', async () => {
    const digests = [await readCallbacksDigest(lab.pool)]
    const note = async (change: Promise<unknown>) => {
      await change
      digests.push(await readCallbacksDigest(lab.pool))
    }
    await note(suspend())
    await note(resumeQueues(lab.pool, tenantId))
    await note(closeBreaker(lab.pool, queue()))
    await note(lab.pool.query(`UPDATE destination_alerts SET cause = 'http_500', last_failure_at = now()`))
    const changes = digests.map((each, nth) => nth > 0 && each !== digests[nth - 1])
    expect(changes).toEqual([false, true, true, true, true])
  })
})

describe('countHeldDeliveries', () => {
  test.each<[string, () => Promise<unknown>, { all: boolean; tenants: () => TenantId[] }, number[]]>([
    ['nothing', async () => undefined, { all: false, tenants: () => [] }, [0, 0]],
    ['a suspended callback', suspend, { all: false, tenants: () => [] }, [3, 3]],
    [
      'an open breaker',
      () => openBreaker(lab.pool, queue(), 30_000),
      { all: false, tenants: () => [] },
      [3, 3],
    ],
    ['a pause of one tenant', async () => undefined, { all: false, tenants: () => [tenantId] }, [3, 3]],
    ['a pause of all tenants', async () => undefined, { all: true, tenants: () => [] }, [5, 3]],
    [
      'a suspended tenant',
      () => lab.pool.query('UPDATE tenants SET suspended = true WHERE id = $1', [tenantId]),
      { all: false, tenants: () => [] },
      [3, 3],
    ],
  ])(
    'countHeldDeliveries: counts the deliveries of all tenants and of one tenant for %s',
    async (_case, status, { all, tenants }, expected) => {
      await status()
      const paused = { all, tenants: new Set(tenants()) }
      const counted = [
        await countHeldDeliveries(lab.pool, undefined, paused),
        await countHeldDeliveries(lab.pool, [tenantId], paused),
      ]
      expect(counted).toEqual(expected)
    },
  )

  test('countHeldDeliveries: excludes deliveries that are not due and deliveries under a lease', async () => {
    await suspend()
    await lab.pool.query(`UPDATE deliveries_due SET due_at = CASE n WHEN 1 THEN now() + interval '1 h' ELSE due_at END,
      leased_until = CASE n WHEN 2 THEN now() + interval '1 min' ELSE leased_until END
      FROM (SELECT event_id, row_number() OVER (PARTITION BY tenant_id) AS n FROM deliveries_due) q
      WHERE q.event_id = deliveries_due.event_id`)
    expect(await countHeldDeliveries(lab.pool, [tenantId], running)).toBe(1)
  })
})
