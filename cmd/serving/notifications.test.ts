import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { type NoticeParts, noticeProblems, notifyOwner } from '#internal/events/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import type { SoftCrossing } from '#internal/usage/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { limitNoticeOf } from './notifications.ts'

let lab: DeliveryLab
let tenant: DirectoryTenant
let other: DirectoryTenant
beforeAll(async () => {
  lab = await createDeliveryLab()
  tenant = await lab.addTenant({ notifications: { url: 'http://127.0.0.1:9/' } })
  other = await lab.addTenant({ notifications: { url: 'http://127.0.0.1:9/' } })
}, 60_000)
afterAll(() => lab.close())
beforeEach(() => truncateEvents(lab.pool))

const hourMs = 3_600_000
const nowMs = Math.floor(Date.now() / hourMs) * hourMs
const crossing = (fields: Partial<SoftCrossing> = {}): SoftCrossing => ({
  tenantId: tenant.id,
  limit: 'eventsPerMinute',
  periodMs: nowMs,
  used: 9,
  soft: 5,
  ...fields,
})

test.each<[string, Partial<SoftCrossing>[], number]>([
  ['the same minute', [{}, {}], 1],
  ['two minutes of an hour', [{}, { periodMs: nowMs + 60_000 }], 1],
  ['minutes of two hours', [{}, { periodMs: nowMs + hourMs }], 2],
  ['two limits', [{}, { limit: 'locksPerMinute' }], 2],
  ['the same month', [{ limit: 'eventsPerMonth' }, { limit: 'eventsPerMonth', used: 10 }], 1],
  [
    'two months',
    [{ limit: 'eventsPerMonth' }, { limit: 'eventsPerMonth', periodMs: nowMs - 31 * 24 * hourMs }],
    2,
  ],
])('limit near: crossings of %s cause the right number of notifications', async (_what, crossings, count) => {
  const counted: string[] = []
  const parts: NoticeParts = {
    pool: lab.pool,
    directory: { findTenantById: (id) => [tenant, other].find((each) => each.id === id) },
    retentionDefaults: () => ({ payloadDays: 30, eventDays: 90 }),
    onNotified: (type) => void counted.push(type),
  }
  for (const fields of crossings) await notifyOwner(parts, limitNoticeOf(crossing(fields), nowMs), nowMs)
  await notifyOwner(parts, limitNoticeOf(crossing({ tenantId: other.id }), nowMs), nowMs)
  expect(await lab.value('SELECT count(*) FROM events WHERE tenant_id = $1', [tenant.id])).toBe(count)
  expect(
    await lab.value(
      "SELECT count(*) FROM deliveries_due WHERE tenant_id = $1 AND destination = 'notifications'",
      [other.id],
    ),
  ).toBe(1)
  expect(counted).toHaveLength(count + 1)
  const tenantOf = { tenant: { namespace: 'shops', name: 'acme' } }
  for (const fields of crossings)
    expect(
      noticeProblems('latchkey.limit.near', {
        ...tenantOf,
        ...limitNoticeOf(crossing(fields), nowMs).payload,
      }),
    ).toEqual([])
})
