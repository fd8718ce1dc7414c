import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { addressOf, anchorOf, sharedFiles, siteBase } from '../../cmd/dev/docs/links.ts'
import { codeColours, markdownOfSite, policySafe } from '../../cmd/dev/docs/markdown.ts'
import { onlyListedPackages } from '../../cmd/dev/docs/packages.ts'
import { type SiteGroup, siteGroups } from '../../cmd/dev/docs/pages.ts'

const here = fileURLToPath(import.meta.url)
const colours = codeColours()

/** Returns the sidebar of each folder: its own groups where it has some, otherwise the main groups. */
function sidebarOf(groups: readonly SiteGroup[]) {
  const main = groups.filter(({ folder }) => folder === undefined)
  const folders = [...new Set(groups.flatMap(({ folder }) => folder ?? []))]
  const itemsOf = (own: readonly SiteGroup[]) =>
    own.map(({ title, pages }) => ({
      text: title,
      items: pages.map((page) => ({ text: page.title, link: `/${addressOf(page.path)}` })),
    }))
  return {
    ...Object.fromEntries(
      folders.map((folder) => [
        `/${folder}/`,
        itemsOf([...groups.filter((each) => each.folder === folder), ...main]),
      ]),
    ),
    '/': itemsOf(main),
  }
}

export default defineConfig({
  title: 'Latchkey',
  description: 'Idempotency records and webhook intake for Kubernetes, multi-tenant',
  lang: 'en',
  base: siteBase,
  cleanUrls: true,
  // Its style element would violate the content policy.
  appearance: { disableTransition: false },
  metaChunk: true,
  // Our own test checks links, with anchors and files of the repository.
  ignoreDeadLinks: true,
  rewrites: { ':folder(.*)/README.md': ':folder/index.md' },
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${siteBase}icon.svg` }]],
  markdown: {
    // The anchors of GitHub, so that a link works in both places.
    anchor: { slugify: anchorOf },
    codeTransformers: [colours.transformer],
    config: (md) => markdownOfSite(md, sharedFiles()),
  },
  themeConfig: {
    // The detailed view shows the text around each match.
    search: { provider: 'local', options: { detailedView: true } },
    outline: [2, 3],
    nav: [{ text: 'Dashboard', link: '/', target: '_self' }],
    sidebar: sidebarOf(siteGroups()),
  },
  transformHtml: (html, _id, { siteConfig }) => policySafe(html, siteConfig.outDir, colours.css()),
  vite: {
    plugins: [
      onlyListedPackages(),
      {
        // Pages are above the folder with the packages.
        name: 'packages-of-pages',
        enforce: 'pre',
        resolveId(id, importer, options) {
          if (!/^vue(\/|$)/.test(id) || importer === here || importer?.includes('/node_modules/')) return null
          return this.resolve(id, here, { ...options, skipSelf: true })
        },
      },
    ],
  },
})
