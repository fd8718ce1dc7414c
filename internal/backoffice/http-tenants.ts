import { Type as t } from '@sinclair/typebox'
import { type LimitName, limitAmountMax, limitNames } from '#internal/tenants/index.ts'
import { moment } from './http-body.ts'
import {
  namespacesParam,
  pageParams,
  providerParam,
  readTime,
  textParam,
  timeParam,
  whoseParams,
} from './http-params.ts'
import { type InternalRow, internalRow } from './http-row.ts'
import { invalid, notFound, ok } from './outcome.ts'
import type { TenantRef } from './tenants.ts'

const strict = { additionalProperties: false }
const tenant = '/internal/v1/tenants/:tenantId'

/** Parameters of the list of tenants. */
export const tenantListParams = {
  ...pageParams,
  namespaces: namespacesParam,
  search: textParam('Part of a slug, of `namespace/name`, or of a display name, in any case.', {
    charsMax: 100,
  }),
} as const

/** Parameters by which a tenant is looked up: an id, a slug, a key's beginning, or a namespace with a name. */
export const tenantLookupParams = {
  id: textParam('The tenant’s id.', { charsMax: 64 }),
  slug: textParam('Its slug.', { charsMax: 63 }),
  keyPrefix: textParam(
    'The first 11 characters of one of its API keys, `lk_` included. The whole key is refused.',
    { charsMax: 11, pattern: '^lk_[\\x21-\\x7e]{8}$' },
  ),
  namespace: textParam('Its namespace; together with `name`.', { charsMax: 63 }),
  name: textParam('Its name.', { charsMax: 63 }),
} as const

/** Parameters of a tenant's usage. */
export const usageParams = {
  from: timeParam(
    'The first hour begins then; default: 24 hours before `to`. At most 62 days, of which the last ones are given.',
  ),
  to: timeParam('The last hour begins before that; default: now.'),
} as const

/** Parameters of the list of refused calls. */
export const refusedParams = {
  ...pageParams,
  provider: providerParam,
  cause: textParam('Why it was refused, as the calls themselves have it: `signature_mismatch` and its kin.', {
    charsMax: 64,
  }),
} as const

/** Parameters of the audit log. */
export const auditParams = {
  ...pageParams,
  ...whoseParams,
  actor: textParam('Part of who did it, in any case.', { charsMax: 200 }),
  action: textParam('What it was, or how that begins, such as `payloads.`.', { charsMax: 200 }),
  from: timeParam('Done then or later.'),
  to: timeParam('Done earlier than that.'),
} as const

/** What another service counted. */
export const EmissionBody = t.Object(
  {
    kind: t.String({
      pattern: '^[a-z][a-z0-9_]*([.][a-z0-9_]+)*$',
      maxLength: 64,
      description: 'What was used: dotted lowercase. `locks` and `events` are counted by Latchkey itself.',
    }),
    count: t.Integer({ minimum: 0, maximum: 1_000_000_000_000, description: 'How much.' }),
    at: moment('When: it counts for that UTC hour, which lies at most 35 days back.'),
  },
  strict,
)

/** A hard limit for a time. */
export const OverrideBody = t.Object(
  {
    hard: t.Union([t.Integer({ minimum: 0, maximum: limitAmountMax }), t.Null()], {
      description: 'The hard limit; null: none.',
    }),
    until: moment('When it lapses: later than now, by at most 366 days.'),
    reason: t.RegExp(/^[^\p{Cc}\p{Cs}\uFFFD]{1,500}$/u, { description: 'Why.' }),
  },
  strict,
)

function refOf(
  query: {
    readonly [Name in keyof typeof tenantLookupParams]?: string
  },
): TenantRef | undefined {
  const { namespace, name, ...single } = query
  const named = Object.entries(single)
  if (namespace !== undefined && name !== undefined && named.length === 0)
    return { by: 'name', namespace, name }
  const [first, ...more] = named
  if (first === undefined || more.length > 0 || namespace !== undefined || name !== undefined)
    return undefined
  return { by: first[0] as 'id' | 'slug' | 'keyPrefix', text: first[1] }
}

