import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { SourceProblem } from '../source.ts'
import { type FileDocument, type ParsedFile, parseFile } from './parse-file.ts'

/** A document that can be used. */
export type GoodDocument = Exclude<FileDocument, { kind: 'broken' }>

/** What a folder holds, the last good content of broken files included. */
export interface FolderContent {
  readonly changed: boolean
  readonly documents: readonly { readonly file: string; readonly document: GoodDocument }[]
  readonly problems: readonly SourceProblem[]
  /** Identities of broken documents that were never read well. */
  readonly held: ReadonlySet<string>
  /** False while something unreadable may hide documents whose names are not known. */
  readonly complete: boolean
}

/** What a reader is made with. */
export interface FolderReaderOptions {
  readonly dir: string
  /** Whether a folder that does not exist counts as empty instead of as a problem. */
  readonly mayBeAbsent: boolean
}

/** Largest file that is read. */
export const fileBytesMax = 1_048_576
/** Most files that are read. */
export const filesMax = 1_000

interface FileState {
  readonly signature: string
  readonly good: ReadonlyMap<string, GoodDocument>
  readonly problems: readonly SourceProblem[]
  readonly held: readonly string[]
  readonly complete: boolean
}

/**
 * Reads the `.yaml`, `.yml` and `.json` files of one folder, not of its subfolders, and remembers them: a file is read
 * again only when its size, times or inode changed, and what was good stays while a file is broken.
 */
export class FolderReader {
  readonly #options: FolderReaderOptions
  #files = new Map<string, FileState>()
  #folderProblem: string | undefined

  constructor(options: FolderReaderOptions) {
    this.#options = options
  }

  /** The present content. Never fails. */
  async read(): Promise<FolderContent> {
    const listed = await this.#list()
    const changed =
      listed.kind === 'problem' ? this.#noteProblem(listed.message) : await this.#readFiles(listed.names)
    return this.#content(changed)
  }

  #noteProblem(message: string): boolean {
    const changed = this.#folderProblem !== message
    this.#folderProblem = message
    return changed
  }

  async #list(): Promise<{ kind: 'names'; names: string[] } | { kind: 'problem'; message: string }> {
    try {
      const all = await readdir(this.#options.dir)
      return { kind: 'names', names: all.filter((name) => /^[^.].*\.(ya?ml|json)$/.test(name)).sort() }
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
      if (code === 'ENOENT' && this.#options.mayBeAbsent) return { kind: 'names', names: [] }
      return {
        kind: 'problem',
        message: `folder cannot be read (${code}): what was read before stays in force`,
      }
    }
  }

  async #readFiles(names: readonly string[]): Promise<boolean> {
    const over =
      names.length > filesMax ? `folder holds over ${filesMax} files: the rest is not read` : undefined
    let changed = this.#folderProblem !== over
    this.#folderProblem = over
    const next = new Map<string, FileState>()
    for (const name of names.slice(0, filesMax)) {
      const before = this.#files.get(name)
      const state = await this.#readOne(name, before)
      if (state !== undefined) next.set(name, state)
      changed ||= state !== before
    }
    changed ||= next.size !== this.#files.size
    this.#files = next
    return changed
  }

  async #readOne(name: string, before: FileState | undefined): Promise<FileState | undefined> {
    const path = join(this.#options.dir, name)
    try {
      const { size, mtimeNs, ctimeNs, ino } = await stat(path, { bigint: true })
      const signature = `${ino}.${size}.${mtimeNs}.${ctimeNs}`
      if (before?.signature === signature) return before
      if (size > fileBytesMax)
        return broken({ path, signature, before, message: `is over ${fileBytesMax} bytes` })
      const text = await readFile(path, 'utf8')
      return nextState(parseFile(text, { file: path, version: `${size}-${mtimeNs}` }), {
        path,
        signature,
        before,
      })
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
      if (code === 'ENOENT') return undefined
      const signature = `error ${code}`
      if (before?.signature === signature) return before
      return broken({ path, signature, before, message: `cannot be read (${code})` })
    }
  }

  #content(changed: boolean): FolderContent {
    const documents: { file: string; document: GoodDocument }[] = []
    const problems: SourceProblem[] = []
    const held = new Set<string>()
    let complete = this.#folderProblem === undefined
    if (this.#folderProblem !== undefined) {
      problems.push({ file: this.#options.dir, line: undefined, field: '', message: this.#folderProblem })
    }
    for (const [name, state] of this.#files) {
      const file = join(this.#options.dir, name)
      for (const document of state.good.values()) documents.push({ file, document })
      problems.push(...state.problems)
      for (const identity of state.held) held.add(identity)
      complete &&= state.complete
    }
    return { changed, documents, problems, held, complete }
  }
}

interface Before {
  readonly path: string
  readonly signature: string
  readonly before: FileState | undefined
}

function broken({ message, ...rest }: Before & { readonly message: string }): FileState {
  const problems = [{ file: rest.path, line: undefined, field: '', message }]
  return nextState({ kind: 'unreadable', documents: [], problems }, rest)
}

/** Lays what was read over what was good before. */
function nextState(parsed: ParsedFile, { path, signature, before }: Before): FileState {
  const { problems } = parsed
  if (parsed.kind === 'unreadable') {
    const { good, held, complete } = before ?? { good: new Map(), held: [], complete: false }
    return { signature, good, problems, held, complete }
  }
  const good = new Map<string, GoodDocument>()
  const held: string[] = nameless(parsed) ? [...(before?.held ?? [])] : []
  const repeated: SourceProblem[] = []
  // A broken document without a name may be any of those that were good before: none of them counts as removed.
  if (nameless(parsed)) for (const [identity, document] of before?.good ?? []) good.set(identity, document)
  const seen = new Set<string>()
  for (const document of parsed.documents) {
    const { identity } = document
    if (identity === undefined) continue
    if (seen.has(identity)) {
      repeated.push({
        file: path,
        line: document.line,
        field: 'metadata.name',
        message: `${identity} stands twice`,
      })
      continue
    }
    seen.add(identity)
    const usable = document.kind === 'broken' ? before?.good.get(identity) : document
    if (usable === undefined) held.push(identity)
    else good.set(identity, usable)
  }
  return {
    signature,
    good,
    problems: [...problems, ...repeated],
    held,
    complete: !nameless(parsed) || before?.complete === true,
  }
}

function nameless({ documents }: ParsedFile): boolean {
  return documents.some(({ identity }) => identity === undefined)
}
