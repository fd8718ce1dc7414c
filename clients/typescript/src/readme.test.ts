// Runs the programs of the README as they stand, with the built package, against the real API.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import pgDriver from 'pg'
import { startTestApi, type TestApi } from '../../../test/support/api.ts'
import { runToEnd } from '../../../test/support/client-scene.ts'
import { runServed } from '../../../test/support/served-program.ts'
import { createTestDatabase, type TestDatabase } from '../../../test/support/stores.ts'
import { signedEvent } from './testing/index.ts'

const root = resolve(import.meta.dir, '../../..')
const client = resolve(import.meta.dir, '..')
const readme = await Bun.file(join(client, 'README.md')).text()

let api: TestApi
let own: TestDatabase
/** An application with the built package, in the repository, so that it finds the frameworks. */
let folder: string
beforeAll(async () => {
  api = await startTestApi({ manifests: await Bun.file(join(root, 'config/samples/dev/demo.yaml')).text() })
  own = await createTestDatabase()
  mkdirSync(join(root, '.latchkey'), { recursive: true })
  folder = mkdtempSync(join(root, '.latchkey', 'readme-'))
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
  const installed = join(folder, 'node_modules/@latchkey/client')
  const tsc = [join(root, 'node_modules/.bin/tsc'), '--project', client, '--outDir', join(installed, 'dist')]
  expect(await runToEnd(tsc)).toEqual({ exitCode: 0, output: '' })
  for (const file of ['package.json', 'latchkey-outcomes.sql'])
    cpSync(join(client, file), join(installed, file))
}, 60_000)
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await own.drop()
  await api.close()
})

/** Returns the programs with this marker, by the entry or framework that they import first. */
function programs(marker: string): [name: string, text: string][] {
  const found = readme.matchAll(new RegExp(`<!-- readme-test: ${marker} -->\\n\`\`\`ts\\n(.*?)\`\`\``, 'gs'))
  return [...found].map(([, text = '']) => [/from '([^']+)'/.exec(text)?.[1] ?? '', text])
}

/** Writes a program and returns its path. */
function write(text: string): string {
  const path = join(folder, `${crypto.randomUUID()}.js`)
  writeFileSync(path, text)
  return path
}

/** Runs a server until `use` returns, and returns its output. */
function runServer(runtime: string, text: string, use: (url: string) => Promise<void>): Promise<string> {
  return runServed({ command: [runtime, write(text)], env: { LATCHKEY_URL: api.url } }, use)
}

async function expectGuarded(send: (init: RequestInit) => Promise<Response>): Promise<void> {
  const key = `"${crypto.randomUUID()}"`
  const post = async (user: string) => {
    const headers = { 'idempotency-key': key, 'x-user': user, 'content-type': 'application/json' }
    const response = await send({ method: 'POST', headers, body: '{"amount":4200}' })
    expect(response.status).toBe(201)
    const { id, amount } = (await response.json()) as { id: string; amount: number }
    expect(amount).toBe(4200)
    return { id, replayed: response.headers.get('idempotent-replayed') }
  }
  const [first, again, other] = [await post('ada'), await post('ada'), await post('bob')]
  expect([first.replayed, again.replayed, other.replayed]).toEqual([null, 'true', null])
  expect(again.id).toBe(first.id)
  expect(other.id).not.toBe(first.id)
}

const bun = process.execPath
const servers = [
  ...programs('middleware').flatMap(([name, text]) => [
    [`${name} in Node`, 'node', text] as const,
    [`${name} in Bun`, bun, text] as const,
  ]),
  ...programs('middleware-bun').map(([name, text]) => [`${name} in Bun`, bun, text] as const),
]

