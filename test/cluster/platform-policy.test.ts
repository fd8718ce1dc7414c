import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { poll } from '#internal/dev/index.ts'
import { type SpecPart, tenantWith } from '#test/support/tenants/tenant-manifests.ts'
import { openCluster } from './cluster.ts'
import { installDefinition, removeNamespace } from './installation.ts'
import { type Answer, type Ask, openTenantApi } from './tenant-api.ts'

const namespace = `policy-${randomBytes(4).toString('hex')}`
const elsewhere = `${namespace}-b`
const tenantsIn = (where: string) => `/apis/latchkey.dev/v1alpha1/namespaces/${where}/tenants`
const startsMs = 60_000
/** Bound on the delay until an accepted policy or role applies. */
const inForceMs = 20_000

const asked: Ask['method'][] = ['POST', 'PUT', 'PATCH']
let admin: (ask: Ask) => Promise<Answer>
let author: (ask: Ask) => Promise<Answer>
let platform: (ask: Ask) => Promise<Answer>

beforeAll(async () => {
  admin = await openTenantApi()
  author = await openTenantApi(`${namespace}-author`)
  platform = await openTenantApi(`${namespace}-platform`)
  await installDefinition()
  for (const name of [namespace, elsewhere]) {
    await admin({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name } } })
    await allow(name, 'author', ['tenants'])
  }
  await allow(namespace, 'platform', ['tenants', 'tenants/platform'])
  await allow(elsewhere, 'platform', ['tenants'])
  await inForce()
}, startsMs)

afterAll(async () => {
  for (const name of [namespace, elsewhere]) {
    await removeNamespace(await openCluster(), name)
  }
})

async function allow(where: string, who: string, resources: readonly string[]): Promise<void> {
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${where}`
  const metadata = { name: who }
  const verbs = ['get', 'create', 'update', 'patch']
  const rules = [{ apiGroups: ['latchkey.dev'], resources, verbs }]
  const apiGroup = 'rbac.authorization.k8s.io'
  const subjects = [{ kind: 'User', name: `${namespace}-${who}`, apiGroup }]
  const roleRef = { kind: 'Role', name: who, apiGroup }
  await admin({ method: 'POST', path: `${rbac}/roles`, body: { metadata, rules } })
  await admin({ method: 'POST', path: `${rbac}/rolebindings`, body: { metadata, subjects, roleRef } })
}

/** Waits until the policy refuses the author, who may create otherwise, and allows the platform. */
async function inForce(): Promise<void> {
  const granted = { limits: { recordBytes: { hard: 1 } } }
  const seen = await poll(
    async () => {
      const refused = await create(author, granted, { dryRun: 'All' })
      const plain = await create(author, {}, { dryRun: 'All' })
      const taken = await create(platform, granted, { dryRun: 'All' })
      const ready = refused.message.includes('platform') && plain.status === 200 && taken.status === 200
      return ready ? true : undefined
    },
    { deadlineMs: inForceMs, everyMs: 100 },
  )
  expect(seen).toBe(true)
}

interface Extra {
  readonly dryRun?: 'All'
  readonly name?: string
  readonly where?: string
  readonly annotations?: Readonly<Record<string, string>>
}

function create(who: typeof admin, part: SpecPart, extra: Extra = {}): Promise<Answer> {
  const { name = `t-${randomBytes(4).toString('hex')}`, where = namespace, annotations = {}, dryRun } = extra
  const body = { ...tenantWith(part), metadata: { name, annotations } }
  return who({ method: 'POST', path: tenantsIn(where), query: dryRun ? { dryRun } : {}, body })
}

function patch(who: typeof admin, name: string, body: unknown): Promise<Answer> {
  const contentType = 'application/merge-patch+json'
  return who({ method: 'PATCH', path: `${tenantsIn(namespace)}/${name}`, body, contentType })
}

const review = { approvedBy: 'a', approvedAt: '2026-01-01T00:00:00Z' }
/** Guarded fields, each with a non-default value and another value that the platform set earlier. */
const guarded: [field: string, wanted: unknown, before: unknown][] = [
  ['limits', { locksPerMonth: { hard: 9 } }, { locksPerMonth: { hard: 1 } }],
  ['walletRollout', { stage: 'enabled', review }, { stage: 'verify' }],
  ['walletRollout', { stage: 'off', review }, { stage: 'off' }],
  ['retention', { payloadDays: 90 }, { payloadDays: 7 }],
  ['records', { bodyBytesMax: 16_777_216 }, { requireLockToken: true }],
]

describe.each(guarded)('platform policy: spec.%s as %j instead of %j', (field, wanted, before) => {
  const set = `${field} ${JSON.stringify(wanted)}`

  test(`policy: only the platform may create a tenant with ${set}`, async () => {
    const refused = await create(author, { [field]: wanted })
    expect(refused.status).toBe(403)
    expect(refused.message).toContain(`spec.${field} is the platform's to set`)
    expect((await create(platform, { [field]: wanted })).message).toBe('')
  })

  test(`policy: only the platform may change a tenant to ${set}`, async () => {
    const name = `t-${randomBytes(4).toString('hex')}`
    expect((await create(platform, { [field]: before }, { name })).message).toBe('')
    const refused = await patch(author, name, { spec: { [field]: wanted } })
    expect(refused.status).toBe(403)
    expect(refused.message).toContain(`spec.${field} is the platform's to set`)
    expect((await patch(platform, name, { spec: { [field]: wanted } })).message).toBe('')
  })

  test(`policy: ${set}, set by the platform, is kept when the author changes other fields`, async () => {
    const name = `t-${randomBytes(4).toString('hex')}`
    await create(platform, { [field]: wanted }, { name })
    const changed = await patch(author, name, { spec: { displayName: 'Shop', suspended: true } })
    expect(changed.message).toBe('')
    expect(changed.body).toHaveProperty(`spec.${field}`)
    expect((changed.body['spec'] as Record<string, unknown>)[field]).toMatchObject(wanted as object)
  })
})

