import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join, posix } from 'node:path'
import { pagePaths, repositoryRoot } from './pages.ts'

/** Path of the site at the dashboard's origin. */
export const siteBase = '/docs/'
/** Folder of the site with files of the repository that pages link to, since a reader in a closed cluster cannot reach the repository. */
const filesFolder = 'repository'
const fileBytesMax = 64 * 1024
const linkPattern =
  /\[(?:[^\]]|\]\()*?\]\((?<target>[^)\s]+)(?:\s+"[^"]*")?\)|^\[[^\]]+\]: (?<reference>\S+)$|<(?:img|a) [^>]*(?:src|href)="(?<attribute>[^"]+)"/gm

/** File of the repository that the site shows, by its path from the root. */
export interface SharedFile {
  readonly path: string
  /** Path of its page below the site, without `.md`. */
  readonly page: string
}

/** Returns the links of a Markdown text, except those in code. */
export function linksOf(text: string): readonly {
  readonly target: string
  readonly line: number
}[] {
  const prose = withoutBlocks(text).replaceAll(/(`+)(?!`)[^\n]*?[^`]\1(?!`)/g, (code) =>
    'x'.repeat(code.length),
  )
  return [...prose.matchAll(linkPattern)].map((match) => ({
    target: match.groups?.['target'] ?? match.groups?.['reference'] ?? match.groups?.['attribute'] ?? '',
    line: prose.slice(0, match.index).split('\n').length,
  }))
}

/** True for a link out of the repository, or to a path of the same origin. */
export const isExternal = (target: string) => /^([a-z][a-z0-9+.-]*:|\/)/i.test(target)

/** Resolves a relative link of a file to a path from the repository's root, and its anchor. */
export function resolveLink(
  fromPath: string,
  target: string,
): { readonly path: string; readonly anchor: string } {
  const [file = '', anchor = ''] = target.split('#', 2)
  const path = file === '' ? fromPath : posix.normalize(posix.join(posix.dirname(fromPath), decodeURI(file)))
  return { path: path.replace(/\/$/, ''), anchor }
}

/** Returns the anchor of a heading as GitHub makes it, so that links work in the repository and on the site. */
export function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
    .replaceAll(' ', '-')
}

/** Returns the anchors of all headings. The anchor of a repeated heading ends in a number. */
export function anchorsOf(text: string): ReadonlySet<string> {
  const counts = new Map<string, number>()
  const headings = withoutBlocks(text).matchAll(/^#{1,6} +(.+?)(?: +#+)?$/gm)
  const anchors = [...headings].map(([, heading = '']) => {
    const plain = heading.replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/<[^>]*>/g, '')
    const anchor = anchorOf(plain.replaceAll(/(\*\*?|(?<!\w)_(?=\w)|(?<=\w)_(?!\w))/g, ''))
    const count = counts.get(anchor) ?? 0
    counts.set(anchor, count + 1)
    return count === 0 ? anchor : `${anchor}-${count}`
  })
  return new Set([...anchors, ...[...text.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, id = '']) => id)])
}

function withoutBlocks(text: string): string {
  return text.replaceAll(/^( *)(```+|~~~+)[\s\S]*?^\1\2 *$/gm, (code) => code.replaceAll(/[^\n]/g, ' '))
}

/** Returns the address of a page below the site. `page` is the path of its Markdown file below `docs`. */
export function addressOf(page: string): string {
  return page.replace(/(^|\/)(index|readme)$/i, '$1')
}

/** Returns the path of a file or folder on the site, starting with `/`. Undefined if the site does not contain it. */
export function siteAddress(path: string, shared: readonly SharedFile[]): string | undefined {
  if (path.startsWith('docs/') && path.endsWith('.md'))
    return `/${addressOf(path.slice('docs/'.length, -'.md'.length))}`
  const found =
    shared.find((file) => file.path === `${path}/README.md`) ?? shared.find((file) => file.path === path)
  return found && `/${addressOf(found.page)}`
}

/**
 * Returns the files and folders of the repository outside of `docs` that pages link to. Follows the links of linked Markdown files, and
 * includes the files in linked folders.
 */
export function sharedFiles(): readonly SharedFile[] {
  const queue = pagePaths().map((page) => `docs/${page}.md`)
  const known = new Set(queue)
  for (const path of queue) {
    const absolute = join(repositoryRoot, path)
    const targets = statSync(absolute).isDirectory()
      ? filesOf(path)
      : path.endsWith('.md')
        ? linksOf(readFileSync(absolute, 'utf8')).flatMap(({ target }) =>
            isExternal(target) ? [] : [resolveLink(path, target).path],
          )
        : []
    for (const found of targets) {
      const target = existsSync(join(repositoryRoot, found, 'README.md')) ? `${found}/README.md` : found
      if (known.has(target) || !isShared(target)) continue
      known.add(target)
      queue.push(target)
    }
  }
  return queue
    .filter((path) => !path.startsWith('docs/'))
    .toSorted()
    .map((path) => ({ path, page: `${filesFolder}/${pageNameOf(path)}` }))
}

function isShared(path: string): boolean {
  if (path.startsWith('docs/') || path.startsWith('..') || path === '.' || /\.(png|svg)$/.test(path))
    return false
  return existsSync(join(repositoryRoot, path))
}

function filesOf(folder: string): string[] {
  return readdirSync(join(repositoryRoot, folder), { withFileTypes: true })
    .filter((entry) => entry.isFile() && !/^\.|\.(log|pyc)$/.test(entry.name))
    .map(({ name }) => `${folder}/${name}`)
    .toSorted()
}

/** Returns a name without a dot, so that browsers and routers do not mistake a page for a file. */
function pageNameOf(path: string): string {
  return path.replace(/\.md$/, '').replaceAll('.', '-').toLowerCase()
}

/** A file's page shows its text; a folder's page shows its files. */
export function sharedPageText({ path }: SharedFile): string {
  const absolute = join(repositoryRoot, path)
  const name = posix.basename(path)
  if (statSync(absolute).isDirectory())
    return `# ${path}\n\n${filesOf(path)
      .map((file) => `- [${posix.basename(file)}](${name}/${posix.basename(file)})`)
      .join('\n')}\n`
  const text = readFileSync(absolute, 'utf8')
  if (path.endsWith('.md') && text.length <= fileBytesMax) return text
  if (text.length > fileBytesMax)
    return `# ${path}\n\nThis file of the repository is too long to be shown here.\n`
  const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`{3,}/g)].map(([marks]) => marks.length + 1)))
  return `# ${path}\n\n${fence}${languageOf(name)}\n${text.trimEnd()}\n${fence}\n`
}

const languages: Readonly<Record<string, string>> = {
  ts: 'ts',
  tsx: 'tsx',
  mjs: 'js',
  json: 'json',
  yaml: 'yaml',
  yml: 'yaml',
  py: 'python',
  toml: 'toml',
  sh: 'sh',
  sql: 'sql',
  lua: 'lua',
  service: 'ini',
  css: 'css',
  Dockerfile: 'docker',
  tpl: 'yaml',
}

function languageOf(name: string): string {
  return languages[name.slice(name.lastIndexOf('.') + 1)] ?? 'text'
}
