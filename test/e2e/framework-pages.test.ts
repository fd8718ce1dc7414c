// Runs the programs of README.md and of the framework pages unchanged, with the built client library, against the real API.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { freePort } from '#internal/dev/index.ts'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { type ClientApplication, makeClientApplication } from '#test/support/clients/client-application.ts'
import { expectGuarded, expectReceived, expectShownRequest } from '#test/support/documents/guarded-app.ts'
import { blockNamed, blocksNamed, blocksOf } from '#test/support/documents/page.ts'
import { root } from '#test/support/processes/dev-server.ts'
import { runServed } from '#test/support/processes/served-program.ts'

const folder = 'docs/guides/frameworks'
const secret = 'whsec_ZGVtby1zaWduaW5nLXNlY3JldC1ub3QtcmVhbC0wMDA='
const bun = process.execPath
const programs = readdirSync(join(root, folder)).flatMap((file) =>
  blocksOf(`${folder}/${file}`)
    .filter(({ language }) => language === 'js')
    .map((block) => ({ page: basename(file, '.md'), ...block })),
)
const servers = programs.flatMap(({ page, name, text }) => [
  ...(name === 'framework' ? [[`${page} in Node`, 'node', text] as const] : []),
  ...(name === 'framework' || name === 'framework-bun' ? [[`${page} in Bun`, bun, text] as const] : []),
])

let api: TestApi
let application: ClientApplication
beforeAll(async () => {
  api = await startTestApi({ manifests: await Bun.file(join(root, 'config/samples/dev/demo.yaml')).text() })
  application = await makeClientApplication()
}, 60_000)
afterAll(async () => {
  application.remove()
  await api.close()
})

test('pages of frameworks: each page has a program that a test runs', () => {
  expect(servers.map(([name]): string => name).toSorted()).toEqual([
    'elysia in Bun',
    'express in Bun',
    'express in Node',
    'fastify in Bun',
    'fastify in Node',
    'fetch in Bun',
    'hono in Bun',
  ])
  expect(blocksNamed(`${folder}/nextjs.md`, 'nextjs')).toHaveLength(2)
})

test.each(servers)(
  'page of %s: the program replays a repeated request, and handles an event once',
  async (_name, runtime, text) => {
    let id = ''
    const command = [runtime, application.write(text)]
    const printed = await runServed({ command, env: { LATCHKEY_URL: api.url } }, async (url) => {
      await expectGuarded(url)
      await expectShownRequest(url)
      id = await expectReceived(`${url}/webhooks`, secret)
    })
    // Ignores the line that Bun prints when a program exports a server.
    expect(printed.replace(/^Started .*\n/, '')).toBe(`paid card ${id}\n`)
  },
)

test.each(['node', bun])('page of Next.js: guards calls and receives webhooks, in %s', async (runtime) => {
  const [charges, webhooks] = blocksNamed(`${folder}/nextjs.md`, 'nextjs').map(({ text }) =>
    application.write(text),
  )
  // Takes the role of Next.js: calls the exported function of the route with a request.
  const server = `import { createServer } from 'node:http'
import * as charges from '${charges}'
import * as webhooks from '${webhooks}'
createServer(async (incoming, outgoing) => {
  const { method, url, headers } = incoming
  const route = { '/charges': charges, '/webhooks': webhooks }[url]
  if (method !== 'POST' || !route) return outgoing.writeHead(405).end()
  const body = Buffer.concat(await incoming.toArray())
  const response = await route.POST(new Request('http://localhost' + url, { method, headers, body }))
  outgoing.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text())
}).listen(Number(process.env.PORT))`
  const command = [runtime, application.write(server)]
  await runServed({ command, env: { LATCHKEY_URL: api.url } }, async (url) => {
    await expectGuarded(url)
    await expectShownRequest(url)
    await expectReceived(`${url}/webhooks`, secret)
  })
})

test.each(['node', bun])(
  'README: the program in TypeScript charges once and receives an event, in %s',
  async (runtime) => {
    const port = await freePort()
    const program = blockNamed('README.md', 'readme-typescript')
      .text.replace('http://127.0.0.1:8080', api.url)
      .replace('9000', String(port))
    const served = { command: [runtime, application.write(program)], port }
    const printed = await runServed(served, async (url) => void (await expectReceived(url, secret)))
    expect(printed).toBe('ch_1\npayment.succeeded card\n')
  },
)

test('README and pages of frameworks: the programs have no type errors', async () => {
  const typed = programs.map(({ text }) =>
    // Adds the type of the body, which Fastify takes from the route.
    text.replace("guarded.post('/charges'", "guarded.post<{ Body: { amount: number } }>('/charges'"),
  )
  await application.expectTypes([blockNamed('README.md', 'readme-typescript').text, ...typed])
})
