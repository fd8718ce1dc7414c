import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parse } from 'yaml'
import { poll } from '#internal/dev/index.ts'
import { neutralProviderName, parseTenant, type TenantSpec } from '#internal/tenants/index.ts'
import {
  acceptedSpecs,
  refusedSpecs,
  type SpecPart,
  tenantWith,
} from '#test/support/tenants/tenant-manifests.ts'
import { openCluster } from './cluster.ts'
import { installDefinition, removeNamespace } from './installation.ts'
import { type Answer, type Ask, kubectl, openTenantApi } from './tenant-api.ts'

const namespace = `crd-${randomBytes(4).toString('hex')}`
const tenants = `/apis/latchkey.dev/v1alpha1/namespaces/${namespace}/tenants`
const dryRun = { dryRun: 'All' }
const samples = resolve(import.meta.dir, '../../config/samples')
const definitionPath = resolve(import.meta.dir, '../../crds/latchkey.dev_tenants.yaml')
const startsMs = 60_000
/** Bound on the delay between accepting a definition and publishing its fields. */
const publishedMs = 20_000

let admin: (ask: Ask) => Promise<Answer>

beforeAll(async () => {
  admin = await openTenantApi()
  await installDefinition()
  await admin({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name: namespace } } })
}, startsMs)

afterAll(async () => {
  await removeNamespace(await openCluster(), namespace)
})

const create = (part: SpecPart, query: Record<string, string> = dryRun) =>
  admin({ method: 'POST', path: tenants, query, body: tenantWith(part) })

/** Creates a stored tenant, without dry run, whose slug is its name. */
async function createNamed(name: string, part: SpecPart = {}): Promise<Answer> {
  const tenant = tenantWith({ slug: name, ...part })
  const created = await admin({ method: 'POST', path: tenants, body: { ...tenant, metadata: { name } } })
  expect(created.message).toBe('')
  return created
}

const patch = (name: string, body: unknown, query: Record<string, string> = {}) =>
  admin({
    method: 'PATCH',
    path: `${tenants}/${name}`,
    query,
    body,
    contentType: 'application/merge-patch+json',
  })

describe('CRD', () => {
  const told: string[] = []

  test.each(refusedSpecs)(
    'CRD: the API server and the manifest parser both refuse %s',
    async (_case, part, field) => {
      const { status, message, fields } = await create(part)
      told.push(message)
      expect([400, 422]).toContain(status)
      // Accepts an entry that the API server names where the parser names a missing field of that entry. The message names unknown fields.
      const named = fields.filter((each) => each.startsWith(field) || field.startsWith(each))
      if (status === 422) expect(named).not.toEqual([])
      else expect(message).toContain(`unknown field "${field}"`)
    },
  )

  test('CRD: the table of refused specs covers every CEL rule at least once', () => {
    const rules = rulesOf(parse(readFileSync(definitionPath, 'utf8')))
    const silent = rules.filter(({ message }) => !told.some((text) => text.includes(message)))
    // Allows the transition rule, which is tested below.
    expect(silent.map(({ rule }) => rule)).toEqual(['self == oldSelf'])
  })

  test.each([
    ['a name too long for a label', 'a'.repeat(64)],
    ['a name that ends in a dot', 'a.'],
  ])('CRD: the API server refuses %s', async (_case, name) => {
    const body = { ...tenantWith(), metadata: { name } }
    expect((await admin({ method: 'POST', path: tenants, query: dryRun, body })).fields).toContain(
      'metadata.name',
    )
  })
})

describe('CRD', () => {
  test.each(acceptedSpecs)(
    'CRD: the API server and the manifest parser accept the spec and set the same defaults: %s',
    async (_case, part) => {
      const { message, body } = await create(part)
      expect(message).toBe('')
      const parsed = parseTenant(tenantWith(part))
      if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
      expect(withNeutralNames(body['spec'] as TenantSpec)).toEqual(parsed.tenant.spec)
    },
  )

  test('CRD: validation of the largest tenant that the schema allows stays within the CEL cost budget', async () => {
    const list = <T>(count: number, entry: (index: number) => T) =>
      Array.from({ length: count }, (_, i) => entry(i))
    const digits = (index: number) => String(index).padStart(3, '0')
    const { message } = await create({
      slug: 'a'.repeat(63),
      displayName: 'a'.repeat(128),
      callback: {
        url: `http://h.example/${'a'.repeat(2031)}`,
        allowedCIDRs: list(32, (index) => `2001:0db8:0000:0000:0000:0000:0000:0${digits(index)}/128`),
        signingSecretRef: { name: 'a'.repeat(253) },
        retry: { schedule: list(20, () => '1ms1ms1ms1ms1ms1ms1ms1ms1ms1ms1s') },
      },
      providers: acceptedSpecs.find(([what]) => what === 'every provider by its neutral name')?.[1][
        'providers'
      ],
      walletRollout: {
        stage: 'enabled',
        review: { approvedBy: 'a'.repeat(256), approvedAt: '2026-01-01T00:00:00Z', note: 'a'.repeat(1024) },
      },
      apiKeys: list(20, (index) => ({
        name: `${'a'.repeat(60)}${digits(index)}`,
        scopes: ['records', 'webhooks', 'simulations', 'dashboard', 'dashboard:read'],
        expiresAt: '2030-01-01T00:00:00.000000000+00:00',
        secretRef: { name: 'a'.repeat(253) },
      })),
      redaction: { fields: list(100, (index) => `${'a'.repeat(125)}${digits(index)}`) },
    })
    expect(message).toBe('')
  })
})

