// Runs the commands and programs of the pages on webhooks, pulling and the command line unchanged, with `npm run dev`.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { poll, removeStores } from '#internal/dev/index.ts'
import { expectReceived } from '#test/support/documents/guarded-app.ts'
import { blockNamed } from '#test/support/documents/page.ts'
import {
  commandEnv,
  type DevAddresses,
  type DevServer,
  inheritedEnv,
  root,
  startDevServer,
} from '#test/support/processes/dev-server.ts'
import { runServed } from '#test/support/processes/served-program.ts'

const tutorial = 'docs/tutorials/first-webhook.md'
const guide = 'docs/guides/webhooks.md'
const pull = 'docs/guides/pull.md'
const secret = 'whsec_ZGVtby1zaWduaW5nLXNlY3JldC1ub3QtcmVhbC0wMDA='

let dev: DevServer
let env: ReturnType<typeof commandEnv>
let dir: string
let dataDir: string
let ready: DevAddresses

beforeAll(async () => {
  env = commandEnv()
  // Below the repository, where the program can import the vendor's SDK.
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

/** Runs commands of a page in the clone, with the data folder and the port of this test's server. */
async function run(commands: string): Promise<string> {
  const script = commands.replaceAll('http://127.0.0.1:8080', ready.api)
  return Bun.$`bash -euc ${script}`
    .cwd(root)
    .env({ ...env, LATCHKEY_DATA_DIR: dataDir })
    .text()
}

/** Writes a program into the clone and returns its path. */
async function write(name: string, text: string): Promise<string> {
  const path = join(dir, name)
  await Bun.write(path, text)
  return path
}

test('tutorial of webhooks: the first webhook prints the shown response, and the callback gets the shown delivery', async () => {
  const { text, shown: response } = blockNamed(tutorial, 'sdk')
  const path = await write('first-webhook.ts', text)
  const printed = await Bun.$`${process.execPath} ${path}`
    .env({ ...inheritedEnv(), LATCHKEY_URL: ready.api })
    .text()
  expect(printed).toBe(response)
  const shown = JSON.parse(blockNamed(tutorial, 'event').text) as Record<string, unknown>
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

test('tutorial of webhooks: the curl command of another provider prints the shown output', async () => {
  const { text, shown } = blockNamed(tutorial, 'provider-curl')
  expect(await run(text)).toBe(shown.trim())
})

test('tutorial of webhooks: the simulation gets the shown response, and its events appear in order', async () => {
  const { text, shown } = blockNamed(tutorial, 'simulation')
  const [, lines = ''] =
    /test: simulation.*?```json\n.*?```\n```text\n(.*?)```/s.exec(
      await Bun.file(join(root, tutorial)).text(),
    ) ?? []
  const printed = await run(text)
  const withoutChance = (each: string) =>
    each
      .trim()
      .replaceAll(/(sim|evt)_[0-9a-hjkmnp-tv-z]{26}/g, '$1_…')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '…')
      .replaceAll(/^> \d\d:\d\d:\d\d/gm, '> …')
  expect(withoutChance(printed)).toBe(withoutChance(shown))
  await dev.prints('chargeback.won')
  expect((await dev.deliveries())[0]).toMatchObject({ type: 'chargeback.won', origin: 'simulation' })
  const told = dev.output().match(/^> .* card chargeback\..*$/gm) ?? []
  // Compares the last three lines only, since the first webhook was also a dispute.
  expect(withoutChance(told.slice(-3).join('\n'))).toBe(withoutChance(lines))
}, 60_000)

test.each([
  [tutorial, 'trigger', 1],
  ['docs/guides/testing.md', 'trigger', 2],
])('%s: latchkey trigger sends events', async (page, name, count) => {
  const printed = await run(blockNamed(page, name).text)
  expect(printed.match(/^event +evt_\w{26}$/gm)).toHaveLength(count)
})

test.each(['README.md', 'docs/guides/frameworks/index.md', 'docs/guides/command-line.md'])(
  '%s: latchkey listen sends the triggered event to a program',
  async (page) => {
    const [listen = '', trigger = ''] = blockNamed(page, 'listen').text.trim().split('\n')
    const got = Promise.withResolvers<string>()
    const server = Bun.serve({
      port: 0,
      async fetch(request) {
        got.resolve(((await request.json()) as { type: string }).type)
        return new Response(null, { status: 204 })
      },
    })
    const own = listen.replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${server.port}`)
    const listener = Bun.spawn(['bash', '-c', own.replace('npm run', 'exec npm run')], {
      cwd: root,
      env: { ...env, LATCHKEY_DATA_DIR: dataDir },
      stdout: 'pipe',
      detached: true,
    })
    try {
      const reader = listener.stdout.pipeThrough(new TextDecoderStream()).getReader()
      let printed = ''
      while (!printed.includes('Forwarding events to')) {
        const { value, done } = await reader.read()
        if (done) throw new Error(printed)
        printed += value
      }
      await run(trigger)
      expect(await got.promise).toBe('payment.succeeded')
    } finally {
      process.kill(-listener.pid, 'SIGTERM')
      await listener.exited
      await server.stop(true)
    }
  },
  60_000,
)

test('guide of the command line: its commands succeed for an event that was delivered', async () => {
  const printed = await run(blockNamed('docs/guides/command-line.md', 'events').text)
  expect(printed).toContain('The callback accepted the event')
  expect(printed).toContain('"type":"payment_intent.succeeded"')
  expect(printed).toContain('Nothing was started')
  expect(printed).toContain('eventsPerMonth')
}, 60_000)

test('guide of webhooks: the simulated event gets the shown response', async () => {
  const { text, shown } = blockNamed(guide, 'simulated-event')
  const withoutChance = (each: string) =>
    each.trim().replaceAll(/"(sim|evt)_[0-9a-z]{26}"|"evt_sim_[\w-]{22}"/g, '"…"')
  expect(withoutChance(await run(text))).toBe(withoutChance(shown))
})

test('guide of webhooks: the receiver without a library accepts only signed deliveries, and prints each once', async () => {
  const path = await write('receive.ts', blockNamed(guide, 'receiver-typescript').text)
  const command = [process.execPath, path]
  const printed = await runServed({ command }, async (url) => void (await expectReceived(url, secret)))
  expect(printed).toBe('payment.succeeded\n')
}, 60_000)

test('guide of pulling: the commands list, pull and acknowledge an event', async () => {
  const [list, commands] = [blockNamed(pull, 'list').text, blockNamed(pull, 'pull').text]
  const printed = await run(`${list}echo\n${commands}${list}`)
  const answers = printed
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
  expect(answers.slice(1)).toMatchObject([
    { subscription: { name: 'shop' } },
    { event: { type: 'order.paid' } },
    { events: [{ type: 'order.paid' }] },
    {},
    { items: [{ type: 'order.paid' }] },
  ])
}, 60_000)

test('guide of pulling: the program prints each event once', async () => {
  const path = await write('pull.mjs', blockNamed(pull, 'pull-program').text)
  const child = Bun.spawn(['node', path], {
    env: { ...inheritedEnv(), LATCHKEY_URL: ready.api },
    stdout: 'pipe',
  })
  try {
    const key = { Authorization: 'Bearer lk_demo_0000000000000000000000000000' }
    const exists = async () =>
      (await fetch(`${ready.api}/v1/subscriptions/worker`, { headers: key })).ok || undefined
    expect(await poll(exists, { deadlineMs: 20_000 })).toBe(true)
    await run(blockNamed(guide, 'simulated-event').text)
    const { value } = await child.stdout.pipeThrough(new TextDecoderStream()).getReader().read()
    expect(value).toBe('order.paid\n')
  } finally {
    child.kill()
    await child.exited
  }
}, 60_000)
