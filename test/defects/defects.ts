import { existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parse } from 'yaml'

/** Root of the repository. */
export const repositoryRoot = join(import.meta.dir, '../..')

/** A seeded defect, as `defects.yaml` describes it. */
export interface Defect {
  readonly id: string
  readonly room: string
  readonly breaks: string
  readonly file: string
  readonly find: string
  readonly put: string
  readonly test: string
}

const members = ['id', 'room', 'breaks', 'file', 'find', 'put', 'test']

/** Reads the seeded defects. @throws Error for a record with missing, unknown or empty members, or of several lines */
export function readDefects(): readonly Defect[] {
  const records: unknown = parse(readFileSync(join(import.meta.dir, 'defects.yaml'), 'utf8'))
  if (!Array.isArray(records)) throw new Error('defects.yaml: not a list')
  return records.map(parseDefect)
}

function parseDefect(record: unknown, index: number): Defect {
  const entries = Object.entries(Object(record))
  const isText = (value: unknown) => typeof value === 'string' && value !== '' && !value.includes('\n')
  if (entries.map(([name]) => name).join() !== members.join() || !entries.every(([, value]) => isText(value)))
    throw new Error(`defects.yaml: record ${index + 1} is not ${members.join(', ')}, each a text of one line`)
  return record as Defect
}

/** Returns the paths of all tracked files, and of new files that git does not ignore. */
export function repositoryFiles(): readonly string[] {
  const git = Bun.spawnSync(['git', 'ls-files', '--cached', '--others', '--exclude-standard', '-z'], {
    cwd: repositoryRoot,
  })
  if (!git.success) throw new Error(`git ls-files: ${git.stderr.toString()}`)
  const paths = git.stdout.toString().split('\0')
  return paths.filter((path) => path !== '' && existsSync(join(repositoryRoot, path)))
}

/** Source that contains the line of a defect, and the test file that must fail. */
export type Place =
  | { readonly kind: 'found'; readonly source: string; readonly test: string }
  | { readonly kind: 'lost'; readonly problem: string }

const isShipped = (path: string) =>
  /^(cmd|internal)\/.*\.(tsx?|lua|sql)$/.test(path) && !/\.test\.tsx?$/.test(path)

/**
 * Finds the line and the test of a defect: in the files that it names, or, if they have moved, in the only source with that text, of
 * several in the one of that name, and in the only test file of that name.
 */
export function findPlace({ file, find, test }: Defect, files: readonly string[]): Place {
  const countIn = (path: string) => readFileSync(join(repositoryRoot, path), 'utf8').split(find).length - 1
  const isThere = files.includes(file) && countIn(file) > 0
  const others = isThere ? [] : files.filter((path) => isShipped(path) && countIn(path) > 0)
  const moved = others.filter((path) => basename(path) === basename(file))
  const sources = isThere ? [file] : moved.length === 1 ? moved : others
  const tests = files.includes(test) ? [test] : files.filter((path) => basename(path) === basename(test))
  const [source = ''] = sources
  const [testFile = ''] = tests
  const lost = (problem: string) => ({ kind: 'lost', problem }) as const
  if (sources.length === 0)
    return lost(`no source contains "${find}": state the same mistake on the code that replaced it`)
  if (sources.length > 1 || countIn(source) > 1)
    return lost(`"${find}" is not unique: ${sources.join(', ')}; name the file, and more of the line`)
  if (tests.length !== 1) return lost(`${test} is gone, and ${tests.length} files have its name`)
  return { kind: 'found', source, test: testFile }
}
