import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Ajv } from 'ajv'
import { parse } from 'yaml'
import { RedisUnavailable } from '#internal/storage/index.ts'
import type { TenantStatus } from '../status-schemas.ts'
import { parseTenantObject, type TenantObject, tenantIdOfUid } from '../tenant-object.ts'
import type { SecretRead } from '../tenant-source.ts'
import type { Condition } from './conditions.ts'
import { OtherWriter } from './context.ts'
import { type DeletionWait, deletionStatus, PurgeFailed, waitOfFailure, waits } from './delete-tenant.ts'
import type { TenantFacts } from './gather-tenant.ts'
import { olderAmong } from './reconcile-tenant.ts'
import { conditionEvents, refusedStatus, sameStatus, statusOf } from './write-status.ts'

const now = Date.parse('2026-11-01T09:00:00.123Z')
const tenantId = tenantIdOfUid('u1')

const definition = parse(
  readFileSync(resolve(import.meta.dir, '../../../crds/latchkey.dev_tenants.yaml'), 'utf8'),
) as { spec: { versions: [{ schema: { openAPIV3Schema: { properties: { status: object } } } }] } }
const { status: statusSchema } = definition.spec.versions[0].schema.openAPIV3Schema.properties
const validateStatus = new Ajv({ strict: false, validateFormats: false }).compile(
  JSON.parse(
    JSON.stringify(statusSchema).replaceAll('"properties":', '"additionalProperties":false,"properties":'),
  ),
)

function object(fields: Partial<TenantObject> = {}, meta: object = {}): TenantObject {
  return {
    metadata: {
      namespace: 'shops',
      name: 'acme',
      uid: 'u1',
      generation: 3,
      creationTimestamp: '2026-11-01T00:00:00Z',
      ...meta,
    },
    spec: {
      slug: 'acme',
      callback: { url: 'https://hooks.example/' },
      providers: [
        { name: 'stripe', secretRef: { name: 'acme-card' } },
        { name: 'generic', enabled: false, secretRef: { name: 'acme-generic' } },
      ],
    },
    ...fields,
  }
}

function condition(fields: Partial<Condition> = {}): Condition {
  return {
    type: 'Ready',
    status: 'True',
    reason: 'InForce',
    message: 'Everything',
    lastTransitionTime: '2026-11-01T08:00:00Z',
    ...fields,
  }
}

const found = (version: string): SecretRead => ({
  kind: 'found',
  secret: {
    namespace: 'shops',
    name: 'any',
    version,
    annotations: {},
    owner: undefined,
    values: new Map([['a', 'hunter2-hunter2']]),
  },
})

function statusFor(
  given: TenantObject,
  conditions = [condition()],
  slug: string | null = 'acme',
): TenantStatus {
  const parsed = parseTenantObject(given)
  if (parsed.kind === 'invalid') throw new Error(parsed.message)
  const facts = {
    manifest: parsed.manifest,
    secrets: new Map<string, SecretRead>([
      ['acme-callback', found('7')],
      ['acme-card', found('8')],
      ['acme-generic', { kind: 'missing' }],
    ]),
  } as unknown as TenantFacts
  const plan = { tenantId, conditions, row: { slug } } as unknown as Parameters<typeof statusOf>[1]['plan']
  const recordStore = { store: 'postgres', earlierStore: 'redis' } as const
  return statusOf(given, { facts, plan, recordStore, publicUrl: 'https://latchkey.example/' })
}

test('statusOf: contains id, webhook URLs and Secrets, but no value of a secret', () => {
  const status = statusFor(object())
  expect(status).toEqual({
    observedGeneration: 3,
    tenantId,
    conditions: [{ ...condition(), lastTransitionTime: '2026-11-01T08:00:00Z', observedGeneration: 3 }],
    urls: [{ provider: 'card', url: 'https://latchkey.example/v1/t/acme/webhooks/card' }],
    records: { store: 'postgres', earlierStore: 'redis' },
    secrets: [
      { name: 'acme-callback', version: '7', generated: true },
      { name: 'acme-card', version: '8' },
      { name: 'acme-generic' },
    ],
  })
  expect(validateStatus(status) ? [] : validateStatus.errors).toEqual([])
  expect(JSON.stringify(status)).not.toContain('hunter2')
})

test('statusOf: a tenant without a slug has no webhook URLs', () => {
  expect(statusFor(object(), undefined, null).urls).toEqual([])
})

