/**
 * Shows that the tests notice realistic mistakes: applies each seeded defect of `defects.yaml` in a copy of the checkout, runs its test file
 * there, and demands that at least one test fails by its name. Tests that fail without a defect do not count, and neither does a run in
 * which no test passes, such as after a syntax error. Arguments: ids of defects; default: all. Exits with code 1 if one is missed.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import '#test/support/processes/exit-signals.ts'
import {
  type Defect,
  findPlace,
  type Place,
  readDefects,
  repositoryFiles,
  repositoryRoot,
} from './defects.ts'

const testMsMax = 30_000
const fileMsMax = 600_000

interface TestRun {
  readonly failed: readonly string[]
  readonly passedCount: number
}

type Verdict =
  | { readonly kind: 'caught'; readonly by: readonly string[] }
  | { readonly kind: 'missed'; readonly why: string }

const files = repositoryFiles()
const chosen = chooseDefects(process.argv.slice(2))
const copy = mkdtempSync(join(tmpdir(), 'latchkey-defects-'))
process.on('exit', () => rmSync(copy, { recursive: true, force: true }))
for (const path of files) {
  mkdirSync(dirname(join(copy, path)), { recursive: true })
  cpSync(join(repositoryRoot, path), join(copy, path))
}
symlinkSync(join(repositoryRoot, 'node_modules'), join(copy, 'node_modules'))

const baselines = new Map<string, Promise<TestRun>>()
let missed = 0
for (const { defect, place } of chosen) {
  const verdict = await tryDefect(defect, place)
  if (verdict.kind === 'missed') missed += 1
  console.log(`${verdict.kind} ${defect.id}: ${defect.breaks}`)
  for (const line of verdict.kind === 'caught' ? verdict.by : [verdict.why]) console.log(`    ${line}`)
}
console.log(`${chosen.length - missed} caught, ${missed} missed`)
process.exit(missed === 0 ? 0 : 1)

function chooseDefects(ids: readonly string[]) {
  const defects = readDefects()
  const unknown = ids.filter((id) => !defects.some((defect) => defect.id === id))
  if (unknown.length > 0) {
    console.error(`defects.yaml has no ${unknown.join(', ')}`)
    process.exit(2)
  }
  return defects
    .filter(({ id }) => ids.length === 0 || ids.includes(id))
    .map((defect) => ({ defect, place: findPlace(defect, files) }))
}

async function tryDefect({ find, put }: Defect, place: Place): Promise<Verdict> {
  if (place.kind === 'lost') return { kind: 'missed', why: place.problem }
  const { source, test } = place
  const baseline = baselines.get(test) ?? runTests(test)
  baselines.set(test, baseline)
  const known = new Set((await baseline).failed)
  const path = join(copy, source)
  const text = readFileSync(path, 'utf8')
  writeFileSync(
    path,
    text.replace(find, () => put),
  )
  const { failed, passedCount } = await runTests(test)
  writeFileSync(path, text)
  const by = failed.filter((name) => !known.has(name))
  if (by.length > 0 && passedCount > 0) return { kind: 'caught', by }
  const why = passedCount === 0 ? 'passed no test, which is a crash' : 'failed no test'
  return { kind: 'missed', why: `${source} with "${put}": ${test} ${why}` }
}

async function runTests(test: string): Promise<TestRun> {
  const report = join(copy, '.defects.xml')
  rmSync(report, { force: true })
  const reporting = ['--reporter=junit', `--reporter-outfile=${report}`]
  const child = Bun.spawn([process.execPath, 'test', `--timeout=${testMsMax}`, ...reporting, `./${test}`], {
    cwd: copy,
    stdio: ['ignore', 'ignore', 'ignore'],
    timeout: fileMsMax,
  })
  await child.exited
  return readReport(report)
}

function readReport(path: string): TestRun {
  let text = ''
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    // Returns no results, since Bun writes no report after a crash.
    return { failed: [], passedCount: 0 }
  }
  const cases = [...text.matchAll(/<testcase\b([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)]
  const isFailed = (body = '') => /<(failure|error)\b/.test(body)
  const failed = cases.flatMap(([, attributes = '', body]) =>
    isFailed(body) ? [unescaped(/\bname="([^"]*)"/.exec(attributes)?.[1] ?? '')] : [],
  )
  // Excludes failed hooks, which Bun reports as tests without a name.
  return { failed: failed.filter((name) => name !== '(unnamed)'), passedCount: cases.length - failed.length }
}

function unescaped(text: string): string {
  const characters = new Map([
    ['lt', '<'],
    ['gt', '>'],
    ['quot', '"'],
    ['apos', "'"],
    ['amp', '&'],
  ])
  return text.replace(/&(lt|gt|quot|apos|amp);/g, (_entity, name: string) => characters.get(name) ?? '')
}
