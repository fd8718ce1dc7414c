import { afterEach, expect, test } from 'bun:test'
import { join, resolve } from 'node:path'
import { removeStores } from '#internal/dev/index.ts'
import { createFolderSource } from '#internal/tenants/index.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { withSinkAddress } from './tenants.ts'

const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await removeStores(folder)
})

function folder(): string {
  const path = scratchFolder()
  folders.push(path)
  return path
}

function source(tenantsDir: string, port: number) {
  return withSinkAddress(
    createFolderSource({ tenantsDir, secretsDir: join(tenantsDir, 'secrets') }),
    `http://127.0.0.1:${port}/`,
  )
}

async function write(dir: string, urls: Readonly<Record<string, string>>): Promise<void> {
  const manifests = Object.entries(urls).map(([name, url]) => ({
    ...{ apiVersion: 'latchkey.dev/v1alpha1', kind: 'Tenant', metadata: { name } },
    spec: { slug: name, callback: { url, allowedCIDRs: ['127.0.0.0/8'] } },
  }))
  await Bun.write(join(dir, 'tenants.yaml'), manifests.map((each) => JSON.stringify(each)).join('\n---\n'))
}

async function urlsIn(dir: string, port: number): Promise<Record<string, string>> {
  const { tenants, problems } = await source(dir, port).read()
  expect(problems).toEqual([])
  return Object.fromEntries(tenants.map(({ name, spec }) => [name, spec.callback.url]))
}

test('sink address: the sample tenant’s callback is the sink, at any port', async () => {
  const samples = resolve(import.meta.dir, '../../config/samples/dev')
  expect((await urlsIn(samples, 8082)).demo).toBe('http://127.0.0.1:8082/')
  expect((await urlsIn(samples, 8182)).demo).toBe('http://127.0.0.1:8182/')
})

test('sink address: only http://sink.localhost is replaced, and path and query stay', async () => {
  const dir = folder()
  await write(dir, {
    path: 'http://sink.localhost/flaky/x?a=1',
    port: 'http://sink.localhost:9999/',
    own: 'http://127.0.0.1:8082/',
    https: 'https://sink.localhost/',
    longer: 'http://sink.localhost.example/',
  })
  expect(await urlsIn(dir, 8182)).toEqual({
    path: 'http://127.0.0.1:8182/flaky/x?a=1',
    port: 'http://127.0.0.1:8182/',
    own: 'http://127.0.0.1:8082/',
    https: 'https://sink.localhost/',
    longer: 'http://sink.localhost.example/',
  })
})

test('sink address: an unchanged state stays the same object, a changed one is filled in again', async () => {
  const dir = folder()
  await write(dir, { a: 'http://sink.localhost/' })
  const wrapped = source(dir, 8182)
  const first = await wrapped.read()
  expect(await wrapped.read()).toBe(first)
  await write(dir, { a: 'http://sink.localhost/', other: 'http://sink.localhost/fail' })
  expect((await wrapped.read()).tenants.map(({ spec }) => spec.callback.url)).toEqual([
    'http://127.0.0.1:8182/',
    'http://127.0.0.1:8182/fail',
  ])
})
