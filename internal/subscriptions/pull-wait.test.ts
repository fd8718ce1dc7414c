import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { systemClock, type TenantId } from '#internal/base/index.ts'
import { eventReadSettings } from '#internal/events/list.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { until } from '#test/support/until.ts'
import { FeedNews } from './news.ts'
import { pullOrWait } from './pull.ts'
import { readSubscription, writeSubscription } from './store.ts'
import type { SubscriptionName } from './subscription.ts'

const name = 'shop' as SubscriptionName
let lab: DeliveryLab
let pool: Pool
let tenantId: TenantId
let ending: AbortController
let news: FeedNews
let reads = 0

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
beforeEach(async () => {
  tenantId = (await lab.addTenant()).id
  await writeSubscription(pool, { tenantId, name, providers: [], types: [] })
  ending = new AbortController()
  const onTrouble = (cause: unknown) => {
    throw cause
  }
  news = new FeedNews({ pool, clock: systemClock, ending: ending.signal, onTrouble })
})
afterEach(() => ending.abort())

/** Pool that counts the reads of feeds. */
const counting = (): Pool =>
  new Proxy(pool, {
    get(target, key) {
      if (key !== 'query') return Reflect.get(target, key) as unknown
      return (...args: Parameters<Pool['query']>) => {
        if ((args[0] as { name?: string }).name === 'read_feed') reads += 1
        return target.query(...args)
      }
    },
  })

function startPull(fields: Partial<Parameters<typeof pullOrWait>[1]> = {}) {
  const progress = { waits: 0 }
  const request = { tenantId, name, limit: 10, leaseSeconds: 60, waitMs: 20_000, gone: ending.signal }
  const aside = async (wait: () => Promise<unknown>) => {
    progress.waits += 1
    await wait()
    return true
  }
  const parts = { pool: counting(), clock: systemClock, news }
  return { progress, result: pullOrWait(parts, { ...request, aside, ...fields }) }
}

async function waiting(pulls: readonly ReturnType<typeof startPull>[]): Promise<void> {
  await until('the pulls to wait', () => pulls.every(({ progress }) => progress.waits > 0))
}

const eventsOf = async ({ result }: ReturnType<typeof startPull>) => {
  const pulled = await result
  return pulled.kind === 'pulled' ? pulled.events.map(({ id }) => id) : pulled.kind
}

test('pullOrWait: takes no lease while it waits, and returns an event as soon as intake announces new events', async () => {
  const pull = startPull()
  await waiting([pull])
  expect(await readSubscription(pool, { tenantId, name })).toMatchObject({
    isLeased: false,
    availableAtMs: null,
  })
  const ids = await lab.accept(tenantId)
  news.notify([tenantId])
  expect(await eventsOf(pull)).toEqual(ids)
  expect(await readSubscription(pool, { tenantId, name })).toMatchObject({ isLeased: true })
}, 30_000)

test('pullOrWait: an event whose announcement is lost is returned within a few seconds', async () => {
  const pull = startPull()
  await waiting([pull])
  const ids = await lab.accept(tenantId)
  expect(await eventsOf(pull)).toEqual(ids)
}, 30_000)

test('pullOrWait: of several waiting pulls of a subscription, one gets the event and the others end without events', async () => {
  const pulls = [startPull(), startPull(), startPull()]
  await waiting(pulls)
  const ids = await lab.accept(tenantId)
  news.notify('all')
  const given = await Promise.all(pulls.map(eventsOf))
  expect(given.toSorted((one, other) => other.length - one.length)).toEqual([ids, [], []])
}, 30_000)

test('pullOrWait: without events, a pull ends after its wait time and reads the feed only once', async () => {
  reads = 0
  const startedMs = performance.now()
  expect(await eventsOf(startPull({ waitMs: 300 }))).toEqual([])
  expect(performance.now() - startedMs).toBeGreaterThanOrEqual(290)
  expect(reads).toBe(1)
})

test('pullOrWait: events of other tenants and events that do not match do not end the wait', async () => {
  await writeSubscription(pool, { tenantId, name, providers: [], types: ['payment.*'] })
  const pull = startPull({ waitMs: 6_000 })
  await waiting([pull])
  const { id: other } = await lab.addTenant()
  await lab.accept(other)
  await lab.accept(tenantId, 3)
  news.notify([other, tenantId])
  const ids = await lab.accept(tenantId, 1, { type: 'payment.failed' })
  news.notify([tenantId])
  expect(await eventsOf(pull)).toEqual(ids)
}, 30_000)

test.each<[string, (gone: AbortController) => void]>([
  ['the end of the process', () => ending.abort()],
  ['a caller that disconnects', (gone) => gone.abort()],
])('pullOrWait: %s ends the wait without events', async (_name, end) => {
  const gone = new AbortController()
  const pull = startPull({ gone: gone.signal })
  await waiting([pull])
  end(gone)
  expect(await eventsOf(pull)).toEqual([])
})

test('pullOrWait: a pull that loses its permission during the wait returns no events and takes no lease', async () => {
  const aside = async (wait: () => Promise<unknown>) => {
    await lab.accept(tenantId)
    news.notify('all')
    await wait()
    return false
  }
  expect(await startPull({ aside }).result).toEqual({ kind: 'too_many' })
  expect(await readSubscription(pool, { tenantId, name })).toMatchObject({ isLeased: false })
})

test('pullOrWait: a tenant can have 100 waiting pulls per process, other tenants can still wait, and each ended pull makes room for another', async () => {
  const gone = new AbortController()
  const pulls = Array.from({ length: 100 }, () => startPull({ gone: gone.signal }))
  await waiting(pulls)
  expect(await startPull().result).toEqual({ kind: 'too_many' })
  const { id: other } = await lab.addTenant()
  await writeSubscription(pool, { tenantId: other, name, providers: [], types: [] })
  expect(await eventsOf(startPull({ tenantId: other, waitMs: 50 }))).toEqual([])
  gone.abort()
  await Promise.all(pulls.map(({ result }) => result))
  expect(await eventsOf(startPull({ waitMs: 50 }))).toEqual([])
}, 30_000)
