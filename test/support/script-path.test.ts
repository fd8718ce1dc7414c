import { expect, test } from 'bun:test'
import { realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import { createScriptLab } from './script-path.ts'
import { storesRoot } from './stores-root.ts'

const variable = 'LATCHKEY_TEST_STORES_DIR'

test('programs are among temporary files, wherever stores are', () => {
  const before = process.env[variable]
  const lab = createScriptLab('unused')
  try {
    process.env[variable] = '/elsewhere'
    expect(storesRoot()).toBe('/elsewhere')
    expect(dirname(lab.pathWith({}))).toBe(realpathSync(tmpdir()))
  } finally {
    lab.clear()
    // Empty is as good as absent.
    process.env[variable] = before ?? ''
  }
})