/** Rows about tenants and what belongs to one. */
export const tenantRows: readonly InternalRow[] = [
  internalRow({
    ...{ method: 'GET', path: '/internal/v1/tenants', query: tenantListParams },
    act: ({ backoffice, actor, query }) => backoffice.tenants.list(actor, query),
  }),
  internalRow({
    ...{ method: 'GET', path: '/internal/v1/tenant', query: tenantLookupParams },
    async act({ backoffice, actor, query }) {
      const ref = refOf(query)
      return ref === undefined
        ? invalid('Name one of id, slug and keyPrefix, or namespace and name')
        : backoffice.tenants.find(actor, ref)
    },
  }),
  internalRow({
    ...{ method: 'GET', path: tenant },
    act: ({ backoffice, actor, tenantId }) => backoffice.tenants.read(actor, tenantId),
  }),
  internalRow({
    ...{ method: 'GET', path: `${tenant}/permissions` },
    act: ({ backoffice, actor, tenantId }) => backoffice.tenants.permissions(actor, tenantId),
  }),
  internalRow({
    ...{ method: 'GET', path: `${tenant}/refused-calls`, query: refusedParams },
    act: ({ backoffice, actor, tenantId, query }) => backoffice.refused.list(actor, { ...query, tenantId }),
  }),
  internalRow({
    ...{ method: 'GET', path: `${tenant}/usage`, query: usageParams },
    act: ({ backoffice, actor, tenantId, query }) =>
      backoffice.usage.read(actor, { tenantId, fromMs: query.from, toMs: query.to }),
  }),
  internalRow({
    ...{ method: 'PUT', path: `${tenant}/usage/:emissionId`, body: EmissionBody },
    async act({ backoffice, actor, tenantId, params, body }) {
      const at = readTime(body.at)
      if (at === undefined) return invalid('"at" must be a time such as 2026-11-01T08:30:00Z')
      const { kind, count } = body
      return backoffice.usage.emit(actor, { id: params['emissionId'] ?? '', tenantId, kind, count, at })
    },
  }),
  internalRow({
    ...{ method: 'GET', path: `${tenant}/limits` },
    async act({ backoffice, actor, tenantId }) {
      const report = await backoffice.usage.read(actor, { tenantId })
      if (report.kind !== 'ok') return report
      const { limits, over } = report.value
      return ok({ limits, over })
    },
  }),
  internalRow({
    ...{ method: 'PUT', path: `${tenant}/limits/:limit/override`, body: OverrideBody },
    async act({ backoffice, actor, tenantId, params, body: { hard, until, reason } }) {
      const limit = limitNamed(params['limit'])
      if (limit === undefined) return notFound
      const untilMs = readTime(until)
      if (untilMs === undefined) return invalid('"until" must be a time such as 2026-11-01T08:30:00Z')
      return backoffice.usage.override(actor, { tenantId, limit, hard, untilMs, reason })
    },
  }),
  internalRow({
    ...{ method: 'DELETE', path: `${tenant}/limits/:limit/override` },
    async act({ backoffice, actor, tenantId, params }) {
      const limit = limitNamed(params['limit'])
      return limit === undefined ? notFound : backoffice.usage.clearOverride(actor, { tenantId, limit })
    },
  }),
  internalRow({
    ...{ method: 'POST', path: `${tenant}/callback/test`, idempotencyKey: 'optional' },
    act: ({ backoffice, actor, tenantId, idempotencyKey }) =>
      backoffice.callbacks.sendTestEvent(actor, {
        tenantId,
        idempotencyKey: idempotencyKey === '' ? undefined : idempotencyKey,
      }),
  }),
  internalRow({
    ...{ method: 'POST', path: `${tenant}/callback/resume` },
    act: ({ backoffice, actor, tenantId }) => backoffice.callbacks.resume(actor, tenantId),
  }),
  internalRow({
    ...{ method: 'GET', path: '/internal/v1/audit', query: auditParams },
    act: ({ backoffice, actor, query: { tenant: tenantId, from, to, ...query } }) =>
      backoffice.audit.list(actor, { ...query, tenantId, fromMs: from, toMs: to }),
  }),
]

function limitNamed(text: string | undefined): LimitName | undefined {
  return limitNames.find((each) => each === text)
}
