import { expect, test } from 'bun:test'
import { someTenantId } from '#test/support/directory-tenant.ts'
import { createFiguresNote } from './figures-note.ts'

const untilMs = Date.parse('2026-11-21T23:40:10Z')
const tenantId = someTenantId()

test('nothing is said before anything was made up', () => {
  expect(createFiguresNote().note({ fromMs: 0, tenantId })).toBeUndefined()
})

test.each([
  ['its tenant', { fromMs: untilMs - 1, tenantId }, true],
  ['all tenants', { fromMs: untilMs - 1 }, true],
  ['a time in which nothing was made up', { fromMs: untilMs }, false],
  ['another tenant', { fromMs: untilMs - 1, tenantId: someTenantId() }, false],
])('of figures of %s it is said only where some of them are made up', (_of, shown, isSaid) => {
  const { note, know } = createFiguresNote()
  know(tenantId, untilMs)
  expect(note(shown)?.title).toBe(isSaid ? 'Figures from before 2026-11-21 23:40 UTC are made up' : undefined)
})