describe('sameStatus', () => {
  const written = statusFor(object())
  const stored = object({ status: { ...written, urls: written.urls?.toReversed() ?? [] } })

  test('sameStatus: ignores the order of keyed lists', () => {
    expect(sameStatus(stored, statusFor(stored))).toBe(true)
    const foreign = { ...condition({ reason: 'Foreign' }), type: 'Backup' }
    const beside = { ...written, conditions: [foreign, ...(written.conditions ?? [])] }
    expect(sameStatus(object({ status: beside }), written)).toBe(true)
  })

  test.each<[string, TenantStatus]>([
    ['another generation', { ...written, observedGeneration: 4 }],
    [
      'another reason',
      { ...written, conditions: [{ ...condition({ reason: 'Suspended' }), observedGeneration: 3 }] },
    ],
    ['a removed URL', { ...written, urls: [] }],
    ['another version of a Secret', { ...written, secrets: [{ name: 'acme-card', version: '9' }] }],
  ])('sameStatus: returns false for %s', (_what, next) => {
    expect(sameStatus(stored, next)).toBe(false)
  })
})

test('refusedStatus: sets Ready to False and keeps all other fields', () => {
  const before = { ...statusFor(object()), conditions: [{ ...condition(), observedGeneration: 2 }] }
  const slug = { ...condition({ type: 'SlugReserved', reason: 'Held' }), observedGeneration: 2 }
  const given = object({ status: { ...before, conditions: [...before.conditions, slug] } })
  const status = refusedStatus(given, { reason: 'SpecInvalid', message: 'spec.callback.url' }, now)
  expect(status).toMatchObject({ tenantId, urls: before.urls ?? [], observedGeneration: 3 })
  expect(status.conditions).toEqual([
    {
      type: 'Ready',
      status: 'False',
      reason: 'SpecInvalid',
      message: 'spec.callback.url',
      lastTransitionTime: '2026-11-01T09:00:00Z',
      observedGeneration: 3,
    },
    slug,
  ])
})

describe('condition events', () => {
  const bad = condition({
    type: 'SecretsSynced',
    status: 'False',
    reason: 'SecretMissing',
    message: 'create it',
  })
  const unready = condition({ status: 'False', reason: 'SecretMissing' })
  const off = condition({ type: 'WalletEnabled', status: 'False', reason: 'StageOff' })
  const told = (before: Condition[] | undefined, next: Condition[]) => {
    const given = before === undefined ? object() : object({ status: statusFor(object(), before) })
    return conditionEvents(given, statusFor(object(), next)).map(({ type, reason }) => `${type} ${reason}`)
  }

  test.each<[string, Condition[] | undefined, Condition[], string[]]>([
    [
      'one event for a fault, from the condition of the fault',
      undefined,
      [unready, bad],
      ['Warning SecretMissing'],
    ],
    ['no event for unchanged conditions', [unready, bad], [unready, bad], []],
    ['one event for Ready after a fault', [unready], [condition()], ['Normal InForce']],
    ['no event for a tenant that is Ready from the start', undefined, [condition()], []],
    [
      'one event for a suspension',
      [condition()],
      [condition({ status: 'False', reason: 'Suspended' })],
      ['Warning Suspended'],
    ],
    ['no event for the first state of the wallet', undefined, [off], []],
    [
      'one event for a change of the wallet’s stage',
      [off],
      [{ ...off, reason: 'Verifying' }],
      ['Normal Verifying'],
    ],
  ])('conditionEvents: returns %s', (_what, before, next, events) => {
    expect(told(before, next)).toEqual(events)
  })
})

describe('olderAmong', () => {
  const rival = (meta: object, spec: object = { slug: 'acme', callback: { url: 'https://h.example/' } }) =>
    object({ spec }, { name: 'rival', uid: 'u9', ...meta })
  const asked = parseTenantObject(object())
  if (asked.kind === 'invalid') throw new Error(asked.message)

  test.each<[string, TenantObject, boolean]>([
    ['an older Tenant', rival({ creationTimestamp: '2026-10-31T00:00:00Z' }), true],
    ['a younger Tenant', rival({ creationTimestamp: '2026-11-02T00:00:00Z' }), false],
    ['a Tenant of the same second with a lower uid', rival({ uid: 'u0' }), true],
    ['a Tenant of the same second with a higher uid', rival({}), false],
    [
      'a Tenant that is being deleted',
      rival({ creationTimestamp: '2026-10-31T00:00:00Z', deletionTimestamp: '2026-11-01T00:00:00Z' }),
      false,
    ],
    [
      'an invalid Tenant',
      rival({ creationTimestamp: '2026-10-31T00:00:00Z' }, { slug: 'acme', callback: {} }),
      false,
    ],
    ['the Tenant itself', object(), false],
  ])('olderAmong: returns or ignores %s as expected', (_what, other, isAhead) => {
    const ahead = olderAmong([other], asked.manifest)
    expect(ahead).toEqual(isAhead ? { namespace: 'shops', name: 'rival' } : undefined)
  })
})

