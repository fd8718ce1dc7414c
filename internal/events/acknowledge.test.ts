import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createEventId, type EventId, type TenantId } from '#internal/base/index.ts'
import { createPool, type Pool, withTx } from '#internal/storage/index.ts'
import { createDeliveryLab, type DeliveryLab, idsOf } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { type AcknowledgedRange, processAcknowledged } from './acknowledge.ts'
import { beginCycles } from './cycles.ts'
import { type FeedPosition, feedStart, findFeedEnd, findFeedPosition } from './feed.ts'
import { eventReadSettings, listEvents } from './list.ts'
import { forgetWaitingPulls } from './retention.ts'
import { readQueueDepth, sweepTenantQueues } from './tenant-queue.ts'

const pulled = { isPullOnly: true } as const
let lab: DeliveryLab
let pool: Pool
let tenantId: TenantId

beforeAll(async () => {
  lab = await createDeliveryLab()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 20_000, connectTimeoutMs: 5_000 }
  pool = createPool({
    url: lab.databaseUrl,
    applicationName: 'test',
    sessionSettings: eventReadSettings,
    ...bounds,
  })
  return async () => {
    await pool.end()
    await lab.close()
  }
})
beforeEach(async () => {
  await truncateEvents(lab.pool)
  tenantId = (await lab.addTenant({ isPullOnly: true })).id
})

const all = { providers: [], types: [], receivedFrom: '' }

/** Acknowledges the feed up to a position, by default the present end. */
async function acknowledge(fields: Partial<AcknowledgedRange> = {}): Promise<FeedPosition> {
  const upTo = fields.upTo ?? (await findFeedEnd(pool))
  const range = { tenantId, filter: all, after: feedStart, hasCallback: false, ...fields, upTo }
  return withTx(pool, (tx) => processAcknowledged(tx, range, Date.now()))
}

const positionOf = async (id: EventId | undefined) => {
  const position = id && (await findFeedPosition(pool, { id, tenantId }))
  if (!position) throw new Error('the event has no position')
  return position
}

/** Returns the state of events, with the table that has their row while they are accepted. */
async function statesOf(ids: readonly EventId[]): Promise<string[]> {
  const { rows } = await lab.pool.query<{ text: string }>(
    `SELECT concat_ws(' ', e.state, CASE WHEN d.event_id IS NOT NULL THEN 'due' END, CASE WHEN p.event_id IS NOT NULL THEN 'pull' END) AS text
     FROM events e LEFT JOIN deliveries_due d ON d.event_id = e.id LEFT JOIN pulls_due p ON p.event_id = e.id
     WHERE e.id = ANY($1) ORDER BY array_position($1, e.id)`,
    [ids],
  )
  return rows.map(({ text }) => text)
}

describe('events without a delivery', () => {
  test('insertEvents: an event of a tenant without a callback waits for a pull, and has neither a delivery nor a tenant queue', async () => {
    const ids = await lab.accept(tenantId, 2, pulled)
    expect(await statesOf(ids)).toEqual(['accepted pull', 'accepted pull'])
    expect(await lab.value('SELECT count(*) FROM tenant_queues')).toBe(0)
    expect((await readQueueDepth(lab.pool)).dueCount).toBe(0)
    expect(await sweepTenantQueues(lab.pool, 0)).toBe(0)
  })

  test('insertEvents: in one batch, each event gets a delivery or waits for a pull', async () => {
    const other = await lab.addTenant()
    const [called] = await lab.accept(other.id)
    const [waiting] = await lab.accept(tenantId, 1, pulled)
    expect(await statesOf([called, waiting] as EventId[])).toEqual(['accepted due', 'accepted pull'])
  })

  test.each([
    ['of the tenant', true],
    ['of all tenants', false],
  ])(
    'listEvents: the accepted events %s include those that wait for a pull, newest first',
    async (_name, isOfTenant) => {
      const waiting = await lab.accept(tenantId, 3, pulled)
      const due = await lab.accept(tenantId, 2)
      const request = { state: 'accepted', limit: 2, ...(isOfTenant && { tenantId }) } as const
      const listed: EventId[] = []
      let after: EventId | undefined
      do {
        const page = await listEvents(pool, { ...request, ...(after && { after }) }, Date.now())
        listed.push(...page.events.map(({ id }) => id))
        after = page.next
      } while (after !== undefined)
      expect(listed).toEqual([...waiting, ...due].toSorted().toReversed())
    },
  )

  test('retention: removes the waiting pulls of expired events, but not of other events', async () => {
    const ids = await lab.accept(tenantId, 2, pulled)
    await lab.pool.query(`UPDATE pulls_due SET expires_on = '2020-01-01' WHERE event_id = $1`, [ids[0]])
    expect(await forgetWaitingPulls(lab.pool, Date.now())).toEqual({ removed: 1, hasMore: false })
    expect(await lab.value('SELECT event_id FROM pulls_due')).toBe(ids[1] as EventId)
  })
})

