import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { adminToken, startTestBackoffice } from '#test/support/backoffice.ts'
import { dashboardTenantYaml } from '#test/support/backoffice-tenants.ts'

const root = join(import.meta.dir, '../..')
const readme = await Bun.file(join(root, 'README.md')).text()

let api: TestApi
let dir: string

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'latchkey-readme-'))
  api = await startTestApi({ manifests: await Bun.file(join(root, 'config/samples/dev/demo.yaml')).text() })
})

afterAll(async () => {
  await api.close()
  await rm(dir, { recursive: true, force: true })
})

test('README: the curl commands for records print the shown output', async () => {
  const steps = [...readme.matchAll(/<!-- readme-test: curl -->\n```sh\n(.*?)```\n```json\n(.*?)```/gs)]
  expect(steps.length).toBe(3)
  let setup = ''
  for (const [, script = '', expected = ''] of steps) {
    // The shell keeps the variables of the first step.
    setup += [...script.matchAll(/^[A-Z]+=.*\n/gm)].join('')
    const commands = script.replaceAll(/^[A-Z]+=.*\n/gm, '')
    const shell = `${setup}${commands}`.replace('http://127.0.0.1:8080', api.url)
    const printed = await Bun.$`bash -euc ${shell}`.text()
    expect(withoutChance(printed)).toBe(withoutChance(expected))
  }
})

test('README: the example program prints the shown output', async () => {
  const [, program = '', expected = ''] =
    /<!-- readme-test: program -->\n```ts\n(.*?)```\n```text\n(.*?)```/s.exec(readme) ?? []
  const path = join(dir, 'first-record.ts')
  await Bun.write(path, program)
  const printed = await Bun.$`${process.execPath} ${path}`
    .env({ ...process.env, LATCHKEY_URL: api.url })
    .text()
  // Either of two concurrent callers may get the lock.
  expect(printed.replace(/^both .*$/m, '')).toBe(expected.replace(/^both .*$/m, ''))
  const both = JSON.parse(/^both (.*)$/m.exec(printed)?.[1] ?? '[]') as { id: string; replayed: boolean }[]
  expect(both.map(({ id }) => id)).toEqual(['ch_2', 'ch_2'])
  expect(both.map(({ replayed }) => replayed).toSorted()).toEqual([false, true])
})

test('README: the curl command for guardrails prints the shown answer', async () => {
  const [, script = '', expected = ''] =
    /<!-- readme-test: curl-guardrail -->\n```sh\n(.*?)```\n```json\n(.*?)```/s.exec(readme) ?? []
  const [, spec = ''] = /```yaml\nspec:\n((?: .*\n)*? *emitted:\n(?: .*\n)+)```/.exec(readme) ?? []
  const backoffice = await startTestBackoffice(dashboardTenantYaml('acme', { spec: [spec.trim()] }))
  try {
    const shell = script
      .replace(/^TOKEN=.*$/m, `TOKEN=${adminToken}`)
      .replace(/^TENANT=.*$/m, `TENANT=${backoffice.tenantId('acme')}`)
      .replace('http://localhost:8081', backoffice.url)
    const printed = await Bun.$`bash -euc ${shell}`.text()
    const withoutTimes = (text: string): unknown =>
      JSON.parse(text, (name, value: unknown) => (name === 'resetsAt' ? '' : value))
    expect(withoutTimes(printed)).toEqual(withoutTimes(expected))
  } finally {
    await backoffice.close()
  }
})

/** Replaces tokens, fences and times, which differ between runs. */
function withoutChance(text: string): string {
  return text
    .trim()
    .replaceAll(/"lockToken":"[\w-]{22}"/g, '"lockToken":"…"')
    .replaceAll(/"fence":\d{16}/g, '"fence":0')
}
