import { describe, expect, test } from 'bun:test'
import { expectOk, kubeEvents, secrets } from '#internal/kube/index.ts'
import { useOperatorLab } from './operator-lab.ts'
import { kubectl } from './tenant-api.ts'
import { conditionOf } from './tenant-calls.ts'

const stage = useOperatorLab({ start: { env: { LATCHKEY_CALLBACK_CIDRS_MAX: '10.0.0.0/8' } } })

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
  /** Values of the Secret `<tenant>-own`, and the tenant it is labelled for. */
  readonly values?: Record<string, string>
  readonly labelled?: string
  readonly before?: () => Promise<unknown>
}

const told = (tenant: string, reason: string) => stage.lab.told(stage.shops, tenant, reason)

const own = (tenant: string) => `${tenant}-own`

describe('operator: conditions', () => {
  test.each<[tenant: string, type: string, reason: string, advice: string, given: Case]>([
    ['missing', 'SecretsSynced', 'SecretMissing', 'create it', { spec: cardSpec('missing-own') }],
    [
      'unlabelled',
      'SecretsSynced',
      'SecretNotLabelled',
      'latchkey.dev/tenant=unlabelled',
      { spec: cardSpec('unlabelled-own'), values: { a: 'a-card-secret-of-ours' } },
    ],
    [
      'foreign',
      'SecretsSynced',
      'SecretNotLabelled',
      'another tenant',
      { spec: cardSpec('foreign-own'), values: { a: 'a-card-secret-of-ours' }, labelled: 'somebody' },
    ],
    [
      'empty',
      'SecretsSynced',
      'SecretInvalid',
      'must contain 1 to 5 values',
      { spec: cardSpec('empty-own'), values: {}, labelled: 'empty' },
    ],
    [
      'short',
      'SecretsSynced',
      'SecretTooShort',
      'short-own, key a: has fewer than 8 characters',
      {
        spec: cardSpec('short-own'),
        values: { a: 'hunter2', b: 'a-card-secret-of-ours' },
        labelled: 'short',
      },
    ],
    [
      'taken',
      'SecretsSynced',
      'NameTaken',
      'rename it',
      {
        before: () =>
          stage.lab.addSecret(
            { namespace: stage.shops, name: 'taken-callback' },
            { a: 'a-card-secret-of-ours' },
          ),
      },
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
      'use a key of this tenant only',
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
    [
      'kubelet',
      'CallbackAllowed',
      'PortNotListed',
      'must not use port 10250 of a private address',
      { spec: callback('https://10.9.8.7:10250/', ['10.9.0.0/16']) },
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
      'no deleted tenant',
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
        before: () =>
          stage.lab.create(stage.shops, 'first').then(() => stage.lab.ready(stage.shops, 'first')),
      },
    ],
  ])(
    'condition of Tenant %s: %s is False with reason %s, and message and event name the remedy',
    async (tenant, type, reason, advice, { spec = {}, values, ...given }) => {
      await given.before?.()
      if (values) {
        const place = {
          namespace: stage.shops,
          name: own(tenant),
          ...(given.labelled && { tenant: given.labelled }),
        }
        await stage.lab.addSecret(place, values)
      }
      await stage.lab.create(stage.shops, tenant, {
        spec,
        ...(given.annotations && { annotations: given.annotations }),
      })
      expect(await stage.lab.reason(stage.shops, tenant, type, reason)).toContain(advice)
      const object = await stage.lab.tenant(stage.shops, tenant)
      expect(conditionOf(object, type)?.status).toBe('False')
      expect(conditionOf(object, 'Ready')).toMatchObject({ status: 'False', reason })
      const event = await told(tenant, reason)
      expect(event?.type).toBe('Warning')
      expect(event?.note).toContain(advice)
    },
  )

  /** Creates the tenant that already uses the key. */
  async function keyOwner(): Promise<void> {
    await stage.lab.addSecret(
      { namespace: stage.shops, name: 'keyowner-own', tenant: 'keyowner' },
      { apiKey: key('k') },
    )
    await stage.lab.create(stage.shops, 'keyowner', { spec: keySpec('keyowner-own') })
    await stage.lab.ready(stage.shops, 'keyowner')
  }
})

test('condition SecretNotLabelled: suggests labelling only if the Secret belongs to no other tenant', async () => {
  const message = async (tenant: string) =>
    stage.lab.reason(stage.shops, tenant, 'SecretsSynced', 'SecretNotLabelled')
  expect(await message('foreign')).not.toContain('kubectl')
  const [, args = ''] = /: kubectl (label secret .*)$/.exec(await message('unlabelled')) ?? []
  expect(args).not.toContain('overwrite')
  // The suggested command works unchanged.
  expect((await kubectl({ args: args.split(' ') })).exitCode).toBe(0)
  await stage.lab.ready(stage.shops, 'unlabelled')
})

