import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../processes/dev-server.ts'

/** Block of a page that a test runs as it stands: the line before its fence is `<!-- test: name -->`. */
export interface PageBlock {
  readonly name: string
  readonly language: string
  readonly text: string
  /** Text of the `text` or `json` block that follows, which shows the output; empty if none does. */
  readonly shown: string
}

const marked = /<!-- test: ([\w-]+) -->\n```(\w+)\n(.*?)```\n(?:```(?:text|json)\n(.*?)```\n)?/gs

/** Returns the marked blocks of a page in order. @param path from the root of the repository */
export function blocksOf(path: string): PageBlock[] {
  const page = readFileSync(join(root, path), 'utf8')
  return [...page.matchAll(marked)].map(([, name = '', language = '', text = '', shown = '']) => ({
    name,
    language,
    text,
    shown,
  }))
}

/** Returns the blocks of a page with a name, in order. @throws if there is none */
export function blocksNamed(path: string, name: string): PageBlock[] {
  const found = blocksOf(path).filter((block) => block.name === name)
  if (found.length === 0) throw new Error(`${path} has no block with the marker: test: ${name}`)
  return found
}

/** Returns the only block of a page with a name. @throws if there is none, or more than one */
export function blockNamed(path: string, name: string): PageBlock {
  const [block, ...others] = blocksNamed(path, name)
  if (block === undefined || others.length > 0) throw new Error(`${path} has several blocks named ${name}`)
  return block
}

/** Any fenced block of a page, with or without a marker, also in a list. */
export interface PageFence {
  /** Path of the page from the root of the repository. */
  readonly page: string
  readonly line: number
  /** Empty if the fence names none. */
  readonly language: string
  /** Without the indentation of the fence. */
  readonly text: string
  /** `test` is the marker above; `cluster-test` has the file in test/cluster that runs the block as it stands. */
  readonly marker: { readonly kind: 'test' | 'cluster-test'; readonly name: string } | undefined
}

const fenced = /(?:^ *<!-- (test|cluster-test): ([\w.-]+) -->\n)?^( *)```(\w*)\n([\s\S]*?)^\3```$/gm

/** Returns all fenced blocks of a page in order. @param path from the root of the repository */
export function fencesOf(path: string): readonly PageFence[] {
  const page = readFileSync(join(root, path), 'utf8')
  return [...page.matchAll(fenced)].map(
    ({ index, 1: kind, 2: name = '', 3: indent = '', 4: language = '', 5: body = '' }) => ({
      page: path,
      line: page.slice(0, index).split('\n').length,
      language,
      text: body.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
      marker: kind === undefined ? undefined : { kind: kind as 'test' | 'cluster-test', name },
    }),
  )
}

/** Returns the paths of the pages in a folder from the root of the repository. */
export function pagesIn(folder: string): readonly string[] {
  const names = readdirSync(join(root, folder)).filter((name) => name.endsWith('.md'))
  return names.map((name) => `${folder}/${name}`)
}
