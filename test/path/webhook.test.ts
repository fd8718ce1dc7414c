import { expect, test } from 'bun:test'
import { describePath, measurePath, namesIn, readmePath, withPath } from './path.ts'

/** The test starts two processes from source, and knows the types of all files on the way. */
const testMsMax = 120_000

test(
  'path: internal/README.md lists the files and types that a webhook passes through; otherwise run npm run path -- webhook --write',
  async () => {
    const readme = await Bun.file(readmePath).text()
    const measured = namesIn(withPath(readme, describePath(await measurePath())))
    expect(measured.files.length).toBeGreaterThan(20)
    expect(namesIn(readme)).toEqual(measured)
  },
  testMsMax,
)
