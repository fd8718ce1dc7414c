import { beforeAll, describe, expect, test } from 'bun:test'
import { createEventId, dayAfter, type EventId, isOfType, type TenantId } from '#internal/base/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { listFailedEvents } from '#test/support/events/failed-events.ts'
import { type StatusFilter, withDeliveryFacts } from './last-attempt.ts'
import { type EventScan, scanBeyond, scanEvents } from './list.ts'
import { type EventFilter, type EventState, eventStates, rangeOf } from './list-source.ts'
import { type EventOrigin, type OriginKind, originOf } from './model.ts'

const dayMs = 86_400_000
const nowMs = Date.now()
const providers = ['card', 'generic', 'wallet'] as const
const types = ['order.created', 'order.paid', 'chargeback.lost'] as const
const origins = [originOf('service', 'user:ada'), originOf('simulation', 'sim_1')] as const

/** Expected event for the reference implementation. */
interface Known {
  readonly id: EventId
  readonly tenantId: TenantId
  readonly provider: (typeof providers)[number]
  readonly type: string
  readonly state: EventState
  readonly origin: EventOrigin
  readonly receivedAtMs: number
  /** Undefined without attempts. */
  readonly last: LastAttempt | undefined
}

interface LastAttempt {
  readonly status: number | null
  readonly durationMs: number
}

let lab: DeliveryLab
let tenants: TenantId[]
const known: Known[] = []

beforeAll(async () => {
  lab = await createDeliveryLab()
  tenants = (await Promise.all([lab.addTenant(), lab.addTenant()])).map(({ id }) => id)
  for (let nth = 0; nth < 400; nth += 1) known.push(await stored(nth))
  await completeAll()
  return () => lab.close()
})

/** Stores an event whose receipt, retention, tenant, provider, type and state depend on its number. */
async function stored(nth: number): Promise<Known> {
  const receivedAtMs = nowMs - (nth % 4) * 9 * dayMs - nth * 1_000
  const eventDays = [90, 40, 30][nth % 3] ?? 90
  const tenantId = tenants[nth % 7 === 0 ? 1 : 0] ?? tenants[0]
  const provider = providers[nth % 5 === 0 ? 2 : nth % 2] ?? 'card'
  const type = types[nth % 11 === 0 ? 2 : nth % 2] ?? 'order.paid'
  if (tenantId === undefined) throw new Error('no tenant')
  const expiresOn = dayAfter(receivedAtMs, eventDays)
  const id = createEventId(receivedAtMs, eventDays)
  const state = provider === 'wallet' ? 'verified' : (eventStates[nth % 3] ?? 'accepted')
  const payloadExpiresOn = dayAfter(receivedAtMs, 30)
  const origin = origins[nth % 13] ?? originOf('provider', null)
  const fields = { id, provider, type, rawType: type, receivedAtMs, expiresOn, payloadExpiresOn, origin }
  await lab.accept(tenantId, 1, { ...fields, state: state === 'verified' ? 'verified' : 'accepted' })
  return { id, tenantId, provider, type, state, origin, receivedAtMs, last: lastAttemptOf(state, nth) }
}

/** Returns the last attempt of an event by its state and number. Every third accepted event has had an attempt. */
function lastAttemptOf(state: EventState, nth: number): LastAttempt | undefined {
  const durationMs = nth % 10 === 0 ? 800 : 20
  if (state === 'processed') return { status: nth % 4 === 0 ? 204 : 200, durationMs }
  if (state === 'verified' || (state === 'accepted' && nth % 9 !== 0)) return undefined
  return { status: [500, 503, 404, null][nth % 4] ?? null, durationMs }
}

