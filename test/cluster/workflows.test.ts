import { beforeAll, expect, test } from 'bun:test'
import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parse } from 'yaml'
import { scratchFolder } from '#test/support/scratch.ts'
import { buildMsMax, tool } from './chart.ts'
import { run, runProgram } from './program.ts'

const folder = resolve(import.meta.dir, '../../.github/workflows')
const workflows = readdirSync(folder)

beforeAll(async () => {
  await run([`${import.meta.dir}/build`, 'actionlint'])
}, buildMsMax)

test('workflows: actionlint reports no problems', async () => {
  expect(workflows.length).toBeGreaterThan(0)
  const { exitCode, out, err } = await runProgram([
    tool('actionlint'),
    ...workflows.map((name) => join(folder, name)),
  ])
  expect({ exitCode, text: out + err }).toEqual({ exitCode: 0, text: '' })
})

test('workflows: actionlint refuses an unknown field', async () => {
  const scratch = scratchFolder()
  const path = join(scratch, 'wrong.yml')
  writeFileSync(path, 'on: push\njobs:\n  a: {runs-on: ubuntu-24.04, step: []}\n')
  const { exitCode } = await runProgram([tool('actionlint'), path])
  rmSync(scratch, { recursive: true })
  expect(exitCode).toBe(1)
})

interface Workflow {
  readonly permissions: unknown
  readonly concurrency: unknown
  readonly jobs: Readonly<
    Record<string, { readonly 'timeout-minutes'?: number; readonly permissions?: unknown }>
  >
}

test.each(workflows)(
  'workflows: %s has only read permissions, and each of its jobs has a time limit',
  async (name) => {
    const { permissions, concurrency, jobs }: Workflow = parse(await Bun.file(join(folder, name)).text())
    expect(permissions).toEqual({ contents: 'read' })
    expect(concurrency).toBeDefined()
    for (const job of Object.values(jobs)) {
      expect(job['timeout-minutes']).toBeLessThanOrEqual(150)
      expect(job.permissions).toBeUndefined()
    }
  },
)
