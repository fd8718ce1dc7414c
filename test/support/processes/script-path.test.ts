import { expect, test } from 'bun:test'
import { realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import { storesRoot } from '../stores/stores-root.ts'
import { createScriptLab } from './script-path.ts'

const variable = 'LATCHKEY_TEST_STORES_DIR'

test('script lab: puts its programs into the temporary folder, even if the test stores use another folder', () => {
  const before = process.env[variable]
  const lab = createScriptLab('unused')
  try {
    process.env[variable] = '/elsewhere'
    expect(storesRoot()).toBe('/elsewhere')
    expect(dirname(lab.pathWith({}))).toBe(realpathSync(tmpdir()))
  } finally {
    lab.clear()
    if (before === undefined) delete process.env[variable]
    else process.env[variable] = before
  }
})
