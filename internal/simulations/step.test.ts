import { expect, test } from 'bun:test'
import type { ReceivedEvent } from '#internal/events/index.ts'
import { receivedEvent } from '#test/support/events/received-event.ts'
import { decideStep, type StepOutcome, type StepVerdict } from './step.ts'

const event: ReceivedEvent = receivedEvent()
const at = { failures: 0 }
const limited = (limit: 'eventsPerMinute' | 'eventsPerMonth', retryAfterMs: number): StepOutcome => ({
  kind: 'limited',
  limit,
  quota: 3,
  retryAfterMs,
})
const later = (cause: string, waitMs: number, failures = 0) =>
  ({ kind: 'later', cause, waitMs, failures }) as StepVerdict

const cases: [name: string, StepOutcome, StepVerdict][] = [
  ['that was committed', { kind: 'stored', event }, { kind: 'sent' }],
  ['known as a duplicate', { kind: 'duplicate', event }, { kind: 'sent' }],
  ['that was spooled', { kind: 'queued', event }, { kind: 'sent' }],
  ['that could not be stored', { kind: 'unavailable', event }, later('store_unavailable', 1_000, 1)],
  ['not verified in time', { kind: 'unread' }, later('store_unavailable', 1_000, 1)],
  ['without its certificate', { kind: 'uncertified' }, later('store_unavailable', 1_000, 1)],
  ['that failed unexpectedly', { kind: 'broken' }, later('internal', 1_000, 1)],
  ['over the limit per minute', limited('eventsPerMinute', 30_000), later('events_per_minute', 30_000)],
  [
    'over the limit per month',
    limited('eventsPerMonth', 20 * 86_400_000),
    later('events_per_month', 600_000),
  ],
  [
    'of a suspended tenant',
    { kind: 'no_caller', cause: 'tenant_suspended' },
    later('tenant_suspended', 10_000, 1),
  ],
  [
    'of a paused provider',
    { kind: 'no_caller', cause: 'provider_paused' },
    later('provider_paused', 10_000, 1),
  ],
  [
    'of an unknown tenant',
    { kind: 'no_caller', cause: 'tenant_unknown' },
    later('tenant_unknown', 10_000, 1),
  ],
  [
    'of a removed provider',
    { kind: 'no_caller', cause: 'provider_not_configured' },
    { kind: 'failed', cause: 'provider_not_configured' },
  ],
  [
    'of a tenant without secrets',
    { kind: 'no_caller', cause: 'secrets_missing' },
    { kind: 'failed', cause: 'secrets_missing' },
  ],
  [
    'of a tenant whose secrets cannot be opened',
    { kind: 'no_caller', cause: 'secrets_unreadable' },
    later('secrets_unreadable', 10_000, 1),
  ],
  [
    'signed with a secret that cannot be opened',
    { kind: 'unverifiable' },
    later('secrets_unreadable', 10_000, 1),
  ],
  [
    'refused by its adapter',
    { kind: 'invalid', cause: 'signature_mismatch' },
    { kind: 'failed', cause: 'signature_mismatch' },
  ],
  ['that is seven days late', { kind: 'too_late' }, { kind: 'failed', cause: 'too_late' }],
  ['rejected by Postgres', { kind: 'refused', event }, { kind: 'failed', cause: 'event_refused' }],
]

test.each(cases)('decideStep: has the expected result for an event %s', (_name, outcome, verdict) => {
  expect(decideStep(outcome, at)).toEqual(verdict)
})

test('decideStep: the wait for an unavailable store grows to one minute, and the failure counter stops at its maximum', () => {
  const verdicts = [1, 5, 6, 30, 1_000].map((failures) => decideStep({ kind: 'broken' }, { ...at, failures }))
  expect(verdicts).toEqual([
    later('internal', 2_000, 2),
    later('internal', 32_000, 6),
    later('internal', 60_000, 7),
    later('internal', 60_000, 31),
    later('internal', 60_000, 1_000),
  ])
})

test('decideStep: the wait for a change of the tenant grows to ten minutes', () => {
  const outcome: StepOutcome = { kind: 'no_caller', cause: 'tenant_suspended' }
  const verdicts = [0, 3, 6, 100].map((failures) => decideStep(outcome, { failures }))
  expect(verdicts).toEqual([
    later('tenant_suspended', 10_000, 1),
    later('tenant_suspended', 80_000, 4),
    later('tenant_suspended', 600_000, 7),
    later('tenant_suspended', 600_000, 101),
  ])
})
