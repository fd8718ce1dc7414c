// Preloaded into a process: loads the marked sources, and records the first and the last call of each of their functions.
import { readFileSync } from 'node:fs'
import { plugin } from 'bun'

const marked = JSON.parse(readFileSync(process.env['MARKED_SOURCES'] ?? '', 'utf8')) as Record<string, string>
// Removes the variable, because a process reads its settings from the whole environment.
delete process.env['MARKED_SOURCES']
let calls = new Map<number, { readonly first: number; last: number }>()
let count = 0

Object.assign(globalThis, {
  latchkeyCalled(number: number) {
    count += 1
    const before = calls.get(number)
    if (before) before.last = count
    else calls.set(number, { first: count, last: count })
  },
})

plugin({
  name: 'marked sources',
  setup(build) {
    build.onLoad({ filter: /\/(cmd|internal)\/.+\.tsx?$/ }, async ({ path }) => ({
      contents: marked[path] ?? (await Bun.file(path).text()),
      loader: path.endsWith('x') ? 'tsx' : 'ts',
    }))
  },
})

// Any message requests the calls since the previous message.
process.on('message', () => {
  process.send?.([...calls].map(([number, { first, last }]) => [number, first, last]))
  calls = new Map()
  count = 0
})
