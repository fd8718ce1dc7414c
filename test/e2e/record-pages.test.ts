// Runs the commands and programs of the pages on records, testing and own services unchanged.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import pgDriver from 'pg'
import { startTestApi, type TestApi } from '#test/support/api.ts'
import { adminToken, startTestBackoffice } from '#test/support/backoffice.ts'
import { type ClientApplication, makeClientApplication } from '#test/support/clients/client-application.ts'
import { runToEnd } from '#test/support/clients/client-scene.ts'
import { blockNamed, blocksNamed } from '#test/support/documents/page.ts'
import { root } from '#test/support/processes/dev-server.ts'
import { createTestDatabase, type TestDatabase } from '#test/support/stores.ts'
import { until } from '#test/support/until.ts'

const library = 'clients/typescript/README.md'
const tutorial = 'docs/tutorials/first-record.md'
const records = 'docs/guides/records.md'
const testing = 'docs/guides/testing.md'
const services = 'docs/guides/own-services.md'
const runtimes = ['node', process.execPath]
const manifests = await Bun.file(join(root, 'config/samples/dev/demo.yaml')).text()

let api: TestApi
let own: TestDatabase
let application: ClientApplication
beforeAll(async () => {
  api = await startTestApi({ manifests })
  own = await createTestDatabase()
  application = await makeClientApplication()
}, 60_000)
afterAll(async () => {
  application.remove()
  await own.drop()
  await api.close()
})

test('tutorial of records: the curl commands print the shown output', async () => {
  let setup = ''
  for (const { text, shown } of blocksNamed(tutorial, 'curl')) {
    // Repeats the assignments of earlier steps, since a reader's shell keeps its variables.
    setup += [...text.matchAll(/^[A-Z]+=.*\n/gm)].join('')
    const commands = text.replaceAll(/^[A-Z]+=.*\n/gm, '')
    const shell = `${setup}${commands}`.replace('http://127.0.0.1:8080', api.url)
    const printed = await Bun.$`bash -euc ${shell}`.text()
    expect(withoutChance(printed)).toBe(withoutChance(shown))
  }
})

test('guide of records: the program without a library prints the shown output', async () => {
  const { text, shown } = blockNamed(records, 'http')
  const { exitCode, output } = await runToEnd([process.execPath, application.write(text, 'ts')], {
    LATCHKEY_URL: api.url,
  })
  expect(exitCode).toBe(0)
  // Ignores which of two concurrent callers got the lock.
  expect(output.replace(/^both .*$/m, '')).toBe(shown.replace(/^both .*$/m, ''))
  const both = JSON.parse(/^both (.*)$/m.exec(output)?.[1] ?? '[]') as { id: string; replayed: boolean }[]
  expect(both.map(({ id }) => id)).toEqual(['ch_2', 'ch_2'])
  expect(both.map(({ replayed }) => replayed).toSorted()).toEqual([false, true])
})

test('guide of records: the commands for an unfinished attempt save its result, and a later call gets this result', async () => {
  const { text, shown } = blockNamed(records, 'unfinished')
  const env = { LATCHKEY_URL: api.url, LATCHKEY_API_KEY: 'lk_demo_0000000000000000000000000000' }
  const check = async () => {
    const headers = { authorization: `Bearer ${env.LATCHKEY_API_KEY}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ scope: 'charge', key: 'order-7', lockSeconds: 1 })
    return (await fetch(`${api.url}/v1/record`, { method: 'POST', headers, body })).json()
  }
  expect(await check()).toMatchObject({ locked: true })
  const printed = await until('the commands after the end of the lock', async () => {
    const { exitCode, output } = await runToEnd(['bash', '-euc', text], env)
    return exitCode === 0 && output
  })
  expect(printed).toBe(shown)
  expect(await check()).toMatchObject({ cached: true, record: { body: { chargeId: 'ch_7' } } })
})

const programs = [
  [library, 'once'],
  [library, 'idempotent'],
  [records, 'once-typescript'],
  [records, 'transaction-typescript'],
  [testing, 'kit-typescript'],
] as const

test.each(programs.flatMap(([page, name]) => runtimes.map((runtime) => [page, name, runtime] as const)))(
  '%s: the program %s prints the shown output in %s',
  async (page, name, runtime) => {
    if (name === 'transaction-typescript') await createOutcomesTable()
    const { text, shown } = blockNamed(page, name)
    const env = { LATCHKEY_URL: api.url, DATABASE_URL: own.url }
    const path = application.write(text.replace("http://127.0.0.1:8080', ap", `${api.url}', ap`))
    const { exitCode, output } = await runToEnd([runtime, path], env)
    // Compares on one line, since Node and Bun break the lines of printed objects differently.
    expect([exitCode, onOneLine(output)]).toEqual([0, onOneLine(shown)])
  },
)

const onOneLine = (text: string) => text.replaceAll(/,?\s+/g, ' ')

test('pages on records and testing: the programs have no type errors', async () => {
  const typed = programs.map(([page, name]) =>
    // Adds the type of the parameter, from which the type of the key's function is inferred.
    blockNamed(page, name).text.replaceAll('(order) =>', '(order: { id: string; amount: number }) =>'),
  )
  await application.expectTypes(typed)
})

/** Creates the table by the command of the page, with the file of the package, unless it exists. */
async function createOutcomesTable(): Promise<void> {
  const [, file = ''] =
    /-f node_modules\/@latchkey\/client\/(\S+)\n$/.exec(blockNamed(records, 'table-typescript').text) ?? []
  const pool = new pgDriver.Pool({ connectionString: own.url })
  const { rows } = await pool.query("SELECT to_regclass('latchkey_outcomes') AS table")
  if (rows[0].table === null) await pool.query(await Bun.file(join(root, 'clients/typescript', file)).text())
  await pool.end()
}

test('guide of own services: the curl commands print the shown responses with the tenant of `npm run dev`', async () => {
  expect(manifests).toContain(blockNamed(services, 'limits').text.replace('spec:\n', '').trimEnd())
  const backoffice = await startTestBackoffice(manifests)
  try {
    const setup = blockNamed(services, 'setup')
      .text.replace('<token>', adminToken)
      .replace('http://127.0.0.1:8081', backoffice.url)
    const ask = blockNamed(services, 'ask').text
    for (const { text, shown } of blocksNamed(services, 'guardrail')) {
      const printed = await Bun.$`bash -euc ${setup + ask + text}`.text()
      expect(linesOf(printed)).toEqual(linesOf(shown))
    }
    const printed = await Bun.$`bash -euc ${setup + blockNamed(services, 'events').text}`.text()
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
