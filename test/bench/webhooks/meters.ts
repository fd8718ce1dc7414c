import { readdirSync, readFileSync } from 'node:fs'
import type { Pool } from '#internal/storage/index.ts'
import type { Stack } from './stack.ts'

/** CPU seconds of each part since its start; stores with all their processes. NaN without /proc. */
export interface CpuSeconds {
  readonly api: number
  readonly bare: number
  /** 0 without `--beside`. */
  readonly beside: number
  readonly forwarder: number
  readonly postgres: number
  readonly redis: number
}

/** Clock ticks per second in /proc, https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html (read 2026-11). */
const ticksPerSecond = 100

/** Reads the CPU seconds of each part. */
export function readCpu({ api, bare, beside, forwarder, postgresPid, redisPid }: Stack): CpuSeconds {
  return {
    api: ownSeconds(api.pid),
    bare: ownSeconds(bare.pid),
    beside: beside ? ownSeconds(beside.pid) : 0,
    forwarder: forwarder ? ownSeconds(forwarder.pid) : 0,
    postgres: familySeconds(postgresPid),
    redis: ownSeconds(redisPid),
  }
}

/** Returns the difference of two readings. */
export function cpuBetween(before: CpuSeconds, after: CpuSeconds): CpuSeconds {
  return {
    api: after.api - before.api,
    bare: after.bare - before.bare,
    beside: after.beside - before.beside,
    forwarder: after.forwarder - before.forwarder,
    postgres: after.postgres - before.postgres,
    redis: after.redis - before.redis,
  }
}

/** Sums the CPU that has a bound: the product's processes and both stores. */
export function productSeconds({ api, forwarder, postgres, redis }: CpuSeconds): number {
  return api + forwarder + postgres + redis
}

function ownSeconds(pid: number): number {
  return statOf(pid)?.ownSeconds ?? Number.NaN
}

/** Returns the CPU seconds of a process and its children, running or reaped. */
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
    // The name in parentheses may contain any character; the third and later fields follow it.
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
    // The process has just ended, or /proc does not exist.
    return undefined
  }
}

/** Counts the product's statements, including transaction control and without the observer's. */
export async function countStatements(observer: Pool): Promise<number> {
  const { rows } = await observer.query<{ calls: string | null }>(
    `SELECT sum(calls) AS calls FROM pg_stat_statements
     WHERE userid <> (SELECT oid FROM pg_roles WHERE rolname = current_user)`,
  )
  return Number(rows[0]?.calls ?? 0)
}

/** Lists the product's statements with the highest total time since the last `resetStatements`. */
export async function listStatements(observer: Pool, limit: number): Promise<readonly StatementFacts[]> {
  const { rows } = await observer.query<StatementFacts>(
    `SELECT regexp_replace(left(query, 400), '\\s+', ' ', 'g') AS query, calls::int, total_exec_time AS "totalMs", rows::int
     FROM pg_stat_statements WHERE userid <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
     ORDER BY total_exec_time DESC LIMIT $1`,
    [limit],
  )
  return rows
}

/** Normalized statement of the product. */
export interface StatementFacts {
  readonly query: string
  readonly calls: number
  readonly totalMs: number
  readonly rows: number
}

/** Resets the statement counts. */
export async function resetStatements(observer: Pool): Promise<void> {
  await observer.query('SELECT pg_stat_statements_reset()')
}

/** Counts incomplete deliveries. */
export async function countDue(observer: Pool): Promise<number> {
  const { rows } = await observer.query<{ count: number }>(
    'SELECT count(*)::int AS count FROM deliveries_due',
  )
  return rows[0]?.count ?? Number.NaN
}