describe('platform policy: author', () => {
  test('policy: the author may write guarded fields with their defaults', async () => {
    const { message } = await create(author, {
      limits: {},
      walletRollout: { stage: 'off' },
      retention: {},
      records: { requireLockToken: false, ttlSecondsMax: 2_592_000, bodyBytesMax: 262_144 },
    })
    expect(message).toBe('')
  })

  test('policy: the author cannot remove limits of the platform, not even by omission', async () => {
    const name = `t-${randomBytes(4).toString('hex')}`
    await create(platform, { limits: { recordBytes: { hard: 1 } } }, { name })
    expect((await patch(author, name, { spec: { limits: null } })).status).toBe(403)
    const path = `${tenantsIn(namespace)}/${name}`
    const { body } = await author({ method: 'GET', path })
    const replaced = { ...body, spec: tenantWith().spec }
    expect((await author({ method: 'PUT', path, body: replaced })).status).toBe(403)
  })

  test('policy: the author’s change of a guarded field is refused by POST, PUT and PATCH', async () => {
    const name = `t-${randomBytes(4).toString('hex')}`
    await create(author, {}, { name })
    const path = `${tenantsIn(namespace)}/${name}`
    const { body } = await author({ method: 'GET', path })
    const spec = { ...(body['spec'] as object), retention: { payloadDays: 1, eventDays: 1 } }
    const statuses = await Promise.all(
      asked.map(async (method) => {
        const isPatch = method === 'PATCH'
        const metadata = method === 'POST' ? { generateName: 'other-' } : body['metadata']
        const sent = {
          method,
          path: method === 'POST' ? tenantsIn(namespace) : path,
          body: isPatch ? { ...tenantWith(), metadata: { name }, spec } : { ...body, metadata, spec },
          ...(isPatch && { contentType: 'application/apply-patch+yaml' }),
          query: isPatch ? { fieldManager: 'author', force: 'true' } : {},
        }
        return [method, (await author(sent)).status]
      }),
    )
    expect(statuses).toEqual(asked.map((method) => [method, 403]))
  })

  test('policy: the platform role applies only in namespaces where it is bound', async () => {
    const granted = { retention: { payloadDays: 1 } }
    expect((await create(platform, granted, { where: elsewhere })).status).toBe(403)
    expect((await create(platform, {}, { where: elsewhere })).message).toBe('')
  })
})

describe('platform policy: annotation latchkey.dev/adopt', () => {
  const adopt = { 'latchkey.dev/adopt': `ten_${'0'.repeat(26)}` }

  test('policy: only the platform may set latchkey.dev/adopt on a new tenant', async () => {
    const refused = await create(author, {}, { annotations: adopt })
    expect(refused.status).toBe(403)
    expect(refused.message).toContain("annotation latchkey.dev/adopt is the platform's to set")
    expect((await create(platform, {}, { annotations: adopt })).message).toBe('')
    expect((await create(author, {}, { annotations: { 'latchkey.dev/other': 'a' } })).message).toBe('')
  })

  test('policy: the author may keep or remove latchkey.dev/adopt on an existing tenant, but not add or change it', async () => {
    const name = `t-${randomBytes(4).toString('hex')}`
    await create(author, {}, { name })
    const annotate = (who: typeof admin, value: string | null) =>
      patch(who, name, { metadata: { annotations: { 'latchkey.dev/adopt': value } } })
    expect((await annotate(author, adopt['latchkey.dev/adopt'])).status).toBe(403)
    expect((await annotate(platform, adopt['latchkey.dev/adopt'])).message).toBe('')
    expect((await annotate(author, `ten_${'1'.repeat(26)}`)).status).toBe(403)
    expect((await patch(author, name, { spec: { displayName: 'Shop' } })).message).toBe('')
    expect((await annotate(author, null)).message).toBe('')
  })
})

test('policy: its expressions type-check against the CRD', async () => {
  const path =
    '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/tenants-platform.latchkey.dev'
  const checked = await poll(
    async () => {
      const { body } = await admin({ method: 'GET', path })
      const { status } = body as { status?: { observedGeneration?: number; typeChecking?: object } }
      return status?.observedGeneration === undefined ? undefined : status
    },
    { deadlineMs: inForceMs, everyMs: 100 },
  )
  expect(checked?.typeChecking ?? {}).toEqual({})
})
