import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { diagramPath, diagramSources, diagramThemes } from './diagram-files.ts'
import { anchorsOf, isExternal, linksOf, resolveLink } from './links.ts'
import { docsFolder, pagePaths, repositoryRoot, siteGroups } from './pages.ts'

const listed = Bun.spawnSync(['git', 'ls-files', '--cached', '--others', '--exclude-standard', '*.md'], {
  cwd: repositoryRoot,
})
const markdownFiles = listed.stdout
  .toString()
  .trim()
  .split('\n')
  .filter((path) => existsSync(join(repositoryRoot, path)))
const read = (path: string) => readFileSync(join(repositoryRoot, path), 'utf8')

/** Returns what is wrong with the relative links of a Markdown file. */
function deadLinks(path: string, text: string): string[] {
  return linksOf(text).flatMap(({ target, line }) => {
    if (isExternal(target)) return []
    const found = resolveLink(path, target)
    if (!existsSync(join(repositoryRoot, found.path))) return [`${path}:${line}: ${target}: no such file`]
    if (found.anchor === '' || !found.path.endsWith('.md')) return []
    return anchorsOf(read(found.path)).has(found.anchor)
      ? []
      : [`${path}:${line}: ${target}: no such heading`]
  })
}

test('links: every relative link of a Markdown file points to an existing file and heading', () => {
  expect(markdownFiles.length).toBeGreaterThan(100)
  expect(markdownFiles.flatMap((path) => deadLinks(path, read(path)))).toEqual([])
})

test.each([
  ['a missing file', '[x](no-such.md)', 'README.md:1: no-such.md: no such file'],
  [
    'a missing heading',
    'a\n\n[x](CONTRIBUTING.md#no-such)',
    'README.md:3: CONTRIBUTING.md#no-such: no such heading',
  ],
  ['a missing picture in a link', '[![x](no.png)](LICENSE)', 'README.md:1: no.png: no such file'],
])('links: a broken link is found: %s', (_case, text, problem) => {
  expect(deadLinks('README.md', text)).toEqual([problem])
})

test('links: text in code is not treated as a link', () => {
  expect(linksOf('`[a](b.md)` and\n```\n[c](d.md)\n```\n[e](f.md)')).toEqual([{ target: 'f.md', line: 5 }])
})

test('anchors: are built as on GitHub, with a number added for repeated headings', () => {
  const text = '# A `code_name` & more\n## Twice\n```\n## no heading\n```\n## Twice\n## [Linked](x.md): text'
  expect([...anchorsOf(text)]).toEqual(['a-code_name--more', 'twice', 'twice-1', 'linked-text'])
})

test('pages: the sidebar names every page once', () => {
  const named = siteGroups().flatMap(({ pages }) => pages.map(({ path }) => path))
  expect(named.toSorted()).toEqual([...pagePaths()])
})

test('diagrams: each diagram exists in a light and a dark version (otherwise run npm run docs:diagrams)', () => {
  const sources = diagramSources()
  expect(sources.length).toBeGreaterThan(3)
  const missing = sources.flatMap((source) =>
    diagramThemes
      .map((theme) => diagramPath(source, theme))
      .filter((path) => !existsSync(join(docsFolder, path)))
      .map(() => source.slice(0, 80)),
  )
  expect(missing).toEqual([])
})
