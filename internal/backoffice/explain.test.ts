import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createEventId, type TenantId } from '#internal/base/index.ts'
import type { CallbackTrouble } from '#internal/events/index.ts'
import type { SubscriptionName } from '#internal/subscriptions/index.ts'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { startTestBackoffice, type TestBackoffice } from '#test/support/backoffice.ts'
import {
  dashboardKey,
  dashboardTenantYaml,
  type SeededTenant,
  seedTenant,
} from '#test/support/dashboard/backoffice-tenants.ts'
import { acceptEvents } from '#test/support/events/accepted-event.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { explain, type Facts } from './explain.ts'
import { type Blocker, eventPositions } from './states.ts'

const nowMs = Date.parse('2026-11-24T12:00:00Z')
const laterMs = nowMs + 60_000
const completedAtMs = nowMs - 60_000
const base: Facts = {
  event: {
    state: 'accepted',
    completedAtMs: null,
    payloadExpiresOn: '2026-12-24',
    origin: { kind: 'provider' },
  },
  lastAttempt: undefined,
  delivery: { dueAtMs: nowMs, isClaimed: false, attemptCount: 0 },
  blockers: [],
  mayEndPause: false,
  hasCallback: true,
  readers: { total: 0, names: [] },
  attemptsMax: 10,
  aheadCount: 0,
  today: '2026-11-24',
  nowMs,
}
const ended = (
  state: 'processed' | 'delivery_failed',
  attempt: Partial<NonNullable<Facts['lastAttempt']>>,
) => ({
  event: { ...base.event, state, completedAtMs },
  lastAttempt: { attempt: 1, status: null, cause: null, ...attempt },
})
const ten1 = 'ten_1' as TenantId
const tenantSuspended: Blocker = { kind: 'tenant_suspended', tenantId: ten1 }
const pause = (tenantId: string | null, by = 'user:ada'): Blocker => ({
  kind: 'forwarding_paused',
  tenantId: tenantId as TenantId | null,
  by,
  startedAtMs: completedAtMs,
})
const suspended = (cause: string): Blocker => ({
  kind: 'callback_suspended',
  tenantId: ten1,
  cause,
  startedAtMs: completedAtMs,
})
const trouble = (breaker: CallbackTrouble['breaker'], kind: 'failing' | 'resumed' = 'failing'): Blocker => ({
  kind: `callback_${kind}`,
  tenantId: ten1,
  breaker,
  startedAtMs: completedAtMs,
  endsAtMs: breaker === 'open' ? laterMs : undefined,
})
const waiting = { delivery: { dueAtMs: laterMs, isClaimed: false, attemptCount: 3 } }

const readers = (total: number, ...names: string[]) => ({
  readers: { total, names: names.map((each) => each as SubscriptionName) },
})