/** Sets the states as deliveries do. Some events failed twice, and some failed before they were delivered. */
async function completeAll(): Promise<void> {
  const idsOf = (state: EventState) => known.filter((one) => one.state === state).map(({ id }) => id)
  const completed = [...idsOf('processed'), ...idsOf('delivery_failed')]
  await lab.pool.query('DELETE FROM deliveries_due WHERE event_id = ANY($1)', [completed])
  for (const state of ['processed', 'delivery_failed'] as const)
    await lab.pool.query('UPDATE events SET state = $2, completed_at = now() WHERE id = ANY($1)', [
      idsOf(state),
      state,
    ])
  const failedOnce = [...idsOf('delivery_failed'), ...idsOf('processed').slice(0, 20)]
  await lab.pool.query('UPDATE events SET cycle = 2 WHERE id = ANY($1)', [failedOnce.slice(30)])
  await lab.pool.query(
    `INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome, status)
     SELECT e.id, 'callback', e.expires_on, r, 1, now(), 5000, 'refused', 599 FROM events e, generate_series(1, e.cycle) r
     WHERE e.id = ANY($1)`,
    [failedOnce],
  )
  await lab.pool.query(
    `INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome, status)
     SELECT e.id, 'callback', e.expires_on, e.cycle, 2, now(), g.duration, 'refused', g.status
     FROM unnest($1::text[], $2::integer[], $3::smallint[]) AS g(id, duration, status) JOIN events e ON e.id = g.id`,
    [
      known.flatMap(({ id, last }) => (last ? [id] : [])),
      known.flatMap(({ last }) => (last ? [last.durationMs] : [])),
      known.flatMap(({ last }) => (last ? [last.status] : [])),
    ],
  )
  await listFailedEvents(lab.pool)
}

/** Reference implementation of a filter without Postgres, oldest first. */
function expected(filter: EventFilter): EventId[] {
  return known
    .filter(
      (one) =>
        (filter.tenantId === undefined || one.tenantId === filter.tenantId) &&
        (filter.provider === undefined || one.provider === filter.provider) &&
        (filter.type === undefined || isOfType(one.type, filter.type)) &&
        hasLast(one, filter) &&
        (filter.state === undefined || one.state === filter.state) &&
        (filter.origin === undefined || one.origin.kind === filter.origin) &&
        (filter.ids === undefined || filter.ids.includes(one.id)) &&
        one.receivedAtMs >= (filter.fromMs ?? 0) &&
        one.receivedAtMs < (filter.toMs ?? Number.POSITIVE_INFINITY),
    )
    .map(({ id }) => id)
    .toSorted()
}

function hasLast({ last, state: own }: Known, { state, status, slowerThanMs }: EventFilter): boolean {
  if (slowerThanMs !== undefined && !(last && last.durationMs > slowerThanMs)) return false
  if (status === undefined) return true
  if (last === undefined || (status[0] !== '2' && state === undefined && own === 'processed')) return false
  const text = last.status === null ? 'none' : String(last.status)
  return text === status || (status.endsWith('xx') && text[0] === status[0] && text !== 'none')
}

/** Every combination of filters. */
function filters(): EventFilter[] {
  const filteredOrigins: (OriginKind | undefined)[] = [undefined, 'provider', 'service']
  const times = [{}, { fromMs: nowMs - 20 * dayMs, toMs: nowMs - 8 * dayMs }]
  return [undefined, tenants[1]].flatMap((tenantId) =>
    [undefined, ...providers].flatMap((provider) =>
      [undefined, types[2]].flatMap((type) =>
        [undefined, ...eventStates].flatMap((state) =>
          filteredOrigins.flatMap((origin) =>
            times.map((time) => ({
              ...time,
              ...(tenantId && { tenantId }),
              ...(provider && { provider }),
              ...(type && { type }),
              ...(state && { state }),
              ...(origin && { origin }),
            })),
          ),
        ),
      ),
    ),
  )
}

