// Records the surface of the current sources for a release: npm run record
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readEventTypes } from './event-types.ts'
import { jsonText } from './plain.ts'
import { recordedFolder } from './recorded.ts'
import { readSurface } from './surface.ts'

mkdirSync(recordedFolder, { recursive: true })
for (const [name, part] of Object.entries({ ...(await readSurface()), types: readEventTypes() })) {
  const path = join(recordedFolder, `${name}.json`)
  writeFileSync(path, `${jsonText(part)}\n`)
  console.log(path)
}
