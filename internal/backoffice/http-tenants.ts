import { auditActionFilters } from '#internal/access/index.ts'
import { textParam, wordParam } from '#internal/http/index.ts'
import { refusedCauses } from '#internal/intake/index.ts'
import { refusalCauses } from '#internal/providers/index.ts'
import { lockStates } from '#internal/records/index.ts'
import { keyPrefixChars } from '#internal/tenants/index.ts'
import {
  AuditPage,
  CallbackTested,
  Done,
  LockHistoryPage,
  NotificationTested,
  Permissions,
  RefusedPage,
  TenantDetail,
  TenantPage,
  TenantSummary,
} from './http-answers.ts'
import { internalApi, internalRoute, type SharedApi } from './http-apis.ts'
import {
  listText,
  namespacesParam,
  pageParams,
  patternParam,
  providerParam,
  tenantParams,
  timeParam,
} from './http-params.ts'
import { invalid, ok } from './outcome.ts'
import type { TenantRef } from './tenants.ts'

const tenant = '/internal/v1/tenants/:tenantId'

const lookupParams = {
  id: textParam('Id of the tenant.', { charsMax: 64 }),
  slug: textParam('Its slug.', { charsMax: 63 }),
  keyPrefix: patternParam(
    `The first ${keyPrefixChars} characters of one of the tenant’s API keys, including \`lk_\`. A whole key is refused.`,
    `^lk_[!-~]{${keyPrefixChars - 'lk_'.length}}$`,
    `the first ${keyPrefixChars} characters of an API key`,
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

const refusedParams = {
  ...pageParams,
  provider: providerParam,
  cause: wordParam('Cause of the refusal.', [...refusalCauses, ...refusedCauses]),
  from: timeParam('Refused then or later.'),
  to: timeParam('Refused earlier.'),
}
const refusedText = 'Headers and samples of bodies are redacted.'

export function refusedCallsRoute<Parts>(api: SharedApi<Parts>) {
  return api.route({
    method: 'GET',
    path: `${api.tenantBase}/refused-calls`,
    id: 'listRefusedCalls',
    tag: 'events',
    answer: RefusedPage,
    summary: 'Refused calls of providers, newest first',
    right: 'see',
    description: refusedText,
    query: refusedParams,
    act: ({ backoffice, actor, tenantId, query: { from, to, ...query } }) =>
      backoffice.refused.list(actor, { ...query, tenantId, fromMs: from, toMs: to }),
  })
}

export const tenantRoutes = [
  internalRoute({
    method: 'GET',
    path: '/internal/v1/tenants',
    id: 'listTenants',
    tag: 'tenants',
    answer: TenantPage,
    summary: 'Tenants, by namespace and name',
    right: 'see',
    description:
      'Without `namespaces` it covers all tenants, for which the right must hold in the whole cluster; an API key sees its own tenant.',
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
    method: 'GET',
    path: '/internal/v1/tenants/lookup',
    id: 'findTenant',
    tag: 'tenants',
    answer: TenantSummary,
    errors: ['conflict'],
    query: lookupParams,
    summary: 'Find a tenant by id, slug, name, or prefix of a key',
    right: 'see',
    description: `Send only the first ${keyPrefixChars} characters of a key, never the whole key. Returns 409 if keys of several tenants have this prefix.`,
    async act({ backoffice, actor, query }) {
      const ref = refOf(query)
      return ref === undefined
        ? invalid('Name one of id, slug and keyPrefix, or namespace and name')
        : backoffice.tenants.find(actor, ref)
    },
  }),
  internalRoute({
    method: 'GET',
    path: tenant,
    id: 'readTenant',
    tag: 'tenants',
    answer: TenantDetail,
    summary: 'A tenant with its conditions, URLs, keys and the ages of its secrets',
    right: 'see',
    description: 'Contains no value of a key or a secret.',
    act: ({ backoffice, actor, tenantId }) => backoffice.tenants.read(actor, tenantId),
  }),
  internalRoute({
    method: 'GET',
    path: `${tenant}/permissions`,
    id: 'readPermissions',
    tag: 'tenants',
    answer: Permissions,
    summary: 'The caller’s rights on a tenant',
    right: 'see',
    act: ({ backoffice, actor, tenantId }) => backoffice.tenants.permissions(actor, tenantId),
  }),
  refusedCallsRoute(internalApi),
  internalRoute({
    method: 'GET',
    path: '/internal/v1/refused-calls',
    id: 'listAllRefusedCalls',
    tag: 'events',
    answer: RefusedPage,
    summary: 'Refused calls of providers of several tenants, newest first',
    right: 'see',
    description: `${listText} ${refusedText} Calls that name no known tenant are only counted.`,
    query: { ...refusedParams, ...tenantParams },
    act: ({ backoffice, actor, query: { from, to, ...query } }) =>
      backoffice.refused.list(actor, { ...query, fromMs: from, toMs: to }),
  }),
  internalRoute({
    method: 'POST',
    path: `${tenant}/callback/test`,
    id: 'testCallback',
    tag: 'tenants',
    answer: CallbackTested,
    errors: ['conflict'],
    idempotencyKey: 'optional',
    idempotencyKeyText:
      'Caller’s key for this test. A repeated request with the same key calls the callback again and returns the response to that call; `id` in the answer, and so `webhook-id`, is that of the first test.',
    summary: 'Call the callback once and return its response',
    right: 'replay',
    description:
      'The call is checked, signed and limited like a delivery. Its event has the type `latchkey.test` and `latchkey-origin: test` among its `headers`. It is stored with the response, listed with the origin `test`, never retried or replayed, and counts as no usage. A repeated request calls the callback again; with the same `Idempotency-Key` it sends the same event, with the same `webhook-id`, so that the receiver can detect the repeat.',
    act: ({ backoffice, actor, tenantId, idempotencyKey }) =>
      backoffice.callbacks.sendTestEvent(actor, {
        tenantId,
        idempotencyKey: idempotencyKey === '' ? undefined : idempotencyKey,
      }),
  }),
  internalRoute({
    method: 'POST',
    path: `${tenant}/callback/resume`,
    id: 'resumeCallback',
    tag: 'tenants',
    answer: Done,
    summary: 'Resume the deliveries of a suspended callback',
    right: 'replay',
    description: 'Waiting deliveries go on. Nothing changes for a callback that is not suspended.',
    act: ({ backoffice, actor, tenantId }) => backoffice.callbacks.resume(actor, tenantId),
  }),
  internalRoute({
    method: 'POST',
    path: `${tenant}/notifications/test`,
    id: 'testNotifications',
    tag: 'tenants',
    answer: NotificationTested,
    status: 202,
    errors: ['conflict'],
    summary: 'Send a test notification to the receiver of a tenant’s notifications',
    right: 'replay',
    description:
      'Stores an event of type `latchkey.test` with provider `latchkey`, which is delivered like every notification, whatever types the tenant chose. Read the event for the outcome. A tenant gets at most one in 10 s: a repeated request returns the same one. 409 without `spec.notifications`, and while notifications or the tenant are suspended.',
    act: ({ backoffice, actor, tenantId }) => backoffice.callbacks.sendTestNotification(actor, tenantId),
  }),
  internalRoute({
    method: 'GET',
    path: `${tenant}/executions`,
    id: 'listExecutions',
    tag: 'executions',
    answer: LockHistoryPage,
    summary: 'History of a tenant’s locks, newest first',
    right: 'see',
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
    method: 'GET',
    path: '/internal/v1/audit-entries',
    id: 'listAuditEntries',
    tag: 'audit',
    answer: AuditPage,
    summary: 'Audit log, newest first',
    right: 'see',
    description: `${listText} Entries without a tenant are visible only to callers that see all tenants.`,
    query: {
      ...pageParams,
      ...tenantParams,
      actor: textParam('Part of the actor, in any case.', { charsMax: 200 }),
      action: wordParam(
        'Action, or a subject with a dot for all of its actions: `payloads.`.',
        auditActionFilters,
      ),
      from: timeParam('Done then or later.'),
      to: timeParam('Done earlier.'),
    },
    async act({ backoffice, actor, query: { from, to, ...query } }) {
      const page = await backoffice.audit.list(actor, { ...query, fromMs: from, toMs: to })
      if (page.kind !== 'ok') return page
      // The contract writes all ids as texts.
      const items = page.value.items.map((entry) => ({ ...entry, id: String(entry.id) }))
      return ok({ ...page.value, items })
    },
  }),
]
