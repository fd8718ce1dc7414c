import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Stripe } from 'stripe'
import { poll } from '#internal/dev/index.ts'
import { startApiProcess, startProcess, type TestProcess } from '#test/support/api-process.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/callback-receiver.ts'
import { entryOf, type OperatorLab, openOperatorLab } from './operator-lab.ts'
import { kubectl } from './tenant-api.ts'

const networks = { LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8,10.0.0.0/8' }
let lab: OperatorLab
beforeAll(async () => {
  lab = await openOperatorLab()
  await lab.operator(networks)
}, 60_000)
afterAll(async () => {
  await kubectl({ args: ['delete', 'tenant', 'acme', '-n', 'shops', '--ignore-not-found'] })
  await kubectl({ args: ['delete', 'namespace', 'shops', '--ignore-not-found', '--wait=false'] })
  await lab.close()
}, 60_000)

const waitMs = 30_000

test('the sample is Ready, as kubectl shows it', async () => {
  await kubectl({ args: ['create', 'namespace', 'shops'] })
  await lab.grant('shops')
  for (const file of ['tenant-secrets.yaml', 'tenant.yaml']) {
    const { error } = await kubectl({ args: ['apply', '-f', `config/samples/${file}`] })
    expect(error).toBe('')
  }
  await lab.ready('shops', 'acme')
  const { out } = await kubectl({ args: ['get', 'tenants', '-n', 'shops'] })
  expect(out.split('\n').map((line) => line.split(/\s+/).slice(0, 5))).toEqual([
    ['NAME', 'READY', 'REASON', 'SLUG', 'WALLET'],
    ['acme', 'True', 'InForce', 'acme', 'verify'],
    [''],
  ])
})

test('a provider’s signed call reaches the callback of a Tenant, signed by its generated secret', async () => {
  const shops = await lab.namespace()
  await lab.addSecret({ namespace: shops, name: 'hooked-card', tenant: 'hooked' }, { a: 'card-secret' })
  const silent = startReceiver()
  await lab.create(shops, 'hooked', {
    spec: {
      callback: { url: silent.url, allowedCIDRs: ['127.0.0.0/8'] },
      providers: [{ name: 'stripe', secretRef: { name: 'hooked-card' } }],
    },
  })
  await lab.ready(shops, 'hooked')
  await silent.stop()
  const secret = entryOf(await lab.secret(shops, 'hooked-callback'), 'signingSecret')
  const receiver = startReceiver(secret, Number(new URL(silent.url).port))
  const { KUBECONFIG: _, LATCHKEY_PUBLIC_URL: __, ...stores } = lab.env as Record<string, string>
  const api = await startApiProcess(stores)
  const forwarder = startProcess('forwarder', { ...stores, ...networks })
  await forwarder.logged('listening')
  expect(await callAsStripe(`${api.url}/v1/t/hooked/webhooks/stripe`)).toBe(200)
  expect(await arrived(receiver)).toMatchObject({ verified: true })
  await ended(api, forwarder)
  await receiver.stop()
})

async function callAsStripe(url: string): Promise<number> {
  const payload = JSON.stringify({
    id: `evt_${Date.now()}`,
    object: 'event',
    type: 'charge.dispute.updated',
    created: 1_795_000_000,
    data: { object: { id: 'dp_1', object: 'dispute', status: 'under_review' } },
  })
  const signature = await Stripe.webhooks.generateTestHeaderStringAsync({ payload, secret: 'card-secret' })
  const headers = { 'stripe-signature': signature }
  return (await fetch(url, { method: 'POST', headers, body: payload })).status
}

async function arrived({ calls }: CallbackReceiver) {
  return await poll(() => calls[0], { deadlineMs: waitMs })
}

async function ended(...processes: readonly TestProcess[]): Promise<void> {
  for (const each of processes) each.signal('SIGTERM')
  await Promise.all(processes.map((each) => each.exited))
}
