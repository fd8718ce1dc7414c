import { type Action, actions } from '#internal/access/index.ts'
import { eventStates, testNoticeType } from '#internal/events/index.ts'
import { type JsonSchema } from '#internal/http/index.ts'
import { lockStates } from '#internal/records/index.ts'
import type { SettingValue } from '#internal/settings/index.ts'
import { simulatedProviders, simulationStates } from '#internal/simulations/index.ts'
import {
  apiKeyScopes,
  conditionTypes,
  limitNameText,
  notificationTypes,
  parseTenant,
  recordDurabilities,
  Tenant,
  type TenantSpec,
} from '#internal/tenants/index.ts'
import { decisionReasons, limitStates, usageDecisions } from '#internal/usage/index.ts'
import {
  answer,
  constant,
  type DocumentedAnswer,
  described,
  flag,
  growingWordOf,
  headers,
  idOf,
  listOf,
  objectOf,
  of,
  orNull,
  pageAnswer,
  providerOf,
  text,
  time,
  timeText,
  unshown,
  type ValueOf,
  whole,
  withGrowingSets,
  wordOf,
} from './http-schemas.ts'

export const eventId = 'evt_06gw979vs1d9q6mddfvvx375s4'

export const at = (clock: string) => `2026-11-21T${clock}.000Z`
export const isNew = described('false for a repeat, which changed nothing.', flag(true))
const existed = described('Whether there was something to remove.', flag(true))

export const Done = answer('Done', objectOf({ isNew }))
export type Done = ValueOf<typeof Done>
export const Removed = answer('Removed', objectOf({ existed }))
export type Removed = ValueOf<typeof Removed>

const tenant = 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs'
export const tenantId = idOf('ten', tenant)
const tenantFields = {
  id: tenantId,
  namespace: text('shops'),
  name: text('acme'),
  slug: described('null while another tenant holds the requested one.', orNull(text('acme'))),
  displayName: orNull(text('Acme')),
  suspended: flag(false),
  isReady: described('Condition `Ready`.', flag(true)),
  reason: described('Reason why it is not ready.', orNull(text(null))),
  createdAt: time(at('08:00:00')),
}

/** Tenant in a list. */
export const TenantSummary = answer('TenantSummary', objectOf(tenantFields))
export type TenantSummary = ValueOf<typeof TenantSummary>
export const TenantPage = pageAnswer('TenantPage', TenantSummary)

const condition = objectOf({
  type: growingWordOf(conditionTypes, 'Ready'),
  status: wordOf(['True', 'False'], 'True'),
  reason: text('InForce'),
  message: text('Everything asked for is in force'),
  lastTransitionTime: timeText('2026-11-21T08:00:02Z'),
})
const key = objectOf({
  name: text('default'),
  scopes: listOf(growingWordOf(apiKeyScopes, 'records')),
  prefix: described('First characters.', text('lk_3vQ0mXw1')),
  createdAt: time(at('08:00:00')),
  expiresAt: described('End, by its expiry or a rotation; null: never.', orNull(time(null))),
})
const secret = objectOf({
  field: text('callback'),
  secretName: text('acme-callback'),
  createdAt: time(at('08:00:00')),
})
const url = objectOf({
  provider: providerOf('card'),
  url: text('https://hooks.example.com/v1/t/acme/webhooks/card'),
})

const lastNotification = objectOf({
  id: idOf('evt', eventId),
  type: growingWordOf([...notificationTypes, testNoticeType], 'latchkey.callback.recovered'),
  state: growingWordOf(eventStates, 'processed'),
  receivedAt: time('2026-11-21T08:12:00.000Z'),
})

const notificationsState = described(
  'State of its notifications. Present if `spec.notifications` is. Of a URL in the spec only the origin is shown.',
  objectOf({
    state: growingWordOf(['active', 'suspended', 'breaker_open'], 'active'),
    last: described('The latest notification; null if there was none.', orNull(lastNotification)),
  }),
)

