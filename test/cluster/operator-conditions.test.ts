import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { expectOk, kubeEvents, secrets } from '#internal/kube/index.ts'
import { conditionOf, type OperatorLab, type OperatorProcess, openOperatorLab } from './operator-lab.ts'

let lab: OperatorLab
let operator: OperatorProcess
let shops: string
beforeAll(async () => {
  lab = await openOperatorLab()
  operator = await lab.operator({ LATCHKEY_CALLBACK_CIDRS_MAX: '10.0.0.0/8' })
  shops = await lab.namespace()
}, 60_000)
afterAll(async () => {
  await lab.close()
}, 60_000)

const eventMsMax = 15_000
const key = (seed: string) => `lk_${seed.repeat(40).slice(0, 40)}`
const cardSpec = (name: string) => ({ providers: [{ name: 'card', secretRef: { name } }] })
const keySpec = (name: string) => ({
  apiKeys: [{ name: 'default', scopes: ['records'], secretRef: { name } }],
})
const callback = (url: string, allowedCIDRs: readonly string[]) => ({ callback: { url, allowedCIDRs } })
const wallet = { name: 'wallet', wallet: { webhookId: 'W1', environment: 'live' } }
const review = { approvedBy: 'ops', approvedAt: '2026-01-01T00:00:00Z' }

interface Case {
  readonly spec?: Record<string, unknown>
  readonly annotations?: Record<string, string>
  /** Values of a Secret `<tenant>-own`, and whom it is labelled for. */
  readonly values?: Record<string, string>
  readonly labelled?: string
  readonly before?: () => Promise<unknown>
}

async function told(tenant: string, reason: string): Promise<{ type: string; note: string } | undefined> {
  return await poll(
    async () => {
      const list = expectOk('events', await lab.admin.client.list(kubeEvents, { namespace: shops }))
      const found = list.items.find(
        (event) => event.reason === reason && JSON.stringify(event.regarding).includes(`"${tenant}"`),
      )
      return found && { type: found.type ?? '', note: found.note ?? '' }
    },
    { deadlineMs: eventMsMax },
  )
}

const own = (tenant: string) => `${tenant}-own`

describe('a condition that does not hold says why, what to do, and is told by an event', () => {
  test.each<[tenant: string, type: string, reason: string, advice: string, given: Case]>([
    ['missing', 'SecretsSynced', 'SecretMissing', 'create it', { spec: cardSpec('missing-own') }],
    [
      'unlabelled',
      'SecretsSynced',
      'SecretNotLabelled',
      'latchkey.dev/tenant=unlabelled',
      { spec: cardSpec('unlabelled-own'), values: { a: 's' } },
    ],
    [
      'foreign',
      'SecretsSynced',
      'SecretNotLabelled',
      'another tenant',
      { spec: cardSpec('foreign-own'), values: { a: 's' }, labelled: 'somebody' },
    ],
    [
      'empty',
      'SecretsSynced',
      'SecretInvalid',
      'must hold 1 to 5 values',
      { spec: cardSpec('empty-own'), values: {}, labelled: 'empty' },
    ],
    [
      'taken',
      'SecretsSynced',
      'NameTaken',
      'rename it',
      { before: () => lab.addSecret({ namespace: shops, name: 'taken-callback' }, { a: 's' }) },
    ],
    [
      'keyless',
      'ApiKeysIssued',
      'KeyMissing',
      'no such key',
      { spec: keySpec('keyless-own'), values: { other: key('a') }, labelled: 'keyless' },
    ],
    [
      'badkey',
      'ApiKeysIssued',
      'KeyInvalid',
      'must start with lk_',
      { spec: keySpec('badkey-own'), values: { apiKey: 'short' }, labelled: 'badkey' },
    ],
    [
      'keythief',
      'ApiKeysIssued',
      'KeyInUse',
      'bring a key of its own',
      { spec: keySpec('keythief-own'), values: { apiKey: key('k') }, labelled: 'keythief', before: keyOwner },
    ],
    [
      'unlisted',
      'CallbackAllowed',
      'AddressNotListed',
      'spec.callback.url',
      { spec: callback('http://93.184.215.14/', ['10.9.0.0/16']) },
    ],
    [
      'unpermitted',
      'CallbackAllowed',
      'AddressNotAllowed',
      'spec.callback.url',
      { spec: callback('https://192.168.1.1/', ['192.168.0.0/16']) },
    ],
    ['suspended', 'Ready', 'Suspended', 'set it to false', { spec: { suspended: true } }],
    [
      'misread',
      'Ready',
      'SpecInvalid',
      'spec.callback.url',
      { spec: { callback: { url: 'https://1.2.3.4.5/' } } },
    ],
    [
      'heir',
      'Ready',
      'AdoptRefused',
      'there is no deleted tenant',
      { annotations: { 'latchkey.dev/adopt': `ten_${'0'.repeat(26)}` } },
    ],
    [
      'oddheir',
      'Ready',
      'AdoptRefused',
      "must be a tenant's id",
      { annotations: { 'latchkey.dev/adopt': 'acme' } },
    ],
    [
      'second',
      'SlugReserved',
      'SlugTaken',
      `belongs to`,
      {
        spec: { slug: 'first' },
        before: () => lab.create(shops, 'first').then(() => lab.ready(shops, 'first')),
      },
    ],
  ])('%s: %s, %s', async (tenant, type, reason, advice, { spec = {}, values, ...given }) => {
    await given.before?.()
    if (values) {
      const place = { namespace: shops, name: own(tenant), ...(given.labelled && { tenant: given.labelled }) }
      await lab.addSecret(place, values)
    }
    await lab.create(shops, tenant, { spec, ...(given.annotations && { annotations: given.annotations }) })
    expect(await lab.reason(shops, tenant, type, reason)).toContain(advice)
    const object = await lab.tenant(shops, tenant)
    expect(conditionOf(object, type)?.status).toBe('False')
    expect(conditionOf(object, 'Ready')).toMatchObject({ status: 'False', reason })
    const event = await told(tenant, reason)
    expect(event?.type).toBe('Warning')
    expect(event?.note).toContain(advice)
  })

  /** A tenant that has brought the key before. */
  async function keyOwner(): Promise<void> {
    await lab.addSecret({ namespace: shops, name: 'keyowner-own', tenant: 'keyowner' }, { apiKey: key('k') })
    await lab.create(shops, 'keyowner', { spec: keySpec('keyowner-own') })
    await lab.ready(shops, 'keyowner')
  }
})

