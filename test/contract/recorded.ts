import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { EventTypeSamples } from './event-types.ts'
import type { Surface } from './surface.ts'

/** Folder with the surface of the last released version; until there is a release, of the git tree in `previous-version.ts`. */
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

/** Reads the recorded types of events. */
export function readRecordedTypes(): EventTypeSamples {
  return readPart('types') as EventTypeSamples
}

function readPart(part: string): unknown {
  return JSON.parse(readFileSync(join(recordedFolder, `${part}.json`), 'utf8'))
}
