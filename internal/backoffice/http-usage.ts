import { Type as t } from '@sinclair/typebox'
import { plainText } from '#internal/http/index.ts'
import {
  limitAmountMax,
  parseLimitName,
  usageKindCharsMax,
  usageKindPattern,
} from '#internal/tenants/index.ts'
import { overrideDaysMax, overrideReasonCharsMax, usageIdCharsMax } from '#internal/usage/index.ts'
import { Done, Guardrail, Limits, Removed, Usage } from './http-answers.ts'
import { internalApi, internalRoute, type SharedApi } from './http-apis.ts'
import { idSchema, readTimes, timeParam, timestamp, withNamed } from './http-params.ts'
import { invalid } from './outcome.ts'

const tenant = '/internal/v1/tenants/:tenantId'
const strict = { additionalProperties: false }
const amountMax = 1_000_000_000_000

function kindField(description: string) {
  const expected = `at most ${usageKindCharsMax} characters of dotted lowercase, such as exports.rows`
  return t.String({ pattern: usageKindPattern, maxLength: usageKindCharsMax, expected, description })
}

function amountField(minimum: number, options: { description: string; default?: number }) {
  return t.Integer({ minimum, maximum: amountMax, ...options })
}

const GuardrailBody = t.Object(
  {
    tenantId: idSchema('ten', { description: 'Id of the tenant.' }),
    kind: kindField('`locks`, `events`, or a kind that other services report.'),
    amount: t.Optional(
      amountField(1, { default: 1, description: 'Amount that the tenant is about to use.' }),
    ),
    commit: t.Optional(
      t.Boolean({
        default: false,
        description: 'true counts the amount in the same step, unless it is denied.',
      }),
    ),
    id: t.Optional(
      plainText(usageIdCharsMax, {
        description:
          'Id of the usage: required to commit, ignored otherwise. An emission with the same id, kind and amount is a repeat, whatever its time.',
      }),
    ),
  },
  strict,
)

export function readUsageRoute<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'GET',
    path: `${api.tenantBase}/usage`,
    id: 'readUsage',
    tag: 'usage',
    answer: Usage,
    summary: 'Usage by hour, and against the limits',
    right: 'see',
    description:
      'By default for the last 24 hours, beside each limit that applies and its usage in the current period.',
    query: {
      from: timeParam(
        'Start of the first hour. Default: 24 hours before `to`. Of a range longer than 62 days, only the last 62 days are returned.',
      ),
      to: timeParam('End of the last hour; default: now.'),
    },
    act: ({ backoffice, actor, tenantId, query }) =>
      backoffice.usage.read(actor, { tenantId, fromMs: query.from, toMs: query.to }),
  })
}

