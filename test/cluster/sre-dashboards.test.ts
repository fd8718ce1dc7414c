// Runs every query of the dashboards and runbooks on a Prometheus that scrapes a working installation.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { poll } from '#internal/dev/index.ts'
import { chartFolder } from './chart.ts'
import { useOperatorLab } from './operator-lab.ts'
import { openInstallation, type WorkingInstallation } from './sre-installation.ts'
import { monitored, startPrometheus, type TestPrometheus } from './sre-prometheus.ts'

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly datasource?: { readonly uid: string }
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly fieldConfig?: { readonly defaults: { readonly unit: string } }
  readonly targets?: readonly { readonly expr: string; readonly datasource: { readonly uid: string } }[]
}
interface Dashboard {
  readonly uid: string
  readonly title: string
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] }
  readonly panels: readonly Panel[]
}

const folder = join(chartFolder, 'files/dashboards')
const dashboards = readdirSync(folder).map(
  (name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Dashboard,
)
const runbookFolder = resolve(import.meta.dir, '../../docs/runbooks')
const setUpMsMax = 600_000
const seenMsMax = 30_000

const stage = useOperatorLab({
  start: { env: { LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8', LATCHKEY_CALLBACK_PORTS: 'any' } },
  strict: false,
  beforeClose,
})
let installation: WorkingInstallation
let prometheus: TestPrometheus

beforeAll(async () => {
  installation = await openInstallation(stage.lab, stage.shops)
  const operator = { name: 'operator', opsUrl: stage.operator.opsUrl }
  prometheus = await startPrometheus([...installation.processes, operator])
  await installation.work()
  // Compares counts instead of increases, because Prometheus sees no increase in what was counted before its first scrape.
  await seen('count(latchkey_tenants_attempts_total{ending="failed"} > 0) >= 2')
  await seen('count(latchkey_http_request_duration_seconds_count{route="/v1/simulate/chargeback"}) >= 2')
  await seen('count(controller_runtime_reconcile_total > 0) >= 2')
  await installation.work()
}, setUpMsMax)

afterAll(async () => {
  await prometheus?.stop()
})

async function beforeClose(): Promise<void> {
  await installation?.close()
}

async function seen(expr: string): Promise<void> {
  const found = await poll(async () => (await prometheus.query(expr)).values.length > 0 || undefined, {
    deadlineMs: seenMsMax,
  })
  if (!found) throw new Error(`Prometheus never saw ${expr}`)
}

/** Replaces Grafana's variables. */
function filled(expr: string, namespace: string): string {
  const variables = {
    namespace,
    tenant: 'figures',
    __rate_interval: '2m',
    __range: '5m',
    __interval: '5s',
  }
  return Object.entries(variables).reduce((text, [name, value]) => text.replaceAll(`$${name}`, value), expr)
}

/** Waits for a number: rates need two scrapes, and recorded series one more evaluation. */
async function answerOf(expr: string): Promise<string> {
  let last = 'nothing'
  const found = await poll(
    async () => {
      const { status, error, values } = await prometheus.query(expr)
      last = status === 'error' ? (error ?? 'an error') : values.length === 0 ? 'nothing' : 'no number'
      return values.some((value) => !Number.isNaN(value)) || undefined
    },
    { deadlineMs: seenMsMax, everyMs: 500 },
  )
  return found ? 'data' : last
}

describe.each(dashboards.map((each) => [each.title, each] as const))(
  '%s',
  (_title, { uid, templating, panels }) => {
    const shown = panels.filter(({ type }) => type !== 'row')

    test('Grafana dashboards: every panel has a description and a unit, and uses the selected data source and namespace', () => {
      expect(uid).toMatch(/^latchkey-[a-z]+$/)
      expect(templating.list.map(({ name }) => name).slice(0, 2)).toEqual(['datasource', 'namespace'])
      expect(shown.length).toBeGreaterThan(10)
      for (const { title, description, datasource, fieldConfig, targets } of shown) {
        expect([title, description]).toEqual([title, expect.stringMatching(/^.{6,}[.]$/)])
        expect([title, fieldConfig?.defaults.unit]).toEqual([
          title,
          expect.stringMatching(/^(short|s|ops|reqps|bytes|percentunit)$/),
        ])
        for (const each of [datasource, ...(targets ?? []).map((target) => target.datasource)])
          expect([title, each?.uid]).toEqual([title, '${datasource}'])
        for (const { expr } of targets ?? []) {
          const named = [...expr.matchAll(/namespace="([^"]*)"/g)].map(([, name]) => name)
          expect([title, new Set(named)]).toEqual([title, new Set(['$namespace'])])
        }
      }
    })

    test('Grafana dashboards: no two panels overlap', () => {
      const overlaps = shown.flatMap((a) =>
        shown.filter(
          (b) =>
            a.id < b.id &&
            a.gridPos.x < b.gridPos.x + b.gridPos.w &&
            b.gridPos.x < a.gridPos.x + a.gridPos.w &&
            a.gridPos.y < b.gridPos.y + b.gridPos.h &&
            b.gridPos.y < a.gridPos.y + a.gridPos.h,
        ),
      )
      expect(overlaps.map(({ title }) => title)).toEqual([])
      expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    })

    test.each(
      templating.list.flatMap(({ name, definition }) => (definition ? [[name, definition] as const] : [])),
    )('Grafana dashboards: the variable %s has values', async (_name, definition) => {
      const [, series = '', label = ''] = /^label_values\((.*), (\w+)\)$/.exec(definition) ?? []
      for (const namespace of monitored)
        expect(await answerOf(`count by (${label}) (${filled(series, namespace)})`)).toBe('data')
    })

    const queries = shown.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => [title, expr] as const),
    )
    test.each(queries)('Grafana dashboards: the query in %s has data: %s', async (_panel, expr) => {
      for (const namespace of monitored)
        expect([namespace, await answerOf(filled(expr, namespace))]).toEqual([namespace, 'data'])
    })
  },
)

describe('Grafana dashboards of the chart', () => {
  test('Grafana dashboards: the chart contains five dashboards', () => {
    expect(dashboards.map(({ uid }) => uid).toSorted()).toEqual(
      ['forwarder', 'operator', 'overview', 'stores', 'tenant'].map((name) => `latchkey-${name}`),
    )
  })
})

describe('runbooks', () => {
  const queries = readdirSync(runbookFolder).flatMap((name) => {
    const text = readFileSync(join(runbookFolder, name), 'utf8')
    return [...text.matchAll(/```promql\n(.*?)\n```/gs)].map(([, query = '']) => [name, query] as const)
  })

  test.each(queries)(
    'Grafana dashboards: the query in %s is valid and reads existing metrics: %s',
    async (_name, query) => {
      const expr = query.replaceAll('namespace="latchkey"', `namespace="${monitored[0]}"`)
      expect((await prometheus.query(expr)).error).toBeUndefined()
      const names = await prometheus.names()
      const asked = query.match(
        /\b(latchkey|controller_runtime|workqueue|rest_client|process)_[a-z_]+\b/g,
      ) ?? ['up']
      for (const name of asked.filter((each) => !each.endsWith('_total{'))) expect(names).toContain(name)
    },
  )
})
