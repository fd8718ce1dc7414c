import { beforeAll, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { genericBody, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { forwardPort } from './forward-port.ts'
import {
  bringRelease,
  helm,
  metricsOf,
  patience,
  pods,
  podsAre,
  processes,
  readyPods,
  releaseNamespace,
  removeRelease,
  serviceUrl,
  stepMsMax,
  waitSeconds,
} from './node-release.ts'
import { openShop, payloadIdOf, type Shop, shopNamespace, unsigned } from './node-shop.ts'
import { run } from './program.ts'

const readyMsMax = 60_000
/** Longer than the back office caches access reviews. */
const seenMsMax = 30_000
let readyMs: number
let shop: Shop

beforeAll(async () => {
  await removeRelease()
  const startedMs = performance.now()
  await bringRelease()
  readyMs = performance.now() - startedMs
  process.stdout.write(`installed and Ready after ${(readyMs / 1000).toFixed(1)} s\n`)
  shop = await openShop()
}, stepMsMax)

describe('installation by the preset kind', () => {
  test('installation: is Ready within a minute, including stores and schema', async () => {
    expect(readyMs).toBeLessThan(readyMsMax * patience)
    for (const process of processes) expect(await readyPods(process)).toHaveLength(1)
  })

  test(
    'installation: a migration installed together with Postgres has no failed pod',
    async () => {
      const jobs = ['jobs', '-n', releaseNamespace, '-l', 'app.kubernetes.io/component=migrate']
      // Waits for the status of the Job, which changes after its pod has completed.
      await run(['kubectl', 'wait', ...jobs, '--for=condition=Complete', `--timeout=${waitSeconds}s`])
      const { items } = JSON.parse(await run(['kubectl', 'get', ...jobs, '-o', 'json'])) as {
        items: { status: { failed?: number; succeeded?: number } }[]
      }
      expect(items.map(({ status }) => [status.failed ?? 0, status.succeeded])).toEqual([[0, 1]])
      const phases = (await pods('migrate')).map(({ status }) => status.phase)
      expect(phases).toEqual(['Succeeded'])
    },
    stepMsMax,
  )

  test(
    'installation: passes helm test',
    async () => {
      expect(await helm('test', `--timeout=${waitSeconds}s`)).toContain('Phase:          Succeeded')
    },
    stepMsMax,
  )

  test('installation: runs in namespaces that enforce the restricted Pod Security Standard', async () => {
    const enforced = ['-o', 'jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}']
    for (const namespace of [releaseNamespace, shopNamespace])
      expect(await run(['kubectl', 'get', 'namespace', namespace, ...enforced])).toBe('restricted')
    const warnings = ['--field-selector', 'reason=FailedCreate', '-o', 'name']
    expect(await run(['kubectl', 'get', 'events', '-n', releaseNamespace, ...warnings])).toBe('')
  })

  test(
    'installation: webhooks of a Tenant are delivered to its callback in a pod',
    async () => {
      const from = await shop.callCount()
      const { status } = await shop.tenants.tenant(shopNamespace, 'acme')
      expect(status?.urls?.map(({ url }) => new URL(url).pathname)).toEqual([
        new URL(shop.webhookUrl).pathname,
      ])
      const ids = Array.from({ length: 20 }, () => crypto.randomUUID())
      const answers = await Promise.all(ids.map((id) => send(id)))
      expect(new Set(answers)).toEqual(new Set(['200 {"ok":true}']))
      expect(await send(ids[0] ?? '')).toBe('200 {"ok":true,"cached":true}')
      expect(await send(crypto.randomUUID(), 'guessed')).toBe('400 {"error":"invalid signature"}')

      const calls = await shop.received(ids, from)
      expect(calls.map(payloadIdOf).toSorted()).toEqual(ids.toSorted())
      expect(unsigned(calls, await shop.secret('acme-callback', 'signingSecret'))).toEqual([])
    },
    stepMsMax,
  )

  test('installation: records can be written and read with the generated API key', async () => {
    const key = await shop.secret('acme-key-default', 'apiKey')
    const [scope, headers] = [crypto.randomUUID(), { Authorization: `Bearer ${key}` }]
    const call = async (method: string, body: object) => {
      const request = { method, headers, body: JSON.stringify({ scope, key: '1', ...body }) }
      const response = await fetch(`${serviceUrl}/v1/record`, request)
      return (await response.json()) as Record<string, unknown>
    }
    expect(await call('POST', {})).toMatchObject({ cached: false, locked: true })
    expect(await call('PUT', { status: 201, headers: {}, body: { id: 'ch_1' } })).toEqual({ ok: true })
    const record = { status: 201, headers: {}, body: { id: 'ch_1' } }
    expect(await call('POST', {})).toEqual({ cached: true, record })
  })

  test('installation: the operator gets no 403, and only pods with roles have a token', async () => {
    await podsAre('operator', (count) => count === 1)
    const [operator] = await readyPods('operator')
    if (!operator) throw new Error('no operator is Ready')
    const requests = (await metricsOf(operator))
      .split('\n')
      .filter((line) => line.startsWith('rest_client_requests_total{'))
    expect(requests.length).toBeGreaterThan(0)
    expect(requests.filter((line) => line.includes('code="403"'))).toEqual([])
    const hasToken = async (name: string) => {
      const [pod] = await readyPods(name)
      return JSON.stringify(pod?.spec.volumes ?? []).includes('serviceAccountToken')
    }
    expect(await Promise.all(processes.map(hasToken))).toEqual([false, false, true, await wantsToken()])
  })

  test('installation: users with a dashboard role have access to a Tenant, and other users do not', async () => {
    const account = `support-${crypto.randomUUID().slice(0, 8)}`
    const kubectl = (...args: string[]) => run(['kubectl', '-n', shopNamespace, ...args])
    await kubectl('create', 'serviceaccount', account)
    const tokenFor = async (...flags: string[]) =>
      (await kubectl('create', 'token', account, ...flags)).trim()
    const [token, apiServers] = [await tokenFor('--audience=latchkey'), await tokenFor()]
    const forwarded = await forwardPort(releaseNamespace, 'service/latchkey-backoffice', 8081)
    const statusFor = async (bearer: string) => {
      const headers = { Authorization: `Bearer ${bearer}` }
      const url = `http://127.0.0.1:${forwarded.port}/internal/v1/tenants/lookup?slug=acme`
      return (await fetch(url, { headers })).status
    }
    try {
      expect([await statusFor(token), await statusFor(apiServers)]).toEqual([404, 401])
      const role = [
        '--clusterrole=latchkey-dashboard-support',
        `--serviceaccount=${shopNamespace}:${account}`,
      ]
      await kubectl('create', 'rolebinding', account, ...role)
      const seen = await poll(async () => ((await statusFor(token)) === 200 ? true : undefined), {
        deadlineMs: seenMsMax * patience,
        everyMs: 250,
      })
      expect([seen, await statusFor(apiServers)]).toEqual([true, 401])
    } finally {
      await forwarded.close()
    }
  })
})

/** Sends one event; returns status and body of the answer. */
async function send(id: string, secret?: string): Promise<string> {
  const signed = signGeneric(genericBody(id), secret === undefined ? {} : { secret })
  const response = await fetch(shop.webhookUrl, { method: 'POST', ...signed })
  return `${response.status} ${await response.text()}`
}

/** Returns whether the chart mounts a token in pods of the back office. */
async function wantsToken(): Promise<boolean> {
  const path = ['-o', 'jsonpath={.spec.template.spec.automountServiceAccountToken}']
  return (
    (await run(['kubectl', 'get', 'deployment', 'latchkey-backoffice', '-n', releaseNamespace, ...path])) ===
    'true'
  )
}
