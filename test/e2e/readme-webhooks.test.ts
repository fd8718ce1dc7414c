import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { poll, removeStores } from '#internal/dev/index.ts'
import { type DevAddresses, type DevServer, startDevServer } from '#test/support/dev-server.ts'

const root = join(import.meta.dir, '../..')
const pages = ['tutorials/first-webhook.md', 'guides/webhooks.md']
const readme = (await Promise.all(pages.map((page) => Bun.file(join(root, 'docs', page)).text()))).join('\n')
const signingSecret = 'whsec_ZGVtby1zaWduaW5nLXNlY3JldC1ub3QtcmVhbC0wMDA='

let dev: DevServer
let dir: string
let dataDir: string
let ready: DevAddresses

beforeAll(async () => {
  // Inside the clone, where the program can import the vendor's SDK.
  dir = await mkdtemp(join(root, '.readme-'))
  dataDir = await mkdtemp(join(tmpdir(), 'latchkey-readme-'))
  dev = startDevServer({ dataDir })
  ready = await dev.ready()
}, 120_000)
afterAll(async () => {
  dev.signal('SIGTERM')
  await dev.exited
  await removeStores(dataDir)
  await rm(dir, { recursive: true, force: true })
}, 60_000)

async function block(name: string, language: string): Promise<string> {
  const text = new RegExp(`<!-- readme-test: ${name} -->\\n\`\`\`${language}\\n(.*?)\`\`\``, 's').exec(
    readme,
  )?.[1]
  if (text === undefined) throw new Error(`no page has ${name}`)
  return text
}

test('pages on webhooks: the first webhook prints the shown response, and the callback gets the shown delivery', async () => {
  const path = join(dir, 'first-webhook.ts')
  await Bun.write(path, await block('webhook', 'ts'))
  const printed = await Bun.$`${process.execPath} ${path}`
    .env({ ...process.env, LATCHKEY_URL: ready.api })
    .text()
  expect(printed).toBe(/readme-test: webhook.*?```text\n(.*?)```/s.exec(readme)?.[1] ?? '')
  const shown = JSON.parse(await block('event', 'json')) as Record<string, unknown>
  const delivery = await poll(async () => (await dev.deliveries())[0], { deadlineMs: 10_000 })
  expect(delivery?.signature).toEqual({ kind: 'ok' })
  const event = JSON.parse(delivery?.body ?? '{}') as Record<string, unknown>
  expect(Object.keys(event)).toEqual(Object.keys(shown))
  expect(Object.keys(event['headers'] as object).toSorted()).toEqual(
    Object.keys(shown['headers'] as object).toSorted(),
  )
  for (const name of ['provider', 'providerRawType', 'type', 'tenantId', 'occurredAt']) {
    expect(event[name]).toEqual(shown[name])
  }
  expect(dev.output()).toMatch(
    /> \d\d:\d\d:\d\d card chargeback\.under_review → demo {2}evt_\w{26} {2}signature ok/,
  )
}, 60_000)

test('pages on webhooks: the curl commands for webhooks print the shown output', async () => {
  const script = (await block('curl-webhook', 'sh')).replace('http://127.0.0.1:8080', ready.api)
  expect(await Bun.$`bash -euc ${script}`.text()).toBe('{"ok":true}')
})

test('pages on webhooks: the simulation gets the shown response, and its events appear in order', async () => {
  const script = (await block('curl-simulation', 'sh')).replace('http://127.0.0.1:8080', ready.api)
  const [, shown = '', lines = ''] =
    /readme-test: curl-simulation.*?```json\n(.*?)```\n```text\n(.*?)```/s.exec(readme) ?? []
  const printed = await Bun.$`bash -euc ${script}`.text()
  const withoutChance = (text: string) =>
    text
      .trim()
      .replaceAll(/(sim|evt)_[0-9a-hjkmnp-tv-z]{26}/g, '$1_…')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '…')
      .replaceAll(/^> \d\d:\d\d:\d\d/gm, '> …')
  expect(withoutChance(printed)).toBe(withoutChance(shown))
  await dev.prints('chargeback.won')
  expect((await dev.deliveries())[0]).toMatchObject({ type: 'chargeback.won', origin: 'simulation' })
  const told = dev.output().match(/^> .* card chargeback\..*$/gm) ?? []
  // The first webhook was a dispute, too.
  expect(withoutChance(told.slice(-3).join('\n'))).toBe(withoutChance(lines))
}, 60_000)

test('pages on webhooks: the simulated event gets the shown response', async () => {
  const script = (await block('curl-simulated-event', 'sh')).replace('http://127.0.0.1:8080', ready.api)
  const [, shown = ''] = /readme-test: curl-simulated-event.*?```json\n(.*?)```/s.exec(readme) ?? []
  const withoutChance = (text: string) =>
    text.trim().replaceAll(/"(sim|evt)_[0-9a-z]{26}"|"evt_sim_[\w-]{22}"/g, '"…"')
  expect(withoutChance(await Bun.$`bash -euc ${script}`.text())).toBe(withoutChance(shown))
})

test('pages on webhooks: the example receiver accepts only signed deliveries and prints each delivery once', async () => {
  const path = join(dir, 'receive.ts')
  await Bun.write(
    path,
    (await block('receiver', 'ts'))
      .replace('Number(process.env.PORT ?? 9000)', '0')
      .replace('Bun.serve({', 'const server = Bun.serve({') + 'console.log(server.port)\n',
  )
  const child = Bun.spawn([process.execPath, path], { stdout: 'pipe' })
  try {
    const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
    const port = Number((await lines.read()).value)
    const send = async (secret: string) => {
      const [body, now] = [JSON.stringify({ type: 'chargeback.under_review' }), new Date()]
      const headers = {
        'webhook-id': 'evt_1',
        'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
        'webhook-signature': new Webhook(secret).sign('evt_1', now, body),
      }
      return (await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body, headers })).status
    }
    expect([await send(signingSecret), await send(signingSecret)]).toEqual([204, 204])
    expect(await send(`whsec_${btoa('x'.repeat(24))}`)).toBe(400)
    expect((await lines.read()).value).toBe('chargeback.under_review\n')
  } finally {
    child.kill()
    await child.exited
  }
}, 60_000)
