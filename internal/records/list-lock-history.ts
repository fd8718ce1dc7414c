import {
  and,
  between,
  count,
  eq,
  getTableColumns,
  getTableName,
  gt,
  gte,
  lt,
  lte,
  or,
  type SQL,
  sql,
} from 'drizzle-orm'
import { type Day, dayAfter, expectPageLimit, type TenantId } from '#internal/base/index.ts'
import { orm, type Pool } from '#internal/storage/index.ts'
import {
  acquiredAtMsOf,
  describeLock,
  type Ending,
  joinFacts,
  type LockFacts,
  type LockHistoryEntry,
  type LockState,
} from './lock-history.ts'
import { lockHistory } from './tables.ts'

/** A filter by key also needs the scope. */
export type LockHistoryFilter = {
  readonly tenantId: TenantId
  readonly state?: LockState | undefined
  /** Inclusive minimum time of acquisition. */
  readonly fromMs?: number | undefined
  /** Exclusive maximum time of acquisition. */
  readonly toMs?: number | undefined
  /** Exclusive maximum fence: `next` of the previous page. */
  readonly after?: number | undefined
  /** Page size from 1 to 100. */
  readonly limit: number
} & (
  | { readonly scope: string; readonly key?: string | undefined }
  | { readonly scope?: undefined; readonly key?: undefined }
)

/** Maximum retention in the CRD schema. */
const daysMax = 90
const fenceMax = Number.MAX_SAFE_INTEGER
/** Latest time that a fence can represent, in the year 2255. */
const msMax = acquiredAtMsOf(fenceMax)
/** Maximum rows that a page examines if no index covers its filter. A scope with at most this many rows is read completely. */
const examinedMax = 2_000

/**
 * Lists a tenant's lock history by keyset pagination, latest acquisition first. New entries appear after about a second, because they are
 * buffered. A page examines a limited number of rows, so it can have fewer than `limit` entries, even none, and still have `next`. Needs a
 * pool with `enable_seqscan` off, so that the planner uses indexes.
 * @param nowMs decides whether a lock is still held
 * @throws RangeError for an invalid limit
 */
export async function listLockHistory(
  pool: Pool,
  filter: LockHistoryFilter,
  nowMs: number,
): Promise<{
  readonly entries: readonly LockHistoryEntry[]
  /** Fence of the last examined row; set if more entries can follow. */
  readonly next?: number
}> {
  const { limit, scope, key } = filter
  expectPageLimit(limit, 'lock history')
  const selection = selectionOf(filter, nowMs)
  const isShort = scope !== undefined && key === undefined && (await isScopeShort(pool, selection))
  const query = isShort ? selectOfShortScope(pool, selection) : selectByIndex(pool, selection)
  const rows = await query.prepare(nameOf(query)).execute()
  const page = rows.slice(0, limit)
  const meant = page.filter(({ isMeant }) => isMeant).map(({ facts }) => facts)
  const entries = joinNeighbours(meant).map((facts) => describeLock(facts, nowMs))
  const last = page.at(-1)
  if (!last || (rows.length <= limit && !last.isEdge)) return { entries }
  return { entries, next: last.facts.fence }
}

/** Derives the name of a prepared statement from its text. There are about a dozen texts, and each session plans each once. */
function nameOf(query: { toSQL(): { readonly sql: string } }): string {
  return `lock_history_${Bun.hash(query.toSQL().sql).toString(36)}`
}

interface Selection {
  readonly tenantId: TenantId
  readonly scope: string | undefined
  readonly key: string | undefined
  readonly state: LockState | undefined
  readonly nowMs: number
  /** Inclusive minimum. */
  readonly lowFence: number
  /** Exclusive maximum. */
  readonly highFence: number
  readonly days: readonly [first: Day, last: Day]
  readonly rowsMax: number
}

function selectionOf(filter: LockHistoryFilter, nowMs: number): Selection {
  const { tenantId, scope, key, state, fromMs = 0, toMs = msMax, after = fenceMax, limit } = filter
  const [firstMs, endMs] = [clamp(fromMs), clamp(toMs)]
  const highFence = Math.min(endMs * 1000, after)
  const days = [dayAfter(firstMs, 1), dayAfter(acquiredAtMsOf(highFence), daysMax)] as const
  return { tenantId, scope, key, state, nowMs, lowFence: firstMs * 1000, highFence, days, rowsMax: limit + 1 }
}

function clamp(ms: number): number {
  return Math.min(Math.max(Math.floor(ms), 0), msMax)
}

/** Joins the rows of a lock that has two, in different partitions, because the tenant's retention changed before the lock ended. */
function joinNeighbours(page: readonly LockFacts[]): LockFacts[] {
  const joined: LockFacts[] = []
  for (const facts of page) {
    const before = joined.at(-1)
    if (before?.fence === facts.fence) joined[joined.length - 1] = joinFacts(before, facts)
    else joined.push(facts)
  }
  return joined
}

