import type { Actor } from '#internal/access/index.ts'
import { pageItemsDefault, pageItemsMax, type TenantId } from '#internal/base/index.ts'
import type { pageAnswer, ValueOf } from './http-schemas.ts'
import { invalid, type Outcome, ok, type Refusal } from './outcome.ts'
import type { SharedDeskParts } from './parts.ts'
import { type ListScope, reachList, type TenantSelection } from './reach.ts'

/**
 * One page of a list, for keyset pagination. A page with fewer items than its limit, or none, can still have a cursor: the search then
 * stopped at its row limit, and the next page continues from there.
 */
export type Page<Item> = ValueOf<ReturnType<typeof pageAnswer<Item>>>

export interface PageRequest {
  /** `next` of the previous page. */
  readonly after?: string | undefined
  /** Items per page, 1 to 100. Default 50. */
  readonly limit?: number | undefined
}

/** Sort key of a row: an id or another unique value. Sort keys of different tenants can be compared with each other. */
type Position = string | number

export interface ReadPage<At> {
  readonly after: At | undefined
  readonly limit: number
}

/** Parses a cursor: the position at which the previous page ended. It grants no access: every page checks the actor's rights again. */
export function readPage<At>(
  { after, limit = pageItemsDefault }: PageRequest,
  parse: (text: string) => At | undefined,
): Outcome<ReadPage<At>> {
  if (!Number.isInteger(limit) || limit < 1 || limit > pageItemsMax)
    return invalid(`A page has 1 to ${pageItemsMax} items`)
  const position = after === undefined ? undefined : parse(after)
  return after !== undefined && position === undefined
    ? invalid('is not a cursor of this list: begin with the first page', 'after')
    : ok({ after: position, limit })
}

export function pageFrom<Item>(items: readonly Item[], next: Position | undefined): Outcome<Page<Item>> {
  return ok({ items, next: next?.toString() })
}

/** Parses a positive integer. Returns undefined for any other text. */
export function parseIntegerPosition(text: string): number | undefined {
  const position = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : undefined
  return Number.isSafeInteger(position) ? position : undefined
}

/** Rows after a position, and the position at which the search stopped. */
interface Slice<Item, At> {
  readonly items: readonly Item[]
  readonly next: At | undefined
}

/** Source of a list that can cover several tenants, newest first. */
interface ListSource<Item, At> {
  readonly parse: (text: string) => At | undefined
  readonly positionOf: (item: Item) => At
  /** Returns a refusal if a page of all tenants cannot be read now. */
  readonly refuseAll?: (() => Refusal | undefined) | undefined
  /** Reads rows of one tenant, or of all tenants without `tenantId`. `tenants`: number of queries that share the page. */
  readonly read: (
    page: ReadPage<At> & { readonly tenantId?: TenantId },
    tenants: number,
  ) => Promise<Slice<Item, At>>
}

/** Reads a page of the selected tenants that the actor sees. @throws errors of `read` */
export async function listPage<Item, At extends Position>(
  parts: SharedDeskParts,
  actor: Actor,
  request: PageRequest & TenantSelection,
  source: ListSource<Item, At>,
): Promise<Outcome<Page<Item>>> {
  const page = readPage(request, source.parse)
  if (page.kind !== 'ok') return page
  const scope = await reachList(parts, actor, request)
  if (scope.kind !== 'ok') return scope
  const refusal = scope.value.kind === 'all' ? source.refuseAll?.() : undefined
  if (refusal !== undefined) return refusal
  const { items, next } = await readScope(scope.value, page.value, source)
  return pageFrom(items, next)
}

function readScope<Item, At extends Position>(
  scope: ListScope,
  page: ReadPage<At>,
  { positionOf, read }: ListSource<Item, At>,
): Promise<Slice<Item, At>> {
  if (scope.kind === 'all') return read(page, 1)
  const { tenantIds } = scope
  const list = (tenantId: TenantId) => read({ ...page, tenantId }, Math.max(1, tenantIds.length))
  return mergePages({ tenantIds, limit: page.limit, positionOf, list })
}

const parallelMax = 4

/** Merges pages of several tenants, newest first. Queries four tenants at a time. @throws errors of `list` */
export async function mergePages<Item, At extends Position>({
  tenantIds,
  limit,
  positionOf,
  list,
}: {
  readonly tenantIds: readonly TenantId[]
  readonly limit: number
  readonly positionOf: (item: Item) => At
  readonly list: (tenantId: TenantId) => Promise<Slice<Item, At>>
}): Promise<Slice<Item, At>> {
  const pages: Slice<Item, At>[] = []
  for (let start = 0; start < tenantIds.length; start += parallelMax)
    pages.push(...(await Promise.all(tenantIds.slice(start, start + parallelMax).map(list))))
  const ends = pages.flatMap(({ next }) => (next === undefined ? [] : [next]))
  // Some searches stopped early. The page ends at the newest of these positions, because further rows of that tenant are unknown.
  const searchedTo = ends.reduce<At | undefined>(
    (latest, end) => (latest === undefined || end > latest ? end : latest),
    undefined,
  )
  const items = pages
    .flatMap((page) => page.items)
    .filter((item) => searchedTo === undefined || positionOf(item) >= searchedTo)
    .sort((one, other) => (positionOf(one) < positionOf(other) ? 1 : -1))
  if (items.length <= limit) return { items, next: searchedTo }
  const last = items[limit - 1]
  return { items: items.slice(0, limit), next: last && positionOf(last) }
}
