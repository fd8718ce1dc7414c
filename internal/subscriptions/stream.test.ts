import { afterAll, beforeAll, expect, test } from 'bun:test'
import { systemClock, type TenantId } from '#internal/base/index.ts'
import { eventReadSettings } from '#internal/events/list.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { nightlyTest } from '#test/support/nightly.ts'
import { until } from '#test/support/until.ts'
import { FeedNews } from './news.ts'
import { writeSubscription } from './store.ts'
import { EventStreams, type StreamPage } from './stream.ts'
import type { SubscriptionName } from './subscription.ts'

let lab: DeliveryLab
let pool: Pool
let queries = 0
beforeAll(async () => {
  lab = await createDeliveryLab()
  const bounds = { connectionsMax: 4, queryTimeoutMs: 20_000, connectTimeoutMs: 5_000 }
  pool = createPool({
    url: lab.databaseUrl,
    applicationName: 'test',
    sessionSettings: eventReadSettings,
    ...bounds,
  })
})
afterAll(async () => {
  await pool.end()
  await lab.close()
})

/** Pool that counts its queries. */
function counting(): Pool {
  return new Proxy(pool, {
    get(target, name) {
      if (name !== 'query') return Reflect.get(target, name) as unknown
      return (...args: Parameters<Pool['query']>) => {
        queries += 1
        return target.query(...args)
      }
    },
  })
}

const troubles: unknown[] = []
function openStreams() {
  const ending = new AbortController()
  const options = {
    pool: counting(),
    clock: systemClock,
    ending: ending.signal,
    onTrouble: (cause: unknown) => void troubles.push(cause),
  }
  const news = new FeedNews(options)
  return { streams: new EventStreams({ ...options, news }), news, ending }
}

async function subscribe(tenantId: TenantId, name: string) {
  const place = { tenantId, name: name as SubscriptionName }
  await writeSubscription(pool, { ...place, providers: [], types: [] })
  return place
}

nightlyTest(
  'streams: a hundred that wait cost a query each five seconds, and all get a new event',
  async () => {
    const tenants = await Promise.all(Array.from({ length: 5 }, () => lab.addTenant()))
    const { streams, news, ending } = openStreams()
    const pages: StreamPage[] = []
    const reading = []
    for (const { id } of tenants)
      for (let at = 0; at < 20; at += 1) {
        const place = await subscribe(id, `s-${at}`)
        const opened = await streams.open({ ...place, lastStreamId: '', isAllowed: async () => true })
        if (opened.kind !== 'opened') throw new Error(opened.kind)
        reading.push(
          (async () => {
            for await (const page of opened.pages) if (page.events.length > 0) pages.push(page)
          })(),
        )
      }
    // Waits until the streams are idle, since each stream reads its feed several times first.
    await Bun.sleep(2_000)
    queries = 0
    // Longer than a heartbeat interval: three to four checks, and one renewal of the leases.
    await Bun.sleep(17_000)
    expect(queries).toBeGreaterThanOrEqual(3)
    expect(queries).toBeLessThanOrEqual(5)
    for (const { id } of tenants) await lab.accept(id)
    news.notify(tenants.map(({ id }) => id))
    await until('the events', () => pages.length === 100)
    ending.abort()
    await Promise.all(reading)
    expect(troubles).toEqual([])
    const { rows } = await pool.query(
      `SELECT count(*)::int AS held FROM subscriptions WHERE held_until > now()`,
    )
    expect(rows).toEqual([{ held: 0 }])
  },
  60_000,
)

test('event stream: ends when its caller loses the permission to receive events', async () => {
  const { id } = await lab.addTenant()
  const place = await subscribe(id, 'shop')
  const { streams, ending } = openStreams()
  let isAllowed = true
  const opened = await streams.open({ ...place, lastStreamId: '', isAllowed: async () => isAllowed })
  if (opened.kind !== 'opened') throw new Error(opened.kind)
  await lab.accept(id)
  const first = await opened.pages.next()
  expect(first.value?.events.length).toBe(1)
  isAllowed = false
  await lab.accept(id)
  expect(await opened.pages.next()).toEqual({ done: true, value: undefined })
  ending.abort()
  expect((await streams.open({ ...place, lastStreamId: '', isAllowed: async () => true })).kind).toBe(
    'too_many',
  )
}, 20_000)

test('event stream: a stream that is closed before its first page releases its lease', async () => {
  const { id } = await lab.addTenant()
  const place = await subscribe(id, 'shop')
  const { streams, ending } = openStreams()
  const open = () => streams.open({ ...place, lastStreamId: '', isAllowed: async () => true })
  const first = await open()
  if (first.kind !== 'opened') throw new Error(first.kind)
  expect((await open()).kind).toBe('held')
  first.close()
  await first.pages.return()
  const again = await until('the lease', async () => {
    const opened = await open()
    return opened.kind === 'opened' ? opened : undefined
  })
  again.close()
  ending.abort()
  expect(troubles).toEqual([])
})
