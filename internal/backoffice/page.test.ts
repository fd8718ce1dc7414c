import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { TenantId } from '#internal/base/index.ts'
import { mergePages } from './page.ts'

interface Row {
  readonly at: number
  readonly of: string
}

/** A page of one tenant whose search stops at its bound, like that of a filter without an index. */
function pageOf(
  rows: readonly Row[],
  before: number,
  { limit, examined }: { limit: number; examined: number },
) {
  const rest = rows.filter(({ at }) => at < before).slice(0, examined)
  const items = rest.filter(({ at }) => at % 3 !== 0).slice(0, limit)
  const last = items.length === limit ? items.at(-1) : rest.at(-1)
  const hasMore = last !== undefined && rows.some(({ at }) => at < last.at)
  return { items, next: hasMore ? last.at : undefined }
}

test('mergePages: returns every matching row once, newest first, when the searches of tenants stop at different positions', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.record({ at: fc.nat(400), tenant: fc.nat(6) }), {
        selector: ({ at }) => at,
        maxLength: 120,
      }),
      fc.integer({ min: 1, max: 9 }),
      fc.integer({ min: 9, max: 30 }),
      async (given, limit, examined) => {
        const rows = given.map(({ at, tenant }) => ({ at, of: `t${tenant}` })).sort((a, b) => b.at - a.at)
        const tenantIds = [...new Set(rows.map(({ of }) => of))] as unknown as TenantId[]
        const seen: number[] = []
        let before: number | undefined = Number.MAX_SAFE_INTEGER
        for (let pages = 0; before !== undefined; pages += 1) {
          expect(pages).toBeLessThanOrEqual(rows.length + 1)
          const from: number = before
          const page: { items: readonly Row[]; next: number | undefined } = await mergePages<Row, number>({
            tenantIds,
            limit,
            positionOf: ({ at }) => at,
            list: async (id) =>
              pageOf(
                rows.filter(({ of }) => of === (id as string)),
                from,
                { limit, examined },
              ),
          })
          expect(page.items.length).toBeLessThanOrEqual(limit)
          seen.push(...page.items.map(({ at }) => at))
          before = page.next
        }
        expect(seen).toEqual(rows.map(({ at }) => at).filter((at) => at % 3 !== 0))
      },
    ),
    { numRuns: 200 },
  )
})

test('mergePages: returns an empty page and runs no query if there are no tenants', async () => {
  const page = await mergePages<Row, number>({
    tenantIds: [],
    limit: 5,
    positionOf: ({ at }) => at,
    list: () => Promise.reject(new Error('no query was expected')),
  })
  expect(page).toEqual({ items: [], next: undefined })
})