/** Tenant with its conditions, webhook URLs, API keys and secrets. */
export const TenantDetail = answer(
  'TenantDetail',
  objectOf(
    {
      ...tenantFields,
      conditions: listOf(condition),
      spec: described(
        '`spec` of its Tenant, with defaults filled in.',
        of<TenantSpec>(withGrowingSets(Tenant.properties.spec) as JsonSchema)(exampleSpec()),
      ),
      urls: described('URLs to enter at the providers.', listOf(url)),
      keys: listOf(key),
      secrets: described('Live signing secrets, without their values.', listOf(secret)),
      recordStore: described(
        'Where new records and locks are kept.',
        growingWordOf(recordDurabilities, 'redis'),
      ),
    },
    {
      earlierRecordStore: described(
        'Present after a change of `spec.records.durability` or of the setting `records.durability`, while the earlier store can still have records or locks.',
        growingWordOf(recordDurabilities, 'redis'),
      ),
      suspendedCallback: described(
        'Present while deliveries are suspended.',
        unshown(objectOf({ cause: text(), suspendedAt: time() })),
      ),
      manifestFile: described(
        'Present outside of a cluster, but not for API keys: file of its manifest; null if the process that answers does not read it.',
        unshown(orNull(text())),
      ),
      notifications: notificationsState,
      breakerEndsAt: described('Time until which the circuit breaker stops deliveries.', time()),
    },
  ),
)

export type TenantDetail = ValueOf<typeof TenantDetail>

function exampleSpec(): unknown {
  const parsed = parseTenant({
    apiVersion: 'latchkey.dev/v1alpha1',
    kind: 'Tenant',
    metadata: { name: 'acme', namespace: 'shops' },
    spec: {
      slug: 'acme',
      displayName: 'Acme',
      callback: { url: 'https://shop.example.com/hooks' },
      providers: [{ name: 'card', secretRef: { name: 'acme-card' } }],
      apiKeys: [{ name: 'default', scopes: ['records'] }],
    },
  })
  if (parsed.kind === 'invalid') throw new Error('the example of a tenant is not valid')
  return parsed.tenant.spec
}

const granted: readonly string[] = ['see', 'replay', 'simulate']

export const Permissions = answer(
  'Permissions',
  described(
    'Rights of the caller on the tenant.',
    objectOf(
      Object.fromEntries(actions.map((action) => [action, flag(granted.includes(action))])) as Record<
        Action,
        DocumentedAnswer<boolean>
      >,
    ),
  ),
)

/** Refused call, with secrets redacted. */
export const RefusedCall = answer(
  'RefusedCall',
  objectOf({
    id: idOf('ref', 'ref_06gw979vs1d9q6mddfvvx375s4'),
    tenantId,
    provider: providerOf('card'),
    cause: text('signature_mismatch'),
    refusedAt: time(at('08:41:00')),
    sourceAddress: orNull(text('203.0.113.7')),
    headers: headers({ 'content-type': 'application/json' }),
    sample: described('Start of a body whose signature failed, redacted.', orNull(text('{"id":"evt_1Pq1"}'))),
  }),
)
export type RefusedCall = ValueOf<typeof RefusedCall>
export const RefusedPage = pageAnswer('RefusedPage', RefusedCall)

