import type { TenantId } from '#internal/base/index.ts'
import type { ListScope } from './reach.ts'

/** A page of one tenant's rows, the latest first; `next` as in `Page`, by the position of a row. */
export interface TenantPage<Item, Position> {
  readonly items: readonly Item[]
  readonly next: Position | undefined
}

/** What is merged. Positions grow with time and are of one order for all tenants. */
export interface Merge<Item, Position> {
  readonly tenantIds: readonly TenantId[]
  readonly limit: number
  readonly positionOf: (item: Item) => Position
  /** The rows of one tenant that lie before where the page before ended. */
  readonly list: (tenantId: TenantId) => Promise<TenantPage<Item, Position>>
}

/** What one page is made of, whosever rows it has. */
export interface ScopedList<Item, Position> extends Omit<Merge<Item, Position>, 'tenantIds' | 'list'> {
  /** The rows of one tenant, or of all, that lie before where the page before ended. */
  readonly list: (tenantId?: TenantId) => Promise<TenantPage<Item, Position>>
}

/** Makes a page of all rows with one call, of some tenants' by merging theirs. @throws whatever `list` throws */
export function listInScope<Item, Position extends string | number>(
  scope: ListScope,
  { list, ...merge }: ScopedList<Item, Position>,
): Promise<TenantPage<Item, Position>> {
  if (scope.kind === 'all') return list()
  return mergePages({ ...merge, tenantIds: scope.tenantIds, list: (tenantId) => list(tenantId) })
}

const parallelMax = 4

/** Makes one page of the pages of several tenants, the latest first. Asks four at a time. @throws whatever `list` throws */
export async function mergePages<Item, Position extends string | number>(
  merge: Merge<Item, Position>,
): Promise<TenantPage<Item, Position>> {
  const { tenantIds, limit, positionOf, list } = merge
  const pages: TenantPage<Item, Position>[] = []
  for (let start = 0; start < tenantIds.length; start += parallelMax)
    pages.push(...(await Promise.all(tenantIds.slice(start, start + parallelMax).map(list))))
  const ends = pages.flatMap(({ next }) => (next === undefined ? [] : [next]))
  // Whoever was searched least far decides how far the page goes: what lies behind may be missing from it.
  const searchedTo = ends.reduce<Position | undefined>(
    (latest, end) => (latest === undefined || end > latest ? end : latest),
    undefined,
  )
  const items = pages
    .flatMap((page) => page.items)
    .filter((item) => searchedTo === undefined || positionOf(item) >= searchedTo)
    .sort((one, other) => (positionOf(one) < positionOf(other) ? 1 : -1))
  if (items.length <= limit) return { items, next: searchedTo }
  const page = items.slice(0, limit)
  const last = page.at(-1)
  return { items: page, next: last && positionOf(last) }
}
