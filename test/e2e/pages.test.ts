// Checks the form of README.md and of the pages for developers.
import { expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fencesOf, type PageFence } from '#test/support/documents/page.ts'
import { root } from '#test/support/processes/dev-server.ts'

const readmeLinesMax = 200
/** The tutorial of a cluster is followed in `test/cluster`. */
const folders = ['docs/tutorials', 'docs/guides']
const pages = [
  'README.md',
  'docs/index.md',
  ...folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true })
      .map((path) => `${folder}/${String(path)}`)
      .filter((path) => path.endsWith('.md') && !path.endsWith('/cluster.md')),
  ),
]
/** Files that name the blocks of pages which they run. */
const runners = [
  'e2e/framework-pages.test.ts',
  'e2e/record-pages.test.ts',
  'e2e/webhook-pages.test.ts',
  'e2e/provider-pages.test.ts',
  'clients/python/pages.test.ts',
  'clients/packages/own-app.test.ts',
  'support/documents/guarded-app.ts',
]
const tests = runners.map((path) => readFileSync(join(root, 'test', path), 'utf8')).join('\n')
/** Commands that other tests run: `npm run dev`, and the installation in the tutorial of an own application. */
const elsewhere = new Set(['dev', 'install-typescript', 'install-python', 'app-typescript', 'app-python'])

test(`README.md: has at most ${readmeLinesMax} lines`, () => {
  expect(readFileSync(join(root, 'README.md'), 'utf8').split('\n').length - 1).toBeLessThanOrEqual(
    readmeLinesMax,
  )
})

test.each(pages)('%s: every program and command has the marker of a test, and the test exists', (page) => {
  const programs = fencesOf(page).filter(({ language }) => /^(sh|ts|js|python)$/.test(language))
  expect(programs.filter((program) => !isTested(program))).toEqual([])
})

/** Returns whether a test runs a program, as its marker says. */
function isTested({ page, marker }: PageFence): boolean {
  if (marker?.kind !== 'cluster-test')
    return elsewhere.has(marker?.name ?? '') || tests.includes(`'${marker?.name}'`)
  const path = join(root, 'test/cluster', marker.name)
  return existsSync(path) && readFileSync(path, 'utf8').includes(page)
}