test('condition WalletEnabled: shows each rollout stage and keeps the tenant Ready, and each change emits an event', async () => {
  await stage.lab.create(stage.shops, 'wallets')
  const spec = (fields: object) => stage.lab.patch(stage.shops, 'wallets', { spec: fields })
  expect(await stage.lab.reason(stage.shops, 'wallets', 'WalletEnabled', 'NotConfigured')).not.toBe('')
  await spec({ providers: [{ ...wallet, enabled: false }] })
  await stage.lab.reason(stage.shops, 'wallets', 'WalletEnabled', 'Disabled')
  await spec({ providers: [wallet] })
  expect(await stage.lab.reason(stage.shops, 'wallets', 'WalletEnabled', 'StageOff')).toContain('set')
  await spec({ walletRollout: { stage: 'verify' } })
  expect(await stage.lab.reason(stage.shops, 'wallets', 'WalletEnabled', 'Verifying')).toContain('review')
  await spec({ walletRollout: { stage: 'enabled', review } })
  await stage.lab.reason(stage.shops, 'wallets', 'WalletEnabled', 'Reviewed')
  await stage.lab.ready(stage.shops, 'wallets')
  expect((await told('wallets', 'Reviewed'))?.type).toBe('Normal')
})

test('condition SecretsSynced: is True with one Warning event for a secret of 8 to 15 characters', async () => {
  const place = { namespace: stage.shops, name: 'weak-own', tenant: 'weak' }
  await stage.lab.addSecret(place, { a: 'hunter2-hunter2' })
  await stage.lab.create(stage.shops, 'weak', { spec: cardSpec('weak-own') })
  expect(await stage.lab.reason(stage.shops, 'weak', 'SecretsSynced', 'WeakSecret')).toContain(
    'weak-own, key a',
  )
  const object = await stage.lab.ready(stage.shops, 'weak')
  expect(conditionOf(object, 'SecretsSynced')?.status).toBe('True')
  const event = await told('weak', 'WeakSecret')
  expect(event?.type).toBe('Warning')
  expect(JSON.stringify([object.status, event])).not.toContain('hunter2')
})

test('condition SecretsSynced: becomes True immediately with an event when a Secret is labelled after a failure', async () => {
  await stage.lab.create(stage.shops, 'mended', { spec: cardSpec('mended-own') })
  await stage.lab.reason(stage.shops, 'mended', 'SecretsSynced', 'SecretMissing')
  await stage.lab.addSecret({ namespace: stage.shops, name: 'mended-own' }, { a: 'a-card-secret-of-ours' })
  const labels = { 'latchkey.dev/tenant': 'mended' }
  const place = { namespace: stage.shops, name: 'mended-own' }
  expectOk('labelling', await stage.lab.admin.client.mergePatch(secrets, place, { metadata: { labels } }))
  const { status } = await stage.lab.ready(stage.shops, 'mended')
  const version = (await stage.lab.secret(stage.shops, 'mended-own'))?.metadata.resourceVersion
  expect(status?.secrets).toContainEqual({ name: 'mended-own', version: version ?? '' })
  expect((await told('mended', 'InForce'))?.type).toBe('Normal')
})

test('operator: values of Secrets appear in no status, event, log line or metric', async () => {
  const values = [key('k'), key('a'), 'later', 'short']
  const list = expectOk('secrets', await stage.lab.admin.client.list(secrets, { namespace: stage.shops }))
  for (const { data = {} } of list.items)
    values.push(...Object.values(data).map((value) => Buffer.from(value, 'base64').toString('utf8')))
  const { items } = expectOk(
    'events',
    await stage.lab.admin.client.list(kubeEvents, { namespace: stage.shops }),
  )
  const tenants = await Promise.all(
    ['keythief', 'badkey', 'mended', 'first'].map((name) => stage.lab.tenant(stage.shops, name)),
  )
  const metrics = await (await fetch(`${stage.operator.opsUrl}/metrics`)).text()
  const texts = [
    JSON.stringify(items),
    JSON.stringify(tenants.map(({ status }) => status)),
    stage.operator.output(),
    metrics,
  ]
  expect(values.filter((value) => value.length > 8).length).toBeGreaterThan(10)
  for (const value of values.filter((each) => each.length > 8))
    expect(texts.filter((text) => text.includes(value))).toEqual([])
})