const limitName = (example: string) => described(`${limitNameText}.`, text(example))
const limitUsage = answer(
  'LimitUsage',
  objectOf(
    {
      limit: limitName('eventsPerMonth'),
      used: described('null while the store of the meters does not answer.', orNull(whole(101_233))),
      soft: orNull(whole(90_000)),
      hard: described('Limit in force, an override included; null: none.', orNull(whole(250_000))),
      state: described(
        '`hard`: the hard limit in force is reached; `overridden`: an override is in force and not exhausted; `soft`: the soft limit is reached; `ok`: none of these; null while the usage is unknown.',
        orNull(wordOf(limitStates, 'overridden')),
      ),
    },
    {
      override: objectOf({
        hard: described('null: no limit.', orNull(whole(250_000))),
        expiresAt: time('2027-02-01T00:00:00.000Z'),
        reason: text('Winter sale, TICKET-481'),
        updatedAt: time(at('09:00:00')),
        updatedBy: text('user:ada'),
      }),
      resetsAt: time('2026-12-01T00:00:00.000Z'),
    },
  ),
)
const limitFields = {
  limits: listOf(limitUsage),
  over: described(
    'What happens to events over the hard limit of the month: `accept` (accepted and marked) or `refuse` (429).',
    growingWordOf(['accept', 'refuse'], 'accept'),
  ),
}
const hour = objectOf({ hour: time(at('08:00:00')), kind: text('events'), amount: whole(312) })

export const Limits = answer('TenantLimits', objectOf(limitFields))
export const Usage = answer(
  'Usage',
  objectOf({
    ...limitFields,
    hours: described('By hour and kind; hours without usage are left out.', listOf(hour)),
  }),
)

export const Guardrail = answer(
  'Guardrail',
  objectOf(
    {
      decision: wordOf(usageDecisions, 'warn'),
      reason: described(
        '`warn` because of `hard_limit`: events over the hard limit of the month are accepted and marked.',
        growingWordOf(decisionReasons, 'soft_limit'),
      ),
      limit: described(
        'Name of the limit that caused a warning or a denial; null if no limit did.',
        orNull(text('exports.rowsPerMonth')),
      ),
      kind: text('exports.rows'),
      amount: whole(1_200),
      isCommitted: described('true if the amount is counted under the id.', flag(true)),
      limits: described(
        'Limits that apply to the kind, with the usage after this call.',
        listOf(limitUsage, [
          {
            limit: 'exports.rowsPerMonth',
            used: 81_200,
            soft: 80_000,
            hard: 100_000,
            state: 'soft',
            resetsAt: '2026-12-01T00:00:00.000Z',
          },
        ]),
      ),
    },
    { isNew: described('Present if counted. false for a repeat, which counted nothing.', flag(true)) },
  ),
)

const durationMs = whole(18)
const answered = answer(
  'CallbackAnswered',
  objectOf({
    kind: constant('answered'),
    status: whole(204),
    headers: headers({}),
    answer: described('First 16 KiB, redacted.', text('')),
    isAnswerCut: flag(false),
    durationMs,
  }),
)
const failed = answer(
  'CallbackFailed',
  objectOf({ kind: constant('failed'), cause: text(), message: text(), durationMs }),
)

/** Result of a test event. */
export const CallbackTested = answer(
  'CallbackTested',
  objectOf({
    id: described('Id of the stored event, and `webhook-id` of the call.', idOf('evt', eventId)),
    result: of<ValueOf<typeof answered | typeof failed>>({ anyOf: [answered.schema, failed.schema] })(
      answered.example,
    ),
  }),
)

export type CallbackTested = ValueOf<typeof CallbackTested>

export const NotificationTested = answer(
  'NotificationTested',
  objectOf({
    id: described('Id of the stored event, and `webhook-id` of its calls.', idOf('evt', eventId)),
    isNew: described('false within 10 s of an earlier test, which `id` names then.', flag(true)),
  }),
)

const value = of<SettingValue | null>({ type: ['boolean', 'number', 'string', 'null'] })
const settingFields = {
  name: text('forwarding.paused'),
  value: described('Value in force: the stored one or the default; null without either.', value(true)),
  default: value(false),
  expected: text('true or false'),
  description: text('Nothing is sent to callbacks.'),
  version: described('0 while it is not set.', whole(7)),
}
const settingChange = { updatedAt: time(at('09:00:00')), updatedBy: text('user:ada') }
export const Setting = answer('Setting', objectOf(settingFields, settingChange))

