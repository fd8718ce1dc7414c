import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import {
  type AlertDecision,
  type DestinationAlert,
  decideAlert,
  decideDestinationAlerts,
  noteDestinationSignals,
} from './destination-alerts.ts'
import { queueIdOf } from './model.ts'
import { type NoticeType, noticeProblems } from './notification-samples.ts'
import type { NoticeParts } from './notifications.ts'
import { resumeQueues, suspendQueue } from './tenant-queue.ts'

/** Tomorrow: no time that Postgres sets is later. */
const startMs = Date.now() + 86_400_000
const at = (minutes: number) => startMs + minutes * 60_000

const failing: DestinationAlert = {
  destination: 'callback',
  tenantId: 'ten_a' as TenantId,
  isSuspended: false,
  sinceMs: at(0),
  failures: 3,
  cause: 'http_500',
  open: null,
  lastFailureAtMs: at(0),
  lastSuccessAtMs: 0,
  suspendedNotifiedAtMs: 0,
  failingNotifiedAtMs: 0,
}

test.each<[string, Partial<DestinationAlert>, minutes: number, AlertDecision]>([
  ['trouble of 4 minutes', {}, 4, { kind: 'wait' }],
  ['trouble of 5 minutes', {}, 5, { kind: 'notify', what: 'failing' }],
  ['trouble whose owner knows', { open: 'failing' }, 60, { kind: 'wait' }],
  ['trouble 14 minutes after another', { failingNotifiedAtMs: at(-9) }, 5, { kind: 'wait' }],
  [
    'trouble 15 minutes after another',
    { failingNotifiedAtMs: at(-10) },
    5,
    { kind: 'notify', what: 'failing' },
  ],
  ['trouble that ended before its owner was notified', { lastSuccessAtMs: at(1) }, 5, { kind: 'forget' }],
  [
    'successes among failures',
    { lastFailureAtMs: at(4), lastSuccessAtMs: at(4.5) },
    5,
    { kind: 'notify', what: 'failing' },
  ],
  ['a short failure', { lastFailureAtMs: at(1), lastSuccessAtMs: at(4) }, 5, { kind: 'wait' }],
  ['a success 4 minutes after a failure', { open: 'failing', lastSuccessAtMs: at(1) }, 4, { kind: 'wait' }],
  [
    'no failure for 5 minutes, and a success',
    { open: 'failing', lastSuccessAtMs: at(1) },
    5,
    { kind: 'notify', what: 'recovered' },
  ],
  ['no failure for a day, and no success', { open: 'failing' }, 1_440, { kind: 'wait' }],
  ['no attempt for a week', { open: 'failing' }, 7 * 1_440, { kind: 'forget' }],
  ['a suspension', { isSuspended: true }, 0, { kind: 'notify', what: 'suspended' }],
  [
    'a suspension whose owner knows',
    { isSuspended: true, open: 'suspended', suspendedNotifiedAtMs: at(0) },
    60,
    { kind: 'wait' },
  ],
  [
    'a second suspension within 15 minutes',
    { isSuspended: true, open: 'suspended', suspendedNotifiedAtMs: at(-10) },
    4,
    { kind: 'wait' },
  ],
  [
    'a second suspension after 15 minutes',
    { isSuspended: true, open: 'suspended', suspendedNotifiedAtMs: at(-10) },
    5,
    { kind: 'notify', what: 'suspended' },
  ],
  [
    'a suspended callback after a week',
    { isSuspended: true, open: 'suspended', suspendedNotifiedAtMs: at(0) },
    7 * 1_440,
    { kind: 'wait' },
  ],
])('decideAlert: %s', (_what, fields, minutes, decision) => {
  expect(decideAlert({ ...failing, ...fields }, at(minutes))).toEqual(decision)
})

let lab: DeliveryLab
beforeAll(async () => {
  lab = await createDeliveryLab()
}, 60_000)
afterAll(() => lab.close())
beforeEach(() => truncateEvents(lab.pool))

function noticesOf(...tenants: readonly DirectoryTenant[]): NoticeParts & { readonly counted: string[] } {
  const counted: string[] = []
  return {
    pool: lab.pool,
    directory: { findTenantById: (id) => tenants.find((each) => each.id === id) },
    retentionDefaults: () => ({ payloadDays: 30, eventDays: 90 }),
    onNotified: (type) => void counted.push(type),
    counted,
  }
}

const notifications = { url: 'http://127.0.0.1:9/' }
const stored = () =>
  lab.value<string[]>(
    "SELECT coalesce(array_agg(type ORDER BY id), '{}') FROM events WHERE provider = 'latchkey'",
  )
const note = (tenantId: TenantId, nowMs: number, succeeded: boolean, isAlarm = !succeeded) =>
  noteDestinationSignals(lab.pool, [
    {
      tenantId,
      destination: 'callback',
      failures: succeeded ? 0 : 1,
      cause: 'http_503',
      isAlarm,
      lastFailureAtMs: succeeded ? undefined : nowMs,
      lastSuccessAtMs: succeeded ? nowMs : undefined,
    },
  ])

