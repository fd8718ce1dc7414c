import { expect, test } from 'bun:test'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { createStatsNote } from './demo.ts'

const untilMs = Date.parse('2026-11-21T23:40:10Z')
const tenantId = someTenantId()

test('stats note: returns no note before a sample history was generated', () => {
  expect(createStatsNote().note({ fromMs: 0, tenantId })).toBeUndefined()
})

test.each([
  ['the tenant of the generated history', { fromMs: untilMs - 1, tenantId }, true],
  ['all tenants', { fromMs: untilMs - 1 }, true],
  ['a time after the generated history', { fromMs: untilMs }, false],
  ['another tenant', { fromMs: untilMs - 1, tenantId: someTenantId() }, false],
])(
  'stats note: for %s, returns a note only if the charts contain generated data',
  (_case, shown, isShown) => {
    const { note, know } = createStatsNote()
    know(tenantId, untilMs)
    expect(note(shown)?.title).toBe(
      isShown ? 'Stats from before 2026-11-21 23:40 UTC are made up' : undefined,
    )
  },
)
