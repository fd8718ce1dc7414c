// Follows the page on adding a provider unchanged, with `npm run dev` and a folder that has a Provider and a Tenant.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parse, stringify } from 'yaml'
import { poll, removeStores } from '#internal/dev/index.ts'
import { blockNamed } from '#test/support/documents/page.ts'
import {
  commandEnv,
  type DevAddresses,
  type DevServer,
  root,
  startDevServer,
} from '#test/support/processes/dev-server.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import { scratchFolder } from '#test/support/scratch.ts'

const page = 'docs/guides/add-provider.md'
/** Maximum time from a change of a file to its effect on calls. */
const inForceMsMax = 2_000
/** Address of a tunnel, under which a vendor would call. */
const publicUrl = 'https://tunnel.example.com'

let dev: DevServer
let env: ReturnType<typeof commandEnv>
let ready: DevAddresses
let folder: string
const dataDir = () => join(folder, '.latchkey')
const declaration = () => join(folder, 'tenants/parcelwise.yaml')

beforeAll(() => {
  folder = scratchFolder()
  env = commandEnv()
}, 120_000)
afterAll(async () => {
  dev.signal('SIGTERM')
  await dev.exited
  await removeStores(dataDir())
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

/** Runs commands of the page in the clone, with the folder and the ports of this test. */
async function run(name: string, before = ''): Promise<string> {
  const script = `${before}\n${blockNamed(page, name).text}`
    .replaceAll('../parcels', folder)
    .replaceAll('http://127.0.0.1:8080', ready?.api ?? '')
  const printed = await Bun.$`bash -euc ${script}`.cwd(root).env(env).text()
  return printed.replaceAll(folder, '../parcels')
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

/** Sends the call of the page and returns its status. */
const status = async (): Promise<string> => (await run('send')).trim().slice(-3)

test('add a provider: a command writes a declaration, and that of the page verifies the captured call as shown', async () => {
  await run('capture')
  expect(await run('new')).toStartWith('Wrote ../parcels/tenants/parcelwise.yaml.')
  writeFileSync(declaration(), blockNamed(page, 'declaration').text)
  const { shown } = blockNamed(page, 'check')
  expect(await run('check')).toBe(shown)
}, 60_000)

test('add a provider: with the page’s YAML example of a signed path, calls with a signed path and pings are verified', async () => {
  const provider = parse(blockNamed(page, 'declaration').text)
  Object.assign(provider.spec, parse(blockNamed(page, 'signed-path').text))
  const url = '/v1/t/parcels/webhooks/parcelwise'
  const secret = readFileSync(join(folder, 'secret'), 'utf8')
  const called = (body: string) => {
    const text = `POST\n${url}\n1794300002.${body}`
    const sig = createHmac('sha256', secret).update(text).digest('hex')
    return { url, body, headers: { 'Parcel-Signature': `ts=1794300002;sig=${sig}` } }
  }
  const [vector] = provider.spec.vectors
  provider.spec.vectors = [
    { ...vector, ...called(vector.body) },
    { ...vector, ...called('{"event":"ping","challenge":"abc"}'), name: 'ping', expect: { answer: 'abc' } },
  ]
  const file = join(folder, 'signed-path.yaml')
  writeFileSync(file, stringify(provider))
  const linted = await latchkey(['providers', 'lint', file], {})
  expect(linted).toMatchObject({ code: 0, out: `${file}: no problem\n` })
  expect(await latchkey(['providers', 'test', file], {})).toMatchObject({ code: 0, err: '' })
}, 60_000)

test('add a provider: a signed call is accepted, and its event is delivered', async () => {
  write(join(folder, 'tenants/parcels.yaml'), blockNamed(page, 'tenant').text)
  dev = startDevServer({
    dataDir: dataDir(),
    env: { LATCHKEY_TENANTS_DIR: join(folder, 'tenants'), LATCHKEY_PUBLIC_URL: publicUrl },
  })
  ready = await dev.ready()
  await dev.prints('Provider parcelwise is in force (vectors that hold: 1)')
  const document = await (await fetch(`${ready.api}/v1/openapi.json`)).json()
  expect(document.servers[0].url).toBe(publicUrl)
  expect(await run('send')).toBe(blockNamed(page, 'send').shown)
  await dev.prints('parcelwise shipment.delivered → parcels')
  const delivery = await poll(async () => (await dev.deliveries())[0], { deadlineMs: 10_000 })
  expect(JSON.parse(delivery?.body ?? '{}')).toMatchObject({
    provider: 'parcelwise',
    providerRawType: 'shipment.delivered',
    type: 'shipment.delivered',
    payload: { event_id: 'pw_82' },
  })
}, 120_000)

test('add a provider: the command line simulates a signed call and lists the events', async () => {
  const printed = await run('trigger')
  expect(printed).toMatch(/^signature +verified, as that of a real call$/m)
  expect(printed.match(/ parcelwise /g)?.length).toBe(2)
}, 60_000)

test('add a provider: a call with a wrong signature is refused, printed by `npm run dev`, and listed with its cause', async () => {
  expect(await run('wrong')).toBe(blockNamed(page, 'wrong').shown)
  await dev.prints('parcelwise refused: signature_mismatch → parcels')
  const [variables = ''] = blockNamed(page, 'trigger').text.split('\n')
  const listed = await poll(
    async () => ((await run('refused', variables)).includes('signature_mismatch') ? true : undefined),
    { deadlineMs: 20_000 },
  )
  expect(listed).toBe(true)
}, 60_000)

test('add a provider: a change of the file takes effect within 2 s', async () => {
  const changed = readFileSync(declaration(), 'utf8').replaceAll('Parcel-Signature', 'Parcel-Sig')
  writeFileSync(declaration(), changed)
  const seen = await poll(async () => ((await status()) === '400' ? true : undefined), {
    deadlineMs: inForceMsMax,
  })
  expect(seen).toBe(true)
  writeFileSync(declaration(), changed.replaceAll('Parcel-Sig', 'Parcel-Signature'))
  expect(
    await poll(async () => ((await status()) === '200' ? true : undefined), { deadlineMs: inForceMsMax }),
  ).toBe(true)
}, 60_000)

test('add a provider: if a test vector fails, the log states the reason, and the previous declaration stays in force', async () => {
  const before = readFileSync(declaration(), 'utf8')
  writeFileSync(declaration(), before.replace('ts=1794300002;sig=2', 'ts=1794300002;sig=3'))
  await dev.prints(
    'stays in force: spec.vectors[0].expect (delivered) does not hold: the call is refused as signature_mismatch',
  )
  expect(await status()).toBe('200')
  const count = () => dev.output().split('Provider parcelwise is in force').length
  const earlier = count()
  writeFileSync(declaration(), before)
  // The corrected declaration equals the one that stayed in force, so only the problem disappears.
  expect(await poll(() => count() > earlier || undefined, { deadlineMs: 10_000 })).toBe(true)
}, 60_000)
