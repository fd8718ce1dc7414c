import { readdirSync, readFileSync } from 'node:fs'
import type { Pool } from '#internal/storage/index.ts'
import type { Stack } from './stack.ts'

/** CPU seconds used so far, of each part; stores with all their processes. NaN where there is no /proc. */
export interface CpuSeconds {
  readonly api: number
  readonly bare: number
  readonly forwarder: number
  readonly postgres: number
  readonly redis: number
}

/** The kernel counts in this unit for all programs, whatever its own tick, https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html (read 2026-11). */
const ticksPerSecond = 100

/** What each part has used since it began. */
export function readCpu({ api, bare, forwarder, postgresPid, redisPid }: Stack): CpuSeconds {
  return {
    api: ownSeconds(api.pid),
    bare: ownSeconds(bare.pid),
    forwarder: forwarder ? ownSeconds(forwarder.pid) : 0,
    postgres: familySeconds(postgresPid),
    redis: ownSeconds(redisPid),
  }
}

/** The difference of two readings. */
export function cpuBetween(before: CpuSeconds, after: CpuSeconds): CpuSeconds {
  return {
    api: after.api - before.api,
    bare: after.bare - before.bare,
    forwarder: after.forwarder - before.forwarder,
    postgres: after.postgres - before.postgres,
    redis: after.redis - before.redis,
  }
}

/** What is held to the bound: the product's processes and both stores. */
export function productSeconds({ api, forwarder, postgres, redis }: CpuSeconds): number {
  return api + forwarder + postgres + redis
}

function ownSeconds(pid: number): number {
  return statOf(pid)?.ownSeconds ?? Number.NaN
}

/** A process with its children: those that run, and those that ended and were waited for. */
function familySeconds(pid: number): number {
  const parent = statOf(pid)
  if (!parent) return Number.NaN
  const children = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => statOf(Number(name)) ?? [])
    .filter(({ parentPid }) => parentPid === pid)
  return children.reduce(
    (sum, child) => sum + child.ownSeconds,
    parent.ownSeconds + parent.endedChildrenSeconds,
  )
}

function statOf(pid: number) {
  try {
    // The name, in parentheses, may hold anything; the fields from the third on follow it.
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const at = (field: number) => fields[field - 3] ?? Number.NaN
    return {
      parentPid: at(4),
      ownSeconds: (at(14) + at(15)) / ticksPerSecond,
      endedChildrenSeconds: (at(16) + at(17)) / ticksPerSecond,
    }
  } catch {
    // It has just ended, or this is no Linux.
    return undefined
  }
}

/** Statements of the product so far, transaction control included; ours, the observer's, left out. */
export async function countStatements(observer: Pool): Promise<number> {
  const { rows } = await observer.query<{ calls: string | null }>(
    `SELECT sum(calls) AS calls FROM pg_stat_statements
     WHERE userid <> (SELECT oid FROM pg_roles WHERE rolname = current_user)`,
  )
  return Number(rows[0]?.calls ?? 0)
}

/** The statements that the product made most often, or that took most time, since the last `resetStatements`. */
export async function listStatements(observer: Pool, limit: number): Promise<readonly StatementFacts[]> {
  const { rows } = await observer.query<StatementFacts>(
    `SELECT regexp_replace(left(query, 400), '\\s+', ' ', 'g') AS query, calls::int, total_exec_time AS "totalMs", rows::int
     FROM pg_stat_statements WHERE userid <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
     ORDER BY total_exec_time DESC LIMIT $1`,
    [limit],
  )
  return rows
}

/** One statement of the product, normalized. */
export interface StatementFacts {
  readonly query: string
  readonly calls: number
  readonly totalMs: number
  readonly rows: number
}

/** Forgets all statements. */
export async function resetStatements(observer: Pool): Promise<void> {
  await observer.query('SELECT pg_stat_statements_reset()')
}

/** How many deliveries are not settled. */
export async function countDue(observer: Pool): Promise<number> {
  const { rows } = await observer.query<{ count: number }>(
    'SELECT count(*)::int AS count FROM deliveries_due',
  )
  return rows[0]?.count ?? Number.NaN
}
