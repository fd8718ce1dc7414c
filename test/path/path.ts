import { posix, resolve } from 'node:path'
import { type RecordedCall, recordWebhooks } from './record.ts'
import { findShapes, type Shape } from './shapes.ts'
import { readSources, root } from './sources.ts'

/** The way of one webhook by hand-off. */
interface WebhookPath {
  /** Files in order of their first call. */
  readonly files: readonly string[]
  /** Number of neighbours in `files` that are of different rooms. */
  readonly roomChanges: number
  readonly shapes: readonly Shape[]
}

/** File whose first call begins the way in the API: the server has the request's first byte. */
const firstFile = 'internal/http/server.ts'
/** File whose last call ends the way in the API: the request is logged and counted. */
const answeredFile = 'internal/http/observe.ts'
/** File whose last call ends the way: the attempt's row is stored. */
const completedFile = 'internal/events/complete.ts'
const typicalShare = 0.8

/** Page that holds the way between two markers. */
export const readmePath: string = resolve(root, 'internal/README.md')
const markers = /(<!-- path:begin -->\n).*?(<!-- path:end -->)/s

/**
 * Measures the way of webhooks that were handed to a forwarder: the functions that almost all of them called, first those of the API, then
 * those of the forwarder, each in their median order. What fewer called belongs to a loop that happened to run.
 */
export async function measurePath(): Promise<WebhookPath> {
  const sources = readSources()
  const recordings = await recordWebhooks(sources)
  const called = [
    ...typicalOf(recordings.map(({ api }) => upTo(answeredFile, from(firstFile, api)))),
    ...typicalOf(recordings.map(({ forwarder }) => upTo(completedFile, forwarder))),
  ]
  const files = [...new Set(called.map(({ file }) => file))]
  const roomChanges = files.filter(
    (file, at) => at > 0 && roomOf(file) !== roomOf(files[at - 1] ?? ''),
  ).length
  return { files, roomChanges, shapes: findShapes(called, sources) }
}

/** Returns a page with the text between its markers replaced. */
export function withPath(page: string, text: string): string {
  if (!markers.test(page)) throw new Error('the page has no markers path:begin and path:end')
  return page.replace(markers, (_all, begin: string, end: string) => `${begin}${text}${end}`)
}

/** Describes a way in Markdown: a line per stay in a room, then the types. */
export function describePath({ files, roomChanges, shapes }: WebhookPath): string {
  const stays: { readonly room: string; readonly names: string[] }[] = []
  for (const file of files) {
    const room = roomOf(file)
    const last = stays.at(-1)
    const name = posix.relative(room, file)
    if (last?.room === room) last.names.push(name)
    else stays.push({ room, names: [name] })
  }
  const rows = stays.map(
    ({ room, names }) =>
      `| \`${room.replace('internal/', '')}\` | ${names.map((name) => `\`${name}\``).join(', ')} |`,
  )
  const types = shapes.map(({ name, file }) => `\`${name}\` (${roomOf(file).replace('internal/', '')})`)
  return `
${files.length} files and ${roomChanges} changes of room, in order of the first call: first those of the API, then those of the forwarder. \`base\`,
\`config\` and \`telemetry\` are left out. \`npm run path -- webhook --write\` writes this list. It sends webhooks to both processes from source
and records which functions they call.

| room | files |
|---|---|
${rows.join('\n')}

${shapes.length} types hold the event or its delivery where these functions hand it over: ${types.join(', ')}.

`
}

/** Returns the room of a file, such as `internal/http` or `cmd/api`. */
function roomOf(file: string): string {
  return file.split('/').slice(0, 2).join('/')
}

function from(file: string, calls: readonly RecordedCall[]): RecordedCall[] {
  const begin = calls.findIndex((call) => call.file === file)
  return calls.slice(begin)
}

function upTo(file: string, calls: readonly RecordedCall[]): RecordedCall[] {
  const end = Math.max(...calls.filter((call) => call.file === file).map(({ last }) => last))
  return calls.filter(({ first }) => first <= end)
}

/** Returns the calls that are in at least four of five lists, in their median order. */
function typicalOf(ways: readonly (readonly RecordedCall[])[]): RecordedCall[] {
  const byFunction = new Map<string, { readonly call: RecordedCall; readonly ranks: number[] }>()
  for (const way of ways)
    for (const [rank, call] of way.entries()) {
      const key = `${call.file}:${call.node.pos}`
      const known = byFunction.get(key) ?? { call, ranks: [] }
      known.ranks.push(rank)
      byFunction.set(key, known)
    }
  return [...byFunction.values()]
    .filter(({ ranks }) => ranks.length >= ways.length * typicalShare)
    .toSorted((a, b) => medianOf(a.ranks) - medianOf(b.ranks))
    .map(({ call }) => call)
}

function medianOf(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0
}

/** Returns the files and the types of a description, sorted: the order of calls that run at the same time changes from run to run. */
export function namesIn(page: string): { readonly files: string[]; readonly types: string[] } {
  const text = markers.exec(page)?.[0] ?? ''
  const rows = [...text.matchAll(/^\| `([^`]+)` \| (.*) \|$/gm)]
  const files = rows.flatMap(([, room, names = '']) =>
    [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => `${room}/${name}`),
  )
  const types = [...text.matchAll(/`\w+` \([\w/]+\)/g)].map(([type]) => type)
  return { files: files.toSorted(), types: types.toSorted() }
}