describe('processAcknowledged', () => {
  test('processAcknowledged: waiting events within the acknowledged range become processed, and later events still wait', async () => {
    const ids = (await lab.accept(tenantId, 3, pulled)).toSorted()
    expect(await acknowledge({ upTo: await positionOf(ids[1]) })).toEqual(await positionOf(ids[1]))
    expect(await statesOf(ids)).toEqual(['processed', 'processed', 'accepted pull'])
    expect(
      await lab.value('SELECT count(*) FROM events WHERE completed_at > now() - interval $$1 min$$'),
    ).toBe(2)
  })

  test.each<[string, Partial<AcknowledgedRange['filter']>, string]>([
    ['another provider', { providers: ['card'] }, 'accepted pull'],
    ['another type', { types: ['payment.*'] }, 'accepted pull'],
    ['a later start', { receivedFrom: createEventId(Date.now() + 60_000, 90) }, 'accepted pull'],
    ['a matching filter', { providers: ['generic'], types: ['order.*'] }, 'processed'],
  ])(
    'processAcknowledged: an event becomes processed only if the subscription returns this event: %s',
    async (_name, filter, expected) => {
      const ids = await lab.accept(tenantId, 1, pulled)
      await acknowledge({ filter: { ...all, ...filter } })
      expect(await statesOf(ids)).toEqual([expected])
    },
  )

  test('processAcknowledged: a second acknowledgement changes nothing', async () => {
    const ids = await lab.accept(tenantId, 1, pulled)
    await acknowledge()
    await lab.pool.query(`UPDATE events SET completed_at = '2026-01-01'`)
    await acknowledge()
    expect(await statesOf(ids)).toEqual(['processed'])
    expect(await lab.value(`SELECT completed_at = '2026-01-01' FROM events`)).toBe(true)
  })

  test('processAcknowledged: a call examines at most 1 000 events and returns the last examined position', async () => {
    const ids = await lab.accept(tenantId, 1_200, pulled)
    // The last position is that of the greatest id in the last transaction, which stores the last 200.
    const upTo = await positionOf(ids.slice(1_000).toSorted().at(-1))
    const reached = await acknowledge({ upTo })
    expect(await lab.value('SELECT count(*) FROM pulls_due')).toBe(200)
    expect(await acknowledge({ after: reached, upTo })).toEqual(upTo)
    expect(await lab.value('SELECT count(*) FROM pulls_due')).toBe(0)
  })

  test('processAcknowledged: verified events and events of another tenant are not changed', async () => {
    const other = await lab.addTenant({ isPullOnly: true })
    const ids = [
      ...(await lab.accept(tenantId, 1, { provider: 'wallet', state: 'verified' })),
      ...(await lab.accept(other.id, 1, pulled)),
    ]
    await acknowledge()
    expect(await statesOf(ids)).toEqual(['verified', 'accepted pull'])
  })

  test('processAcknowledged: with a callback, changes the events that wait for a pull, but no delivery', async () => {
    const waiting = await lab.accept(tenantId, 1, pulled)
    const due = await lab.accept(tenantId, 1)
    await acknowledge({ hasCallback: true })
    expect(await statesOf([...waiting, ...due])).toEqual(['processed', 'accepted due'])
  })

  test('processAcknowledged: without a callback, removes queued deliveries and makes their events processed', async () => {
    const ids = await lab.accept(tenantId, 2)
    await acknowledge()
    expect(await statesOf(ids)).toEqual(['processed', 'processed'])
    expect(await lab.value('SELECT count(*) FROM deliveries_due')).toBe(0)
  })

  test('processAcknowledged: a rolled back acknowledgement leaves every event waiting', async () => {
    const ids = await lab.accept(tenantId, 2, pulled)
    const upTo = await findFeedEnd(pool)
    const crash = new Error('crash')
    const crashing = withTx(pool, async (tx) => {
      await processAcknowledged(
        tx,
        { tenantId, filter: all, after: feedStart, upTo, hasCallback: false },
        Date.now(),
      )
      throw crash
    })
    await expect(crashing).rejects.toBe(crash)
    expect(await statesOf(ids)).toEqual(['accepted pull', 'accepted pull'])
  })

  test('processAcknowledged: concurrent acknowledgements and replays process each event once, without a deadlock', async () => {
    const ids = (await lab.accept(tenantId, 400, pulled)).toSorted()
    await lab.setCallback(tenantId, (await lab.addTenant()).callback)
    const replay = (some: readonly EventId[]) =>
      withTx(pool, (tx) => beginCycles(tx, { ids: some, tenantId }, Date.now()))
    const [, , replayed] = await Promise.all([
      acknowledge({ hasCallback: true }),
      acknowledge({ hasCallback: true }),
      replay(ids.toReversed()),
    ])
    const states = Map.groupBy(await statesOf(ids), (state) => state)
    const queued = replayed.filter(({ outcome }) => outcome === 'queued').length
    expect([states.get('accepted due')?.length ?? 0, states.get('processed')?.length ?? 0]).toEqual([
      queued,
      400 - queued,
    ])
  })
})

