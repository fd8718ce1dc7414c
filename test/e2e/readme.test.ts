import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { adminToken, startTestBackoffice } from '#test/support/backoffice.ts'

const root = join(import.meta.dir, '../..')
const text = (page: string) => Bun.file(join(root, 'docs', page)).text()
const records = await text('tutorials/first-record.md')
const services = await text('guides/own-services.md')

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

test('tutorial of records: the curl commands for records print the shown output', async () => {
  const steps = [...records.matchAll(/<!-- readme-test: curl -->\n```sh\n(.*?)```\n```json\n(.*?)```/gs)]
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

test('tutorial of records: the program prints the shown output', async () => {
  const [, program = '', expected = ''] =
    /<!-- readme-test: program -->\n```ts\n(.*?)```\n```text\n(.*?)```/s.exec(records) ?? []
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

test('guide of own services: the curl commands print the shown answers with the tenant of npm run dev', async () => {
  const [, setup = ''] = /<!-- readme-test: guardrail-setup -->\n```sh\n(.*?)```/s.exec(services) ?? []
  const steps = [
    ...services.matchAll(/<!-- readme-test: guardrail -->\n```sh\n(.*?)```\n```json\n(.*?)```/gs),
  ]
  expect(steps.length).toBe(2)
  const [, limits = ''] = /```yaml\nspec:\n((?: .*\n)*? *emitted:\n(?: .*\n)+)```/.exec(services) ?? []
  const manifests = await Bun.file(join(root, 'config/samples/dev/demo.yaml')).text()
  expect(manifests).toContain(limits.trimEnd())
  const backoffice = await startTestBackoffice(manifests)
  try {
    const prepared = setup.replace('<token>', adminToken).replace('http://127.0.0.1:8081', backoffice.url)
    for (const [, script = '', expected = ''] of steps) {
      const printed = await Bun.$`bash -euc ${prepared + script}`.text()
      expect(linesOf(printed)).toEqual(linesOf(expected))
    }
    const [, events = ''] = /<!-- readme-test: events -->\n```sh\n(.*?)```/s.exec(services) ?? []
    const printed = await Bun.$`bash -euc ${prepared + events}`.text()
    expect(linesOf(printed)).toMatchObject([
      { id: expect.stringMatching(/^evt_/), result: {} },
      { isNew: true },
    ])
  } finally {
    await backoffice.close()
  }
})

const varying = new Set(['resetsAt', 'expiresAt', 'updatedAt', 'updatedBy'])

/** Parses lines of JSON, without times and the caller's name. */
function linesOf(text: string): unknown[] {
  const lines = text.trim().split('\n')
  return lines.map((line): unknown =>
    JSON.parse(line, (name, value: unknown) => (varying.has(name) ? '' : value)),
  )
}

/** Replaces tokens, fences and times, which differ between runs. */
function withoutChance(text: string): string {
  return text
    .trim()
    .replaceAll(/"lockToken":"[\w-]{22}"/g, '"lockToken":"…"')
    .replaceAll(/"fence":\d{16}/g, '"fence":0')
}
