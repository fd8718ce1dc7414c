import { type Branded, dayAfter, expectPageLimit, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import {
  acquiredAtMsOf,
  describeExecution,
  type Ending,
  type Execution,
  type ExecutionFacts,
  type ExecutionState,
} from './execution.ts'
import { joinFacts } from './join-facts.ts'

/** Where a page ended. Opaque to whoever gets it. */
export type ExecutionCursor = Branded<'ExecutionCursor'>

/** Which executions of a tenant. A key is looked for within its scope. */
export type ExecutionFilter = {
  readonly tenantId: TenantId
  readonly state?: ExecutionState | undefined
  /** Acquired at or after, in ms since the epoch. */
  readonly fromMs?: number | undefined
  /** Acquired before, in ms since the epoch. */
  readonly toMs?: number | undefined
  /** The `next` of the page before. */
  readonly after?: ExecutionCursor | undefined
  /** 1 to 100. */
  readonly limit: number
} & (
  | { readonly scope: string; readonly key?: string | undefined }
  | { readonly scope?: undefined; readonly key?: undefined }
)

/** A page of executions, the latest first. */
export interface ExecutionPage {
  readonly executions: readonly Execution[]
  /** Set while there may be more. */
  readonly next?: ExecutionCursor
}

/** What a tenant's days may be at most, as the schema of the resource has it. */
const daysMax = 90
const fenceMax = Number.MAX_SAFE_INTEGER
/** The last moment that a fence can name, in 2255; days end there, too. */
const msMax = acquiredAtMsOf(fenceMax)

/** Reads a cursor; undefined for anything that is none. */
export function parseExecutionCursor(text: string): ExecutionCursor | undefined {
  return fenceOfCursor(text) === undefined ? undefined : (text as ExecutionCursor)
}

function createExecutionCursor(fence: number): ExecutionCursor {
  return Buffer.from(`x1.${fence}`).toString('base64url') as ExecutionCursor
}

function fenceOfCursor(text: string): number | undefined {
  const digits = /^x1\.(\d{1,16})$/.exec(Buffer.from(text, 'base64url').toString('latin1'))?.[1]
  const fence = Number(digits)
  // One spelling for each: what is decoded leniently is no cursor of ours.
  return Number.isSafeInteger(fence) && createExecutionCursor(fence) === text ? fence : undefined
}

/**
 * Lists a tenant's executions, the latest acquired first. New ones come before the first page, so that later pages stay as they
 * are; those in memory are missing for a second. A page may be shorter than `limit` and yet have a next one.
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
  const { text, values } = selectText(filter, nowMs)
  const { rows } = await pool.query<FactsRow>({ text, values })
  const page = rows.slice(0, limit)
  const executions = joinNeighbours(page.map(parseFacts)).map((facts) => describeExecution(facts, nowMs))
  const last = page.at(-1)
  if (rows.length <= limit || !last) return { executions }
  return { executions, next: createExecutionCursor(last.fence) }
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
}

// A read by the primary key backwards, by scope and key, or by what is not completed; the days leave out partitions that cannot
// hold what is asked for. Not prepared by name: for each filter another plan is best.
function selectText(filter: ExecutionFilter, nowMs: number): { text: string; values: unknown[] } {
  const values: unknown[] = []
  const param = (value: unknown) => `$${values.push(value)}`
  const fromMs = clamp(filter.fromMs ?? 0)
  const toMs = clamp(filter.toMs ?? msMax)
  const fenceEnd = Math.min(toMs * 1000, fenceOfCursor(filter.after ?? '') ?? fenceMax)
  const conditions = [
    `tenant_id = ${param(filter.tenantId)}`,
    `fence >= ${param(fromMs * 1000)}`,
    `fence < ${param(fenceEnd)}`,
    `expires_on >= ${param(dayAfter(fromMs, 1))}::date`,
    `expires_on <= ${param(dayAfter(acquiredAtMsOf(fenceEnd), daysMax))}::date`,
  ]
  if (filter.scope !== undefined) conditions.push(`scope = ${param(filter.scope)}`)
  if (filter.key !== undefined) conditions.push(`key = ${param(filter.key)}`)
  if (filter.state !== undefined) conditions.push(stateCondition(filter.state))
  if (filter.state === 'running' || filter.state === 'expired') {
    const sign = filter.state === 'running' ? '>' : '<='
    conditions.push(`held_until ${sign} ${param(new Date(nowMs))}`)
  }
  const text = `SELECT fence, scope, key, held_until, extended_at, ended_at, ending, status FROM executions
    WHERE ${conditions.join(' AND ')} ORDER BY fence DESC LIMIT ${param(filter.limit + 1)}`
  return { text, values }
}

// Written out, since a parameter would not tell the planner that the partial index serves.
function stateCondition(state: ExecutionState): string {
  switch (state) {
    case 'running':
    case 'expired':
      return `ending = 'open'`
    case 'completed':
    case 'released':
    case 'taken_over':
      return `ending = '${state}'`
    default:
      return state satisfies never
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
