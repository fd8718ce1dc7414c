import type { Pool, PoolClient } from '#internal/storage/index.ts'

/** Settings of a session that sends the plan of each of its statements to the client, also of those inside functions. */
export const explainedPlans = {
  session_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_nested_statements': 'on',
  'auto_explain.log_analyze': 'on',
  'auto_explain.log_buffers': 'on',
  'auto_explain.log_format': 'json',
  'auto_explain.log_parameter_max_length': '0',
  'auto_explain.log_level': 'notice',
} as const

/** Node of a plan, as EXPLAIN (FORMAT json) has it: https://www.postgresql.org/docs/15/sql-explain.html (read 2026-11). */
interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Actual Loops'?: number
  readonly 'Actual Total Time'?: number
  readonly 'Shared Hit Blocks'?: number
  readonly 'Shared Read Blocks'?: number
  readonly Plans?: readonly PlanNode[]
}

interface Explained {
  readonly 'Query Text': string
  readonly Plan: PlanNode
}

/** Plans of a session's statements, by the calls that ran them. */
export interface Plans {
  /** Begins the plans of a call, in place of earlier ones of the same name. */
  start(call: string): void
  /** Returns a line for each statement that reads tables: its scans, counted by partition, milliseconds and pages. */
  lines(): string[]
  /** Returns the statements that scan a whole table of records. */
  scans(): string[]
}

/** Collects the plans of a pool whose sessions have `explainedPlans`. */
export function plansOf(pool: Pool): Plans {
  const byCall = new Map<string, Explained[]>()
  let current: Explained[] = []
  pool.on('connect', (client: PoolClient) => {
    client.on('notice', ({ message = '' }) => {
      const json = message.slice(message.indexOf('{'))
      if (message.startsWith('duration:')) current.push(JSON.parse(json) as Explained)
    })
  })
  return {
    start: (call) => {
      current = []
      byCall.set(call, current)
    },
    lines: () => Array.from(byCall, ([call, all]) => [`${call}:`, ...linesOf(all)]).flat(),
    scans: () =>
      [...byCall.values()]
        .flat()
        .filter(({ Plan }) => scansOf(Plan).some((scan) => scan.startsWith('Seq Scan on record_')))
        .map(textOf),
  }
}

/** Returns a line for each statement that reads tables; the sums, if it was run several times. */
function linesOf(all: readonly Explained[]): string[] {
  const read = all.filter(({ Plan }) => scansOf(Plan).length > 0)
  return Array.from(Map.groupBy(read, textOf), ([text, same]) => {
    const sum = (of: (plan: PlanNode) => number) => same.reduce((total, { Plan }) => total + of(Plan), 0)
    const ms = sum((plan) => plan['Actual Total Time'] ?? 0).toFixed(3)
    const pages = sum((plan) => (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0))
    return `  ${same.length} × ${text}: ${ms} ms, ${pages} pages`
  })
}

function textOf({ 'Query Text': query, Plan }: Explained): string {
  const counts = Map.groupBy(scansOf(Plan), (scan) => scan)
  const scans = Array.from(counts, ([scan, of]) => `${of.length} × ${scan}`)
  return `${query.replaceAll(/\s+/g, ' ').trim().slice(0, 70)}…: ${scans.join(', ')}`
}

/** Returns the scans of tables that a plan has run, with the partitions of a table as one. */
function scansOf(node: PlanNode): string[] {
  const inner = (node.Plans ?? []).flatMap(scansOf)
  const type = node['Node Type']
  const of = (node['Index Name'] ?? node['Relation Name'])?.replace(/_\d{8}/, '')
  if (of === undefined || !type.endsWith('Scan') || node['Actual Loops'] === 0) return inner
  return [`${type} on ${of}`, ...inner]
}
