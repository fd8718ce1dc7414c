import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

export const repositoryRoot = resolve(import.meta.dirname, '../../..')
export const docsFolder = join(repositoryRoot, 'docs')

/** A page that ends in `/*` stands for the pages of a folder that are not listed before it, sorted by title. */
interface Group {
  readonly title: string
  readonly pages: readonly string[]
  /** Only the pages of this folder show the group in the sidebar. Default: all pages show it. */
  readonly folder?: string
}

const groups: readonly Group[] = [
  {
    title: 'Start',
    pages: [
      'index',
      'tutorials/first-record',
      'tutorials/first-webhook',
      'tutorials/own-app',
      'tutorials/cluster',
      'tutorials/*',
    ],
  },
  {
    title: 'Guides',
    pages: [
      'guides/records',
      'guides/webhooks',
      'guides/pull',
      'guides/streams',
      'guides/add-provider',
      'guides/own-services',
      'guides/testing',
      'guides/command-line',
      'guides/*',
    ],
  },
  { title: 'Frameworks', pages: ['guides/frameworks/index', 'guides/frameworks/*'] },
  {
    title: 'Operate',
    pages: [
      'operate/install',
      'operate/tenants',
      'operate/providers',
      'operate/operating',
      'operate/dashboard',
      'operate/notifications',
      'operate/upgrading',
      'operate/gitops',
      'operate/security',
      'operate/failures',
      'operate/capacity',
      'operate/growing',
      'operate/without-kubernetes',
      'operate/store-tls',
      'operate/restore',
      'operate/*',
      'upgrade-definitions',
      'change-policy',
      'runbooks/README',
    ],
  },
  { title: 'Architecture', pages: ['architecture/index', 'architecture/*', 'comparison', 'glossary'] },
  {
    title: 'Reference',
    pages: [
      'reference/api/index',
      'reference/internal-api/index',
      'reference/events',
      'reference/cli',
      'reference/configuration',
      'reference/chart-values',
      'reference/crds',
      'reference/metrics',
      'reference/errors/index',
      'reference/providers/index',
      'reference/*',
    ],
  },
  { title: 'Public API', pages: ['reference/api/*'], folder: 'reference/api' },
  { title: 'Internal API', pages: ['reference/internal-api/*'], folder: 'reference/internal-api' },
  { title: 'Errors', pages: ['reference/errors/*'], folder: 'reference/errors' },
  { title: 'Providers', pages: ['reference/providers/*'], folder: 'reference/providers' },
  { title: 'Runbooks', pages: ['runbooks/*'], folder: 'runbooks' },
]

/** `path`: below `docs` without `.md`. `title`: first heading. */
export interface SitePage {
  readonly path: string
  readonly title: string
}

/** Paths below `docs` without `.md`, sorted. */
export function pagePaths(): readonly string[] {
  return readdirSync(docsFolder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md') && !path.startsWith('.') && !path.includes('['))
    .map((path) => path.slice(0, -'.md'.length))
    .toSorted()
}

/** Returns the groups of the sidebar, without listed pages that do not exist and without empty groups. */
export function siteGroups(): readonly {
  readonly title: string
  readonly folder: string | undefined
  readonly pages: readonly SitePage[]
}[] {
  const all = pagePaths()
  const named = new Set(groups.flatMap(({ pages }) => pages))
  const found = groups.map(({ title, pages, folder }) => ({
    title,
    folder,
    pages: pages.flatMap((page) => {
      if (!page.endsWith('/*')) return existsSync(join(docsFolder, `${page}.md`)) ? [readPage(page)] : []
      const folder = page.slice(0, -1)
      return all
        .filter(
          (path) => path.startsWith(folder) && !path.slice(folder.length).includes('/') && !named.has(path),
        )
        .map(readPage)
        .toSorted((one, other) => one.title.localeCompare(other.title, 'en'))
    }),
  }))
  return found.filter(({ pages }) => pages.length > 0)
}

function readPage(path: string): SitePage {
  const text = readFileSync(join(docsFolder, `${path}.md`), 'utf8')
  return { path, title: headingOf(text) ?? path }
}

/** Returns the first heading of a Markdown text without markup, or `title` of its front matter. */
export function headingOf(text: string): string | undefined {
  const [, given] = /^---\n(?:.*\n)*?title: *["']?(.*?)["']?\n(?:.*\n)*?---\n/.exec(text) ?? []
  const [, heading] = /^# +(.+)$/m.exec(text) ?? []
  return given ?? heading?.replaceAll(/[`*]/g, '').replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
}
