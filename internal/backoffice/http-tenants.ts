import { Type as t } from '@sinclair/typebox'
import { lockStates } from '#internal/records/index.ts'
import { limitAmountMax, limitNames } from '#internal/tenants/index.ts'
import {
  AuditPage,
  CallbackTested,
  Done,
  ExecutionPage,
  Limits,
  Permissions,
  RefusedPage,
  TenantDetail,
  TenantPage,
  TenantSummary,
  Usage,
} from './http-answers.ts'
import {
  namespacesParam,
  pageParams,
  providerParam,
  readTime,
  tenantParams,
  textParam,
  timeParam,
  timestamp,
  withNamed,
  wordParam,
} from './http-params.ts'
import { internalRoute } from './http-route.ts'
import { invalid, ok } from './outcome.ts'
import type { TenantRef } from './tenants.ts'

const strict = { additionalProperties: false }
const tenant = '/internal/v1/tenants/:tenantId'

const lookupParams = {
  id: textParam('Id of the tenant.', { charsMax: 64 }),
  slug: textParam('Its slug.', { charsMax: 63 }),
  keyPrefix: textParam(
    'The first 11 characters of one of the tenant’s API keys, including `lk_`. A whole key is refused.',
    { charsMax: 11, pattern: '^lk_[\\x21-\\x7e]{8}$' },
  ),
  namespace: textParam('Its namespace; together with `name`.', { charsMax: 63 }),
  name: textParam('Its name.', { charsMax: 63 }),
} as const

function refOf(query: { readonly [Name in keyof typeof lookupParams]?: string }): TenantRef | undefined {
  const { namespace, name, ...single } = query
  const named = Object.entries(single)
  if (namespace !== undefined && name !== undefined && named.length === 0)
    return { by: 'name', namespace, name }
  const [first, ...more] = named
  if (first === undefined || more.length > 0 || namespace !== undefined || name !== undefined)
    return undefined
  return { by: first[0] as 'id' | 'slug' | 'keyPrefix', text: first[1] }
}

const limitNamed = (text: string) => limitNames.find((each) => each === text)

