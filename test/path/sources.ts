import { readFileSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import ts from '@typescript/typescript6'
import { Glob } from 'bun'

/** Folder of the repository. */
export const root: string = resolve(import.meta.dir, '../..')
const isNotLoaded = (path: string) => /\/cmd\/(dev|latchkey)\/|\.(generated|test)\.tsx?$/.test(path)
/** Rooms that every step uses. */
const isLeftOut = (file: string) => /^internal\/(base|config|telemetry)\//.test(file)

/** A function of the sources. */
export interface SourceFunction {
  readonly file: string
  readonly node: FunctionNode
}

/** Sources of `cmd` and `internal`. */
export interface Sources {
  /** Parsed files by absolute path. */
  readonly parsed: ReadonlyMap<string, ts.SourceFile>
  /** Texts by absolute path in which each function begins with `latchkeyCalled(<its number>)`. */
  readonly marked: Readonly<Record<string, string>>
  /** Functions by number. */
  readonly functions: readonly SourceFunction[]
}

/** Reads the sources of both processes and marks their functions, in rooms that are not left out. */
export function readSources(): Sources {
  const functions: SourceFunction[] = []
  const parsed = new Map<string, ts.SourceFile>()
  const marked: Record<string, string> = {}
  for (const path of new Glob('{cmd,internal}/**/*.{ts,tsx}').scanSync({
    cwd: root,
    absolute: true,
  })) {
    if (isNotLoaded(path)) continue
    const file = relative(root, path)
    const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ESNext, true)
    parsed.set(path, source)
    if (isLeftOut(file)) continue
    marked[path] = markFunctions(source, (node) => functions.push({ file, node }) - 1)
  }
  return { parsed, marked, functions }
}

/** Returns the text of a file in which each function reports its calls. Line numbers stay the same. */
function markFunctions(source: ts.SourceFile, add: (node: FunctionNode) => number): string {
  const insertions: { readonly at: number; readonly text: string }[] = []
  const visit = (node: ts.Node): void => {
    if (isFunction(node) && node.body) {
      const report = `latchkeyCalled(${add(node)})`
      const at = node.body.getStart(source)
      if (ts.isBlock(node.body)) insertions.push({ at: at + 1, text: `${report};` })
      else insertions.push({ at, text: `(${report},` }, { at: node.body.end, text: ')' })
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  let marked = ''
  let from = 0
  for (const { at, text } of insertions.toSorted((a, b) => a.at - b.at)) {
    marked += source.text.slice(from, at) + text
    from = at
  }
  return marked + source.text.slice(from)
}

/** A function of any form that can have a body. */
export type FunctionNode =
  | ts.FunctionDeclaration
  | ts.FunctionExpression
  | ts.ArrowFunction
  | ts.MethodDeclaration
  | ts.ConstructorDeclaration
  | ts.AccessorDeclaration

function isFunction(node: ts.Node): node is FunctionNode {
  return (
    ts.isFunctionDeclaration(node) ||
    ts.isFunctionExpression(node) ||
    ts.isArrowFunction(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isConstructorDeclaration(node) ||
    ts.isAccessor(node)
  )
}
