import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { createEventId, type EventId, type TenantId } from '#internal/base/index.ts'
import { replayEvent } from '#internal/replays/replay-event.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { startReceiver } from '#test/support/events/callback-receiver.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { type EventListRequest, listEvents } from './list.ts'
import { callbackQueueOf, fromProvider } from './model.ts'
import { listAttemptPlaces, readAttemptsAt, readEvent, readPayload, readProgress } from './view.ts'

const dayMs = 86_400_000
let lab: DeliveryLab
let tenantId: TenantId
beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  await truncateEvents(lab.pool)
  tenantId = (await lab.addTenant()).id
})

const list = (request: Partial<EventListRequest> = {}) =>
  listEvents(lab.pool, { tenantId, limit: 10, ...request }, Date.now())
const idsOf = (page: Awaited<ReturnType<typeof list>>) => page.events.map(({ id }) => id)

describe('listEvents', () => {
  test('listEvents: pages are newest first and omit events received after the first page', async () => {
    const ids = (await lab.accept(tenantId, 25)).toSorted().toReversed()
    const first = await list()
    await lab.accept(tenantId, 5, {})
    const pages = [first]
    for (let page = first; page.next; pages.push(page)) page = await list({ after: page.next })
    expect(pages.map((page) => page.events.length)).toEqual([10, 10, 5])
    expect(pages.flatMap(idsOf)).toEqual(ids)
  })

  test('listEvents: returns an event without headers and payload', async () => {
    const [id] = await lab.accept(tenantId, 1, { sourceEventId: 'src_1' })
    const { events } = await list()
    expect(events).toEqual([
      {
        id: id ?? '',
        tenantId,
        provider: 'generic',
        sourceEventId: 'src_1',
        providerRawType: 'order.created',
        type: 'order.created',
        state: 'accepted',
        cycle: 1,
        completedAtMs: null,
        occurredAtMs: expect.any(Number),
        receivedAtMs: expect.any(Number),
        origin: { kind: 'provider' },
        payloadBytes: expect.any(Number),
        payloadExpiresOn: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
      } as never,
    ])
  })

  test('listEvents: finds an event of a tenant by its id and by the provider’s id', async () => {
    const sourceEventId = 'evt "ü" 1'
    const dedupeKey = createHash('sha256')
      .update(`${tenantId}\ngeneric\n${sourceEventId}`)
      .digest('hex')
      .slice(0, 32)
    const [id] = await lab.accept(tenantId, 1, { sourceEventId, dedupeKey })
    await lab.accept(tenantId, 3)
    const stranger = (await lab.addTenant()).id
    if (id === undefined) throw new Error('no event')
    expect(idsOf(await list({ id }))).toEqual([id])
    expect(idsOf(await list({ sourceEventId }))).toEqual([id])
    expect(idsOf(await list({ sourceEventId, id }))).toEqual([id])
    expect(idsOf(await list({ sourceEventId, id: createEventId(Date.now(), 90) }))).toEqual([])
    expect(idsOf(await list({ sourceEventId: 'evt 2' }))).toEqual([])
    expect(idsOf(await list({ id, tenantId: stranger }))).toEqual([])
    expect(idsOf(await list({ sourceEventId, tenantId: stranger }))).toEqual([])
  })

  test('listEvents: a provider’s id in several tenants finds their events, newest first and page by page', async () => {
    const sourceEventId = 'order-1001'
    const owners = [tenantId]
    const builtIn = (id: TenantId) => ({ id, declaredProviders: [] })
    for (let nth = 1; nth < 5; nth += 1) owners.push((await lab.addTenant()).id)
    const ids: EventId[] = []
    for (const owner of owners) {
      const text = `${owner}\ngeneric\n${sourceEventId}`
      const dedupeKey = createHash('sha256').update(text).digest('hex').slice(0, 32)
      ids.push(...(await lab.accept(owner, 1, { sourceEventId, dedupeKey })))
    }
    const among = { sourceEventId, sourceTenants: owners.slice(0, 4).map(builtIn), limit: 3 }
    const first = await listEvents(lab.pool, among, Date.now())
    const rest = await listEvents(
      lab.pool,
      { ...among, ...(first.next && { after: first.next }) },
      Date.now(),
    )
    expect([...idsOf(first), ...idsOf(rest)]).toEqual(ids.slice(0, 4).toSorted().toReversed())
    expect([idsOf(first).length, rest.next]).toEqual([3, undefined])
    expect(idsOf(await listEvents(lab.pool, { ...among, provider: 'card' }, Date.now()))).toEqual([])
  })

  test('listEvents: a provider’s id finds events of the declared providers of their tenant only', async () => {
    const sourceEventId = 'slack-1'
    const dedupeKey = createHash('sha256')
      .update(`${tenantId}\nslack\n${sourceEventId}`)
      .digest('hex')
      .slice(0, 32)
    const ids = await lab.accept(tenantId, 1, { sourceEventId, dedupeKey, provider: 'slack' as never })
    const other = (await lab.addTenant()).id
    const found = (declaredProviders: readonly string[], owner = tenantId) =>
      listEvents(
        lab.pool,
        {
          sourceEventId,
          limit: 10,
          sourceTenants: [
            { id: owner, declaredProviders },
            { id: other, declaredProviders: [] },
          ],
        },
        Date.now(),
      )
    expect(idsOf(await found(['auth0', 'slack']))).toEqual(ids)
    expect(idsOf(await found([]))).toEqual([])
    expect(idsOf(await found(['slack'], (await lab.addTenant()).id))).toEqual([])
  })

  test('listEvents: pages of a tenant with 1 500 waiting events return each match once', async () => {
    const receivedAtMs = Date.now() - 60_000
    const events = Array.from({ length: 1_500 }, (_, nth) => ({
      ...receivedEvent({ tenantId, type: nth % 300 === 0 ? 'order.rare' : 'order.created' }),
      id: createEventId(receivedAtMs + nth, 90),
    }))
    for (let start = 0; start < events.length; start += 100)
      await acceptEvents(lab.pool, events.slice(start, start + 100))
    const wanted = events.filter(({ type }) => type === 'order.rare').map(({ id }) => id)
    const found: EventId[] = []
    let page = await list({ tenantId, state: 'accepted', type: 'order.rare', limit: 10 })
    found.push(...idsOf(page))
    for (let pages = 1; page.next !== undefined && pages < 5; pages += 1) {
      page = await list({ tenantId, state: 'accepted', type: 'order.rare', limit: 10, after: page.next })
      found.push(...idsOf(page))
    }
    expect(found).toEqual(wanted.toReversed())
  }, 30_000)

  test.each([0, 101, 1.5, Number.NaN])('listEvents: a limit of %d throws a RangeError', async (limit) => {
    await expect(list({ limit })).rejects.toThrow(RangeError)
  })

  test('listEvents: a provider’s id without tenants throws a RangeError', async () => {
    await expect(listEvents(lab.pool, { sourceEventId: 'x', limit: 1 }, Date.now())).rejects.toThrow(
      'filter sourceEventId requires tenantId or sourceTenants',
    )
  })
})

