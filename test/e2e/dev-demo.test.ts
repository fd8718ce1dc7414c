import { afterAll, beforeAll, expect, test } from 'bun:test'
import { removeStores } from '#internal/dev/index.ts'
import { type DevAddresses, type DevServer, startDevServer } from '#test/support/processes/dev-server.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { until } from '#test/support/until.ts'

const names = ['API', 'OPS', 'DEV_SINK', 'BACKOFFICE']
const dataDir = scratchFolder()
let server: DevServer
let ready: DevAddresses
/** Starts the server on the folder, with or without its demo. */
async function start(demo: 'true' | 'false'): Promise<void> {
  const ports = Object.fromEntries(names.map((name) => [`LATCHKEY_${name}_PORT`, '0']))
  server = startDevServer({ dataDir, env: { ...ports, LATCHKEY_DEV_DEMO: demo } })
  ready = await server.ready()
}

beforeAll(() => start('true'), 120_000)
afterAll(async () => {
  server.signal('SIGKILL')
  await server.exited
  await removeStores(dataDir)
}, 60_000)

/** Returns the sum of a metric's series with these labels. */
async function metric(name: string, labels: string): Promise<number> {
  const text = await (await fetch(`${ready.ops}/metrics`)).text()
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`) && line.includes(labels))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

test('dev demo: the sample tenant gets stored, refused and delivered traffic that the terminal does not show', async () => {
  await server.prints('Demo traffic')
  await until('metrics', async () => {
    const stored = await metric('latchkey_intake_calls_total', 'outcome="stored"')
    const refused = await metric('latchkey_intake_calls_total', 'outcome="signature_mismatch"')
    const processed = await metric('latchkey_delivery_endings_total', 'ending="processed"')
    return stored > 20 && refused > 0 && processed > 20
  })
  const body = '{"text":"mine"}'
  await fetch(ready.sink, { method: 'POST', body })
  const seen = (await (await fetch(`${ready.sink}/deliveries.json`)).json()) as {
    deliveries: { body: string }[]
  }
  expect(seen.deliveries.map((delivery) => delivery.body)).toEqual([body])
  expect(server.output()).not.toContain('→ demo')
}, 120_000)

/** Returns the URL of the dashboard and the token for signing in. */
function dashboard(): readonly [origin: string, token: string] {
  const [, origin = '', token = ''] =
    /Pages\s+(http:\/\/127\.0\.0\.1:\d+)\/sign-in#token=(\S+)/.exec(server.output()) ?? []
  return [origin, token]
}

let cookie = ''
const overview = async (range: string) =>
  (
    await fetch(`${dashboard()[0]}/?range=${range}`, { headers: { Cookie: cookie }, redirect: 'manual' })
  ).text()

test('dev demo: the overview marks generated stats', async () => {
  const [origin, token] = dashboard()
  const signedIn = await fetch(`${origin}/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    headers: { 'Sec-Fetch-Site': 'same-origin' },
    body: new URLSearchParams({ token }),
  })
  cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? ''
  await until('the note', async () => (await overview('24h')).includes('UTC are made up'))
}, 30_000)

test('dev demo: the server stops cleanly while the demo runs, and has logged no successful calls', async () => {
  server.signal('SIGINT')
  expect(await server.exited).toBe(0)
  expect(server.output()).not.toContain('"level":"info"')
}, 60_000)

test('dev demo: after a restart without the demo the session is valid, and generated stats are still marked', async () => {
  await start('false')
  expect(await overview('30d')).toContain('Sign out')
  await until('the note', async () => (await overview('30d')).includes('UTC are made up'))
}, 120_000)