describe('README of the client', () => {
  test('README: has the programs of all frameworks', () => {
    const names = servers.map(([name]) => name)
    expect(names).toEqual([
      'express in Node',
      'express in Bun',
      'fastify in Node',
      'fastify in Bun',
      'hono in Bun',
      'elysia in Bun',
    ])
  })

  test.each(servers)('README: the server of %s replays a repeated request', async (_name, runtime, text) => {
    await runServer(runtime, text, (url) => expectGuarded((init) => fetch(`${url}/charges`, init)))
  })

  test.each(['node', bun])(
    'README: the route handler of Next.js replays a repeated request',
    async (runtime) => {
      const [[, text] = ['', '']] = programs('next')
      // The part of Next.js: calls the exported function with a request.
      const server = `${text}
import { createServer } from 'node:http'
createServer(async (incoming, outgoing) => {
  const { method, url, headers } = incoming
  if (method !== 'POST') return outgoing.writeHead(405).end()
  const body = Buffer.concat(await incoming.toArray())
  const response = await POST(new Request('http://localhost' + url, { method, headers, body }))
  outgoing.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text())
}).listen(Number(process.env.PORT))`
      await runServer(runtime, server, (url) => expectGuarded((init) => fetch(`${url}/charges`, init)))
    },
  )

  test.each(['node', bun])('README: the transaction prints the shown output', async (runtime) => {
    const pool = new pgDriver.Pool({ connectionString: own.url })
    const { rows } = await pool.query("SELECT to_regclass('latchkey_outcomes') AS table")
    if (rows[0].table === null) await pool.query(await Bun.file(join(client, 'latchkey-outcomes.sql')).text())
    await pool.end()
    const [[, text] = ['', '']] = programs('transaction')
    const [, expected = ''] = /readme-test: transaction.*?```text\n(.*?)```/s.exec(readme) ?? []
    const env = { LATCHKEY_URL: api.url, DATABASE_URL: own.url }
    expect(await runToEnd([runtime, write(text)], env)).toEqual({ exitCode: 0, output: expected })
  })

  test.each(['node', bun])('README: the test of an application prints the shown output', async (runtime) => {
    const [[, text] = ['', '']] = programs('testing')
    const [, expected = ''] = /readme-test: testing.*?```text\n(.*?)```/s.exec(readme) ?? []
    expect(await runToEnd([runtime, write(text)])).toEqual({ exitCode: 0, output: expected })
  })

  test.each(['node', bun])('README: the receiver prints a delivered event once', async (runtime) => {
    const [[, text] = ['', '']] = programs('receiver')
    const id = `evt_${crypto.randomUUID()}`
    const secret = /'(whsec_[^']+)'/.exec(text)?.[1] ?? ''
    const printed = await runServer(runtime, text, async (url) => {
      for (const [signedBy, status] of [
        [secret, 204],
        [secret, 204],
        [`whsec_${btoa('x'.repeat(24))}`, 400],
      ] as const) {
        const delivery = signedEvent('payment.succeeded', { secret: signedBy, id })
        expect((await fetch(url, delivery)).status).toBe(status)
      }
    })
    expect(printed).toBe(`paid card ${id}\n`)
  })

  test('README: the table in clients/README.md is that of the package', async () => {
    const behaviour = await Bun.file(join(root, 'clients/README.md')).text()
    const shipped = await Bun.file(join(client, 'latchkey-outcomes.sql')).text()
    expect(/```sql\n(.*?)```/s.exec(behaviour)?.[1]).toBe(shipped.replace(/^--.*\n/m, ''))
  })

  test('README: the programs compile, with types where an application of TypeScript needs them', async () => {
    const markers = ['middleware', 'middleware-bun', 'next', 'transaction', 'receiver', 'testing']
    const paths = markers.flatMap(programs).map(([, text], at) => {
      const path = join(folder, `program-${at}.ts`)
      const typed = text
        .replaceAll(
          'principal = (request)',
          `principal = (request: ${text.includes('express') ? "import('express').Request" : 'Request'})`,
        )
        .replace('(id, amount) =>', '(id: string, amount: number) =>')
        .replace(
          "app.post('/charges', async (request, reply)",
          "app.post<{ Body: { amount: number } }>('/charges', async (request, reply)",
        )
      writeFileSync(path, typed)
      return path
    })
    const config = join(folder, 'tsconfig.json')
    const options = { types: ['node'], lib: ['ESNext', 'DOM', 'DOM.Iterable'] }
    writeFileSync(
      config,
      JSON.stringify({
        extends: join(root, 'tsconfig.json'),
        compilerOptions: options,
        files: paths,
        include: [],
        exclude: [],
      }),
    )
    expect(await runToEnd([join(root, 'node_modules/.bin/tsc'), '--project', config])).toEqual({
      exitCode: 0,
      output: '',
    })
  })
})
