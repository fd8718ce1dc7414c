import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import {
  noticeProblems,
  prepareTestNotice,
  storeNotice,
  testNoticeEveryMs,
  testNoticeType,
} from '#internal/events/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { createDeliveryLab, type DeliveryLab, type LabForwarder } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { nightlyTest } from '#test/support/nightly.ts'

let lab: DeliveryLab
let callback: CallbackReceiver
let owner: CallbackReceiver
let started: LabForwarder | undefined

beforeAll(async () => {
  lab = await createDeliveryLab()
}, 60_000)
afterAll(() => lab.close())
beforeEach(async () => {
  callback = startReceiver()
  owner = startReceiver()
  await truncateEvents(lab.pool)
})
afterEach(async () => {
  await started?.stop()
  await Promise.all([callback.stop(), owner.stop()])
})

const forwarder = (options: Parameters<DeliveryLab['forwarder']>[0] = {}) => {
  started = lab.forwarder({ alertsMs: 50, ...options })
  return started
}
const gone = () => new Response(null, { status: 410 })
const refused = () => new Response(null, { status: 500 })
const typesOf = ({ calls }: CallbackReceiver) =>
  calls.map(({ body }) => (JSON.parse(body) as { type: string }).type)
const bySuspension = (tenant: DirectoryTenant) => lab.accept(tenant.id)

test('notifications: the suspension of a callback is reported by a signed request to the notification URL, never to the callback', async () => {
  callback.answer(gone)
  const tenant = await lab.addTenant({ url: callback.url, notifications: { url: owner.url } })
  const { observed } = forwarder()
  await bySuspension(tenant)
  const [call] = await owner.received(1)
  expect(call?.verified).toBe(true)
  expect(JSON.parse(call?.body ?? '')).toMatchObject({
    provider: 'latchkey',
    type: 'latchkey.callback.suspended',
    providerRawType: 'latchkey.callback.suspended',
    tenantId: tenant.id,
    payload: { reason: 'gone', tenant: { name: 'acme' } },
    headers: { 'latchkey-origin': 'notification' },
  })
  await lab.becomes('processed', "SELECT state FROM events WHERE provider = 'latchkey'")
  expect(callback.calls).toHaveLength(1)
  expect(observed.notified).toEqual(['latchkey.callback.suspended'])
})

test.each([undefined, 'latchkey.limit.near' as const])(
  'notifications: a test notification is signed and delivered once per interval if the tenant selected the events %p',
  async (wanted) => {
    const tenant = await lab.addTenant({
      url: callback.url,
      notifications: { url: owner.url, ...(wanted && { events: [wanted] }) },
    })
    const parts = {
      pool: lab.pool,
      directory: { findTenantById: () => tenant },
      retentionDefaults: () => ({ payloadDays: 30, eventDays: 90 }),
    }
    const atMs = Math.ceil(Date.now() / testNoticeEveryMs) * testNoticeEveryMs
    const stored: boolean[] = []
    for (const nowMs of [atMs, atMs + testNoticeEveryMs - 1, atMs + testNoticeEveryMs]) {
      const event = await prepareTestNotice(parts, tenant.id, nowMs)
      if (event) stored.push((await storeNotice(lab.pool, event)) !== undefined)
    }
    expect(stored).toEqual([true, false, true])
    forwarder()
    const calls = await owner.received(2)
    expect(calls.map(({ verified }) => verified)).toEqual([true, true])
    const { provider, type, payload } = JSON.parse(calls[0]?.body ?? '') as {
      readonly provider: string
      readonly type: string
      readonly payload: unknown
    }
    expect([provider, type]).toEqual(['latchkey', testNoticeType])
    expect(noticeProblems(testNoticeType, payload)).toEqual([])
    expect(callback.calls).toHaveLength(0)
  },
)

test('notifications: the owner of another tenant is not notified', async () => {
  callback.answer(gone)
  const foreign = startReceiver()
  const tenant = await lab.addTenant({ url: callback.url, notifications: { url: owner.url } })
  const other = await lab.addTenant({ url: foreign.url, notifications: { url: foreign.url } })
  forwarder()
  await bySuspension(tenant)
  const [own] = await lab.accept(other.id)
  await owner.received(1)
  await foreign.received(1)
  await lab.becomes(2, "SELECT count(*) FROM events WHERE state = 'processed'")
  expect(foreign.calls.map(({ id }) => id)).toEqual([own ?? ''])
  await foreign.stop()
})