test.each([
  // Each turn has one minute of failures and one of successes: one notification of failure, and one of recovery at the end.
  ['every minute', 1, ['latchkey.callback.failing', 'latchkey.callback.recovered']],
  ['every 3 minutes', 3, ['latchkey.callback.failing', 'latchkey.callback.recovered']],
])(
  'callback alerts: a callback that flaps %s for 3 hours causes two notifications',
  async (_name, turn, expected) => {
    const tenant = await lab.addTenant({ notifications })
    const [one, other] = [noticesOf(tenant), noticesOf(tenant)]
    const steps = 180
    for (let minute = 0; minute < steps + 30; minute += 1) {
      const succeeded = minute >= steps || Math.floor(minute / turn) % 2 === 1
      await note(tenant.id, at(minute), succeeded)
      // Simulates two processes that decide at the same time.
      await Promise.all([one, other].map((parts) => decideDestinationAlerts(parts, at(minute))))
    }
    expect(await stored()).toEqual(expected)
    expect([...one.counted, ...other.counted].sort()).toEqual(expected)
    expect(await lab.value('SELECT count(*) FROM destination_alerts')).toBe(0)
  },
  60_000,
)

test('callback alerts: a callback that fails and recovers every 10 minutes causes at most one notification of each kind in 15 minutes', async () => {
  const tenant = await lab.addTenant({ notifications })
  const parts = noticesOf(tenant)
  for (let minute = 0; minute < 180; minute += 1) {
    await note(tenant.id, at(minute), Math.floor(minute / 10) % 2 === 1)
    await decideDestinationAlerts(parts, at(minute))
  }
  const times = await lab.value<number[]>(
    "SELECT array_agg(extract(epoch FROM occurred_at)::float8 ORDER BY id) FROM events WHERE type = 'latchkey.callback.failing'",
  )
  expect(times.length).toBeGreaterThan(2)
  await expectSampledForm()
  for (const [index, time] of times.entries())
    if (index > 0) expect(time - (times[index - 1] ?? 0)).toBeGreaterThanOrEqual(900)
}, 60_000)

test('callback alerts: neither a success alone nor a failure without an alarm starts a period of trouble', async () => {
  const tenant = await lab.addTenant({ notifications })
  await note(tenant.id, at(0), true)
  await note(tenant.id, at(0), false, false)
  expect(await lab.value('SELECT count(*) FROM destination_alerts')).toBe(0)
})

/** Expects that all stored notifications have the form of the samples of their types. */
async function expectSampledForm(): Promise<void> {
  const all = await lab.pool.query<{ type: NoticeType; payload: string }>(
    "SELECT type, payload FROM event_payloads p JOIN events e ON e.id = event_id WHERE provider = 'latchkey'",
  )
  expect(all.rows.length).toBeGreaterThan(0)
  for (const { type, payload } of all.rows) expect(noticeProblems(type, JSON.parse(payload))).toEqual([])
}

test('callback alerts: a suspension and its end each cause one notification, regardless of which process detects them', async () => {
  const [tenant, other] = [await lab.addTenant({ notifications }), await lab.addTenant({ notifications })]
  await lab.accept(tenant.id)
  await lab.claim()
  await suspendQueue(
    lab.pool,
    { tenantId: tenant.id, destination: 'callback' },
    { cause: 'gone', nowMs: at(0) },
  )
  await suspendQueue(
    lab.pool,
    { tenantId: tenant.id, destination: 'callback' },
    { cause: 'disabled', nowMs: at(1) },
  )
  const all = Array.from({ length: 8 }, () => noticesOf(tenant, other))
  const settled = await Promise.all(all.map((parts) => decideDestinationAlerts(parts, at(1))))
  expect(settled.flat()).toEqual([queueIdOf({ tenantId: tenant.id, destination: 'notifications' })])
  expect(
    await lab.value(
      "SELECT tenant_id || ' ' || type || ' ' || provider || ' ' || origin FROM events WHERE provider = 'latchkey'",
    ),
  ).toBe(`${tenant.id} latchkey.callback.suspended latchkey notification`)
  expect(
    JSON.parse(
      await lab.value(
        "SELECT payload FROM event_payloads p JOIN events e ON e.id = event_id WHERE type LIKE 'latchkey.%'",
      ),
    ),
  ).toEqual({
    tenant: { namespace: 'shops', name: 'acme' },
    since: new Date(at(0)).toISOString(),
    reason: 'gone',
    failedAttempts: 1,
    lastFailureAt: new Date(at(0)).toISOString(),
    advice: expect.stringContaining('resume'),
  })
  expect(await resumeQueues(lab.pool, tenant.id)).toEqual([
    queueIdOf({ tenantId: tenant.id, destination: 'callback' }),
  ])
  await note(tenant.id, at(2), true)
  await Promise.all(all.map((parts) => decideDestinationAlerts(parts, at(8))))
  await Promise.all(all.map((parts) => decideDestinationAlerts(parts, at(9))))
  expect(await stored()).toEqual(['latchkey.callback.suspended', 'latchkey.callback.recovered'])
  await expectSampledForm()
})

test.each([
  ['has no receiver of notifications', undefined],
  ['wants other types', { ...notifications, events: ['latchkey.limit.near' as const] }],
])('callback alerts: nothing is stored for a tenant that %s', async (_what, wanted) => {
  const tenant = await lab.addTenant(wanted ? { notifications: wanted } : {})
  await note(tenant.id, at(0), false)
  await decideDestinationAlerts(noticesOf(tenant), at(6))
  expect(await stored()).toEqual([])
})