const states: [facts: Partial<Facts>, position: string, sentence: string, todo: string, more?: object][] = [
  [
    ended('processed', { attempt: 2, status: 204 }),
    ...(['delivered', 'The callback accepted the event: it answered 204 to attempt 2.', ''] as const),
    { startedAtMs: completedAtMs },
  ],
  [
    { event: { ...base.event, state: 'processed', completedAtMs }, lastAttempt: undefined },
    ...(['acknowledged', 'A subscription acknowledged the event.', ''] as const),
    { startedAtMs: completedAtMs },
  ],
  [
    ended('processed', { attempt: 3, status: 503 }),
    ...(['acknowledged', 'A subscription acknowledged the event.', ''] as const),
    { startedAtMs: completedAtMs },
  ],
  [
    { hasCallback: false, ...waiting, blockers: [pause(null), suspended('gone')] },
    'awaiting_acknowledgement',
    'The tenant has no callback, so the event waits for an acknowledgement by a subscription, and the tenant has none.',
    'Create one that begins before the event: PUT /v1/subscriptions/{name} with from.',
  ],
  [
    { hasCallback: false, delivery: undefined, ...readers(2) },
    'awaiting_acknowledgement',
    'The tenant has no callback, so the event waits for an acknowledgement by a subscription, and none will return it: the 2 subscriptions of the tenant exclude it by their filters, or have passed it.',
    'Move one back with POST /v1/subscriptions/{name}/seek, or create one whose filter it matches.',
  ],
  [
    { hasCallback: false, delivery: undefined, ...readers(3, 'ledger', 'shop') },
    'awaiting_acknowledgement',
    'The tenant has no callback, so the event waits for an acknowledgement by a subscription: ledger, shop.',
    'Pull it and acknowledge it: POST /v1/subscriptions/ledger/pull, then …/ack.',
  ],
  [
    { delivery: undefined, ...readers(1, 'shop') },
    'awaiting_acknowledgement',
    'The event came while the tenant had no callback, so the event waits for an acknowledgement by a subscription: shop.',
    'Pull it and acknowledge it: POST /v1/subscriptions/shop/pull, then …/ack. Or deliver it to the callback: POST …/replay.',
  ],
  [
    { hasCallback: false, blockers: [tenantSuspended], delivery: undefined },
    'tenant_suspended',
    'The tenant is suspended by its manifest (spec.suspended): its calls are refused; events accepted before wait, and use no attempt.',
    'Set spec.suspended of the Tenant to false.',
  ],
  [
    ended('delivery_failed', { attempt: 10, status: 500, cause: 'attempts_exhausted' }),
    'failed',
    'The delivery has failed after 10 attempts: all attempts of the retry schedule were made; the callback last answered 500.',
    'Look for an error in its log by webhook-id, which is the event’s id. Then replay the event.',
    { startedAtMs: completedAtMs },
  ],
  [
    ended('delivery_failed', { attempt: 10, cause: 'connect_failed' }),
    'failed',
    'The delivery has failed after 10 attempts: all attempts of the retry schedule were made; the last one ended with “Connection refused”.',
    'Check that the callback runs and that its port is open. Then replay the event.',
    { startedAtMs: completedAtMs },
  ],
  [
    ended('delivery_failed', { status: 410, cause: 'gone' }),
    'failed',
    'The delivery has failed after 1 attempt: the callback answered 410 Gone and is suspended until it is resumed.',
    'Resume the callback on the tenant’s page or with latchkey tenants resume, then replay the event.',
    { startedAtMs: completedAtMs },
  ],
  [
    ended('delivery_failed', { attempt: 3, cause: 'payload_expired' }),
    'failed',
    'The delivery has failed after 2 attempts: the payload’s retention ended.',
    'The event cannot be delivered any more. Raise the payload retention above the length of the retry schedule: spec.retention.',
    { startedAtMs: completedAtMs },
  ],
  [
    ended('delivery_failed', { attempt: 1, cause: 'payload_expired' }),
    'failed',
    'The delivery has failed before its first attempt: the payload’s retention ended.',
    'The event cannot be delivered any more. Raise the payload retention above the length of the retry schedule: spec.retention.',
    { startedAtMs: completedAtMs },
  ],
  [
    ended('delivery_failed', { attempt: 10, cause: 'aborted' }),
    'failed',
    'The delivery has failed after 10 attempts: all attempts of the retry schedule were made; the last one ended with “Aborted by the platform”.',
    'No action needed unless it happens again. Then replay the event.',
    { startedAtMs: completedAtMs },
  ],
  [
    ended('delivery_failed', { attempt: 2, status: 422, cause: 'aborted' }),
    'failed',
    'The delivery has failed after 2 attempts: the callback asked not to receive this event again (webhook-delivery: abort-message).',
    'The callback refused this event for good (webhook-delivery: abort-message). If that was wrong, repair the callback and replay the event.',
    { startedAtMs: completedAtMs },
  ],
  [
    {
      ...ended('delivery_failed', { status: 500 }),
      event: {
        ...base.event,
        state: 'delivery_failed',
        completedAtMs,
        origin: { kind: 'test', actor: 'ada' },
      },
    },
    'failed',
    'The delivery has failed after 1 attempt; the callback last answered 500.',
    'Look for an error in its log by webhook-id, which is the event’s id. Then send another test event.',
    { startedAtMs: completedAtMs },
  ],
  [
    { event: { ...base.event, state: 'delivery_failed', completedAtMs }, lastAttempt: undefined },
    ...(['failed', 'The delivery has failed.', 'Find the cause, then replay the event.'] as const),
    { startedAtMs: completedAtMs },
  ],
  [
    { event: { ...base.event, state: 'verified' }, delivery: undefined },
    'verified',
    'The provider is in verify-only mode for this tenant, so the event is stored and not delivered.',
    'Have the platform team set spec.walletRollout.stage to enabled, then replay the event.',
  ],
  [
    { blockers: [tenantSuspended, pause(null)], ...waiting },
    'tenant_suspended',
    'The tenant is suspended by its manifest (spec.suspended): its calls are refused; events accepted before wait, and use no attempt.',
    'Set spec.suspended of the Tenant to false.',
  ],
  [
    { blockers: [pause(null, 'the platform team'), suspended('gone')] },
    'forwarding_paused',
    'Deliveries of all tenants are paused by the platform team (setting forwarding.paused): events are accepted and wait, and use no attempt.',
    'Ask the platform team to resume deliveries.',
    { startedAtMs: completedAtMs },
  ],
  [
    { blockers: [pause(null)], mayEndPause: true },
    'forwarding_paused',
    'Deliveries of all tenants are paused by user:ada (setting forwarding.paused): events are accepted and wait, and use no attempt.',
    'Resume deliveries of all tenants.',
    { startedAtMs: completedAtMs },
  ],
  [
    { blockers: [pause('ten_1')] },
    'forwarding_paused',
    'Deliveries of this tenant are paused by user:ada (setting forwarding.paused): events are accepted and wait, and use no attempt.',
    'Ask user:ada to resume deliveries.',
    { startedAtMs: completedAtMs },
  ],
  [
    { blockers: [suspended('gone')], ...waiting },
    'callback_suspended',
    'The callback answered 410 Gone, so it is suspended until it is resumed: events are accepted and wait, and use no attempt.',
    'Resume the callback once it accepts events again: on the tenant’s page, or with latchkey tenants resume.',
    { startedAtMs: completedAtMs },
  ],
  [
    { blockers: [suspended('disabled')] },
    'callback_suspended',
    'The callback answered webhook-delivery: disable, so it is suspended until it is resumed: events are accepted and wait, and use no attempt.',
    'Resume the callback once it accepts events again: on the tenant’s page, or with latchkey tenants resume.',
    { startedAtMs: completedAtMs },
  ],
  [
    { blockers: [trouble('open')], ...waiting },
    'breaker_open',
    'Most recent calls to the callback failed, so its circuit breaker is open: every 30 s one event is attempted as a probe, which uses an attempt of that event; the others wait for a success and use none.',
    'Look for the failures of the callback in the attempts of its latest events.',
    { nextChangeAtMs: laterMs },
  ],
  [
    { blockers: [trouble('half_open')] },
    'breaker_open',
    'Most recent calls to the callback failed, so its circuit breaker is half-open: one event at a time is attempted as a probe, which uses an attempt of that event; the others wait for a success and use none.',
    'Look for the failures of the callback in the attempts of its latest events.',
  ],
  [
    { blockers: [trouble('half_open', 'resumed')] },
    'breaker_open',
    'The callback was resumed and has accepted no event since: one event at a time is attempted as a probe, which uses an attempt of that event; the others wait for a success and use none.',
    'Look for the failures of the callback in the attempts of its latest events.',
  ],
  [
    // The next attempt is due after the open time of the breaker ends, so the event waits for its schedule and not for the breaker.
    { blockers: [trouble('open')], delivery: { dueAtMs: laterMs + 1, isClaimed: false, attemptCount: 3 } },
    'waiting',
    'The event waits for attempt 4 of 10.',
    'A retry attempts it at once.',
    { nextChangeAtMs: laterMs + 1 },
  ],
  [
    { blockers: [trouble('closed')] },
    'queued',
    'The event is next in the tenant’s queue for attempt 1 of 10.',
    '',
  ],
  [
    // The suspension applies to the receiver of notifications, which is separate from the callback.
    { blockers: [suspended('gone')], event: { ...base.event, origin: { kind: 'notification' } } },
    'callback_suspended',
    'The receiver of notifications answered 410 Gone, so it is suspended until it is resumed: events are accepted and wait, and use no attempt.',
    'Resume the receiver of notifications once it accepts events again: on the tenant’s page, or with latchkey tenants resume.',
    { startedAtMs: completedAtMs },
  ],
  [
    { delivery: { dueAtMs: laterMs, isClaimed: true, attemptCount: 1 } },
    ...(['in_progress', 'A forwarder makes attempt 2 of 10.', ''] as const),
    { nextChangeAtMs: laterMs },
  ],
  [
    {
      delivery: { dueAtMs: laterMs, isClaimed: true, attemptCount: 8 },
      attemptsMax: 5,
      blockers: [suspended('gone')],
    },
    ...(['in_progress', 'A forwarder makes attempt 9 of 9.', ''] as const),
    { nextChangeAtMs: laterMs },
  ],
  [
    { event: { ...base.event, payloadExpiresOn: '2026-11-23' }, ...waiting, blockers: [suspended('gone')] },
    'payload_expired',
    'The payload’s retention has ended, so the delivery fails at its next attempt.',
    'Raise the payload retention above the length of the retry schedule: spec.retention.',
  ],
  [
    waiting,
    'waiting',
    'The event waits for attempt 4 of 10.',
    'A retry attempts it at once.',
    { nextChangeAtMs: laterMs },
  ],
  [
    { ...waiting, lastAttempt: { attempt: 3, status: 404, cause: null } },
    'waiting',
    'The event waits for attempt 4 of 10; the callback last answered 404.',
    'Check the path in spec.callback.url. A retry attempts it at once.',
    { nextChangeAtMs: laterMs },
  ],
  [{}, 'queued', 'The event is next in the tenant’s queue for attempt 1 of 10.', ''],
  [
    { aheadCount: 1 },
    'queued',
    'The event is in the tenant’s queue for attempt 1 of 10, behind 1 other delivery.',
    '',
  ],
  [
    { aheadCount: 1_001 },
    'queued',
    'The event is in the tenant’s queue for attempt 1 of 10, behind more than 1000 other deliveries.',
    '',
  ],
]

