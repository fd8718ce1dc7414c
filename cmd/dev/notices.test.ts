import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { dependencies, packageManager } from '../../package.json'
import { bundledPackages, entryPoints, noticesPath, noticesText } from './notices.ts'

const root = resolve(import.meta.dir, '../..')
const committed = readFileSync(resolve(root, noticesPath), 'utf8')
/** Permissive licences that ask for their notice alone, which the image holds. Any other needs a decision. */
const allowedLicences = ['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT']

test('the notices are what is compiled in now: run npm run generate', async () => {
  expect(committed).toBe(await noticesText())
})

test('each package that is compiled in stands in the notices with its version and text, under an allowed licence', async () => {
  const packages = await bundledPackages()
  expect(packages.length).toBeGreaterThan(50)
  for (const { name, version, licence, texts } of packages) {
    expect(committed).toContain(`| ${name} | ${version} | ${licence} |`)
    expect(texts.length).toBeGreaterThan(0)
    for (const text of texts) expect(committed).toContain(text)
    expect([name, allowedLicences.includes(licence)]).toEqual([name, true])
  }
  const names = packages.map(({ name }) => name)
  expect(Object.keys(dependencies).filter((name) => !names.includes(name))).toEqual([])
})

test('the notices name the Bun that is compiled in, with the licences of what it links', () => {
  expect(committed).toContain(packageManager.replace('@', ' '))
  const types = readFileSync(resolve(root, 'node_modules/bun-types/package.json'), 'utf8')
  expect((JSON.parse(types) as { version: string }).version).toBe(packageManager.replace('bun@', ''))
  for (const library of ['JavaScriptCore', 'boringssl', 'LGPL']) expect(committed).toContain(library)
})

test('the notices are of what the Dockerfile compiles', () => {
  expect(readFileSync(resolve(root, 'Dockerfile'), 'utf8')).toContain(` ${entryPoints.join(' ')}\n`)
})