/** Scans to the end and returns the events and the number of steps. */
async function walked(scan: EventScan): Promise<{ ids: EventId[]; origins: EventOrigin[]; steps: number }> {
  const ids: EventId[] = []
  const origins: EventOrigin[] = []
  let next: EventScan | undefined = scan
  let steps = 0
  while (next && steps < 1_000) {
    const { events, searchedTo } = await scanEvents(lab.pool, next)
    expect(events.length).toBeLessThanOrEqual(scan.rowsMax)
    ids.push(...events.map(({ id }) => id))
    origins.push(...events.map(({ origin }) => origin))
    steps += 1
    next = searchedTo === undefined ? undefined : scanBeyond(next, searchedTo)
  }
  return { ids, origins, steps }
}

/** Filters by the last attempt and by families of types, in every state. */
function attemptFilters(): EventFilter[] {
  const statuses = [undefined, '5xx', '404', 'none', '2xx', '204'] as (StatusFilter | undefined)[]
  const rests: EventFilter[] = [{}, { type: 'order.*' }, { type: 'order.paid', provider: 'card' }]
  return [undefined, ...tenants].flatMap((tenantId) =>
    [undefined, ...eventStates].flatMap((state) =>
      statuses.flatMap((status) =>
        [undefined, 500].flatMap((slowerThanMs) =>
          rests.map((rest) => ({
            ...rest,
            ...(tenantId && { tenantId }),
            ...(state && { state }),
            ...(status && { status }),
            ...(slowerThanMs && { slowerThanMs }),
          })),
        ),
      ),
    ),
  )
}

