import { beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { scratchFolder } from '#test/support/scratch.ts'
import { buildMsMax, chartFolder, tool } from './chart.ts'
import { run, runProgram } from './program.ts'
import type { AlertCase } from './sre-alert-case.ts'
import { intakeCases, objectiveCases } from './sre-intake-cases.ts'
import { deliveryCases, operatorCases, processCases, storeCases } from './sre-process-cases.ts'

const ruleFolder = join(chartFolder, 'files/rules')
const ruleFiles = readdirSync(ruleFolder).map((name) => join(ruleFolder, name))

interface Rule {
  readonly alert?: string
  readonly record?: string
  readonly labels?: { readonly severity: string }
  readonly annotations?: {
    readonly summary: string
    readonly description: string
    readonly runbook_url: string
  }
}
const rules = ruleFiles.flatMap((path) =>
  (parse(readFileSync(path, 'utf8')) as { groups: { rules: Rule[] }[] }).groups.flatMap(
    (group) => group.rules,
  ),
)
const alertCases = [
  ...objectiveCases,
  ...intakeCases,
  ...deliveryCases,
  ...operatorCases,
  ...storeCases,
  ...processCases,
]
const alerts = rules.filter(({ alert }) => alert !== undefined)

beforeAll(async () => {
  await run([`${import.meta.dir}/build`, 'promtool'])
}, buildMsMax)

test('alert rules: promtool check rules reports nothing', async () => {
  const { exitCode, out, err } = await runProgram([
    tool('promtool'),
    'check',
    'rules',
    '--lint=all',
    ...ruleFiles,
  ])
  expect([exitCode, err, out.match(/FAILED/g)]).toEqual([0, '', null])
  expect(alerts.length).toBeGreaterThan(40)
})

test('alert rules: every alert has a test case for each of its severities', () => {
  const shown = alertCases.flatMap(({ alert, fires }) =>
    Object.keys(fires).map((severity) => `${alert} ${severity}`),
  )
  const ours = alerts.map(({ alert, labels }) => `${alert} ${labels?.severity}`)
  expect([...new Set(shown)].toSorted()).toEqual(ours.toSorted())
})

/** Renders a template as Prometheus does, with the values of a case. */
function rendered(template: string, { labels, value = '' }: AlertCase): string {
  return template
    .replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, (_all, name: string) => labels[name] ?? '')
    .replaceAll(/\{\{ \$value( \| \w+)? \}\}/g, value)
}

function expected(of: AlertCase): object[] {
  return Object.entries(of.fires).map(([severity, value]) => {
    const rule = alerts.find(({ alert, labels }) => alert === of.alert && labels?.severity === severity)
    const shown = { ...of, value }
    return {
      exp_labels: { ...of.labels, severity },
      exp_annotations: Object.fromEntries(
        Object.entries(rule?.annotations ?? {}).map(([name, text]) => [name, rendered(text, shown)]),
      ),
    }
  })
}

/** Returns one named test group per variation, so that promtool names the failing one. */
function groupsOf(of: AlertCase): object[] {
  const group = (name: string, series: AlertCase['series'], exp_alerts: readonly object[]) => ({
    name,
    interval: '1m',
    input_series: Object.entries(series).map(([each, values]) => ({ series: each, values })),
    alert_rule_test: [{ eval_time: of.at, alertname: of.alert, exp_alerts }],
  })
  const quiet = Object.entries(of.quiet).map(([why, series]) =>
    group(`quiet: ${why}`, { ...of.series, ...series }, []),
  )
  return [group(`fires: ${of.when}`, of.series, expected(of)), ...quiet]
}

/** Returns the rule files that an alert needs. */
function filesOf(name: string): string[] {
  const own = ruleFiles.filter((path) => readFileSync(path, 'utf8').includes(`alert: ${name}\n`))
  const isOfBudget = objectiveCases.some(({ alert }) => alert === name)
  return isOfBudget ? [join(ruleFolder, 'recordings.yaml'), ...own] : own
}

test('waiting deliveries: the rule records one sample per namespace for any number of processes, and none without reports', async () => {
  const of = (metric: string, pod: string, namespace = 'shops') =>
    `latchkey_${metric}{namespace="${namespace}",pod="${pod}"}`
  const shown: Readonly<Record<string, number>> = {
    [of('events_due_count', 'a')]: 40,
    [of('events_due_count', 'b')]: 40,
    [of('events_due_count', 'c', 'stalls')]: 7,
    [of('intake_spool_entries_count', 'd')]: 2,
    [of('intake_spool_entries_count', 'e')]: 2,
    [of('intake_spool_entries_count', 'f', 'booths')]: 9,
    [of('events_due_age_seconds', 'a')]: 5,
    [of('intake_spool_oldest_age_seconds', 'd')]: 60,
  }
  const recorded = (what: string, values: Readonly<Record<string, number>>) => {
    const expr = `namespace:latchkey_events_waiting_${what}:max`
    const samples = Object.entries(values).map(([namespace, value]) => ({
      labels: `${expr}{namespace="${namespace}"}`,
      value,
    }))
    return { expr, eval_time: '5m', exp_samples: samples }
  }
  const input_series = Object.entries(shown).map(([series, value]) => ({ series, values: `${value}x10` }))
  const promql_expr_test = [
    recorded('count', { shops: 42, stalls: 7 }),
    recorded('age_seconds', { shops: 60 }),
  ]
  const tests = [{ interval: '1m', input_series, promql_expr_test }]
  const folder = scratchFolder()
  const path = join(folder, 'test.yaml')
  writeFileSync(path, stringify({ rule_files: [join(ruleFolder, 'recordings.yaml')], tests }))
  const { exitCode, out, err } = await runProgram([tool('promtool'), 'test', 'rules', path])
  rmSync(folder, { recursive: true })
  expect([exitCode, `${out}${err}`]).toEqual([0, expect.stringContaining('SUCCESS')])
})

test.each(alertCases.map((each) => [each.alert, each.when, each] as const))(
  'alert %s: fires with its annotations when %s, and does not fire in the quiet cases',
  async (_alert, _when, of) => {
    const folder = scratchFolder()
    const path = join(folder, 'test.yaml')
    const file = { rule_files: filesOf(of.alert), evaluation_interval: '1m', tests: groupsOf(of) }
    writeFileSync(path, stringify(file))
    const { exitCode, out, err } = await runProgram([tool('promtool'), 'test', 'rules', path])
    rmSync(folder, { recursive: true })
    expect(Object.keys(of.quiet).length).toBeGreaterThan(0)
    expect([exitCode, exitCode === 0 ? '' : out + err]).toEqual([0, ''])
  },
)
