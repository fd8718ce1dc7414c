import { expect, test } from 'bun:test'
import { someTenantId } from '#test/support/directory-tenant.ts'
import { createStatsNote } from './demo.ts'

const untilMs = Date.parse('2026-11-21T23:40:10Z')
const tenantId = someTenantId()

test('stats note: absent before any history was made up', () => {
  expect(createStatsNote().note({ fromMs: 0, tenantId })).toBeUndefined()
})

test.each([
  ['the tenant of the made-up history', { fromMs: untilMs - 1, tenantId }, true],
  ['all tenants', { fromMs: untilMs - 1 }, true],
  ['a time after the made-up history', { fromMs: untilMs }, false],
  ['another tenant', { fromMs: untilMs - 1, tenantId: someTenantId() }, false],
])('stats note for %s: shown only where stats are made up', (_case, shown, isShown) => {
  const { note, know } = createStatsNote()
  know(tenantId, untilMs)
  expect(note(shown)?.title).toBe(isShown ? 'Stats from before 2026-11-21 23:40 UTC are made up' : undefined)
})