describe('a callback that is removed or added', () => {
  test('claim: deliveries of a tenant without a callback are not claimed, and continue when the tenant has a callback again', async () => {
    const tenant = await lab.addTenant()
    const [id] = await lab.accept(tenant.id)
    await lab.setCallback(tenant.id, undefined)
    expect((await lab.claim()).claimed).toEqual([])
    expect(await sweepTenantQueues(lab.pool, 0)).toBe(0)
    await lab.setCallback(tenant.id, tenant.callback)
    await lab.pool.query('UPDATE tenant_queues SET next_due_at = now()')
    expect(idsOf((await lab.claim()).claimed)).toEqual([id as EventId])
  })

  test('beginCycles: nothing is queued for a tenant without a callback, whatever the state of its events', async () => {
    const ids = await lab.accept(tenantId, 3, pulled)
    await acknowledge({ upTo: await positionOf(ids.toSorted()[0]) })
    const results = await withTx(lab.pool, (tx) => beginCycles(tx, { ids }, Date.now()))
    expect(results.map(({ outcome }) => outcome)).toEqual(['no_callback', 'no_callback', 'no_callback'])
    expect(await lab.value('SELECT count(*) FROM deliveries_due')).toBe(0)
    expect(await lab.value('SELECT count(*) FROM pulls_due')).toBe(2)
  })

  test('beginCycles: after a callback was added, an event that waits for a pull is delivered instead', async () => {
    const ids = await lab.accept(tenantId, 1, pulled)
    await lab.setCallback(tenantId, (await lab.addTenant()).callback)
    const replay = () => withTx(lab.pool, (tx) => beginCycles(tx, { ids }, Date.now()))
    expect((await replay()).map(({ outcome, cycle }) => [outcome, cycle])).toEqual([['queued', 2]])
    expect(await statesOf(ids)).toEqual(['accepted due'])
    expect((await replay()).map(({ outcome }) => outcome)).toEqual(['already_queued'])
    expect(idsOf((await lab.claim()).claimed)).toEqual(ids)
  })
})