describe('readEvent', () => {
  const read = (id: EventId, owner?: TenantId, nowMs = Date.now()) =>
    readEvent(lab.pool, { id, ...(owner && { tenantId: owner }) }, nowMs)

  test('readEvent: returns an event with its queue entry, the attempts of all cycles and the presence of its payload', async () => {
    const receiver = startReceiver()
    receiver.answer(() => new Response('no', { status: 500 }))
    const tenant = await lab.addTenant({ url: receiver.url, schedule: ['0s'] })
    const [id] = await lab.accept(tenant.id)
    if (id === undefined) throw new Error('no event')
    expect(await read(id)).toMatchObject({
      event: { id, state: 'accepted' },
      headers: '{"content-type":"application/json","latchkey-hops":"1"}',
      hasPayload: true,
      attempts: [],
      hasEarlierAttempts: false,
      delivery: { isClaimed: false, attemptCount: 0, dueAtMs: expect.any(Number) },
    })
    const { forwarder, stop } = lab.forwarder()
    await lab.becomes('delivery_failed', 'SELECT state FROM events WHERE id = $1', [id])
    await replayEvent(lab.pool, { eventId: id, by: 'ann' }, Date.now())
    forwarder.notify([callbackQueueOf(tenant.id)])
    await lab.becomes(2, 'SELECT count(*) FROM attempts')
    await lab.becomes('delivery_failed', 'SELECT state FROM events WHERE id = $1', [id])
    await stop()
    await receiver.stop()
    const found = await read(id, tenant.id)
    expect(found?.delivery).toBeUndefined()
    expect(found?.event).toMatchObject({
      state: 'delivery_failed',
      cycle: 2,
      completedAtMs: expect.any(Number),
    })
    const attempt = { attempt: 1, outcome: 'refused', status: 500, cause: 'attempts_exhausted', answer: 'no' }
    expect(found?.attempts).toMatchObject([
      { ...attempt, cycle: 1 },
      { ...attempt, cycle: 2 },
    ])
    // The list finds the event by the state that the completion wrote.
    const failedOnes = await list({ tenantId: tenant.id, state: 'delivery_failed' })
    expect(idsOf(failedOnes)).toEqual([id])
  })

  test('readEvent: returns the latest 200 attempts of an event with more than 200 attempts', async () => {
    const [id] = await lab.accept(tenantId)
    if (id === undefined) throw new Error('no event')
    await lab.pool.query(
      `INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome)
       SELECT id, 'callback', expires_on, n / 10, n % 10, now(), 1, 'failed' FROM events, generate_series(10, 260) n`,
    )
    const found = await read(id)
    expect(found?.attempts).toHaveLength(200)
    expect(found?.attempts.at(-1)).toMatchObject({ cycle: 26, attempt: 0 })
    expect(found?.attempts[0]).toMatchObject({ cycle: 6, attempt: 1 })
    expect(found?.hasEarlierAttempts).toBe(true)
  })

  test('attempts: the readers of an event omit attempts of a destination that is not its own', async () => {
    const [id] = await lab.accept(tenantId)
    if (id === undefined) throw new Error('no event')
    await lab.pool.query(
      `INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome, status)
       SELECT id, destination, expires_on, 1, 1, now(), 1, 'failed', status
       FROM events CROSS JOIN (VALUES ('another', 501), ('callback', 502), ('notifications', 503)) d(destination, status)`,
    )
    const [own, nowMs] = [{ cycle: 1, attempt: 1 }, Date.now()]
    const found = await readAttemptsAt(lab.pool, { id, tenantId, attempts: [own] }, nowMs)
    const expected = [{ ...own, status: 502 }]
    expect([(await read(id))?.attempts, found?.attempts]).toMatchObject([expected, expected])
    expect(await listAttemptPlaces(lab.pool, { id, origin: fromProvider })).toEqual([own])
    expect((await readProgress(lab.pool, { id }, nowMs))?.lastAttempt).toMatchObject({ status: 502 })
  })

  test('readAttemptsAt: returns only the requested attempts with their event, also attempts before the latest 200, and nothing for another tenant', async () => {
    const [id] = await lab.accept(tenantId)
    if (id === undefined) throw new Error('no event')
    await lab.pool.query(
      `INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome)
       SELECT id, 'callback', expires_on, n / 10, n % 10, now(), n, 'failed' FROM events, generate_series(10, 260) n`,
    )
    const some = (attempts: readonly number[], owner = tenantId) => {
      const named = attempts.map((attempt) => ({ cycle: 1, attempt }))
      return readAttemptsAt(lab.pool, { id, tenantId: owner, attempts: named }, Date.now())
    }
    const third = { cycle: 1, attempt: 3, durationMs: 13 }
    expect(await some([3])).toMatchObject({ event: { id }, attempts: [third] })
    expect((await some([3, 4, 10]))?.attempts).toMatchObject([{ cycle: 1, attempt: 4 }, third])
    expect(await some([3], (await lab.addTenant()).id)).toBeUndefined()
    const places = await listAttemptPlaces(lab.pool, { id, origin: fromProvider })
    expect([places.length, places[0], places.at(-1)]).toEqual([
      200,
      { cycle: 6, attempt: 1 },
      { cycle: 26, attempt: 0 },
    ])
  })

  test('readEvent: returns undefined for an expired event and for another tenant’s event', async () => {
    const [id] = await lab.accept(tenantId)
    if (id === undefined) throw new Error('no event')
    const stranger = (await lab.addTenant()).id
    const place = { id }
    expect(await read(id, stranger)).toBeUndefined()
    expect(await read(createEventId(Date.now(), 90))).toBeUndefined()
    expect((await read(id, tenantId, Date.now() + 31 * dayMs))?.hasPayload).toBe(false)
    expect(await read(id, tenantId, Date.now() + 91 * dayMs)).toBeUndefined()
    expect(await readPayload(lab.pool, place, Date.now())).toMatchObject({
      kind: 'payload',
      payload: expect.stringContaining('820982911946154508'),
      event: { tenantId },
    })
    expect(await readPayload(lab.pool, { id, tenantId: stranger }, Date.now())).toEqual({ kind: 'unknown' })
    expect(await readPayload(lab.pool, place, Date.now() + 31 * dayMs)).toEqual({ kind: 'expired' })
    await lab.pool.query('DELETE FROM event_payloads')
    expect(await readPayload(lab.pool, place, Date.now())).toEqual({ kind: 'expired' })
  })
})