test.each<[string, SpecPart]>([
  ['null for a default', { suspended: null }],
  ['letters of two UTF-16 units', { displayName: '🛒'.repeat(128) }],
  ['a host that looks like an address', { callback: { url: 'https://1.2.3.4.5/' } }],
])(
  'CRD: the API server accepts a spec that the manifest parser refuses, as documented: %s',
  async (_case, part) => {
    expect((await create(part)).message).toBe('')
    expect(parseTenant(tenantWith(part)).kind).toBe('invalid')
  },
)

/** Returns the CEL rules of a definition, at any depth. */
function rulesOf(schema: unknown): { readonly rule: string; readonly message: string }[] {
  if (typeof schema !== 'object' || schema === null) return []
  return Object.entries(schema).flatMap(([name, value]) =>
    name === 'x-kubernetes-validations' ? (value as ReturnType<typeof rulesOf>) : rulesOf(value),
  )
}

function withNeutralNames(spec: TenantSpec): TenantSpec {
  const providers = spec.providers.map((entry) => ({
    ...entry,
    name: neutralProviderName(entry.name) ?? entry.name,
  }))
  return { ...spec, providers }
}

describe('CRD', () => {
  test('CRD: an update of a tenant may change every field except the slug', async () => {
    await createNamed('keeps')
    const changed = await patch('keeps', { spec: { slug: 'other' } })
    expect(changed).toMatchObject({ status: 422, fields: ['spec.slug'] })
    expect(changed.message).toContain('cannot be changed')
    expect((await patch('keeps', { spec: { slug: 'keeps', displayName: 'Shop' } })).message).toBe('')
  })

  test('CRD: a field selector on spec.slug finds the tenant', async () => {
    await createNamed('found-one')
    await createNamed('found-two')
    const query = { fieldSelector: 'spec.slug=found-two' }
    const { body } = await admin({ method: 'GET', path: tenants, query })
    const names = (body['items'] as { metadata: { name: string } }[]).map(({ metadata }) => metadata.name)
    expect(names).toEqual(['found-two'])
  })

  test('CRD: several field managers can write the status, separately from spec', async () => {
    await createNamed('told', { displayName: 'Before' })
    const at = `${tenants}/told/status`
    await patch('told', { spec: { displayName: 'After' }, status: status('True', 'InForce') })
    const first = await admin({ method: 'GET', path: `${tenants}/told` })
    expect(first.body).not.toHaveProperty('status')
    expect(first.body).toHaveProperty('spec.displayName', 'After')
    const apply = (fieldManager: string, type: string) =>
      admin({
        method: 'PATCH',
        path: at,
        query: { fieldManager },
        contentType: 'application/apply-patch+yaml',
        body: {
          ...tenantWith(),
          metadata: { name: 'told' },
          spec: undefined,
          status: { conditions: [condition(type, 'True', 'Synced')] },
        },
      })
    expect((await apply('one', 'Ready')).message).toBe('')
    const second = await apply('two', 'SecretsSynced')
    expect(second.message).toBe('')
    const { conditions } = second.body['status'] as { conditions: { type: string }[] }
    expect(conditions.map(({ type }) => type).toSorted()).toEqual(['Ready', 'SecretsSynced'])
  })

  test.each<[string, Record<string, unknown>, string]>([
    [
      'a condition without a reason',
      { conditions: [{ ...condition('Ready', 'True', 'A'), reason: '' }] },
      'status.conditions[0].reason',
    ],
    [
      'a condition with an unknown status',
      { conditions: [condition('Ready', 'Maybe', 'A')] },
      'status.conditions[0].status',
    ],
    [
      'a condition twice',
      { conditions: [condition('Ready', 'True', 'A'), condition('Ready', 'True', 'A')] },
      'status.conditions[1]',
    ],
    ['a phase', { phase: 'Running' }, 'status.phase'],
    ['a value of a Secret', { secrets: [{ name: 'a', value: 'b' }] }, 'status.secrets[0].value'],
    ['a URL without a provider', { urls: [{ url: 'https://a/' }] }, 'status.urls[0].provider'],
    ['a malformed tenant id', { tenantId: 'acme' }, 'status.tenantId'],
  ])('CRD: the API server refuses a status with %s', async (_case, wrong, field) => {
    const name = `odd-${randomBytes(4).toString('hex')}`
    const { body } = await createNamed(name)
    const path = `${tenants}/${name}/status`
    const answer = await admin({ method: 'PUT', path, body: { ...body, status: wrong } })
    expect([400, 422]).toContain(answer.status)
    const unknown = answer.message.includes(`unknown field "${field}"`)
    expect(unknown ? [field] : answer.fields).toContain(field)
  })
})