export const usageRoutes = [
  readUsageRoute(internalApi),
  internalRoute({
    method: 'PUT',
    path: `${tenant}/usage/:emissionId`,
    id: 'emitUsage',
    tag: 'usage',
    answer: Done,
    summary: 'Add usage that another service counted',
    right: 'emitUsage',
    description:
      'Each id is counted once: a repeated request changes nothing, and different content with the same id returns 422. It is never refused for a limit: `POST /internal/v1/guardrails/check` decides beforehand.',
    errors: ['idempotency_key_reused'],
    body: t.Object(
      {
        kind: kindField(
          'Kind of usage: dotted lowercase. `locks` and `events` are counted by Latchkey itself.',
        ),
        amount: amountField(0, { description: 'Amount.' }),
        occurredAt: timestamp('Time of the usage: it counts for that UTC hour, at most 35 days ago.'),
      },
      strict,
    ),
    example: { kind: 'exports.rows', amount: 1_200, occurredAt: '2026-11-21T14:40:00Z' },
    async act({ backoffice, actor, tenantId, params, body: { kind, amount, occurredAt } }) {
      const times = readTimes({ occurredAt })
      if (times.kind !== 'ok') return times
      return backoffice.usage.emit(actor, {
        id: params['emissionId'] ?? '',
        tenantId,
        kind,
        amount,
        occurredAtMs: times.value.occurredAt,
      })
    },
  }),
  internalRoute({
    method: 'GET',
    path: `${tenant}/limits`,
    id: 'readLimits',
    tag: 'usage',
    answer: Limits,
    summary: 'Limits in force, their usage, and overrides',
    right: 'see',
    act: ({ backoffice, actor, tenantId }) => backoffice.usage.limits(actor, tenantId),
  }),
  internalRoute({
    method: 'PUT',
    path: `${tenant}/limits/:limit/override`,
    id: 'overrideLimit',
    tag: 'usage',
    answer: Done,
    summary: 'Override a hard limit for a time',
    right: 'changeSettings',
    body: t.Object(
      {
        hard: t.Union([t.Integer({ minimum: 0, maximum: limitAmountMax }), t.Null()], {
          description: 'Hard limit, or null for no limit.',
        }),
        expiresAt: timestamp(`Time of expiry, within the next ${overrideDaysMax} days.`),
        reason: plainText(overrideReasonCharsMax, { description: 'Reason.' }),
      },
      strict,
    ),
    example: { hard: 250_000, expiresAt: '2027-02-01T00:00:00Z', reason: 'Winter sale, TICKET-481' },
    async act({ backoffice, actor, tenantId, params, body: { hard, expiresAt, reason } }) {
      const times = readTimes({ expiresAt })
      if (times.kind !== 'ok') return times
      const expiresAtMs = times.value.expiresAt
      return withNamed({ name: 'limit', params, parse: parseLimitName }, (limit) =>
        backoffice.usage.override(actor, { tenantId, limit, hard, expiresAtMs, reason }),
      )
    },
  }),
  internalRoute({
    method: 'DELETE',
    path: `${tenant}/limits/:limit/override`,
    id: 'clearLimitOverride',
    tag: 'usage',
    answer: Removed,
    summary: 'End an override before it expires',
    right: 'changeSettings',
    description: 'The limit of the tenant or of the platform applies again.',
    act: ({ backoffice, actor, tenantId, params }) =>
      withNamed({ name: 'limit', params, parse: parseLimitName }, (limit) =>
        backoffice.usage.clearOverride(actor, { tenantId, limit }),
      ),
  }),
  internalRoute({
    method: 'POST',
    path: '/internal/v1/guardrails/check',
    id: 'checkGuardrail',
    tag: 'usage',
    answer: Guardrail,
    errors: ['idempotency_key_reused'],
    summary: 'Whether a tenant may use an amount of a kind now',
    answerText: 'The decision, and with `commit` whether the amount is counted.',
    right: 'see',
    description: `Answers \`allow\`, \`warn\` (a soft limit is reached with this amount) or \`deny\` (a hard limit would be exceeded, or the tenant is suspended), each with status 200, and counts nothing. With \`commit\` and an \`id\` it counts the amount in the same atomic step unless it is denied, so that concurrent callers never exceed a hard limit together. A repeat with the same id and content gets the same decision and counts nothing; other content with the same id returns 422. A denied call is not remembered.

Kinds that other services report have a limit per UTC month; their ids are those of emissions, remembered for 40 days. \`locks\` count together with acquired locks; their ids are remembered for 24 hours, and take memory that counts as \`recordBytes\`. \`events\` cannot be committed, because Latchkey counts them when it accepts them: their check is answered from the same counts. To commit, the right \`create tenants/usage\` is required as well.`,
    body: GuardrailBody,
    example: {
      tenantId: 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs',
      kind: 'exports.rows',
      amount: 1_200,
      commit: true,
      id: 'batch-2026-11-21-8',
    },
    async act({ backoffice, actor, body: { tenantId, kind, amount = 1, commit = false, id } }) {
      if (commit && id === undefined) return invalid('is required to commit', 'id')
      return backoffice.usage.check(actor, { tenantId, kind, amount, id: commit ? id : undefined })
    },
  }),
]
