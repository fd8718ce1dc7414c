import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { dependencies, packageManager } from '../../package.json'
import { generatedFiles } from './generate.ts'
import { bundledPackages, noticesPath } from './notices.ts'

const root = resolve(import.meta.dir, '../..')
const read = (path: string) => readFileSync(resolve(root, path), 'utf8')
const notices = read(noticesPath)
/** Permissive licences that require only their notice, which the image contains. Any other licence needs a decision. */
const allowedLicences = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT']

test.each([...(await generatedFiles())])(
  'generated file %s: is up to date (otherwise run npm run generate)',
  (path, text) => {
    expect(read(path)).toBe(text)
  },
)

test('third-party notices: list each bundled package with its version, its licence text and an allowed licence', async () => {
  const packages = await bundledPackages()
  expect(packages.length).toBeGreaterThan(50)
  for (const { name, version, licence, texts } of packages) {
    expect(notices).toContain(`| ${name} | ${version} | ${licence} |`)
    expect(texts.length).toBeGreaterThan(0)
    for (const text of texts) expect(notices).toContain(text)
    expect([name, allowedLicences.includes(licence)]).toEqual([name, true])
  }
  const names = packages.map(({ name }) => name)
  expect(Object.keys(dependencies).filter((name) => !names.includes(name))).toEqual([])
})

test('third-party notices: list Bun with the compiled version and the licences of its libraries', () => {
  expect(notices).toContain(packageManager.replace('@', ' '))
  const types = JSON.parse(read('node_modules/bun-types/package.json')) as { version: string }
  expect(types.version).toBe(packageManager.replace('bun@', ''))
  for (const library of ['JavaScriptCore', 'boringssl', 'LGPL']) expect(notices).toContain(library)
})
