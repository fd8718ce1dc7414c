import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { chmodSync, copyFileSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { openTenants, testApiKey } from '#test/support/api.ts'
import { signAsVendor } from '#test/support/intake/vendor-signatures.ts'
import { providerSecret, webhookTenantYaml } from '#test/support/intake/webhook-calls.ts'
import { nightlyTest } from '#test/support/nightly.ts'
import { readiness, type TestProcess } from '#test/support/processes/api-process.ts'
import { createTestDatabase, type TestDatabase } from '#test/support/stores/database.ts'
import { testStores } from '#test/support/stores.ts'
import { openCluster } from './cluster.ts'
import { type BuiltImage, buildImage, type ImageRuntime, programArchitecture, unpackImage } from './image.ts'
import { install, writeKubeconfig } from './installation.ts'

const buildMsMax = 300_000
/** About 67 MB (November 2026), of which source maps 2.7 MB, an empty Bun program 51.3 MB, bytecode 5 MB, and 4.6 MB of documentation. */
const bytesMax = 75_000_000
/** Above the size that the event loop parses itself, so that the worker does it. */
const largeBodyBytes = 3 * 1024 * 1024

const ownArchitecture = process.arch === 'arm64' ? 'arm64' : 'amd64'
const program = 'usr/local/bin/latchkey'
const repository = resolve(import.meta.dir, '../..')
const { version, packageManager } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as {
  version: string
  packageManager: string
}
const dockerfile = readFileSync(join(repository, 'Dockerfile'), 'utf8')
const started: TestProcess[] = []
let image: BuiltImage
let runtime: ImageRuntime
let database: TestDatabase
let env: Record<string, string>

beforeAll(async () => {
  image = await buildImage()
  runtime = await unpackImage(image)
  database = await createTestDatabase()
  env = {
    LATCHKEY_DATABASE_URL: database.url,
    LATCHKEY_REDIS_URL: (await testStores()).redisUrl,
    LATCHKEY_KEY_RING: `test:${Buffer.alloc(32, 7).toString('base64')}`,
    LATCHKEY_API_PORT: '0',
    LATCHKEY_OPS_PORT: '0',
    LATCHKEY_BACKOFFICE_PORT: '0',
    LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0',
  }
}, buildMsMax)

afterAll(async () => {
  for (const each of started) each.signal('SIGKILL')
  await Promise.all(started.map((each) => each.exited))
  await database?.drop()
  if (image) rmSync(image.folder, { recursive: true })
}, buildMsMax)

/** Starts a process from the image and waits until it is ready. */
async function startReady(name: string, more: Readonly<Record<string, string>> = {}) {
  const process = runtime.start([name], { ...env, ...more })
  started.push(process)
  const { port, opsPort } = await process.logged('listening')
  expect(await readiness(`http://127.0.0.1:${opsPort}`, 200)).toBe(200)
  return { ...process, url: `http://127.0.0.1:${port}`, opsUrl: `http://127.0.0.1:${opsPort}` }
}

describe('image', () => {
  test('image: its compressed size is at most 75 MB', () => {
    process.stdout.write(`${(image.bytesCompressed / 1e6).toFixed(1)} MB compressed\n`)
    expect(image.bytesCompressed).toBeGreaterThan(20_000_000)
    expect(image.bytesCompressed).toBeLessThan(bytesMax)
  })

  test('image: runs latchkey as a numeric user other than root', () => {
    expect(image.config.Entrypoint).toEqual(['latchkey'])
    expect(image.config.Cmd ?? []).toEqual([])
    expect(image.config.User).toBe('65532:65532')
  })

  test('image: sets the runtime’s limit of concurrent calls, which each process validates at start', async () => {
    const limit = (each: string) => /^BUN_CONFIG_MAX_HTTP_REQUESTS=(\d+)$/.exec(each)?.[1]
    expect(image.config.Env?.flatMap((each) => limit(each) ?? [])).toEqual(['1024'])
    for (const name of ['operator', 'backoffice']) {
      const refused = runtime.start([name], { ...env, BUN_CONFIG_MAX_HTTP_REQUESTS: '64' })
      expect([name, await refused.exited]).toEqual([name, 2])
      expect(refused.errors()).toContain(
        'BUN_CONFIG_MAX_HTTP_REQUESTS: expected a whole number from 128 to 65535',
      )
    }
  })

  test('image: contains an executable for the architecture of the build machine', async () => {
    expect([image.architecture, await programArchitecture(image, program)]).toEqual([
      ownArchitecture,
      ownArchitecture,
    ])
    // Expects no default: in Docker it would override the platform. buildah, which builds the image here, has no such problem.
    expect(dockerfile).toMatch(/^ARG TARGETARCH$/m)
  })

  nightlyTest(
    'image: contains an executable for another requested architecture',
    async () => {
      const architecture = ownArchitecture === 'arm64' ? 'amd64' : 'arm64'
      const other = await buildImage(architecture)
      try {
        expect(other.architecture).toBe(architecture)
        expect(await programArchitecture(other, program)).toBe(architecture)
        expect({ ...other.config, Env: [] }).toEqual({ ...image.config, Env: [] })
      } finally {
        rmSync(other.folder, { recursive: true })
      }
    },
    buildMsMax,
  )

  test('image: has the OCI labels', () => {
    const label = (name: string) => image.config.Labels?.[`org.opencontainers.image.${name}`]
    expect(label('title')).toBe('Latchkey')
    expect(label('version')).toBe(version)
    expect(label('licenses')).toBe('Apache-2.0')
    for (const name of ['description', 'revision', 'created', 'source']) expect(label(name)).toBeTruthy()
  })

  test.each(['LICENSE', 'THIRD_PARTY_NOTICES.md'])('image: contains %s', (file) => {
    const held = readFileSync(join(runtime.root, 'usr/share/doc/latchkey', file), 'utf8')
    expect(held).toBe(readFileSync(join(repository, file), 'utf8'))
  })

  test('image: is built with the Bun version pinned in the repository', () => {
    expect(dockerfile).toContain(`oven/bun:${packageManager.replace('bun@', '')}-`)
  })
})

describe('container with a read-only root', () => {
  test('read-only container: latchkey prints its version and its commands', async () => {
    const asked = [runtime.start(['--version']), runtime.start(['--help'])]
    expect(await Promise.all(asked.map((each) => each.exited))).toEqual([0, 0])
    expect(asked[0]?.output()).toBe(`${version}\n`)
    expect(asked[1]?.output()).toContain('Usage: latchkey')
  })

  test('read-only container: migrate brings an empty database up to date', async () => {
    const migrating = runtime.start(['migrate'], env)
    expect([await migrating.exited, migrating.errors()]).toEqual([0, ''])
    expect(migrating.lines('schema is up to date')).toHaveLength(1)
  })

  test('read-only container: api serves records by its Lua scripts and parses a large body in its worker', async () => {
    const tenants = await openTenants(database.url, env['LATCHKEY_REDIS_URL'] ?? '')
    await tenants.apply(webhookTenantYaml('acme', testApiKey))
    await tenants.close()
    const api = await startReady('api')
    const record = await fetch(`${api.url}/v1/record`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${testApiKey}` },
      body: JSON.stringify({ scope: 'orders', key: '1' }),
    })
    expect(await record.json()).toMatchObject({ cached: false, locked: true })
    const body = JSON.stringify({ ref: 'refs/heads/main', text: 'x'.repeat(largeBodyBytes) })
    const signed = { body, atMs: Date.now(), webhookId: 'unused' }
    const intake = await fetch(`${api.url}/v1/t/acme/webhooks/codehost`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'X-GitHub-Event': 'push',
        'X-GitHub-Delivery': crypto.randomUUID(),
        'X-Hub-Signature-256': await signAsVendor('codehost', signed, providerSecret),
      },
      body,
    })
    expect([intake.status, await intake.text()]).toEqual([200, '{"ok":true}'])
    api.signal('SIGTERM')
    expect(await api.exited).toBe(0)
  })

  test.each(['forwarder', 'backoffice'])(
    'read-only container: %s becomes ready, reports the queue and exits on SIGTERM',
    async (name) => {
      const process = await startReady(name)
      const metrics = await (await fetch(`${process.opsUrl}/metrics`)).text()
      expect(metrics).toContain(`process="latchkey-${name}"`)
      process.signal('SIGTERM')
      expect(await process.exited).toBe(0)
    },
  )

  test('read-only container: operator reaches the API server and becomes ready', async () => {
    await install(await openCluster())
    const path = await writeKubeconfig(image.folder)
    copyFileSync(path, join(runtime.root, 'etc/kubeconfig'))
    chmodSync(join(runtime.root, 'etc/kubeconfig'), 0o444)
    const operator = await startReady('operator', { KUBECONFIG: '/etc/kubeconfig' })
    expect(operator.lines('starting')).toMatchObject([{ config: { BUN_CONFIG_MAX_HTTP_REQUESTS: 1024 } }])
    operator.signal('SIGTERM')
    expect(await operator.exited).toBe(0)
  })
})
