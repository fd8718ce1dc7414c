// Installs the packed client library from the registry into an empty project of each framework, and uses it there.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { signedEvent } from '#clients/typescript/src/testing/index.ts'
import { startTestApi, type TestApi, testApiKey } from '#test/support/api.ts'
import { makeProject, packClient } from '#test/support/clients/packed-client.ts'
import { runServed } from '#test/support/processes/served-program.ts'

const root = resolve(import.meta.dir, '../../..')
const { dependencies, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
}
const secret = `whsec_${btoa('not a real secret, of a test')}`
const settings = `
const latchkey = new Latchkey({ url: process.env.LATCHKEY_URL, apiKey: process.env.LATCHKEY_API_KEY })
const port = Number(process.env.PORT)
const receive = receiver({ secrets: ['${secret}'], latchkey }, () => undefined)
let charges = 0`
const imports = `import { Latchkey } from '@latchkey/client'
import { receiver } from '@latchkey/client/webhooks'`
const expressProgram = `${imports}
import express from 'express'
import { expressReceiver, idempotency } from '@latchkey/client/express'
${settings}
const app = express()
app.post('/charges', idempotency(latchkey, { principal: 'none' }), (_request, response) => response.status(201).send(String(++charges)))
app.post('/webhooks', expressReceiver(receive))
app.listen(port)`
const fetchProgram = (framework: string, app: string) => `${imports}
${framework}
import { idempotency, idempotent } from '@latchkey/client/fetch'
${settings}
const charge = () => new Response(String(++charges), { status: 201 })
${app}`

interface Project {
  /** Packages to install beside the client. */
  readonly installs: readonly string[]
  readonly runtime: string
  readonly program: string
}

const projects: Readonly<Record<string, Project>> = {
  'Express 5': {
    installs: [`express@${devDependencies['express']}`],
    runtime: 'node',
    program: expressProgram,
  },
  'Express 4': {
    installs: [`express@${devDependencies['express4']?.split('@')[1]}`],
    runtime: 'node',
    program: expressProgram,
  },
  Fastify: {
    installs: [`fastify@${devDependencies['fastify']}`],
    runtime: 'node',
    program: `${imports}
import { fastify } from 'fastify'
import { fastifyReceiver, idempotency } from '@latchkey/client/fastify'
${settings}
const app = fastify()
await app.register(async (guarded) => {
  await guarded.register(idempotency(latchkey, { principal: 'none' }))
  guarded.post('/charges', async (_request, reply) => reply.code(201).send(String(++charges)))
})
app.register(fastifyReceiver(receive, '/webhooks'))
await app.listen({ port })`,
  },
  Hono: {
    installs: [`hono@${devDependencies['hono']}`],
    runtime: process.execPath,
    program: fetchProgram(
      "import { Hono } from 'hono'",
      `const app = new Hono()
app.post('/charges', idempotency(latchkey, { principal: 'none' }), charge)
app.post('/webhooks', (context) => receive(context.req.raw))
  export default { port, fetch: app.fetch }`,
    ),
  },
  Elysia: {
    installs: [`elysia@${dependencies['elysia']}`],
    runtime: process.execPath,
    program: fetchProgram(
      "import { Elysia } from 'elysia'",
      `const guarded = idempotent(latchkey, { principal: 'none' }, charge)
new Elysia()
  .post('/charges', ({ request }) => guarded(request), { parse: 'none' })
  .post('/webhooks', ({ request }) => receive(request), { parse: 'none' })
  .listen(port)`,
    ),
  },
}

let api: TestApi
let folder: string
let archive: string
beforeAll(async () => {
  api = await startTestApi()
  folder = mkdtempSync(join(tmpdir(), 'latchkey-projects-'))
  archive = await packClient(folder)
}, 120_000)
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await api.close()
})

test.each(Object.entries(projects))(
  'packages: a new %s project with the packed client guards a route and receives a webhook',
  async (name, { installs, runtime, program }) => {
    const project = join(folder, name.replace(' ', '-'))
    await makeProject(project, [archive, ...installs])
    writeFileSync(join(project, 'app.js'), program)
    const env = { LATCHKEY_URL: api.url, LATCHKEY_API_KEY: testApiKey }
    await runServed({ command: [runtime, join(project, 'app.js')], cwd: project, env }, async (url) => {
      const headers = { 'idempotency-key': `"${crypto.randomUUID()}"` }
      const charge = async () => {
        const response = await fetch(`${url}/charges`, { method: 'POST', headers })
        return [response.status, await response.text(), response.headers.get('idempotent-replayed')]
      }
      expect([await charge(), await charge()]).toEqual([
        [201, '1', null],
        [201, '1', 'true'],
      ])
      const delivery = signedEvent('payment.succeeded', { secret })
      const forged = signedEvent('payment.succeeded', {
        secret: `whsec_${btoa('another secret of the test')}`,
      })
      const statuses = []
      for (const each of [delivery, delivery, forged])
        statuses.push((await fetch(`${url}/webhooks`, each)).status)
      expect(statuses).toEqual([204, 204, 400])
    })
  },
  120_000,
)