describe('scanEvents', () => {
  test('scanEvents: filters by the last attempt and by an event type family return each match once and in order', async () => {
    const found = new Set<number>()
    for (const filter of attemptFilters()) {
      const common = { filter, range: rangeOf(filter, nowMs) }
      const oldest = expected(filter)
      const wide = await walked({ ...common, order: 'newest', rowsMax: 1_000, examinedMax: 2_000 })
      const narrow = await walked({ ...common, order: 'oldest', rowsMax: 37, examinedMax: 90 })
      expect([filter, wide.ids]).toEqual([filter, oldest.toReversed()])
      expect([filter, narrow.ids]).toEqual([filter, oldest])
      found.add(oldest.length)
    }
    expect(found.size).toBeGreaterThan(20)
  })

  test('scanEvents: lists an event once if the next delivery cycle has not yet removed its entry in failed_deliveries', async () => {
    const filter = { status: '5xx' as StatusFilter }
    const stale = known.find(({ state, last }) => state === 'accepted' && last?.status === 500)
    await lab.pool.query(
      `INSERT INTO failed_deliveries SELECT $1, 'callback', tenant_id, expires_on, provider, source_event_id, raw_type, type, occurred_at, payload_bytes,
         payload_expires_on, cycle, now(), origin FROM events WHERE id = $1`,
      [stale?.id],
    )
    const scan = { filter, range: rangeOf(filter, nowMs), order: 'newest' as const, examinedMax: 2_000 }
    const { ids } = await walked({ ...scan, rowsMax: 1_000 })
    await lab.pool.query('DELETE FROM failed_deliveries WHERE id = $1', [stale?.id])
    expect(ids).toEqual(expected(filter).toReversed())
  })

  test('withDeliveryFacts: adds the last attempt of any delivery cycle, and the next attempt', async () => {
    const scan = { filter: {}, range: rangeOf({}, nowMs), order: 'newest' as const, examinedMax: 2_000 }
    const { events } = await scanEvents(lab.pool, { ...scan, rowsMax: 100 })
    const listed = await withDeliveryFacts(lab.pool, events)
    const lastById = new Map(known.map(({ id, last }) => [id, last]))
    for (const { id, state, attemptCount, lastStatus, lastDurationMs, nextAttemptAtMs } of listed) {
      const last = lastById.get(id)
      const facts = { lastStatus: last?.status ?? null, lastDurationMs: last?.durationMs ?? null }
      expect([id, { lastStatus, lastDurationMs }]).toEqual([id, facts])
      expect([id, attemptCount]).toEqual([id, last === undefined ? 0 : 2])
      expect([id, nextAttemptAtMs !== null]).toEqual([id, state === 'accepted'])
    }
    expect(listed.map(({ id }) => id)).toEqual(events.map(({ id }) => id))
  })

  test('scanEvents: every combination of filters returns each match once and in order, in steps of any size', async () => {
    const originById = new Map(known.map(({ id, origin }) => [id, origin]))
    for (const filter of filters()) {
      const common = { filter, range: rangeOf(filter, nowMs) }
      const oldest = expected(filter)
      const [wide, narrow] = [
        await walked({ ...common, order: 'newest', rowsMax: 1_000, examinedMax: 2_000 }),
        await walked({ ...common, order: 'oldest', rowsMax: 37, examinedMax: 90 }),
      ]
      expect([filter, wide.ids]).toEqual([filter, oldest.toReversed()])
      expect(wide.origins).toEqual(oldest.toReversed().flatMap((id) => originById.get(id) ?? []))
      expect([filter, narrow.ids]).toEqual([filter, oldest])
      expect(wide.steps).toBe(1)
    }
  })

  test('scanEvents: a filter by ids returns the existing events that match', async () => {
    const ids = [
      ...known.slice(10, 40).map(({ id }) => id),
      createEventId(nowMs, 90),
      ...known.slice(11, 12).map(({ id }) => id),
    ]
    for (const filter of [{ ids }, { ids, ...(tenants[1] && { tenantId: tenants[1] }) }]) {
      const scan = { filter, range: rangeOf(filter, nowMs), order: 'newest' as const, examinedMax: 2_000 }
      expect((await walked({ ...scan, rowsMax: 7 })).ids).toEqual(expected(filter).toReversed())
    }
  })

  test('scanEvents: a scan that stopped at its row limit continues from searchedTo without missing an event', async () => {
    const filter = { state: 'processed', type: 'chargeback.lost' } as const
    const scan = { filter, range: rangeOf(filter, nowMs), order: 'newest' as const, rowsMax: 50 }
    const first = await scanEvents(lab.pool, { ...scan, examinedMax: 5 })
    expect(first.events.length).toBeLessThan(expected(filter).length)
    expect(first.searchedTo).toBeDefined()
    const whole = await walked({ ...scan, examinedMax: 5 })
    expect(whole.ids).toEqual(expected(filter).toReversed())
    expect(whole.steps).toBeGreaterThan(2)
  })

  test('scanEvents: omits expired events that still exist', async () => {
    const later = nowMs + 31 * dayMs
    const scan = { filter: {}, range: rangeOf({}, later), order: 'newest' as const, examinedMax: 2_000 }
    const { ids } = await walked({ ...scan, rowsMax: 1_000 })
    const kept = known.filter(
      (one, nth) => one.receivedAtMs + ([90, 40, 30][nth % 3] ?? 0) * dayMs >= later - (later % dayMs),
    )
    expect(ids.length).toBeGreaterThan(0)
    expect(ids.length).toBeLessThan(known.length)
    expect(new Set(ids)).toEqual(new Set(kept.map(({ id }) => id)))
  })

  test('scanEvents: finds accepted events in a long tenant queue', async () => {
    const tenant = tenants[0]
    await lab.pool.query(
      `INSERT INTO deliveries_due (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at)
       SELECT 'evt_none' || n, 'callback', $1, current_date, current_date, 1, 1, now() FROM generate_series(1, 2100) n`,
      [tenant],
    )
    const filter = { state: 'accepted' as const, ...(tenant && { tenantId: tenant }) }
    const scan = { filter, range: rangeOf(filter, nowMs), order: 'newest' as const }
    const { ids } = await walked({ ...scan, rowsMax: 20, examinedMax: 50 })
    await lab.pool.query(`DELETE FROM deliveries_due WHERE event_id LIKE 'evt_none%'`)
    expect(ids).toEqual(expected(filter).toReversed())
  })
})
