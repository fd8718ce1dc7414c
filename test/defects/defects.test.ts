import { expect, test } from 'bun:test'
import { findPlace, readDefects, repositoryFiles } from './defects.ts'

const defects = readDefects()
const files = repositoryFiles()

test('seeded defects: ids are unique', () => {
  expect(defects.length).toBeGreaterThanOrEqual(30)
  expect(new Set(defects.map(({ id }) => id)).size).toBe(defects.length)
})

test.each(defects)('seeded defects: $id refers to exactly one source line and to a test file', (defect) => {
  expect(findPlace(defect, files)).toMatchObject({ kind: 'found' })
  expect(defect.put).not.toBe(defect.find)
})

const [some] = defects

test.each([
  ['a file that has moved', { file: 'internal/events/moved.ts' }, 'found'],
  ['a test file that has moved', { test: 'internal/moved/claim.test.ts' }, 'found'],
  ['a line that is gone', { find: 'no source has this text' }, 'lost'],
  ['a text that several lines have', { find: 'import' }, 'lost'],
  ['a test file that is gone', { test: 'internal/events/gone.test.ts' }, 'lost'],
])('seeded defects: %s', (_case, change, kind) => {
  expect(some).toBeDefined()
  if (some) expect(findPlace({ ...some, ...change }, files)).toMatchObject({ kind })
})
