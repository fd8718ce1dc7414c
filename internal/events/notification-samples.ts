import { type Static, type TSchema, Type as t } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { NotificationType } from '#internal/tenants/index.ts'

/** Type of the notification that tests a receiver. It is sent regardless of the types that the tenant chose. */
export const testNoticeType = 'latchkey.test'
/** Type of a notification, including the one that tests a receiver. */
export type NoticeType = NotificationType | typeof testNoticeType

export interface NoticeSample<Schema extends TSchema = TSchema> {
  /** Occasion of the notification, in one sentence. */
  readonly description: string
  readonly schema: Schema
  readonly sample: Static<Schema>
}

const time = t.String({ pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' })
const count = t.Integer({ minimum: 0 })
const strict = { additionalProperties: false }
const common = {
  tenant: t.Object({ namespace: t.String(), name: t.String() }, strict),
  since: time,
  reason: t.String(),
  advice: t.String(),
}
const troubleFields = { ...common, failedAttempts: count, lastFailureAt: time }

const sampleOf = <Schema extends TSchema>(
  description: string,
  schema: Schema,
  sample: Static<Schema>,
): NoticeSample<Schema> => ({ description, schema, sample })

const tenant = { namespace: 'shops', name: 'acme' }

/** Types of notifications, each with the schema of its payload and one sample. */
export const noticeSamples = {
  'latchkey.callback.suspended': sampleOf(
    'The callback answered 410 or asked for no more: nothing is sent to it until it is resumed.',
    t.Object(troubleFields, strict),
    {
      tenant,
      since: '2026-11-26T12:00:01.000Z',
      reason: 'gone',
      failedAttempts: 1,
      lastFailureAt: '2026-11-26T12:00:01.000Z',
      advice:
        'Events are accepted and wait. Make the callback accept events, then resume it: kubectl annotate tenant NAME latchkey.dev/resume-callback=yes, or the button of the tenant’s page.',
    },
  ),
  'latchkey.callback.failing': sampleOf(
    'Deliveries have failed for five minutes.',
    t.Object(troubleFields, strict),
    {
      tenant,
      since: '2026-11-26T12:00:01.000Z',
      reason: 'http_503',
      failedAttempts: 42,
      lastFailureAt: '2026-11-26T12:05:12.000Z',
      advice:
        'Events are accepted, and failed attempts are repeated by the retry schedule. Repair the callback; the attempts of an event show its answers.',
    },
  ),
  'latchkey.callback.recovered': sampleOf(
    'A callback that was suspended or failing accepts events, and has not failed for five minutes.',
    t.Object(
      { ...troubleFields, recoveredFrom: t.Union([t.Literal('suspended'), t.Literal('failing')]) },
      strict,
    ),
    {
      tenant,
      since: '2026-11-26T12:00:01.000Z',
      reason: 'http_503',
      failedAttempts: 57,
      lastFailureAt: '2026-11-26T12:09:40.000Z',
      recoveredFrom: 'failing' as const,
      advice:
        'Deliveries continue. Events whose last attempt failed are not sent again by themselves: replay them.',
    },
  ),
  'latchkey.limit.near': sampleOf(
    'A soft limit is reached; once per limit and period.',
    t.Object({ ...common, limit: t.String(), used: count, soft: count }, strict),
    {
      tenant,
      since: '2026-11-01T00:00:00.000Z',
      reason: 'soft_limit',
      limit: 'eventsPerMonth',
      used: 800_000,
      soft: 800_000,
      advice:
        'At the hard limit, calls are refused or events are marked, as the Tenant says. Reduce the usage, or ask the platform for a higher limit.',
    },
  ),
  'latchkey.replay.finished': sampleOf(
    'A replay of the tenant has ended and so have its deliveries, or a day later.',
    t.Object(
      {
        ...common,
        reason: t.Optional(t.String()),
        replayId: t.String({ pattern: '^rpl_' }),
        state: t.Union([t.Literal('completed'), t.Literal('cancelled'), t.Literal('failed')]),
        endedAt: time,
        queued: count,
        skipped: count,
        delivered: count,
        failed: count,
        pending: count,
      },
      strict,
    ),
    {
      tenant,
      replayId: 'rpl_06gw979vs1d9q6mddfvvx375s4',
      state: 'completed' as const,
      since: '2026-11-26T12:00:01.000Z',
      endedAt: '2026-11-26T12:00:31.000Z',
      queued: 120,
      skipped: 2,
      delivered: 119,
      failed: 1,
      pending: 0,
      advice: 'Look at the attempts of the failed events, then replay them.',
    },
  ),
  [testNoticeType]: sampleOf(
    'A user with the right to replay asked for a test of the receiver.',
    t.Object(common, strict),
    {
      tenant,
      since: '2026-11-26T12:00:00.000Z',
      reason: 'test',
      advice: 'Nothing is to be done: this notification tests its receiver.',
    },
  ),
} as const satisfies Readonly<Record<NoticeType, NoticeSample>>

/** Lists the differences between the payload of a notification and the schema of its type. */
export function noticeProblems(type: NoticeType, payload: unknown): readonly string[] {
  return [...Value.Errors(noticeSamples[type].schema, payload)].map(
    ({ path, message }) => `${path} ${message}`,
  )
}