describe('explain', () => {
  test.each(states)(
    'explain: the facts %j get the expected explanation',
    (facts, position, sentence, todo, more = {}) => {
      const expected = { position, sentence, ...(todo !== '' && { todo }), ...more }
      expect(explain({ ...base, ...facts }) as object).toEqual(expected)
    },
  )

  test('explain: the cases of this test cover every position of an event', () => {
    expect(new Set(states.map(([, position]) => position))).toEqual(new Set(Object.keys(eventPositions)))
  })
})

describe('GET events/{eventId}/explain', () => {
  let backoffice: TestBackoffice
  let api: TestApi
  let acme: SeededTenant
  beforeAll(async () => {
    const manifests = ['acme', 'rival']
      .map((name) => dashboardTenantYaml(name, { scopes: '["events:read"]' }))
      .join('')
    backoffice = await startTestBackoffice(manifests)
    api = await startTestApi({ databaseUrl: backoffice.databaseUrl, manifests })
    acme = await seedTenant(backoffice, 'acme')
  }, 30_000)
  afterAll(async () => {
    await api.close()
    await backoffice.close()
  })
  const read = async (id: string, as = 'acme') => {
    const answer = await api.call('GET', `/v1/events/${id}/explain`, undefined, {
      Authorization: `Bearer ${dashboardKey(as)}`,
    })
    return { status: answer.status, ...answer.json }
  }
  const execute = (text: string, ...values: unknown[]) => backoffice.pool.query(text, values)

  test('explain: the explanation is based on the stored event, its tenant and its callback', async () => {
    const id = acme.failedId
    expect(await read(id)).toMatchObject({ status: 200, position: 'failed' })
    await execute(`UPDATE events SET state = 'accepted', completed_at = NULL WHERE id = $1`, id)
    await execute(
      `INSERT INTO deliveries_due (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at)
      SELECT id, 'callback', tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, now() - interval '1 h' FROM events WHERE id = $1`,
      id,
    )
    await execute(
      `INSERT INTO tenant_queues (tenant_id, destination, next_due_at) VALUES ($1, 'callback', now()) ON CONFLICT DO NOTHING`,
      acme.tenantId,
    )
    await execute(
      `UPDATE tenant_queues SET suspended_at = NULL, suspended_cause = NULL, breaker_until = '-infinity' WHERE tenant_id = $1`,
      acme.tenantId,
    )
    expect(await read(id)).toMatchObject({ position: 'queued', sentence: expect.stringContaining('is next') })
    await acceptEvents(backoffice.pool, [receivedEvent({ tenantId: acme.tenantId })])
    await execute(`UPDATE deliveries_due SET due_at = now() - interval '2 h' WHERE event_id <> $1`, id)
    expect(await read(id)).toMatchObject({ sentence: expect.stringMatching(/behind [0-9]+ other deliver/) })
    await execute(
      `UPDATE deliveries_due SET lease = 'a', leased_until = now() + interval '1 h' WHERE event_id = $1`,
      id,
    )
    expect(await read(id)).toMatchObject({ position: 'in_progress' })
    await execute(`UPDATE deliveries_due SET leased_until = now() - interval '1 s' WHERE event_id = $1`, id)
    expect(await read(id)).toMatchObject({ position: 'queued' })
    await execute(
      `INSERT INTO attempts (event_id, destination, expires_on, cycle, attempt, started_at, duration_ms, outcome, status, answer)
      SELECT id, 'callback', expires_on, cycle, 7, now(), 5, 'failed', 503, 'secret' FROM events WHERE id = $1`,
      id,
    )
    await execute(`UPDATE deliveries_due SET due_at = now() + interval '1 h' WHERE event_id = $1`, id)
    expect(await read(id)).toMatchObject({ sentence: expect.stringContaining('last answered 503') })
    expect(await read(id)).toMatchObject({ position: 'waiting', nextChangeAt: expect.stringMatching(/Z$/) })
    await execute(
      `UPDATE tenant_queues SET breaker_until = now() + interval '1 h' WHERE tenant_id = $1`,
      acme.tenantId,
    )
    expect(await read(id)).toMatchObject({ position: 'breaker_open' })
    await execute(
      `UPDATE tenant_queues SET suspended_at = now(), suspended_cause = 'gone' WHERE tenant_id = $1`,
      acme.tenantId,
    )
    expect(await read(id)).toMatchObject({ position: 'callback_suspended' })
    const paused = await backoffice.call(
      'PUT',
      `/internal/v1/tenants/${acme.tenantId}/settings/forwarding.paused`,
      {
        body: { value: true },
      },
    )
    expect(paused.status).toBe(200)
    expect(await read(id)).toMatchObject({
      position: 'forwarding_paused',
      sentence: expect.stringMatching(
        /^Deliveries of this tenant are paused by operator:dev [(]setting .+[.]$/,
      ),
      todo: 'Ask operator:dev to resume deliveries.',
    })
    const all = await backoffice.call('PUT', '/internal/v1/settings/forwarding.paused', {
      body: { value: true },
    })
    expect(all.status).toBe(200)
    expect(await read(id)).toMatchObject({
      sentence: expect.stringMatching(
        /^Deliveries of all tenants are paused by the platform team [(]setting /,
      ),
      todo: 'Ask the platform team to resume deliveries.',
    })
    // A user who may read the installation's settings sees who set them, and a user who may change them sees how to resume.
    const { json } = await backoffice.call('GET', `/internal/v1/events/${id}/explain`)
    expect(json).toMatchObject({
      sentence: expect.stringMatching(/^Deliveries of all tenants are paused by operator:dev [(]setting /),
      todo: 'Resume deliveries of all tenants.',
    })
    await execute(`UPDATE events SET payload_expires_on = current_date - 1 WHERE id = $1`, id)
    expect(await read(id)).toMatchObject({ position: 'payload_expired' })
  })

  test('explain: an event of another tenant is not found', async () => {
    expect(await read(acme.failedId, 'rival')).toMatchObject({ status: 404 })
    expect(await read(createEventId(Date.now(), 90))).toMatchObject({ status: 404 })
  })
})