test('parseTenantObject: the message names invalid fields without their values', () => {
  const parsed = parseTenantObject(
    object({ spec: { slug: 'a', callback: { url: 'https://secret@1.2.3.4.5/' } } }),
  )
  expect(parsed.kind).toBe('invalid')
  expect(JSON.stringify(parsed)).toContain('spec.callback.url')
  expect(JSON.stringify(parsed)).not.toContain('secret@')
})

const failure = (code: string) => Object.assign(new Error('failed'), { code })

test.each<[name: string, wait: DeletionWait, reason: string, message: RegExp, event: 'Normal' | 'Warning']>([
  ['the grace period', waits.grace(now), 'GracePeriod', /after 2026-11-01T09:00:01Z/, 'Normal'],
  ['a removal before its first batch', waits.removing(), 'RemovingData', /being removed/, 'Normal'],
  [
    'a removal with rows left',
    waits.removing({ rowsRemoved: 250_000, eventsLeft: 100_000 }),
    'RemovingData',
    /250000 rows in the last run, 100000 or more events/,
    'Normal',
  ],
  [
    'a removal after the last event',
    waits.removing({ rowsRemoved: 7, eventsLeft: 0 }),
    'RemovingData',
    /7 rows in the last run, other rows are left/,
    'Normal',
  ],
  [
    'unavailable Postgres',
    waits.unavailable('Postgres'),
    'PostgresUnavailable',
    /^Postgres does not/,
    'Warning',
  ],
  ['unavailable Redis', waits.unavailable('Redis'), 'RedisUnavailable', /^Redis does not/, 'Warning'],
  ['a bug', waits.failed(), 'RemovalFailed', /is retried/, 'Warning'],
  [
    'a foreign finalizer',
    waits.finalizers(['foregroundDeletion']),
    'OtherFinalizers',
    /foregroundDeletion$/,
    'Normal',
  ],
])(
  'DeletionWaiting: the condition for %s has the expected reason and message, and causes one event',
  (_name, wait, reason, message, type) => {
    const given = object({ status: { conditions: [condition()] } })
    const status = deletionStatus(given, wait, now)
    expect(status.conditions).toContainEqual(
      expect.objectContaining({ type: 'DeletionWaiting', status: 'True', reason }),
    )
    const [event, ...more] = conditionEvents(given, status)
    expect(more).toEqual([])
    expect(event).toMatchObject({ type, reason })
    expect(status.conditions?.find((each) => each.type === 'DeletionWaiting')?.message).toMatch(message)
    const again = deletionStatus({ ...given, status }, wait, now + 1_000)
    expect(again).toEqual(status)
  },
)

test('deletionStatus: Ready becomes False when the rows are hidden, and stays False while a store is unavailable', () => {
  const ready = ({ conditions = [] }: TenantStatus) => conditions.find(({ type }) => type === 'Ready')?.status
  const given = object({ status: { conditions: [condition()] } })
  expect(ready(deletionStatus(given, waits.unavailable('Postgres'), now))).toBe('True')
  const hidden = deletionStatus(given, waits.removing(), now)
  expect(ready(hidden)).toBe('False')
  expect(ready(deletionStatus({ ...given, status: hidden }, waits.unavailable('Redis'), now))).toBe('False')
})

test.each<[name: string, error: unknown, wait: DeletionWait | undefined]>([
  ['a lost connection', failure('ECONNREFUSED'), waits.unavailable('Postgres')],
  ['Redis without an answer', new RedisUnavailable('timeout'), waits.unavailable('Redis')],
  [
    'an error reply of Redis',
    new PurgeFailed('failed', { cause: new Error('NOPERM') }),
    waits.unavailable('Redis'),
  ],
  [
    'a bug in the removal from Redis',
    new PurgeFailed('failed', { cause: new TypeError('bug') }),
    waits.failed(),
  ],
  ['a statement that Postgres refuses', failure('42P01'), waits.failed()],
  ['another leader', new OtherWriter('other'), undefined],
])('waitOfFailure: classifies %s', (_name, error, wait) => {
  expect(waitOfFailure(error)).toEqual(wait)
})
