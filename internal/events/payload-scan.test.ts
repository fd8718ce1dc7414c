import { beforeAll, expect, test } from 'bun:test'
import type { EventId, TenantId } from '#internal/base/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { eventReadSettings } from './list.ts'
import { scanPayloads } from './payload-scan.ts'

let lab: DeliveryLab
let pool: Pool
let tenantId: TenantId

beforeAll(async () => {
  lab = await createDeliveryLab()
  pool = createPool({
    url: lab.databaseUrl,
    applicationName: 'payload scan',
    connectionsMax: 1,
    queryTimeoutMs: 20_000,
    connectTimeoutMs: 5_000,
    sessionSettings: eventReadSettings,
  })
  tenantId = (await lab.addTenant()).id
  return async () => {
    await pool.end()
    await lab.close()
  }
})

async function store(payload: object): Promise<EventId> {
  const text = JSON.stringify(payload)
  const [id] = await lab.accept(tenantId, 1, { payload: text, payloadBytes: Buffer.byteLength(text) })
  if (id === undefined) throw new Error('no event')
  return id
}

test('scanPayloads: stops at 16 MiB, continues from there in the next call, and skips payloads above 1 MiB', async () => {
  const nowMs = Date.now()
  const oldest = await store({ needle: 'wanted' })
  for (let nth = 0; nth < 17; nth += 1) await store({ filler: 'x'.repeat(1_000_000), nth })
  await store({ needle: 'wanted', filler: 'x'.repeat(1_100_000) })
  const scan = (after?: EventId) =>
    scanPayloads(
      pool,
      {
        filter: { tenantId, fromMs: nowMs - 60_000 },
        after,
        limit: 10,
        matches: (payload) => payload.includes('wanted'),
      },
      () => nowMs,
    )
  const first = await scan()
  expect(first).toMatchObject({ events: [], examinedCount: 17, skippedCount: 1 })
  const second = await scan(first.examinedTo)
  expect(second).toMatchObject({ examinedCount: 1, skippedCount: 0, examinedTo: undefined })
  expect(second.events.map(({ id }) => id)).toEqual([oldest])
}, 30_000)

test('scanPayloads: stops after half a second, at the end of a batch', async () => {
  const times = [0, 499, 500].map((ms) => Date.now() + ms)
  const tenant = (await lab.addTenant()).id
  const text = JSON.stringify({ filler: 'x'.repeat(500_000) })
  await lab.accept(tenant, 5, { payload: text, payloadBytes: text.length })
  const found = await scanPayloads(
    pool,
    { filter: { tenantId: tenant, fromMs: Date.now() - 60_000 }, limit: 10, matches: () => false },
    () => times.shift() ?? Number.POSITIVE_INFINITY,
  )
  expect(found).toMatchObject({ examinedCount: 2, skippedCount: 0 })
  expect(found.examinedTo).toBeDefined()
})
