import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { diagramHtml } from './diagram-files.ts'
import { isExternal, resolveLink, type SharedFile, siteAddress, siteBase } from './links.ts'

/** Used part of a token of markdown-it, a package that only the documentation installs. */
interface Token {
  readonly type: string
  info: string
  content: string
  readonly children: Token[] | null
  attrs: [string, string][] | null
}

type Render = (tokens: Token[], index: number, options: unknown, env: PageEnv, self: unknown) => string

interface PageEnv {
  readonly relativePath?: string
  readonly realPath?: string
}

/** Used part of markdown-it. */
export interface Markdown {
  readonly renderer: { readonly rules: Record<string, Render | undefined> }
  readonly core: {
    readonly ruler: { push(name: string, rule: (state: { tokens: Token[]; env: PageEnv }) => void): void }
  }
}

/** Element of highlighted code, as Shiki passes it to a transformer. */
interface CodeElement {
  readonly properties: Record<string, unknown>
}

const hashChars = 8
const hashOf = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, hashChars)

/** Collects classes for highlighted code, because the content security policy allows no inline styles. */
export function codeColours(): {
  readonly transformer: {
    readonly name: string
    span(element: CodeElement): void
    pre(element: CodeElement): void
  }
  /** Style sheet for all code that was highlighted before this call. */
  css(): string
} {
  const styles = new Map<string, string>()
  const classed = ({ properties }: CodeElement) => {
    const { style } = properties
    if (typeof style !== 'string') return
    const name = `c-${hashOf(style)}`
    styles.set(name, style)
    delete properties['style']
    properties['class'] = [properties['class'], name].filter(Boolean).join(' ')
  }
  return {
    transformer: { name: 'latchkey:classes', span: classed, pre: classed },
    css: () =>
      [...styles]

        .toSorted(([one], [other]) => (one < other ? -1 : 1))
        .map(([name, style]) => `.${name}{${style}}\n`)
        .join(''),
  }
}

/** Adapts Markdown to the site: links to files of the repository, alignment of table cells without inline styles, diagrams. */
export function markdownOfSite(given: unknown, shared: readonly SharedFile[]): void {
  const md = given as Markdown
  const shownOf = new Map(shared.map(({ path, page }) => [`${page.replace(/\breadme$/, 'index')}.md`, path]))
  md.core.ruler.push('latchkey', ({ tokens, env }) => {
    const page = env.relativePath ?? ''
    const from = shownOf.get(page) ?? `docs/${page}`
    for (const token of tokens.flatMap((each) => [each, ...(each.children ?? [])])) {
      if (token.type === 'link_open') mapLink(token, from, shared)
      if (token.type.startsWith('html_')) escapeUnknownTags(token)
      if (from.startsWith('docs/')) continue
      if (token.type === 'image') mapPicture(token, from, page)
      if (token.type.startsWith('html_')) mapPicturesOfHtml(token, from, page)
    }
    for (const token of tokens) {
      if (token.type === 'th_open' || token.type === 'td_open') mapAlignment(token)
    }
  })
  const noInterpolation = (text: string) => text.replaceAll('{{', '&#123;&#123;')
  for (const rule of ['text', 'code_inline']) {
    const plain = md.renderer.rules[rule]
    md.renderer.rules[rule] = (...all) => noInterpolation(plain?.(...all) ?? '')
  }
  const fence = md.renderer.rules['fence']
  md.renderer.rules['fence'] = (tokens, index, ...rest) => {
    const token = tokens[index]
    if (token?.info.trim() === 'mermaid') return diagramHtml(token.content)
    // Shows PromQL as plain text, because the highlighter has no grammar for it and would warn about each block.
    if (token?.info.trim() === 'promql') token.info = 'text'
    return fence?.(tokens, index, ...rest) ?? ''
  }
}

function mapLink(token: Token, from: string, shared: readonly SharedFile[]): void {
  const attribute = token.attrs?.find(([name]) => name === 'href')
  if (!attribute || isExternal(attribute[1]) || attribute[1].startsWith('#')) return
  const { path, anchor } = resolveLink(from, attribute[1])
  const address = siteAddress(path, shared)
  if (address !== undefined) attribute[1] = address + (anchor && `#${anchor}`)
}

/** Returns the path of a picture relative to the page that shows it. `target` is relative to the file `from`. */
function pictureOf(target: string, from: string, page: string): string {
  if (isExternal(target)) return target
  const path = posix.relative(posix.dirname(`docs/${page}`), resolveLink(from, target).path)
  return path.startsWith('.') ? path : `./${path}`
}

function mapPicture({ attrs }: Token, from: string, page: string): void {
  const source = attrs?.find(([name]) => name === 'src')
  if (source) source[1] = pictureOf(source[1], from, page)
}

function mapPicturesOfHtml(token: Token, from: string, page: string): void {
  token.content = token.content.replaceAll(/(?<=<(?:img|source) [^>]*\bsrc(?:set)?=")[^"]+/g, (target) =>
    pictureOf(target, from, page),
  )
}

const knownTag =
  /^<(!--|\/?(a|br|code|details|div|em|figure|hr|img|kbd|p|picture|pre|source|span|strong|sub|summary|sup)[\s/>])/i

/** Escapes placeholders such as \<name>, which the compiler of pages would parse as elements. */
function escapeUnknownTags(token: Token): void {
  token.content = token.content.replaceAll(/<[!/a-z][^>]*>?/gi, (tag) =>
    knownTag.test(tag) ? tag : tag.replaceAll('<', '&lt;'),
  )
}

function mapAlignment(token: Token): void {
  const style = token.attrs?.find(([name]) => name === 'style')
  if (!style) return
  style[0] = 'class'
  style[1] = style[1].replace('text-align:', 'align-')
}

/**
 * Makes a page obey the content security policy of the dashboard: moves inline scripts to files and removes inline styles, and links the
 * style sheet of highlighted code.
 */
export function policySafe(html: string, outFolder: string, codeCss: string): string {
  const assets = join(outFolder, 'assets')
  mkdirSync(assets, { recursive: true })
  const file = (ending: string, text: string) => {
    const name = `page.${hashOf(text)}.${ending}`
    writeFileSync(join(assets, name), text)
    return `${siteBase}assets/${name}`
  }
  return html
    .replaceAll(
      /<script(?: id="[\w-]+")?>([\s\S]*?)<\/script>/g,
      (_tag, text: string) => `<script src="${file('js', text)}"></script>`,
    )
    .replaceAll(/ style="(position:relative;|--vp-vh:0px;)"/g, '')
    .replace('</head>', `<link rel="stylesheet" href="${file('css', codeCss)}"></head>`)
}