export const Settings = answer('Settings', objectOf({ items: listOf(Setting) }))
export const TenantSettings = answer(
  'TenantSettings',
  objectOf({
    items: listOf(answer('TenantSetting', objectOf({ tenantId, ...settingFields, ...settingChange }))),
  }),
)
export const SettingChanged = answer(
  'SettingChanged',
  objectOf({
    name: text('forwarding.paused'),
    version: whole(8),
    isNew,
    previousValue: described('Stored value before; null if it was not set.', value(null)),
  }),
)
export const SettingCleared = answer(
  'SettingCleared',
  objectOf({
    name: text('forwarding.paused'),
    existed: described('Whether it was set. Its default applies now.', flag(true)),
    previousValue: described('Value that was removed; null if it was not set.', value(true)),
  }),
)

const simulated = answer(
  'SimulatedEvent',
  objectOf({
    id: described('The provider’s id of the event: `payload.id` at the callback.', text()),
    type: described('Normalized type.', text()),
    dueAt: described('Time at which it is sent.', time()),
    sentAt: described('null until it is sent.', orNull(time())),
  }),
)
const chargeback = objectOf({
  provider: growingWordOf(simulatedProviders, 'card'),
  amount: whole(4200),
  currency: text('EUR'),
  reason: text('fraudulent'),
  reference: orNull(text(null)),
  outcome: text('lost'),
  stepSeconds: whole(60),
})

export const Simulation = answer(
  'Simulation',
  objectOf({
    simulationId: idOf('sim', 'sim_06gzx3byyxdccqxb8v47jbp37g'),
    tenantId,
    chargeback,
    requestedBy: text('user:ada'),
    state: wordOf(simulationStates, 'running'),
    cause: orNull(text(null)),
    events: listOf(simulated, [
      {
        id: 'evt_sim_06gzx3byyxdccqxb8v47jbp37g_1',
        type: 'chargeback.created',
        dueAt: at('09:30:00'),
        sentAt: at('09:30:00'),
      },
      {
        id: 'evt_sim_06gzx3byyxdccqxb8v47jbp37g_2',
        type: 'chargeback.under_review',
        dueAt: at('09:31:00'),
        sentAt: null,
      },
    ]),
    createdAt: time(at('09:30:00')),
    startedAt: orNull(time(at('09:30:00'))),
    endedAt: orNull(time(null)),
  }),
)
export const SimulationPage = pageAnswer('SimulationPage', Simulation)
export const SimulationChanged = answer('SimulationChanged', objectOf({ simulation: Simulation, isNew }))
export const SimulationStarted = answer(
  'SimulationStarted',
  objectOf(
    { simulation: Simulation, isNew },
    {
      dryRun: described(
        'Nothing was stored, and the ids refer to nothing.',
        of<true>({ type: 'boolean', const: true })(),
      ),
    },
  ),
)

const lock = answer(
  'Execution',
  objectOf({
    scope: text('payments'),
    key: text('order-1042'),
    fence: whole(1_795_258_166_892_693),
    state: wordOf(lockStates, 'completed'),
    acquiredAt: time(at('09:00:00')),
    expiresAt: orNull(time(at('09:01:00'))),
    extendedAt: orNull(time(null)),
    endedAt: orNull(time(at('09:00:02'))),
    durationMs: orNull(whole(2_000)),
    status: orNull(whole(201)),
  }),
)
export const LockHistoryPage = pageAnswer('ExecutionPage', lock)

const auditEntry = answer(
  'AuditEntry',
  objectOf({
    id: text('4711'),
    occurredAt: time(at('09:20:00')),
    actor: text('user:ada'),
    action: text('payloads.read'),
    tenantId: orNull(tenantId),
    detail: of<unknown>({ type: 'object' })({ eventId }),
  }),
)
export const AuditPage = pageAnswer('AuditPage', auditEntry, '4711')
