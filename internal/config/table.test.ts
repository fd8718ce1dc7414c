import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { settings } from './settings.ts'
import { configTable } from './table.ts'

const readme = new URL('../../README.md', import.meta.url)

test('the table holds one row a setting, with its default', () => {
  const rows = configTable().split('\n').slice(2)
  expect(rows).toHaveLength(Object.keys(settings).length)
  for (const row of rows) expect(row.split(/(?<!\\)\|/)).toHaveLength(7)
  expect(rows[0]).toBe(
    '| `LATCHKEY_API_PORT` | port | `8080` | api, dev | Port of the public routes, `/v1/…`. |',
  )
  expect(configTable()).toContain(
    '| `LATCHKEY_KEY_RING` | id:base64 of 32 bytes, comma separated | required; dev: ',
  )
})

test('the README shows this table between its markers', () => {
  const shown = /<!-- config:begin -->\n+([\s\S]*?)\n+<!-- config:end -->/.exec(
    readFileSync(readme, 'utf8'),
  )?.[1]
  // When it differs: run npm run generate.
  expect(shown).toBe(configTable())
})