// The subqueries below have the table's name as alias, so that these columns also refer to them.
const { tenantId: _tenantId, expiresOn: _expiresOn, ...facts } = getTableColumns(lockHistory)
const alias = getTableName(lockHistory)

function isInScope({ tenantId, scope = '', days }: Selection): SQL | undefined {
  const { tenantId: owner, scope: name, expiresOn } = lockHistory
  return and(eq(owner, tenantId), eq(name, scope), between(expiresOn, ...days))
}

/** Returns whether the scope has at most `examinedMax` rows in the selected days. */
async function isScopeShort(pool: Pool, selection: Selection): Promise<boolean> {
  const { key, fence } = lockHistory
  const db = orm(pool)
  const held = db
    .select({ key })
    .from(lockHistory)
    .where(isInScope(selection))
    .orderBy(key, fence)
    .limit(examinedMax + 1)
  const counted = db.select({ rows: count() }).from(held.as(alias))
  const [found] = await counted.prepare(nameOf(counted)).execute()
  return (found?.rows ?? 0) <= examinedMax
}

/** Reads a short scope completely and sorts it, because the scope's only index has another order. */
function selectOfShortScope(pool: Pool, selection: Selection) {
  const { key, fence } = lockHistory
  const db = orm(pool)
  // Twice the maximum of a short scope, because the scope can have grown since the count.
  const held = db
    .select()
    .from(lockHistory)
    .where(isInScope(selection))
    .orderBy(key, fence)
    .limit(2 * examinedMax)
  const isFound = and(
    gte(fence, selection.lowFence),
    lt(fence, selection.highFence),
    hasEnding(selection),
    isHeldAsAsked(selection),
  )
  return db
    .select({ facts, isMeant: sql<boolean>`true`, isEdge: sql<boolean>`false` })
    .from(held.as(alias))
    .where(isFound)
    .orderBy(sql`fence DESC`)
    .limit(selection.rowsMax)
}

/**
 * Walks one index in the order of fences, latest first: the primary key, the index of a scope and key, or the index of rows that are not
 * completed. Checks conditions that the index does not cover on at most `examinedMax` rows, and then always returns the last examined row
 * (`isEdge`), so that the next page continues after it. `isMeant`: the row matches the filter.
 */
function selectByIndex(pool: Pool, selection: Selection) {
  const { tenantId, scope, key, lowFence, highFence, days } = selection
  const db = orm(pool)
  const ending = endingOf(selection)
  const hasKey = scope !== undefined && key !== undefined
  const isUncompleted = !hasKey && ending !== undefined && ending !== 'completed'
  const keys: [name: string, value: string][] = [['tenant_id', tenantId]]
  if (hasKey) keys.push(['scope', scope], ['key', key])
  if (isUncompleted) keys.push(['ending', ending])
  // Comparison and order use the same row value, which makes the planner choose this index.
  const names = [...keys.map(([name]) => name), 'fence']
  const row = sql.raw(`(${names.join(', ')})`)
  const bound = (fence: number) =>
    sql.join([...keys.map(([, value]) => sql`${value}`), sql`${fence}`], sql`, `)
  const order = sql.raw(names.map((name) => `${name} DESC`).join(', '))
  const isInRange = and(
    sql`${row} >= (${bound(lowFence)}) AND ${row} < (${bound(highFence)})`,
    between(lockHistory.expiresOn, ...days),
    // Lets the planner use the partial index.
    isUncompleted ? sql`ending <> 'completed'` : undefined,
  )
  const nth = sql`row_number() OVER (ORDER BY ${order})`.mapWith(Number).as('nth')
  const examined = db
    .select({ ...getTableColumns(lockHistory), nth })
    .from(lockHistory)
    .where(isInRange)
    .orderBy(order)
    .limit(examinedMax)
    .as(alias)
  const isMeant =
    and(
      scope === undefined || hasKey ? undefined : eq(lockHistory.scope, scope),
      isUncompleted ? undefined : hasEnding(selection),
      isHeldAsAsked(selection),
    ) ?? sql`true`
  const isEdge = eq(examined.nth, examinedMax)
  return db
    .select({ facts, isMeant: sql<boolean>`(${isMeant}) IS TRUE`, isEdge: sql<boolean>`${isEdge}` })
    .from(examined)
    .where(or(isMeant, isEdge))
    .orderBy(order)
    .limit(selection.rowsMax)
}

function endingOf({ state }: Selection): Ending | undefined {
  return state === 'running' || state === 'expired' ? 'open' : state
}

function hasEnding(selection: Selection): SQL | undefined {
  const ending = endingOf(selection)
  return ending && eq(lockHistory.ending, ending)
}

/** Condition for `running` and `expired`, which depend on the clock and are not stored. */
function isHeldAsAsked({ state, nowMs }: Selection): SQL | undefined {
  if (state === 'running') return gt(lockHistory.expiresAtMs, nowMs)
  return state === 'expired' ? lte(lockHistory.expiresAtMs, nowMs) : undefined
}
