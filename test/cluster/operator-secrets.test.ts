import { expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { expectOk, secrets } from '#internal/kube/index.ts'
import { hashApiKey } from '#internal/tenants/index.ts'
import { useOperatorLab } from './operator-lab.ts'
import { kubectl } from './tenant-api.ts'
import { entryOf } from './tenant-calls.ts'

const stage = useOperatorLab()

const waitMs = 15_000
const dayMs = 86_400_000
const keySpec = { apiKeys: [{ name: 'default', scopes: ['records'] }] }

/** Waits until an entry of a Secret has changed; returns the new value. */
async function changed(name: string, entry: string, before: string): Promise<string> {
  const value = await poll(
    async () => {
      const now = entryOf(await stage.lab.secret(stage.shops, name), entry)
      return now !== '' && now !== before ? now : undefined
    },
    { deadlineMs: waitMs },
  )
  if (value === undefined) throw new Error(`${name}: ${entry} did not change`)
  return value
}

const patchSecret = async (name: string, patch: object) =>
  expectOk(
    'patching',
    await stage.lab.admin.client.mergePatch(secrets, { namespace: stage.shops, name }, patch),
  )

async function liveKeys(tenant: string): Promise<{ sha: string; ends: Date | null }[]> {
  const { rows } = await stage.lab.pool.query<{ sha: string; ends: Date | null }>(
    `SELECT encode(sha256, 'hex') AS sha, ends_at AS ends FROM api_keys JOIN tenants ON tenants.id = tenant_id
     WHERE tenants.name = $1 AND deleted_at IS NULL ORDER BY ends_at NULLS FIRST`,
    [tenant],
  )
  return rows
}

async function storedSecrets(tenant: string): Promise<number> {
  const row = await stage.lab.row(
    `SELECT count(*)::int AS count FROM tenant_secrets JOIN tenants ON tenants.id = tenant_id
     WHERE tenants.name = $1 AND field = 'callback'`,
    [tenant],
  )
  return Number(row?.['count'])
}

async function becomes(count: number, read: () => Promise<number>): Promise<number> {
  let last = Number.NaN
  await poll(async () => (last = await read()) === count || undefined, { deadlineMs: waitMs })
  return last
}

test('signing secret rotated by annotation: the earlier secret signs for another day', async () => {
  await stage.lab.create(stage.shops, 'rotating')
  await stage.lab.ready(stage.shops, 'rotating')
  const name = 'rotating-callback'
  const first = entryOf(await stage.lab.secret(stage.shops, name), 'signingSecret')
  const { exitCode, error } = await kubectl({
    args: ['annotate', 'secret', name, '-n', stage.shops, '--overwrite', 'latchkey.dev/rotate=2026-11-21'],
  })
  expect([exitCode, error]).toEqual([0, ''])
  const second = await changed(name, 'signingSecret', first)
  const rotated = await stage.lab.secret(stage.shops, name)
  expect(entryOf(rotated, 'previousSigningSecret')).toBe(first)
  const until = Date.parse(rotated?.metadata.annotations?.['latchkey.dev/previous-until'] ?? '')
  expect(Math.abs(until - Date.now() - dayMs)).toBeLessThan(60_000)
  expect(await becomes(2, () => storedSecrets('rotating'))).toBe(2)
  // One rotation per annotation value, however often the tenant is reconciled.
  await stage.lab.patch(stage.shops, 'rotating', { spec: { displayName: 'A' } })
  await stage.lab.ready(stage.shops, 'rotating')
  expect(entryOf(await stage.lab.secret(stage.shops, name), 'signingSecret')).toBe(second)
  // The earlier secret has expired.
  await patchSecret(name, {
    metadata: { annotations: { 'latchkey.dev/previous-until': '2026-01-01T00:00:00Z' } },
  })
  expect(await becomes(1, () => storedSecrets('rotating'))).toBe(1)
  expect(entryOf(await stage.lab.secret(stage.shops, name), 'previousSigningSecret')).toBe('')
  expect(entryOf(await stage.lab.secret(stage.shops, name), 'signingSecret')).toBe(second)
})

test('API key rotated by annotation: both keys work for a day', async () => {
  await stage.lab.create(stage.shops, 'keys', { spec: keySpec })
  await stage.lab.ready(stage.shops, 'keys')
  const name = 'keys-key-default'
  const first = entryOf(await stage.lab.secret(stage.shops, name), 'apiKey')
  await patchSecret(name, { metadata: { annotations: { 'latchkey.dev/rotate': '1' } } })
  const second = await changed(name, 'apiKey', first)
  expect(await becomes(2, async () => (await liveKeys('keys')).length)).toBe(2)
  const [live, ending] = await liveKeys('keys')
  expect(live).toEqual({ sha: hashApiKey(second), ends: null })
  expect(ending?.sha).toBe(hashApiKey(first))
  expect(Math.abs((ending?.ends?.getTime() ?? 0) - Date.now() - dayMs)).toBeLessThan(60_000)
})

test('generated signing secret edited by hand: the operator restores its value', async () => {
  await stage.lab.create(stage.shops, 'edited')
  await stage.lab.ready(stage.shops, 'edited')
  const name = 'edited-callback'
  const first = entryOf(await stage.lab.secret(stage.shops, name), 'signingSecret')
  const wrong = Buffer.from('whsec_d3Jvbmc=').toString('base64')
  await patchSecret(name, { data: { signingSecret: wrong } })
  expect(await changed(name, 'signingSecret', 'whsec_d3Jvbmc=')).toBe(first)
  await patchSecret(name, { data: { signingSecret: null } })
  expect(await changed(name, 'signingSecret', '')).toBe(first)
  await stage.operator.logged('tenant reconciled')
})

test('generated API key edited by hand: the operator replaces the key, since only its hash is stored', async () => {
  await stage.lab.create(stage.shops, 'editedkey', { spec: keySpec })
  await stage.lab.ready(stage.shops, 'editedkey')
  const name = 'editedkey-key-default'
  const first = entryOf(await stage.lab.secret(stage.shops, name), 'apiKey')
  const weak = `lk_${'a'.repeat(40)}`
  await patchSecret(name, { data: { apiKey: Buffer.from(weak).toString('base64') } })
  const second = await changed(name, 'apiKey', weak)
  expect(second).not.toBe(first)
  expect(await becomes(2, async () => (await liveKeys('editedkey')).length)).toBe(2)
  expect((await liveKeys('editedkey')).map(({ sha }) => sha)).toEqual([hashApiKey(second), hashApiKey(first)])
})

test('generated Secret: is created again with a new value, label and owner after its deletion', async () => {
  await stage.lab.create(stage.shops, 'deleted')
  const { metadata } = await stage.lab.ready(stage.shops, 'deleted')
  const name = 'deleted-callback'
  const first = entryOf(await stage.lab.secret(stage.shops, name), 'signingSecret')
  await stage.lab.admin.client.remove(secrets, { namespace: stage.shops, name })
  await changed(name, 'signingSecret', first)
  const again = await stage.lab.secret(stage.shops, name)
  expect(entryOf(again, 'previousSigningSecret')).toBe(first)
  expect(again?.metadata.labels?.['latchkey.dev/tenant']).toBe('deleted')
  expect(again?.metadata.ownerReferences).toMatchObject([{ kind: 'Tenant', uid: metadata.uid }])
  await patchSecret(name, { metadata: { labels: { 'latchkey.dev/tenant': null } } })
  const labelled = await poll(
    async () => (await stage.lab.secret(stage.shops, name))?.metadata.labels?.['latchkey.dev/tenant'],
    { deadlineMs: waitMs },
  )
  expect(labelled).toBe('deleted')
})

test('user-provided Secret: an added value is valid in addition to the first, and a removed value is no longer valid', async () => {
  const spec = { callback: { url: 'https://hooks.example/', signingSecretRef: { name: 'brought' } } }
  const whsec = (seed: number) => `whsec_${Buffer.alloc(24, seed).toString('base64')}`
  await stage.lab.addSecret({ namespace: stage.shops, name: 'brought', tenant: 'bringer' }, { a: whsec(1) })
  await stage.lab.create(stage.shops, 'bringer', { spec })
  await stage.lab.ready(stage.shops, 'bringer')
  expect(await storedSecrets('bringer')).toBe(1)
  await patchSecret('brought', { data: { b: Buffer.from(whsec(2)).toString('base64') } })
  expect(await becomes(2, () => storedSecrets('bringer'))).toBe(2)
  await patchSecret('brought', { data: { a: null } })
  expect(await becomes(1, () => storedSecrets('bringer'))).toBe(1)
})
