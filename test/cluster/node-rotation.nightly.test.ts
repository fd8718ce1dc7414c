import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { createPool } from '#internal/storage/index.ts'
import { genericBody, providerSecret, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { forwardPort } from './forward-port.ts'
import { startLoad } from './node-load.ts'
import { bringRelease, patience, releaseNamespace, serviceUrl, stepMsMax } from './node-release.ts'
import { openShop, type Shop, shopNamespace, unsigned } from './node-shop.ts'
import { run } from './program.ts'

const inForceMsMax = 30_000
const perSecond = 20
const nextSecret = 'whsec_bmV4dC1wcm92aWRlci1zZWNyZXQtMDAwMDAwMDA='
let shop: Shop

beforeAll(async () => {
  await bringRelease()
  shop = await openShop()
}, stepMsMax)

describe('rotation', () => {
  test(
    'rotation of a provider secret: both values are accepted until the old value is removed',
    async () => {
      const from = await shop.callCount()
      let current = providerSecret
      const load = startLoad({ url: shop.webhookUrl, perSecond, secret: () => current })
      await setProviderSecrets({ signingSecret: providerSecret, next: nextSecret })
      await inForce(async () => (await statusOf(nextSecret)) === 200)
      current = nextSecret
      await setProviderSecrets({ next: nextSecret })
      await inForce(async () => (await statusOf(providerSecret)) === 400)
      const { acknowledged, failures } = await load.stop()
      await setProviderSecrets({ signingSecret: providerSecret })
      await inForce(async () => (await statusOf(providerSecret)) === 200)
      // Allows 400: a call signed just before its secret was removed is refused, and retried with the new secret.
      expect(failures.filter(({ status }) => status !== 400)).toEqual([])
      await shop.received(acknowledged, from)
    },
    stepMsMax,
  )

  test(
    'rotation of an API key: the earlier key stays valid',
    async () => {
      const before = await shop.secret('acme-key-default', 'apiKey')
      await rotate('acme-key-default')
      const next = await changed(() => shop.secret('acme-key-default', 'apiKey'), before)
      await inForce(async () => (await recordStatus(next)) === 200)
      expect(await recordStatus(before)).toBe(200)
      expect(await recordStatus(`${next.slice(0, -1)}${next.endsWith('A') ? 'B' : 'A'}`)).toBe(403)
    },
    stepMsMax,
  )

  test(
    'rotation of the signing secret of deliveries: both secrets sign for a day',
    async () => {
      const before = await shop.secret('acme-callback', 'signingSecret')
      await rotate('acme-callback')
      const next = await changed(() => shop.secret('acme-callback', 'signingSecret'), before)
      await inForce(async () => {
        const from = await shop.callCount()
        const id = crypto.randomUUID()
        expect(await statusOf(providerSecret, id)).toBe(200)
        const calls = await shop.received([id], from)
        expect(unsigned(calls, before)).toEqual([])
        return unsigned(calls, next).length === 0
      })
    },
    stepMsMax,
  )

  test(
    'rotation of the key ring: no call fails while the new key is added last, then moved first, then kept alone',
    async () => {
      const from = await shop.callCount()
      const load = startLoad({ url: shop.webhookUrl, perSecond })
      const first = (await ringOf('latchkey-key-ring')).trim()
      const second = `k2:${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64')}`
      await bringRing('first-step', `${first},${second}`)
      await bringRing('second-step', `${second},${first}`)
      await sealedBy('k2')
      await bringRing('third-step', second)
      const { acknowledged, failures } = await load.stop()
      expect(failures).toEqual([])
      await shop.received(acknowledged, from)
    },
    stepMsMax,
  )
})

/** Seals everything again with the chart's generated key, so that its ring decrypts it. */
afterAll(async () => {
  const [first, second] = [await ringOf('latchkey-key-ring'), await ringOf('third-step')]
  if (second === '') return
  await bringRing('back', `${first},${second}`)
  await sealedBy('k1')
}, stepMsMax)

/** Waits until the condition holds. @throws after 30 s */
async function inForce(isSo: () => Promise<boolean>): Promise<void> {
  const bounds = { deadlineMs: inForceMsMax * patience, everyMs: 200 }
  const found = await poll(async () => ((await isSo()) ? true : undefined), bounds)
  if (!found) throw new Error(`the change was not in force after ${bounds.deadlineMs} ms`)
}

/** Waits for a value other than `before`. */
async function changed(read: () => Promise<string>, before: string): Promise<string> {
  let last = before
  await inForce(async () => {
    last = await read()
    return last !== before
  })
  return last
}

async function statusOf(secret: string, id: string = crypto.randomUUID()): Promise<number> {
  const call = signGeneric(genericBody(id), { secret })
  const response = await fetch(shop.webhookUrl, { method: 'POST', ...call })
  await response.arrayBuffer()
  return response.status
}

/** Returns the status of reading a missing record with this key. */
async function recordStatus(key: string): Promise<number> {
  const headers = { Authorization: `Bearer ${key}` }
  const response = await fetch(`${serviceUrl}/v1/record?scope=none&key=${crypto.randomUUID()}`, { headers })
  await response.arrayBuffer()
  return response.status
}

async function setProviderSecrets(stringData: Readonly<Record<string, string>>): Promise<void> {
  const metadata = {
    name: 'acme-provider',
    namespace: shopNamespace,
    labels: { 'latchkey.dev/tenant': 'acme' },
  }
  const data = Object.entries(stringData).map(([name, text]) => [name, Buffer.from(text).toString('base64')])
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata, data: Object.fromEntries(data) as object }
  await run(['kubectl', 'replace', '-f', '-'], JSON.stringify(secret))
}

async function rotate(secret: string): Promise<void> {
  const mark = `latchkey.dev/rotate=${crypto.randomUUID()}`
  await run(['kubectl', 'annotate', 'secret', secret, '-n', shopNamespace, '--overwrite', mark])
}

/** Returns the text of a key ring; empty if absent. */
async function ringOf(secret: string): Promise<string> {
  const path = ['-o', 'jsonpath={.data.keyRing}', '--ignore-not-found']
  const text = await run(['kubectl', 'get', 'secret', secret, '-n', releaseNamespace, ...path])
  return Buffer.from(text, 'base64').toString('utf8')
}

/** Stores a ring in a Secret and upgrades the release to use it. */
async function bringRing(secret: string, keyRing: string): Promise<void> {
  const metadata = { name: secret, namespace: releaseNamespace }
  const object = { apiVersion: 'v1', kind: 'Secret', metadata, stringData: { keyRing } }
  await run(['kubectl', 'apply', '-f', '-'], JSON.stringify(object))
  await bringRelease({ keyRing: { existingSecret: secret } })
}

/** Waits until the operator has sealed everything with this key. */
async function sealedBy(keyId: string): Promise<void> {
  const forwarded = await forwardPort(releaseNamespace, 'pod/latchkey-postgres-0', 5432)
  const pool = createPool({
    url: `postgres://latchkey:latchkey@127.0.0.1:${forwarded.port}/latchkey`,
    applicationName: 'latchkey node test',
    connectionsMax: 1,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
  try {
    const query = 'SELECT count(*)::int AS left FROM tenant_secrets WHERE key_id <> $1'
    await inForce(async () => {
      const { rows } = await pool.query<{ left: number }>(query, [keyId])
      return rows[0]?.left === 0
    })
  } finally {
    await pool.end()
    await forwarded.close()
  }
}
