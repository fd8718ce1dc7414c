import { beforeAll, beforeEach, expect, test } from 'bun:test'
import { createEventId, dayAfter, type TenantId } from '#internal/base/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import type { Attempt } from './complete.ts'
import type { ReceivedEvent } from './model.ts'
import { completeTestEvent, storeTestEvent } from './test-event.ts'
import { readEvent } from './view.ts'

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

const attempt: Attempt = {
  startedAtMs: Date.now(),
  durationMs: 1.6,
  outcome: 'delivered',
  status: 204,
  cause: null,
  answer: 'a\u0000b',
  exchange: {
    url: 'https://shop.example.com/hooks',
    signatures: 2,
    isReused: true,
    dnsMs: 0.04,
    firstByteMs: 31.27,
    headers: [['x-odd', 'a\u0001b']],
    headersOmitted: 3,
    isAnswerCut: true,
  },
}

function testEvent(fields: Partial<ReceivedEvent> = {}, receivedAtMs = Date.now()): ReceivedEvent {
  const origin = { kind: 'test', actor: 'user:ada' } as const
  return receivedEvent({ tenantId, sourceEventId: 'try', state: 'verified', origin, ...fields }, receivedAtMs)
}

const view = (event: ReceivedEvent) => readEvent(lab.pool, { id: event.id }, Date.now())

test('test event: until its response is stored, the event is failed without an attempt, and is not queued', async () => {
  const event = await storeTestEvent(lab.pool, testEvent())
  const stored = await view(event)
  expect(stored?.event).toMatchObject({ state: 'delivery_failed', completedAtMs: expect.any(Number) })
  expect([stored?.attempts, stored?.delivery]).toEqual([[], undefined])
  expect(await lab.value('SELECT count(*) FROM failed_deliveries')).toBe(1)
  expect(await lab.value('SELECT count(*) FROM tenant_queues')).toBe(0)
})

test('test event: an accepted test event becomes processed and keeps the response', async () => {
  const event = await storeTestEvent(lab.pool, testEvent())
  await completeTestEvent(lab.pool, event.id, attempt)
  expect(await view(event)).toMatchObject({
    event: { state: 'processed' },
    attempts: [{ attempt: 1, outcome: 'delivered', status: 204, durationMs: 2, answer: 'a\ufffdb' }],
  })
  expect((await view(event))?.attempts[0]?.exchange).toEqual({
    url: 'https://shop.example.com/hooks',
    signatures: 2,
    isReused: true,
    dnsMs: 0,
    firstByteMs: 31,
    headers: [['x-odd', 'a\u0001b']],
    headersOmitted: 3,
    isAnswerCut: true,
  })
  expect(await lab.value('SELECT count(*) FROM failed_deliveries')).toBe(0)
})

test('test event: a repeat with the same key returns the id and time of the stored event', async () => {
  const first = testEvent({}, Date.now() - dayMs)
  expect(await storeTestEvent(lab.pool, first)).toEqual(first)
  const { id, receivedAtMs } = await storeTestEvent(lab.pool, testEvent())
  expect([id, receivedAtMs]).toEqual([first.id, first.receivedAtMs])
  expect(await lab.value('SELECT count(*) FROM events')).toBe(1)
})

test('test event: attempts beyond the maximum number are not stored, but the state is still updated', async () => {
  const event = await storeTestEvent(lab.pool, testEvent())
  await completeTestEvent(lab.pool, event.id, attempt)
  await lab.pool.query('UPDATE attempts SET attempt = 32767')
  await completeTestEvent(lab.pool, event.id, { ...attempt, outcome: 'refused', status: 500 })
  expect(await view(event)).toMatchObject({
    event: { state: 'delivery_failed' },
    attempts: [{ status: 204 }],
  })
})

test.each([
  ['whose retention has ended', (): ReceivedEvent['id'] => createEventId(Date.now() - 9 * dayMs, 1)],
  ['that was removed', (): ReceivedEvent['id'] => createEventId(Date.now(), 90)],
])('test event: the response to a test event %s is dropped', async (_what, id) => {
  await completeTestEvent(lab.pool, id(), attempt)
  expect(await lab.value('SELECT count(*) FROM attempts')).toBe(0)
})

test('test event: completing a test event changes no event of another origin', async () => {
  const [id] = await lab.accept(tenantId, 1, { expiresOn: dayAfter(Date.now(), 90) })
  if (id === undefined) throw new Error('no event')
  await completeTestEvent(lab.pool, id, attempt)
  expect(await lab.value('SELECT state FROM events')).toBe('accepted')
  expect(await lab.value('SELECT count(*) FROM attempts')).toBe(0)
})
