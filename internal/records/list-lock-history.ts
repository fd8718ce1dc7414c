import { type Day, dayAfter, expectPageLimit, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import {
  acquiredAtMsOf,
  describeLock,
  type Ending,
  type LockFacts,
  type LockHistoryEntry,
  type LockState,
} from './lock-history.ts'
import { joinFacts } from './lock-history-notes.ts'

/** Filter of a tenant's lock history. A key needs its scope. */
export type LockHistoryFilter = {
  readonly tenantId: TenantId
  readonly state?: LockState | undefined
  /** Acquired at or after, in ms since the epoch. */
  readonly fromMs?: number | undefined
  /** Acquired before, in ms since the epoch. */
  readonly toMs?: number | undefined
  /** Lists entries with a smaller fence: `next` of the previous page. */
  readonly after?: number | undefined
  /** 1 to 100. */
  readonly limit: number
} & (
  | { readonly scope: string; readonly key?: string | undefined }
  | { readonly scope?: undefined; readonly key?: undefined }
)

/** A page of entries, the latest first. */
export interface LockHistoryPage {
  readonly entries: readonly LockHistoryEntry[]
  /** Fence of the last execution that was examined; set while there may be more. */
  readonly next?: number
}

/** Maximum retention of a tenant in days, as in the schema of the resource. */
const daysMax = 90
const fenceMax = Number.MAX_SAFE_INTEGER
/** The last moment that a fence can name, in 2255; days end there, too. */
const msMax = acquiredAtMsOf(fenceMax)

/**
 * Lists a tenant's entries, the latest acquired first. New ones come before the first page, so that later pages stay as they
 * are; those in memory are missing for a second. A page looks at a bounded number of rows: it may be shorter than `limit`, even
 * empty, and yet have a next one. Give it a pool whose sessions plan by indexes alone.
 * @param nowMs decides whether a lock is still held
 * @throws RangeError for a limit out of bounds
 */
export async function listLockHistory(
  pool: Pool,
  filter: LockHistoryFilter,
  nowMs: number,
): Promise<LockHistoryPage> {
  const { limit } = filter
  expectPageLimit(limit, 'lock history')
  const selection = selectionOf(filter, nowMs)
  const isShort =
    filter.scope !== undefined && filter.key === undefined && (await isScopeShort(pool, selection))
  const { rows } = await pool.query<FactsRow>(
    isShort ? selectOfShortScope(selection) : selectByIndex(selection),
  )
  const page = rows.slice(0, limit)
  const meant = page.filter(({ isMeant }) => isMeant).map(parseFacts)
  const entries = joinNeighbours(meant).map((facts) => describeLock(facts, nowMs))
  const last = page.at(-1)
  // Behind the last row that was looked at there may be more.
  if (!last || (rows.length <= limit && last.isEdge !== true)) return { entries }
  return { entries, next: last.fence }
}

interface FactsRow {
  readonly fence: number
  readonly scope: string
  readonly key: string
  readonly held_until: Date | null
  readonly extended_at: Date | null
  readonly ended_at: Date | null
  readonly ending: Ending
  readonly status: number | null
  readonly isMeant: boolean
  /** The last row that was looked at. */
  readonly isEdge?: boolean
}

async function isScopeShort(pool: Pool, selection: LockHistorySelection): Promise<boolean> {
  const { rows } = await pool.query<{ readonly count: number }>(countScope(selection))
  return (rows[0]?.count ?? 0) <= examinedMax
}

/** The days leave out partitions that cannot hold what is asked for. */
function selectionOf(filter: LockHistoryFilter, nowMs: number): LockHistorySelection {
  const { tenantId, scope, key, state } = filter
  const fromMs = clamp(filter.fromMs ?? 0)
  const toMs = clamp(filter.toMs ?? msMax)
  const highFence = Math.min(toMs * 1000, filter.after ?? fenceMax)
  return {
    ...{ tenantId, scope, key, state, nowMs },
    lowFence: fromMs * 1000,
    highFence,
    firstDay: dayAfter(fromMs, 1),
    lastDay: dayAfter(acquiredAtMsOf(highFence), daysMax),
    rowsMax: filter.limit + 1,
  }
}

function clamp(ms: number): number {
  return Math.min(Math.max(Math.floor(ms), 0), msMax)
}

function parseFacts(row: FactsRow): LockFacts {
  const { fence, scope, key, ending, status } = row
  return {
    fence,
    scope,
    key,
    heldUntilMs: row.held_until?.getTime() ?? null,
    extendedAtMs: row.extended_at?.getTime() ?? null,
    endedAtMs: row.ended_at?.getTime() ?? null,
    ending,
    status,
  }
}

/** A tenant whose days were changed between a lock's beginning and its end has the two in different partitions. */
function joinNeighbours(page: readonly LockFacts[]): LockFacts[] {
  const joined: LockFacts[] = []
  for (const facts of page) {
    const before = joined.at(-1)
    if (before?.fence === facts.fence) joined[joined.length - 1] = joinFacts(before, facts)
    else joined.push(facts)
  }
  return joined
}

/**
 * Rows that a page looks at where no index knows all of what it asks for; what is narrower comes in more pages. A scope that has no
 * more of them is read whole.
 */
export const examinedMax = 2_000

/** Selection of the rows of a page. */
export interface LockHistorySelection {
  readonly tenantId: TenantId
  readonly scope: string | undefined
  readonly key: string | undefined
  readonly state: LockState | undefined
  /** The first fence. */
  readonly lowFence: number
  /** Behind the last fence. */
  readonly highFence: number
  /** Partitions of other days are left out. */
  readonly firstDay: Day
  readonly lastDay: Day
  readonly rowsMax: number
  readonly nowMs: number
}

/** A statement, prepared under a name of its own so that its session plans it once. There are a dozen of texts. */
export interface Statement {
  readonly name: string
  readonly text: string
  readonly values: unknown[]
}

const columns = 'fence, scope, key, held_until, extended_at, ended_at, ending, status'

/** Collects the parameters of one statement. */
class Parameters {
  readonly values: unknown[] = []

  /** Its place in the statement. */
  add(value: unknown): string {
    return `$${this.values.push(value)}`
  }
}

/** Counts the rows of a scope in the selection's days, up to one more than `examinedMax`. A read, no locks. */
export function countScope({ tenantId, scope, firstDay, lastDay }: LockHistorySelection): Statement {
  const parameters = new Parameters()
  const where = scopeCondition({ tenantId, scope, firstDay, lastDay }, parameters)
  return statement(
    `SELECT count(*) AS count FROM (
      SELECT FROM executions WHERE ${where} ORDER BY key, fence LIMIT ${examinedMax + 1}) AS held`,
    parameters,
  )
}

/**
 * Reads a scope that is short whole, since the only index that knows it has another order, and sorts it. Each row `isMeant`.
 * A read, no locks.
 */
export function selectOfShortScope(selection: LockHistorySelection): Statement {
  const parameters = new Parameters()
  // What was short when it was counted may have grown.
  const whole = `SELECT ${columns} FROM executions WHERE ${scopeCondition(selection, parameters)} ORDER BY key, fence LIMIT ${2 * examinedMax}`
  const conditions = [
    `fence >= ${parameters.add(selection.lowFence)} AND fence < ${parameters.add(selection.highFence)}`,
    ...endingConditions(selection.state, parameters),
    ...holdingConditions(selection, parameters),
  ]
  return statement(
    `WITH held AS MATERIALIZED (${whole}) SELECT ${columns}, true AS "isMeant" FROM held
      WHERE ${conditions.join(' AND ')} ORDER BY fence DESC LIMIT ${parameters.add(selection.rowsMax)}::bigint`,
    parameters,
  )
}

/**
 * Walks one index in the order of fences, the latest first: the primary key, that of a scope and key, or that of what is not
 * completed. What the index does not know is asked of `examinedMax` rows; the last of these comes along in any case, so that it is
 * told how far that was, and `isMeant` tells which rows are asked for. A read, no locks.
 */
export function selectByIndex(selection: LockHistorySelection): Statement {
  const { tenantId, scope, key, state, lowFence, highFence, firstDay, lastDay, rowsMax } = selection
  const parameters = new Parameters()
  const ending = endingOf(state)
  const hasKey = scope !== undefined && key !== undefined
  const isUncompleted = !hasKey && ending !== undefined && ending !== 'completed'
  const keys: [name: string, value: string][] = [['tenant_id', tenantId]]
  if (hasKey) keys.push(['scope', scope], ['key', key])
  if (isUncompleted) keys.push(['ending', ending])
  // The keys stand in one comparison with the fence, and in the order, so that no other index seems to do.
  const names = [...keys.map(([name]) => name), 'fence']
  const places = keys.map(([, value]) => parameters.add(value))
  const low = [...places, parameters.add(lowFence)].join(', ')
  const high = [...places, parameters.add(highFence)].join(', ')
  const order = `ORDER BY ${names.map((name) => `${name} DESC`).join(', ')}`
  const where = [
    `(${names.join(', ')}) >= (${low}) AND (${names.join(', ')}) < (${high})`,
    `expires_on BETWEEN ${parameters.add(firstDay)}::date AND ${parameters.add(lastDay)}::date`,
    // Tells the planner that the partial index serves.
    ...(isUncompleted ? [`ending <> 'completed'`] : []),
  ].join(' AND ')
  const rest = [
    ...(scope === undefined || hasKey ? [] : [`scope = ${parameters.add(scope)}`]),
    ...(isUncompleted ? [] : endingConditions(state, parameters)),
    ...holdingConditions(selection, parameters),
  ].join(' AND ')
  const limit = `LIMIT ${parameters.add(rowsMax)}::bigint`
  if (rest === '')
    return statement(
      `SELECT ${columns}, true AS "isMeant" FROM executions WHERE ${where} ${order} ${limit}`,
      parameters,
    )
  return statement(
    `SELECT ${columns}, (${rest}) IS TRUE AS "isMeant", nth = ${examinedMax} AS "isEdge" FROM (
      SELECT tenant_id, ${columns}, row_number() OVER (${order}) AS nth
      FROM executions WHERE ${where} ${order} LIMIT ${examinedMax}) AS examined
    WHERE (${rest}) OR nth = ${examinedMax} ${order} ${limit}`,
    parameters,
  )
}

function statement(text: string, { values }: Parameters): Statement {
  return { name: `executions_${Bun.hash(text).toString(36)}`, text, values }
}

type ScopeSelection = Pick<LockHistorySelection, 'tenantId' | 'scope' | 'firstDay' | 'lastDay'>

function scopeCondition(
  { tenantId, scope, firstDay, lastDay }: ScopeSelection,
  parameters: Parameters,
): string {
  return `tenant_id = ${parameters.add(tenantId)} AND scope = ${parameters.add(scope)}
    AND expires_on BETWEEN ${parameters.add(firstDay)}::date AND ${parameters.add(lastDay)}::date`
}

function endingOf(state: LockState | undefined): string | undefined {
  return state === 'running' || state === 'expired' ? 'open' : state
}

function endingConditions(state: LockState | undefined, parameters: Parameters): string[] {
  const ending = endingOf(state)
  return ending === undefined ? [] : [`ending = ${parameters.add(ending)}`]
}

/** Returns the condition for `running` or `expired`, which depends on the clock and is stored nowhere. */
function holdingConditions({ state, nowMs }: LockHistorySelection, parameters: Parameters): string[] {
  if (state !== 'running' && state !== 'expired') return []
  return [`held_until ${state === 'running' ? '>' : '<='} ${parameters.add(new Date(nowMs).toISOString())}`]
}
