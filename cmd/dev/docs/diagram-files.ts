import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sharedFiles } from './links.ts'
import { docsFolder, pagePaths, repositoryRoot } from './pages.ts'

export const diagramThemes = ['light', 'dark'] as const

const hashChars = 12

/** Returns the path of a diagram's picture below `docs`. */
export function diagramPath(source: string, theme: (typeof diagramThemes)[number]): string {
  const hash = createHash('sha256').update(source.trim()).digest('hex').slice(0, hashChars)
  return `public/diagrams/${hash}-${theme}.svg`
}

/** Pictures for both themes, of which the style sheet shows one, and the source as text for screen readers. */
export function diagramHtml(source: string): string {
  const pictures = diagramThemes.flatMap((theme) => {
    const path = diagramPath(source, theme)
    if (!existsSync(join(docsFolder, path))) return []
    return [
      `<img class="in-${theme}" src="/${path.replace('public/', '')}" alt="Diagram; its text follows" loading="lazy">`,
    ]
  })
  const text = source.trim().replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  return `<figure class="diagram">${pictures.join('')}<details><summary>Diagram as text</summary><pre v-pre>${text}</pre></details></figure>\n`
}

/** Returns the source of each diagram of the site once. */
export function diagramSources(): readonly string[] {
  const shared = sharedFiles().filter(({ path }) => path.endsWith('.md'))
  const paths = [...pagePaths().map((page) => `docs/${page}.md`), ...shared.map(({ path }) => path)]
  const blocks = paths.flatMap((path) => [
    ...readFileSync(join(repositoryRoot, path), 'utf8').matchAll(/^```mermaid\n([\s\S]*?)^```$/gm),
  ])
  return [...new Set(blocks.map(([, source = '']) => source))]
}
