// Opens the dashboard as a support user does: by port-forward, with a token from kubectl, under the chart's roles.
import { beforeAll, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { genericBody, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { forwardPort } from './forward-port.ts'
import {
  bringRelease,
  makeRestrictedNamespace,
  patience,
  releaseNamespace,
  stepMsMax,
} from './node-release.ts'
import { openShop, type Shop, shopNamespace } from './node-shop.ts'
import { run } from './program.ts'

/** Longer than the back office caches access reviews. */
const seenMsMax = 30_000
const othersNamespace = 'others'
let shop: Shop

beforeAll(async () => {
  await bringRelease()
  shop = await openShop()
}, stepMsMax)

test(
  'dashboard: a support user sees the tenants of its namespaces only, and replays an event',
  async () => {
    const other = await addTenantElsewhere()
    const account = `support-${crypto.randomUUID().slice(0, 8)}`
    const kubectl = (...args: string[]) => run(['kubectl', '-n', shopNamespace, ...args])
    await kubectl('create', 'serviceaccount', account)
    const who = `--serviceaccount=${shopNamespace}:${account}`
    await kubectl('create', 'rolebinding', account, '--clusterrole=latchkey-dashboard-support', who)
    const token = (await kubectl('create', 'token', account, '--audience=latchkey')).trim()
    const before = await shop.callCount()
    const event = await deliver()
    const forwarded = await forwardPort(releaseNamespace, 'service/latchkey-backoffice', 8081)
    try {
      const session = await openDashboardSession(`http://127.0.0.1:${forwarded.port}`, token)
      const statusOf = async (path: string) => (await session.get(path)).status
      const seen = await poll(async () => ((await statusOf('/tenants/acme')) === 200 ? true : undefined), {
        deadlineMs: seenMsMax * patience,
        everyMs: 250,
      })
      expect(seen).toBe(true)
      expect(await statusOf(`/events/${event.id}`)).toBe(200)
      expect([await statusOf(`/tenants/${other}`), await statusOf('/tenants/nobody')]).toEqual([404, 404])
      expect((await session.get(`/tenants?namespaces=${othersNamespace}`)).html).not.toContain(other)

      const replay = await session.post(`/events/${event.id}/replay`, { cycle: '1' })
      expect([replay.status, replay.location]).toEqual([303, expect.stringContaining(`/events/${event.id}`)])
      const calls = await shop.received([event.payloadId], before + 1)
      expect(calls.map(({ id }) => id)).toContain(event.id)
      const audit = await session.get('/audit?tenant=acme')
      expect(audit.html).toContain(`system:serviceaccount:${shopNamespace}:${account}`)
    } finally {
      await forwarded.close()
      await run(['kubectl', 'delete', 'tenant', other, '-n', othersNamespace, '--wait=false'])
    }
  },
  stepMsMax,
)

/** Sends one event and waits until the callback has received it. */
async function deliver(): Promise<{ id: string; payloadId: string }> {
  const payloadId = crypto.randomUUID()
  const from = await shop.callCount()
  const response = await fetch(shop.webhookUrl, { method: 'POST', ...signGeneric(genericBody(payloadId)) })
  expect(response.status).toBe(200)
  const [call] = await shop.received([payloadId], from)
  if (!call) throw new Error('a call came and is not there')
  return { id: call.id, payloadId }
}

/** Creates a Ready tenant in a namespace where support has no rights; returns its name, which is its slug. */
async function addTenantElsewhere(): Promise<string> {
  await makeRestrictedNamespace(othersNamespace)
  const name = `other-${crypto.randomUUID().slice(0, 8)}`
  const spec = { slug: name, callback: { url: 'https://hooks.other.example/latchkey' } }
  const metadata = { name, namespace: othersNamespace }
  const tenant = { apiVersion: 'latchkey.dev/v1alpha1', kind: 'Tenant', metadata, spec }
  await run(['kubectl', 'apply', '-f', '-'], JSON.stringify(tenant))
  const slugReserved = ['--for=condition=SlugReserved', `--timeout=${60 * patience}s`]
  await run(['kubectl', 'wait', 'tenant', name, '-n', othersNamespace, ...slugReserved])
  return name
}