test('each stage of the wallet is a condition that leaves the tenant ready, and its move an event', async () => {
  await lab.create(shops, 'wallets')
  const spec = (fields: object) =>
    lab.admin.client.mergePatch(
      {
        apiVersion: 'latchkey.dev/v1alpha1',
        kind: 'Tenant',
        plural: 'tenants',
        namespaced: true,
        secret: false,
      },
      { namespace: shops, name: 'wallets' },
      { spec: fields } as object,
    )
  expect(await lab.reason(shops, 'wallets', 'WalletEnabled', 'NotConfigured')).not.toBe('')
  await spec({ providers: [{ ...wallet, enabled: false }] })
  await lab.reason(shops, 'wallets', 'WalletEnabled', 'Disabled')
  await spec({ providers: [wallet] })
  expect(await lab.reason(shops, 'wallets', 'WalletEnabled', 'StageOff')).toContain('set')
  await spec({ walletRollout: { stage: 'verify' } })
  expect(await lab.reason(shops, 'wallets', 'WalletEnabled', 'Verifying')).toContain('review')
  await spec({ walletRollout: { stage: 'enabled', review } })
  await lab.reason(shops, 'wallets', 'WalletEnabled', 'Reviewed')
  await lab.ready(shops, 'wallets')
  expect((await told('wallets', 'Reviewed'))?.type).toBe('Normal')
})

test('what is mended is in force and told at once', async () => {
  await lab.create(shops, 'mended', { spec: cardSpec('mended-own') })
  await lab.reason(shops, 'mended', 'SecretsSynced', 'SecretMissing')
  await lab.addSecret({ namespace: shops, name: 'mended-own' }, { a: 'later' })
  const labels = { 'latchkey.dev/tenant': 'mended' }
  const place = { namespace: shops, name: 'mended-own' }
  expectOk('labelling', await lab.admin.client.mergePatch(secrets, place, { metadata: { labels } }))
  const { status } = await lab.ready(shops, 'mended')
  const version = (await lab.secret(shops, 'mended-own'))?.metadata.resourceVersion
  expect(status?.secrets).toContainEqual({ name: 'mended-own', version: version ?? '' })
  expect((await told('mended', 'InForce'))?.type).toBe('Normal')
})

test('no value of a Secret is in a status, an event, the log or the metrics', async () => {
  const values = [key('k'), key('a'), 'later', 'short']
  const list = expectOk('secrets', await lab.admin.client.list(secrets, { namespace: shops }))
  for (const { data = {} } of list.items)
    values.push(...Object.values(data).map((value) => Buffer.from(value, 'base64').toString('utf8')))
  const { items } = expectOk('events', await lab.admin.client.list(kubeEvents, { namespace: shops }))
  const tenants = await Promise.all(
    ['keythief', 'badkey', 'mended', 'first'].map((name) => lab.tenant(shops, name)),
  )
  const metrics = await (await fetch(`${operator.opsUrl}/metrics`)).text()
  const texts = [
    JSON.stringify(items),
    JSON.stringify(tenants.map(({ status }) => status)),
    operator.output(),
    metrics,
  ]
  expect(values.filter((value) => value.length > 8).length).toBeGreaterThan(10)
  for (const value of values.filter((each) => each.length > 8))
    expect(texts.filter((text) => text.includes(value))).toEqual([])
})

test('all of it went without one forbidden call', async () => {
  expect(await operator.metric('rest_client_requests_total', 'code="200"')).toBeGreaterThan(20)
  expect(await operator.metric('rest_client_requests_total', 'code="403"')).toBe(0)
})