function condition(type: string, is: string, reason: string) {
  return { type, status: is, reason, message: 'All is well', lastTransitionTime: '2026-11-01T09:00:00Z' }
}

function status(is: string, reason: string) {
  return { observedGeneration: 1, conditions: [condition('Ready', is, reason)] }
}

describe('kubectl', () => {
  const inNamespace = ['-n', namespace]

  test('kubectl get: prints the printer columns, by short and long resource name', async () => {
    await createNamed('listed', { walletRollout: { stage: 'verify' } })
    const path = `${tenants}/listed/status`
    const contentType = 'application/merge-patch+json'
    const told = { ...status('False', 'SecretMissing'), tenantId: `ten_${'0'.repeat(26)}` }
    expect((await admin({ method: 'PATCH', path, body: { status: told }, contentType })).message).toBe('')
    const { out } = await kubectl({ args: ['get', 'lkt', 'listed', ...inNamespace] })
    expect(cells(out)).toEqual([
      ['NAME', 'READY', 'REASON', 'SLUG', 'WALLET', 'AGE'],
      ['listed', 'False', 'SecretMissing', 'listed', 'verify', expect.stringMatching(/^\d+s$/)],
    ])
    const wide = cells(
      (await kubectl({ args: ['get', 'tenant', 'listed', ...inNamespace, '-o', 'wide'] })).out,
    )
    expect(wide[0]?.slice(6)).toEqual(['SUSPENDED', 'DELETION', 'CALLBACK', 'TENANT', 'MESSAGE'])
    expect(wide[1]?.slice(6)).toEqual([
      'false',
      'Retain',
      'https://hooks.example/',
      told.tenantId,
      'All is well',
    ])
  })

  test('kubectl get: category latchkey lists tenants', async () => {
    await createNamed('of-a-kind')
    const { out } = await kubectl({ args: ['get', 'latchkey', ...inNamespace, '-o', 'name'] })
    expect(out).toContain('tenant.latchkey.dev/of-a-kind')
  })

  test('kubectl explain: describes spec.callback', async () => {
    const told = await explained('tenant.spec.callback', 'allowedCIDRs')
    expect(told).toContain('Receiver of events.')
    expect(told).toMatch(/url\s+<string> -required-/)
    expect(told).toMatch(/timeoutSeconds\s+<integer>/)
    expect(told.replaceAll(/\s+/g, ' ')).toContain(
      'Time limit of one delivery attempt, including the connection. 1 to 30, by default 15.',
    )
  })

  test('kubectl explain: lists the values of an enum', async () => {
    const told = await explained('tenant.spec.walletRollout', 'stage')
    expect(told.replaceAll(/\s+/g, ' ')).toContain('enum: off, verify, enabled')
  })

  test('kubectl apply: a second apply of the samples and their Secrets changes nothing', async () => {
    const files = ['tenant-secrets.yaml', 'tenant.yaml', 'dev/corner-shop.yaml', 'dev/demo.yaml']
    const texts = files.map((file) => readFileSync(resolve(samples, file), 'utf8'))
    // Replaces the namespaces of the samples, which may be in use, by the namespace of the test.
    const here = texts.join('\n---\n').replaceAll(/namespace: (shops|demo)\b/g, `namespace: ${namespace}`)
    const apply = () => kubectl({ args: ['apply', '-f', '-'], input: here })
    const first = await apply()
    expect(first.error).toBe('')
    expect(first.out).toContain('tenant.latchkey.dev/acme created')
    const before = await versions()
    expect(before.map(({ name }) => name)).toContain('acme')
    expect((await apply()).error).toBe('')
    expect(await versions()).toEqual(before)
  })
})

/** Metadata that each changing write of a tenant replaces. */
async function versions() {
  const { body } = await admin({ method: 'GET', path: tenants })
  const items = body['items'] as { metadata: { name: string; generation: number; resourceVersion: string } }[]
  return items.map(({ metadata: { name, generation, resourceVersion } }) => ({
    name,
    generation,
    resourceVersion,
  }))
}

/** Waits until the API server has published the field, which follows an update of the definition with a delay. */
async function explained(path: string, field: string): Promise<string> {
  const told = await poll(
    async () => {
      const { out } = await kubectl({ args: ['explain', path] })
      return out.includes(field) ? out : undefined
    },
    { deadlineMs: publishedMs, everyMs: 250 },
  )
  return told ?? ''
}

function cells(table: string): string[][] {
  return table
    .trim()
    .split('\n')
    .map((line) => line.split(/\s{2,}/))
}
