// Follows the tutorial for an application in both languages, from an empty folder, with packages of the registries.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, poll, removeStores } from '#internal/dev/index.ts'
import { runToEnd } from '#test/support/clients/client-scene.ts'
import { blockNamed } from '#test/support/documents/page.ts'
import { type DevServer, root, startDevServer } from '#test/support/processes/dev-server.ts'
import { scratchFolder } from '#test/support/scratch.ts'

const page = 'docs/tutorials/own-app.md'
const languages = {
  typescript: { file: 'app.mjs', start: 'exec node app.mjs' },
  python: { file: 'app.py', start: '. .venv/bin/activate && exec python app.py' },
} as const

let dev: DevServer
let dataDir: string
/** Folder of the clone and of the application, as in the tutorial. */
let folder: string
let apiUrl: string
let port: number
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'latchkey-own-app-'))
  chmodSync(folder, 0o755)
  symlinkSync(root, join(folder, 'latchkey'))
  mkdirSync(join(folder, 'shop/tenants'), { recursive: true })
  port = await freePort()
  writeFileSync(join(folder, 'shop/tenants/shop.yaml'), ported(blockNamed(page, 'tenant').text))
  const [, tenants = ''] =
    /^LATCHKEY_TENANTS_DIR=\.\.\/(\S+) LATCHKEY_DATA_DIR=\S+ npm run dev\n$/.exec(
      blockNamed(page, 'dev').text,
    ) ?? []
  dataDir = scratchFolder()
  const zeros = ['API', 'BACKOFFICE', 'OPS', 'DEV_SINK'].map((name) => [`LATCHKEY_${name}_PORT`, '0'])
  const env = { ...Object.fromEntries(zeros), LATCHKEY_TENANTS_DIR: join(folder, tenants) }
  dev = startDevServer({ dataDir, env })
  apiUrl = (await dev.ready()).api
}, 120_000)
afterAll(async () => {
  dev.signal('SIGTERM')
  await dev.exited
  await removeStores(dataDir)
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

/** Replaces the ports that the tutorial shows by those of this test. */
function ported(text: string): string {
  return text
    .replaceAll(/\b3000\b/g, String(port))
    .replaceAll('http://127.0.0.1:8080', apiUrl)
    .replaceAll('../shop/.latchkey', dataDir)
}

test.each(Object.entries(languages))(
  'tutorial for your own application in %s: the application charges once, and prints the payment event that it receives',
  async (language, { file, start }) => {
    const shop = join(folder, 'shop')
    const install = `cd '${shop}'\n${blockNamed(page, `install-${language}`).text}`
    const { exitCode, output } = await runToEnd(['bash', '-euc', install])
    expect([exitCode, exitCode === 0 ? '' : output]).toEqual([0, ''])
    writeFileSync(join(shop, file), ported(blockNamed(page, `app-${language}`).text))
    const child = Bun.spawn(['bash', '-c', start], { cwd: shop, stdout: 'pipe', stderr: 'inherit' })
    let printed = ''
    void (async () => {
      for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) printed += text
    })()
    try {
      const url = `http://127.0.0.1:${port}`
      const listens = () =>
        fetch(url).then(
          () => true,
          () => undefined,
        )
      expect(await poll(listens, { deadlineMs: 20_000 })).toBe(true)
      const record = blockNamed(page, 'record')
      const commands = ported(record.text).replaceAll('order-1', `order-1-${language}`)
      expect(await Bun.$`bash -euc ${commands}`.text()).toBe(record.shown)
      const trigger = ported(blockNamed(page, 'trigger').text)
      await Bun.$`bash -euc ${trigger}`.cwd(root).quiet()
      const received = () => printed.includes('paid') || undefined
      expect(await poll(received, { deadlineMs: 20_000 })).toBe(true)
      expect(printed).toBe('paid 4200\n')
      const login = trigger.split('\n')[0] ?? ''
      const guide = blockNamed('docs/guides/command-line.md', 'events').text
      const answers = await Bun.$`bash -euc ${`${login}\n${guide}`}`.cwd(root).text()
      expect(answers).toContain('The callback accepted the event')
      expect(answers).toContain('"amount":4200')
    } finally {
      child.kill()
      await child.exited
    }
  },
  240_000,
)
