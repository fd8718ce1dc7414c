import type { Pool, PoolClient } from '#internal/storage/index.ts'

/** Node of a plan: https://www.postgresql.org/docs/15/sql-explain.html, FORMAT JSON. */
export interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly 'Actual Rows': number
  /** Pairs that a join discarded. */
  readonly 'Rows Removed by Join Filter'?: number
  /** Rows of an Index Only Scan that needed a heap fetch. */
  readonly 'Heap Fetches'?: number
  readonly Plans?: readonly PlanNode[]
}

/** Runs `work` and returns the executed plan of each of its statements. */
export async function explained(
  client: PoolClient,
  work: (pool: Pool) => Promise<unknown>,
): Promise<PlanNode[]> {
  const plans: PlanNode[] = []
  const spy = {
    // Accepts values in the first argument, as pg does, and as the second, as Drizzle passes them.
    async query({ name, values: own }: { name: string; values?: unknown[] }, values = own ?? []) {
      const given = values.length === 0 ? '' : `(${values.map(literal).join(', ')})`
      const text = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE "${name}"${given}`
      const { rows } = await client.query<{ 'QUERY PLAN': readonly { Plan: PlanNode }[] }>(text)
      for (const row of rows) for (const { Plan } of row['QUERY PLAN']) plans.push(Plan)
      return { rows: [] }
    },
  }
  await work(spy as unknown as Pool)
  return plans
}

/** Formats a parameter as SQL; arrays have the binary form of `textArrayParam`. */
function literal(value: unknown): string {
  if (value === null) return 'NULL'
  if (value instanceof Date) return `'${value.toISOString()}'`
  if (Array.isArray(value)) return `ARRAY[${value.map(literal).join(', ')}]::text[]`
  if (!Buffer.isBuffer(value)) return typeof value === 'number' ? String(value) : `'${String(value)}'`
  const texts: string[] = []
  for (let at = 20, left = value.readInt32BE(12); left > 0; left -= 1) {
    const length = value.readInt32BE(at)
    at += 4
    texts.push(length < 0 ? 'NULL' : `'${value.toString('utf8', at, at + length).replaceAll("'", "''")}'`)
    at += Math.max(0, length)
  }
  return `ARRAY[${texts.join(',')}]::text[]`
}

/** Returns a plan and all nested plans. */
export function nodesOf(plan: PlanNode): PlanNode[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]
}

/** Returns the number of pages read. */
export function blocksOf(plan: PlanNode): number {
  return plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
}
