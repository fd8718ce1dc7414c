// Follows an event from `kubectl apply` to its delivery, with all processes of an installation.
import { beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Stripe } from 'stripe'
import { poll } from '#internal/dev/index.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import {
  type ApiProcess,
  startApiProcess,
  startProcess,
  type TestProcess,
} from '#test/support/processes/api-process.ts'
import { useOperatorLab } from './operator-lab.ts'
import { kubectl } from './tenant-api.ts'
import { entryOf } from './tenant-calls.ts'

const networks = { LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8,10.0.0.0/8', LATCHKEY_CALLBACK_PORTS: 'any' }
const here = { allowedCIDRs: ['127.0.0.0/8'] }
const waitMs = 30_000
/** Namespace of the samples. */
const shops = 'shops'

const stage = useOperatorLab({ start: { env: networks }, strict: false, beforeClose })
let api: ApiProcess
let forwarder: TestProcess
beforeAll(async () => {
  api = await startApiProcess(stage.lab.stores)
  forwarder = startProcess('forwarder', { ...stage.lab.stores, ...networks })
  await forwarder.logged('listening')
}, 60_000)

async function beforeClose(): Promise<void> {
  await kubectl({ args: ['delete', 'tenants', '--all', '-n', shops] })
  await kubectl({ args: ['delete', 'namespace', shops, '--wait=false'] })
  for (const each of [api, forwarder]) each.signal('SIGTERM')
  await Promise.all([api.exited, forwarder.exited])
}

test('operate/tenants.md: its commands make the sample Ready and print the shown output', async () => {
  const section = await Bun.file(join(import.meta.dir, '../../docs/operate/tenants.md')).text()
  const steps = [
    ...section.matchAll(
      /<!-- cluster-test: operator-webhook.test.ts -->\n```sh\n(.*?)```(?:\n```text\n(.*?)```)?/gs,
    ),
  ]
  expect(steps.length).toBe(5)
  for (const [, commands = '', shown = ''] of steps) await follow(commands, shown)
  await stage.lab.ready(shops, 'acme')
  await shell('kubectl delete clusterrolebinding platform-team')
  const [, command = '', urls = ''] = /```text\n\$ (.*?)\n(.*?)```/s.exec(section) ?? []
  const { out } = await shell(command)
  const lines = urls.split('\n').filter((line) => line !== '' && line !== '…')
  expect(lines.length).toBeGreaterThan(1)
  for (const line of lines) expect(out.split('\n')).toContain(line)
  const told = await poll(events, { deadlineMs: waitMs })
  expect(told).toMatch(/Warning +Forbidden/)
})

/** Waits for the sample's events until one says that it is Ready; events follow a second later. */
async function events(): Promise<string | undefined> {
  const { out } = await shell(`kubectl events --for tenant/acme -n ${shops}`)
  return /Normal +InForce/.test(out) ? out : undefined
}

/** Runs commands in order, repeating the last one until their combined output is as shown. */
async function follow(commands: string, shown: string): Promise<void> {
  const lines = commands
    .replaceAll(/\\\n\s*/g, ' ')
    .trim()
    .split('\n')
  const last = lines.pop() ?? ''
  const before: string[] = []
  for (const line of lines) {
    const { exitCode, out, error } = await shell(line)
    // Allows a namespace that the lab has created.
    if (!error.includes('AlreadyExists')) expect([exitCode, error]).toEqual([0, ''])
    before.push(...cellsOf(out))
  }
  const wanted = cellsOf(shown)
  let printed: string[] = []
  await poll(
    async () => {
      const { out } = await shell(last)
      printed = [...before, ...cellsOf(out)].slice(-wanted.length)
      return wanted.length === 0 || printed.join('\n') === wanted.join('\n') || undefined
    },
    { deadlineMs: waitMs, everyMs: 100 },
  )
  if (wanted.length > 0) expect(printed).toEqual(wanted)
}

/** Replaces column widths and durations, which vary. */
function cellsOf(text: string): string[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return lines.map((line) =>
    line
      .replaceAll(/\s+/g, ' ')
      .replace(/ \d+m?\d*s$/, ' AGE')
      .trim(),
  )
}

async function shell(command: string) {
  const child = Bun.spawn(['bash', '-c', command], {
    cwd: join(import.meta.dir, '../..'),
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: waitMs,
  })
  const [out, error] = await Promise.all([child.stdout.text(), child.stderr.text()])
  return { exitCode: await child.exited, out, error }
}

test('webhook: a signed call to the URL in the sample’s status is delivered to its callback', async () => {
  const receiver = startReceiver({ secret: 'whsec_YWNtZS1zYW1wbGUtc2lnbmluZy1zZWNyZXQtMDAwMDA=' })
  // Replaces the sample's callback with the callback of the test.
  await stage.lab.patch(shops, 'acme', { spec: { callback: { url: receiver.url, ...here } } })
  const { status } = await stage.lab.ready(shops, 'acme')
  const url = status?.urls?.find(({ provider }) => provider === 'card')?.url ?? ''
  expect(url).toStartWith('https://hooks.latchkey.example/')
  const path = new URL(url).pathname
  expect(await callAsStripe(path, 'acme-card-sample-secret')).toEqual([200, '{"ok":true}'])
  expect(await arrived(receiver)).toMatchObject({ verified: true })
  expect(await callAsStripe(path, 'guessed')).toEqual([400, '{"error":"invalid signature"}'])
  await receiver.stop()
})

test('delivery: is signed with the generated secret if the user provides no signing secret', async () => {
  await stage.lab.addSecret(
    { namespace: stage.shops, name: 'hooked-card', tenant: 'hooked' },
    { a: 'a-card-secret-of-ours' },
  )
  const silent = startReceiver()
  await stage.lab.create(stage.shops, 'hooked', {
    spec: {
      callback: { url: silent.url, ...here },
      providers: [{ name: 'stripe', secretRef: { name: 'hooked-card' } }],
    },
  })
  await stage.lab.ready(stage.shops, 'hooked')
  await silent.stop()
  const secret = entryOf(await stage.lab.secret(stage.shops, 'hooked-callback'), 'signingSecret')
  const receiver = startReceiver({ secret, port: Number(new URL(silent.url).port) })
  expect(await callAsStripe('/v1/t/hooked/webhooks/stripe', 'a-card-secret-of-ours')).toEqual([
    200,
    '{"ok":true}',
  ])
  expect(await arrived(receiver)).toMatchObject({ verified: true })
  await receiver.stop()
})

/** Retries until the API knows the tenant, a moment after it is Ready. */
async function callAsStripe(path: string, secret: string): Promise<[status: number, body: string]> {
  const payload = JSON.stringify({
    id: `evt_${crypto.randomUUID()}`,
    object: 'event',
    type: 'charge.dispute.updated',
    created: 1_795_000_000,
    data: { object: { id: 'dp_1', object: 'dispute', status: 'under_review' } },
  })
  const signature = await Stripe.webhooks.generateTestHeaderStringAsync({ payload, secret })
  const headers = { 'stripe-signature': signature }
  const answer = await poll(
    async () => {
      const response = await fetch(api.url + path, { method: 'POST', headers, body: payload })
      const text = await response.text()
      return response.status === 403 ? undefined : ([response.status, text] as [number, string])
    },
    { deadlineMs: waitMs },
  )
  return answer ?? [403, '']
}

async function arrived({ calls }: CallbackReceiver) {
  return await poll(() => calls[0], { deadlineMs: waitMs })
}
