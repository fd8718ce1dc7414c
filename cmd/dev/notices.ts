import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { packageManager } from '../../package.json'
import { sitePackages } from './docs/packages.ts'
import { generatorFolder, installGenerator } from './docs/site.ts'
import { compileCommand } from './release/compile-command.ts'

export interface BundledPackage {
  readonly name: string
  readonly version: string
  /** SPDX identifier of the licence. */
  readonly licence: string
  /** Texts of the package's licence and notice files, sorted by file name. */
  readonly texts: readonly string[]
}

const root = resolve(import.meta.dir, '../..')
/** Path of the notices in the repository. The image, each archive and the package for npm contain them next to LICENSE. */
export const noticesPath = 'THIRD_PARTY_NOTICES.md'
/** Optional peers of bundled packages that only development packages install, so that the image does not have them. */
const absentInImage = ['supports-color']
const noticeFile = /^(licen[cs]e|copying|notice)/i
/** Correct SPDX identifiers for names that packages misspell. */
const spdx: Readonly<Record<string, string>> = { 'BSD-0-Clause': '0BSD' }

// Licence of the Redis client: https://github.com/redis/node-redis/blob/master/LICENSE, read 2026-11-22.
const redis = readFileSync(join(import.meta.dir, 'licences/redis.txt'), 'utf8')
// Author and licence as stated in the package.json of drizzle-orm.
const drizzle =
  'Copyright Drizzle Team\n\nLicensed under the Apache License, Version 2.0, whose text is in LICENSE beside this file.'
// Author and licence as stated in the package.json of @bomb.sh/tab; the text is https://spdx.org/licenses/MIT.html, read 2026-11-24.
const tab = readFileSync(join(import.meta.dir, 'licences/tab.txt'), 'utf8')
// As stated in the package.json of @docsearch/css; the text is https://spdx.org/licenses/MIT.html, read 2026-11-26.
const docsearch = readFileSync(join(import.meta.dir, 'licences/docsearch.txt'), 'utf8')
/** Licence texts of packages that do not contain one, by package name or scope. */
const unshipped: Readonly<Record<string, string>> = {
  redis,
  '@redis': redis,
  'drizzle-orm': drizzle,
  '@bomb.sh': tab,
  '@docsearch': docsearch,
}

/**
 * Bundles the program and returns the packages in the bundle and in the scripts of the documentation, sorted by name and version.
 * @throws if bundling fails, or if a package has no licence text
 */
export async function bundledPackages(): Promise<readonly BundledPackage[]> {
  const built = await Bun.build({
    entrypoints: compileCommand(root).entryPoints.map((path) => resolve(root, path)),
    target: 'bun',
    format: 'esm',
    splitting: true,
    external: absentInImage,
    metafile: true,
  })
  const folders = new Set(
    Object.keys(built.metafile?.inputs ?? {}).flatMap((path) => {
      const [, folder] = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(resolve(path)) ?? []
      return folder === undefined ? [] : [folder]
    }),
  )
  await installGenerator()
  for (const name of sitePackages) folders.add(join(generatorFolder, 'node_modules', name))
  const packages = new Map(
    [...folders].map(readPackage).map((each) => [`${each.name} ${each.version}`, each]),
  )
  return [...packages.values()].toSorted(
    (one, other) => compare(one.name, other.name) || compare(one.version, other.version),
  )
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}

function readPackage(folder: string): BundledPackage {
  const manifest = parseManifest(readFileSync(join(folder, 'package.json'), 'utf8'))
  const files = readdirSync(folder)
    .filter((file) => noticeFile.test(file))
    .toSorted()
  const texts = files.map((file) => plain(readFileSync(join(folder, file), 'utf8')))
  if (texts.length > 0) return { ...manifest, texts }
  const text = unshipped[manifest.name.replace(/\/.*/, '')] ?? readmeSection(folder)
  if (text === undefined)
    throw new Error(
      `package ${manifest.name} contains no licence text: add its text to "unshipped" in cmd/dev/notices.ts`,
    )
  return { ...manifest, texts: [plain(text)] }
}

function parseManifest(text: string): Pick<BundledPackage, 'name' | 'version' | 'licence'> {
  const { name, version, license } = JSON.parse(text) as Record<string, unknown>
  if (typeof name !== 'string' || typeof version !== 'string' || typeof license !== 'string')
    throw new Error(`package ${String(name)}: package.json has no name, version or license`)
  return { name, version, licence: spdx[license] ?? license }
}

/** Returns the licence section at the end of a README if it contains the full licence text. */
function readmeSection(folder: string): string | undefined {
  const path = join(folder, 'README.md')
  if (!existsSync(path)) return undefined
  const [, section] = /^#+ *licen[cs]e *\n([\s\S]*)$/im.exec(readFileSync(path, 'utf8')) ?? []
  return section?.includes('Permission is hereby granted') ? section : undefined
}

/** Returns the text of the file at `noticesPath`. @throws the errors of `bundledPackages` */
export async function noticesText(): Promise<string> {
  const packages = await bundledPackages()
  const byText = Map.groupBy(
    packages.flatMap((each) => each.texts.map((text) => ({ name: `${each.name} ${each.version}`, text }))),
    ({ text }) => text,
  )
  const rows = packages.map(({ name, version, licence }) => `| ${name} | ${version} | ${licence} |`)
  const texts = [...byText].map(
    ([text, users]) => `### ${users.map(({ name }) => name).join(', ')}\n\n\`\`\`text\n${text}\n\`\`\``,
  )
  return `# Third-party notices

Software that is compiled into the program \`latchkey\`, and into the scripts of the documentation that it serves. Its own code is licensed
under Apache-2.0 (LICENSE). Generated by \`npm run generate\` from the modules in the bundle; a test fails when it is out of date.

## Packages

| Package | Version | Licence |
|---|---|---|
${rows.join('\n')}

## Bun

The program contains the runtime ${packageManager.replace('@', ' ')} and the libraries that it links. (The package for npm does not: it
installs the runtime as a package of its own.) Its own page on licences follows.

${plain(bunLicences())}

## Licence texts

${texts.join('\n\n')}
`
}

/** Returns the licence page that Bun's types of the same version contain, with lower heading levels and without links to packages. */
function bunLicences(): string {
  const page = readFileSync(join(root, 'node_modules/bun-types/docs/project/license.mdx'), 'utf8')
  return page
    .replace(/^---\n[\s\S]*?\n---\n/, '')
    .replace(/^(#+ )/gm, '#$1')
    .replace(/\[(`[^`\]]+`)\]\(https:\/\/npmjs\.com\/[^)]*\)/g, '$1')
}

function plain(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replace(/[ \t]+$/gm, '')
    .trim()
}