/** Routes of tenants and of their data. */
export const tenantRoutes = [
  internalRoute({
    ...{ method: 'GET', path: '/internal/v1/tenants', id: 'listTenants', tag: 'tenants', answer: TenantPage },
    summary: 'Tenants, by namespace and name',
    query: {
      ...pageParams,
      namespaces: namespacesParam,
      search: textParam('Part of a slug, of `namespace/name`, or of a display name, in any case.', {
        charsMax: 100,
      }),
    },
    act: ({ backoffice, actor, query }) => backoffice.tenants.list(actor, query),
  }),
  internalRoute({
    ...{ method: 'GET', path: '/internal/v1/tenant', id: 'findTenant', tag: 'tenants' },
    ...{ answer: TenantSummary, errors: ['conflict'], query: lookupParams },
    summary: 'Find a tenant by id, slug, name, or prefix of a key',
    description:
      'Send only the first 11 characters of a key, never the whole key. Returns 409 if keys of several tenants have this prefix.',
    async act({ backoffice, actor, query }) {
      const ref = refOf(query)
      return ref === undefined
        ? invalid('Name one of id, slug and keyPrefix, or namespace and name')
        : backoffice.tenants.find(actor, ref)
    },
  }),
  internalRoute({
    ...{ method: 'GET', path: tenant, id: 'readTenant', tag: 'tenants', answer: TenantDetail },
    summary: 'A tenant with its conditions, URLs, keys and the ages of its secrets',
    act: ({ backoffice, actor, tenantId }) => backoffice.tenants.read(actor, tenantId),
  }),
  internalRoute({
    ...{ method: 'GET', path: `${tenant}/permissions`, id: 'readPermissions', tag: 'tenants' },
    answer: Permissions,
    summary: 'The caller’s rights on a tenant',
    act: ({ backoffice, actor, tenantId }) => backoffice.tenants.permissions(actor, tenantId),
  }),
  internalRoute({
    ...{ method: 'GET', path: `${tenant}/refused-calls`, id: 'listRefusedCalls', tag: 'events' },
    answer: RefusedPage,
    summary: 'Refused calls of providers, newest first',
    query: {
      ...pageParams,
      provider: providerParam,
      cause: textParam('Cause of the refusal, such as `signature_mismatch`.', { charsMax: 64 }),
    },
    act: ({ backoffice, actor, tenantId, query }) => backoffice.refused.list(actor, { ...query, tenantId }),
  }),
  internalRoute({
    ...{ method: 'GET', path: `${tenant}/usage`, id: 'readUsage', tag: 'usage', answer: Usage },
    summary: 'Usage by hour, and against the limits',
    query: {
      from: timeParam(
        'Start of the first hour. Default: 24 hours before `to`. Of a range longer than 62 days, only the last 62 days are returned.',
      ),
      to: timeParam('End of the last hour; default: now.'),
    },
    act: ({ backoffice, actor, tenantId, query }) =>
      backoffice.usage.read(actor, { tenantId, fromMs: query.from, toMs: query.to }),
  }),
  internalRoute({
    ...{ method: 'PUT', path: `${tenant}/usage/:emissionId`, id: 'emitUsage', tag: 'usage', answer: Done },
    summary: 'Add usage that another service counted',
    description:
      'Each id is counted once: a repeated request changes nothing, and different content with the same id returns 409. Requires the right `create tenants/usage`.',
    errors: ['conflict'],
    body: t.Object(
      {
        kind: t.String({
          pattern: '^[a-z][a-z0-9_]*([.][a-z0-9_]+)*$',
          maxLength: 64,
          description:
            'Kind of usage: dotted lowercase. `locks` and `events` are counted by Latchkey itself.',
        }),
        count: t.Integer({ minimum: 0, maximum: 1_000_000_000_000, description: 'Amount.' }),
        at: timestamp('Time of the usage: it counts for that UTC hour, at most 35 days ago.'),
      },
      strict,
    ),
    example: { kind: 'exports.rows', count: 1_200, at: '2026-11-21T14:40:00Z' },
    async act({ backoffice, actor, tenantId, params, body: { kind, count, at: atText } }) {
      const at = readTime(atText)
      if (at === undefined) return invalid('"at" must be a time such as 2026-11-01T08:30:00Z')
      return backoffice.usage.emit(actor, { id: params['emissionId'] ?? '', tenantId, kind, count, at })
    },
  }),
  internalRoute({
    ...{ method: 'GET', path: `${tenant}/limits`, id: 'readLimits', tag: 'usage', answer: Limits },
    summary: 'Limits in force, their usage, and overrides',
    async act({ backoffice, actor, tenantId }) {
      const report = await backoffice.usage.read(actor, { tenantId })
      if (report.kind !== 'ok') return report
      const { limits, over } = report.value
      return ok({ limits, over })
    },
  }),
  internalRoute({
    ...{ method: 'PUT', path: `${tenant}/limits/:limit/override`, id: 'overrideLimit', tag: 'usage' },
    answer: Done,
    summary: 'Override a hard limit for a time',
    description: 'The override expires automatically. Requires the right `update tenants/settings`.',
    body: t.Object(
      {
        hard: t.Union([t.Integer({ minimum: 0, maximum: limitAmountMax }), t.Null()], {
          description: 'Hard limit, or null for no limit.',
        }),
        until: timestamp('Time of expiry, within the next 366 days.'),
        reason: t.RegExp(/^[^\p{Cc}\p{Cs}\uFFFD]{1,500}$/u, { description: 'Reason.' }),
      },
      strict,
    ),
    example: { hard: 250_000, until: '2027-02-01T00:00:00Z', reason: 'Winter sale, TICKET-481' },
    async act({ backoffice, actor, tenantId, params, body: { hard, until, reason } }) {
      const untilMs = readTime(until)
      if (untilMs === undefined) return invalid('"until" must be a time such as 2026-11-01T08:30:00Z')
      return withNamed(params['limit'], limitNamed, (limit) =>
        backoffice.usage.override(actor, { tenantId, limit, hard, untilMs, reason }),
      )
    },
  }),
  internalRoute({
    ...{ method: 'DELETE', path: `${tenant}/limits/:limit/override`, id: 'clearLimitOverride' },
    ...{ tag: 'usage', answer: Done, summary: 'End an override before it expires' },
    act: ({ backoffice, actor, tenantId, params }) =>
      withNamed(params['limit'], limitNamed, (limit) =>
        backoffice.usage.clearOverride(actor, { tenantId, limit }),
      ),
  }),
  internalRoute({
    ...{ method: 'POST', path: `${tenant}/callback/test`, id: 'testCallback', tag: 'tenants' },
    ...{ answer: CallbackTested, errors: ['conflict'], idempotencyKey: 'optional' },
    summary: 'Call the callback once and return its response',
    description:
      'The call is checked, signed and limited like a delivery. Its event has the type `latchkey.test` and is not stored. A repeated request calls the callback again; with the same `Idempotency-Key` the call has the same `webhook-id`, so that the receiver can detect the repeat.',
    act: ({ backoffice, actor, tenantId, idempotencyKey }) =>
      backoffice.callbacks.sendTestEvent(actor, {
        tenantId,
        idempotencyKey: idempotencyKey === '' ? undefined : idempotencyKey,
      }),
  }),
  internalRoute({
    ...{ method: 'POST', path: `${tenant}/callback/resume`, id: 'resumeCallback', tag: 'tenants' },
    ...{ answer: Done, summary: 'Resume the deliveries of a suspended callback' },
    act: ({ backoffice, actor, tenantId }) => backoffice.callbacks.resume(actor, tenantId),
  }),
  internalRoute({
    ...{ method: 'GET', path: `${tenant}/executions`, id: 'listExecutions', tag: 'executions' },
    ...{ answer: ExecutionPage, summary: 'History of a tenant’s locks, newest first' },
    query: {
      ...pageParams,
      scope: textParam('Whole scope.', { charsMax: 128 }),
      key: textParam('Whole key; only together with `scope`.', { charsMax: 255 }),
      state: wordParam('State of the lock.', lockStates),
      from: timeParam('Acquired then or later.'),
      to: timeParam('Acquired earlier.'),
    },
    act: ({ backoffice, actor, tenantId, query: { from, to, ...query } }) =>
      backoffice.locks.list(actor, { ...query, tenantId, fromMs: from, toMs: to }),
  }),
  internalRoute({
    ...{ method: 'GET', path: '/internal/v1/audit', id: 'listAudit', tag: 'audit', answer: AuditPage },
    summary: 'Audit log, newest first',
    description: 'Entries without a tenant are visible only to callers that see all tenants.',
    query: {
      ...pageParams,
      ...tenantParams,
      actor: textParam('Part of the actor, in any case.', { charsMax: 200 }),
      action: textParam('Action or its prefix, such as `payloads.`.', { charsMax: 200 }),
      from: timeParam('Done then or later.'),
      to: timeParam('Done earlier.'),
    },
    act: ({ backoffice, actor, query: { tenant: tenantId, from, to, ...query } }) =>
      backoffice.audit.list(actor, { ...query, tenantId, fromMs: from, toMs: to }),
  }),
]
