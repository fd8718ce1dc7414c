import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { EventTypeSamples } from './event-types.ts'
import type { Surface } from './surface.ts'

/** Folder with the surface of version N−1: of the last release; until there is one, of a commit whose baseline has the same tables. */
export const recordedFolder: string = join(import.meta.dir, 'recorded')

const parts: readonly (keyof Surface)[] = [
  'public',
  'internal',
  'tenant',
  'policy',
  'metrics',
  'settings',
  'values',
  'commands',
  'names',
]

/** Reads the recorded surface. */
export function readRecorded(): Surface {
  return Object.fromEntries(parts.map((part) => [part, readPart(part)])) as unknown as Surface
}

/** Reads the id of the git tree that was recorded. A tree and not a commit, since a rewritten history keeps its trees. */
export function readRecordedTree(): string {
  return readPart('tree') as string
}

/** Reads the recorded types of events. */
export function readRecordedTypes(): EventTypeSamples {
  return readPart('types') as EventTypeSamples
}

function readPart(part: string): unknown {
  return JSON.parse(readFileSync(join(recordedFolder, `${part}.json`), 'utf8'))
}
