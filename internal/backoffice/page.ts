import type { Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { invalid, type Outcome, ok } from './outcome.ts'
import type { DeskParts } from './parts.ts'
import { type ListScope, reachList, type TenantSelection } from './reach.ts'

/** One page of a list in keyset order. */
export interface Page<Item> {
  readonly items: readonly Item[]
  /**
   * Cursor of the next page, for `after`; undefined at the end. A page shorter than its limit, even an empty one, may have it: the
   * search stopped at its bound and continues there.
   */
  readonly next: string | undefined
}

/** Position and size of a page. */
export interface PageRequest {
  /** `next` of the previous page. */
  readonly after?: string | undefined
  /** 1 to 100, default 50. */
  readonly limit?: number | undefined
}

/** Place in a list: an id or another unique key. Positions of one list are ordered alike for all tenants. */
type Position = string | number

/** A page request after validation. */
export interface ReadPage<At> {
  /** Undefined for the first page. */
  readonly after: At | undefined
  readonly limit: number
}

const limitMax = 100
const limitDefault = 50

/**
 * Validates a page request. A cursor is the text of the position where the previous page ended, written by `pageFrom`. It grants no
 * access: every page checks the actor's rights again.
 */
export function readPage<At>(
  { after, limit = limitDefault }: PageRequest,
  parse: (text: string) => At | undefined,
): Outcome<ReadPage<At>> {
  if (!Number.isInteger(limit) || limit < 1 || limit > limitMax)
    return invalid(`A page has 1 to ${limitMax} items`)
  const position = after === undefined ? undefined : parse(after)
  return after !== undefined && position === undefined
    ? invalid('Unknown cursor: begin with the first page')
    : ok({ after: position, limit })
}

/** Makes a page with the cursor of the next one. */
export function pageFrom<Item>(items: readonly Item[], next: Position | undefined): Outcome<Page<Item>> {
  return ok({ items, next: next?.toString() })
}

/** Parses a position that is a positive integer. */
export function parseIntegerPosition(text: string): number | undefined {
  const position = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : undefined
  return Number.isSafeInteger(position) ? position : undefined
}

/** Rows of one tenant, or of all, after a position, and where the search ended. */
interface Slice<Item, At> {
  readonly items: readonly Item[]
  readonly next: At | undefined
}

/** Source of a list that can cover several tenants, newest first. */
interface ListSource<Item, At> {
  readonly parse: (text: string) => At | undefined
  readonly positionOf: (item: Item) => At
  /** Problem of a list that covers all tenants in one query. Omit to allow it. */
  readonly allProblem?: string
  /** `tenants` is the number of tenants that share the page; 1 for all tenants in one query. */
  readonly read: (
    page: ReadPage<At> & { readonly tenantId?: TenantId },
    tenants: number,
  ) => Promise<Slice<Item, At>>
}

/** Lists one page of all rows that the selection covers and the actor sees. @throws errors of `read` */
export async function listPage<Item, At extends Position>(
  parts: DeskParts,
  actor: Actor,
  request: PageRequest & TenantSelection,
  source: ListSource<Item, At>,
): Promise<Outcome<Page<Item>>> {
  const page = readPage(request, source.parse)
  if (page.kind !== 'ok') return page
  const scope = await reachList(parts, actor, request)
  if (scope.kind !== 'ok') return scope
  if (scope.value.kind === 'all' && source.allProblem !== undefined) return invalid(source.allProblem)
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

/** Merges the pages of several tenants into one, newest first. Queries four tenants at a time. @throws errors of `list` */
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
  // The page ends where the shortest search ended: beyond it rows may be missing.
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
