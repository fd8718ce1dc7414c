import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { packageManager } from '../../package.json'

/** A package whose code is compiled into the program. */
export interface BundledPackage {
  readonly name: string
  readonly version: string
  /** SPDX identifier. */
  readonly licence: string
  /** Texts of its licence and notice files, by file name. */
  readonly texts: readonly string[]
}

const root = resolve(import.meta.dir, '../..')
/** Path of the notices in the repository; the image has them beside LICENSE. */
export const noticesPath = 'THIRD_PARTY_NOTICES.md'
/** Entry points that the Dockerfile compiles. */
export const entryPoints = ['cmd/latchkey/main.ts', './internal/intake/large-bodies.worker.ts'] as const
const noticeFile = /^(licen[cs]e|copying|notice)/i
/** SPDX identifiers for those that packages misspell. */
const spdx: Readonly<Record<string, string>> = { 'BSD-0-Clause': '0BSD' }

const mit = (copyright: string) => `MIT License

${copyright}

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.`

// https://github.com/redis/node-redis/blob/master/LICENSE, read 2026-11-22.
const redis = mit('Copyright (c) 2022-2025, Redis, inc.')
/** Licence texts of packages that ship none. */
const unshipped: Readonly<Record<string, string>> = {
  redis: redis,
  '@redis/bloom': redis,
  '@redis/client': redis,
  '@redis/json': redis,
  '@redis/search': redis,
  '@redis/time-series': redis,
  // Author and licence from its package.json.
  'drizzle-orm':
    'Copyright Drizzle Team\n\nLicensed under the Apache License, Version 2.0, whose text is in LICENSE beside this file.',
}

/**
 * Bundles the program and lists the packages in the bundle, sorted by name and version.
 * @throws if bundling fails, or a package has no licence text
 */
export async function bundledPackages(): Promise<readonly BundledPackage[]> {
  const built = await Bun.build({
    entrypoints: entryPoints.map((path) => resolve(root, path)),
    target: 'bun',
    format: 'esm',
    splitting: true,
    metafile: true,
  })
  const folders = new Set(
    Object.keys(built.metafile?.inputs ?? {}).flatMap((path) => {
      const [, folder] = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(resolve(path)) ?? []
      return folder === undefined ? [] : [folder]
    }),
  )
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
  const text = unshipped[manifest.name] ?? readmeSection(folder)
  if (text === undefined)
    throw new Error(
      `package ${manifest.name} ships no licence text: add it to "unshipped" in cmd/dev/notices.ts`,
    )
  return { ...manifest, texts: [plain(text)] }
}

function parseManifest(text: string): Pick<BundledPackage, 'name' | 'version' | 'licence'> {
  const { name, version, license } = JSON.parse(text) as Record<string, unknown>
  if (typeof name !== 'string' || typeof version !== 'string' || typeof license !== 'string')
    throw new Error(`package ${String(name)}: package.json lacks name, version or license`)
  return { name, version, licence: spdx[license] ?? license }
}

/** Returns the licence section at the end of a README, if it contains the full text. */
function readmeSection(folder: string): string | undefined {
  const path = join(folder, 'README.md')
  if (!existsSync(path)) return undefined
  const [, section] = /^#+ *licen[cs]e *\n([\s\S]*)$/im.exec(readFileSync(path, 'utf8')) ?? []
  return section?.includes('Permission is hereby granted') ? section : undefined
}

/** Returns the text of `noticesPath`. @throws as `bundledPackages` does */
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

Software that is compiled into the program \`latchkey\`. Its own code is licensed under Apache-2.0 (LICENSE). Generated by
\`npm run generate\` from the modules in the bundle; a test fails when it is out of date.

## Packages

| Package | Version | Licence |
|---|---|---|
${rows.join('\n')}

## Bun

The program contains the runtime ${packageManager.replace('@', ' ')} and the libraries that it links. Its own page on licences follows.

${plain(bunLicences())}

## Licence texts

${texts.join('\n\n')}
`
}

/** Returns Bun's page on licences from its types of the same version, with lower headings and without links to packages. */
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
