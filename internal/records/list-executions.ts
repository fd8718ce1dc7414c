import { dayAfter, expectPageLimit, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import {
  acquiredAtMsOf,
  describeExecution,
  type Ending,
  type Execution,
  type ExecutionFacts,
  type ExecutionState,
} from './execution.ts'
import { joinFacts } from './join-execution-notes.ts'
import {
  countScope,
  type ExecutionSelection,
  examinedMax,
  selectByIndex,
  selectOfShortScope,
} from './select-executions.ts'

/** Which executions of a tenant. A key is looked for within its scope. */
export type ExecutionFilter = {
  readonly tenantId: TenantId
  readonly state?: ExecutionState | undefined
  /** Acquired at or after, in ms since the epoch. */
  readonly fromMs?: number | undefined
  /** Acquired before, in ms since the epoch. */
  readonly toMs?: number | undefined
  /** Lists executions with a smaller fence: `next` of the previous page. */
  readonly after?: number | undefined
  /** 1 to 100. */
  readonly limit: number
} & (
  | { readonly scope: string; readonly key?: string | undefined }
  | { readonly scope?: undefined; readonly key?: undefined }
)

/** A page of executions, the latest first. */
export interface ExecutionPage {
  readonly executions: readonly Execution[]
  /** Fence of the last execution that was examined; set while there may be more. */
  readonly next?: number
}

/** What a tenant's days may be at most, as the schema of the resource has it. */
const daysMax = 90
const fenceMax = Number.MAX_SAFE_INTEGER
/** The last moment that a fence can name, in 2255; days end there, too. */
const msMax = acquiredAtMsOf(fenceMax)

/**
 * Lists a tenant's executions, the latest acquired first. New ones come before the first page, so that later pages stay as they
 * are; those in memory are missing for a second. A page looks at a bounded number of rows: it may be shorter than `limit`, even
 * empty, and yet have a next one. Give it a pool whose sessions plan by indexes alone.
 * @param nowMs decides whether a lock is still held
 * @throws RangeError for a limit out of bounds
 */
export async function listExecutions(
  pool: Pool,
  filter: ExecutionFilter,
  nowMs: number,
): Promise<ExecutionPage> {
  const { limit } = filter
  expectPageLimit(limit, 'executions')
  const selection = selectionOf(filter, nowMs)
  const isShort =
    filter.scope !== undefined && filter.key === undefined && (await isScopeShort(pool, selection))
  const { rows } = await pool.query<FactsRow>(
    isShort ? selectOfShortScope(selection) : selectByIndex(selection),
  )
  const page = rows.slice(0, limit)
  const meant = page.filter(({ isMeant }) => isMeant).map(parseFacts)
  const executions = joinNeighbours(meant).map((facts) => describeExecution(facts, nowMs))
  const last = page.at(-1)
  // Behind the last row that was looked at there may be more.
  if (!last || (rows.length <= limit && last.isEdge !== true)) return { executions }
  return { executions, next: last.fence }
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

async function isScopeShort(pool: Pool, selection: ExecutionSelection): Promise<boolean> {
  const { rows } = await pool.query<{ readonly count: number }>(countScope(selection))
  return (rows[0]?.count ?? 0) <= examinedMax
}

/** The days leave out partitions that cannot hold what is asked for. */
function selectionOf(filter: ExecutionFilter, nowMs: number): ExecutionSelection {
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

function parseFacts(row: FactsRow): ExecutionFacts {
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
function joinNeighbours(page: readonly ExecutionFacts[]): ExecutionFacts[] {
  const joined: ExecutionFacts[] = []
  for (const facts of page) {
    const before = joined.at(-1)
    if (before?.fence === facts.fence) joined[joined.length - 1] = joinFacts(before, facts)
    else joined.push(facts)
  }
  return joined
}