test.each([
  ['answers 500', refused, null],
  ['answers 410', gone, 'gone'],
])(
  'notifications: a receiver that %s causes no further notification and does not delay the callback',
  async (_what, answer, cause) => {
    owner.answer(answer)
    const tenant = await lab.addTenant({ url: callback.url, notifications: { url: owner.url } })
    let refuses = true
    callback.answer(() => (refuses ? gone() : new Response(null, { status: 204 })))
    const { observed } = forwarder()
    await bySuspension(tenant)
    await owner.received(1)
    await lab.becomes(
      1,
      "SELECT count(*) FROM attempts a JOIN events e ON e.id = a.event_id WHERE provider = 'latchkey'",
    )
    refuses = false
    await lab.becomes(
      cause,
      "SELECT max(suspended_cause) FROM tenant_queues WHERE destination = 'notifications'",
    )
    await lab.value(
      "UPDATE tenant_queues SET suspended_at = NULL, suspended_cause = NULL, next_due_at = now() WHERE destination = 'callback'",
    )
    await lab.accept(tenant.id, 20)
    await lab.becomes(20, "SELECT count(*) FROM events WHERE state = 'processed' AND provider <> 'latchkey'")
    expect(await lab.value("SELECT count(*) FROM events WHERE provider = 'latchkey'")).toBe(1)
    expect(observed.notified).toHaveLength(1)
  },
)

test('notifications: the receiver of notifications and the callback have separate circuit breakers', async () => {
  owner.answer(refused)
  const tenant = await lab.addTenant({ url: callback.url, notifications: { url: owner.url } })
  forwarder()
  await lab.accept(tenant.id, 12, { provider: 'latchkey', origin: { kind: 'notification' } })
  await lab.becomes('notifications', 'SELECT destination FROM tenant_queues WHERE breaker_until > now()')
  await lab.accept(tenant.id, 5)
  await lab.becomes(5, "SELECT count(*) FROM events WHERE state = 'processed'")
  expect(await lab.value('SELECT count(*) FROM destination_alerts')).toBe(0)
  expect(callback.calls).toHaveLength(5)
})

nightlyTest(
  'notifications: a flapping callback causes one notification of failure, and one when it is stable',
  async () => {
    let nowMs = Date.now()
    const tenant = await lab.addTenant({
      url: callback.url,
      notifications: { url: owner.url },
      // Allows one attempt: a retry is due by the clock of Postgres, which the test does not move.
      schedule: ['0s'],
    })
    let accepts = false
    callback.answer(() => new Response(null, { status: accepts ? 204 : 503 }))
    forwarder({ clock: { now: () => nowMs } })
    const settled = (count: number) =>
      lab.becomes(count, "SELECT count(*) FROM events WHERE state <> 'accepted' AND provider <> 'latchkey'")
    const checked = () =>
      lab.becomes(0, 'SELECT count(*) FROM destination_alerts WHERE check_at <= $1', [new Date(nowMs)])
    for (let minute = 0; minute < 16; minute += 1) {
      accepts = minute % 2 === 1
      await lab.accept(tenant.id)
      await settled(minute + 1)
      if (minute === 0) await lab.becomes(1, 'SELECT count(*) FROM destination_alerts')
      await checked()
      nowMs += 60_000
    }
    await owner.received(1)
    accepts = true
    for (let minute = 16; minute < 24; minute += 1) {
      await lab.accept(tenant.id)
      await settled(minute + 1)
      await checked()
      nowMs += 60_000
    }
    await owner.received(2)
    expect(typesOf(owner)).toEqual(['latchkey.callback.failing', 'latchkey.callback.recovered'])
  },
  60_000,
)

test('notifications: the format of the tenant chooses the kind of destination', async () => {
  const slack = startReceiver({ accepts: 'anything' })
  callback.answer(gone)
  const tenant = await lab.addTenant({
    url: callback.url,
    notifications: { url: slack.url, format: 'slack' },
  })
  forwarder()
  await bySuspension(tenant)
  const [call] = await slack.received(1)
  expect(JSON.parse(call?.body ?? '')).toMatchObject({
    text: expect.stringContaining('Deliveries to the callback are suspended (shops/acme)') as string,
  })
  await slack.stop()
})

test('notifications: a pull-only tenant is notified, and its waiting events are not changed', async () => {
  const tenant = await lab.addTenant({ isPullOnly: true, notifications: { url: owner.url } })
  forwarder()
  await lab.accept(tenant.id, 1, { isPullOnly: true })
  const [id] = await lab.accept(tenant.id, 1, { provider: 'latchkey', origin: { kind: 'notification' } })
  const calls = await owner.received(1)
  expect(calls.map((call) => call.id)).toEqual([id ?? ''])
  expect(await lab.value('SELECT count(*) FROM pulls_due')).toBe(1)
})

test('notifications: another forwarder sends a notification that a stopped forwarder has not sent', async () => {
  const tenant = await lab.addTenant({ url: callback.url, notifications: { url: owner.url } })
  await lab.accept(tenant.id, 1, { provider: 'latchkey', origin: { kind: 'notification' } })
  const { claimed } = await lab.claim()
  expect(claimed).toMatchObject([{ tenantId: tenant.id, destination: 'notifications' }])
  await lab.value("UPDATE deliveries_due SET leased_until = '-infinity'")
  await lab.value('UPDATE tenant_queues SET next_due_at = now()')
  forwarder()
  await poll(() => owner.calls.length > 0 || undefined, { deadlineMs: 15_000 })
  expect(owner.calls).toHaveLength(1)
})
