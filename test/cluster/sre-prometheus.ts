import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { stringify } from 'yaml'
import { freePort, poll } from '#internal/dev/index.ts'
import { startCommand } from '#test/support/processes/api-process.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { chartFolder, tool } from './chart.ts'
import { run } from './program.ts'

/** Process to scrape. */
export interface ScrapedProcess {
  readonly name: string
  readonly opsUrl: string
}

/** Answer of Prometheus to a query. */
export interface QueryAnswer {
  readonly status: 'success' | 'error'
  readonly error?: string
  readonly values: readonly number[]
}

/** Prometheus with the chart's rules that scrapes processes every second. */
export interface TestPrometheus {
  query(expr: string): Promise<QueryAnswer>
  /** Returns the names of all metrics. */
  names(): Promise<readonly string[]>
  stop(): Promise<void>
}

/** Namespaces that stand for targets of the PodMonitor and of the ServiceMonitor. */
export const monitored = ['by-pod', 'by-service'] as const
const readyMsMax = 30_000

/**
 * Starts a Prometheus. Each process is scraped twice, as one pod of the namespace `by-pod`, as by the chart's PodMonitor, and of
 * `by-service`, as by its ServiceMonitor. The caller stops it.
 */
export async function startPrometheus(processes: readonly ScrapedProcess[]): Promise<TestPrometheus> {
  await run([`${import.meta.dir}/build`, 'prometheus'])
  const folder = scratchFolder()
  mkdirSync(join(folder, 'rules'))
  const rules = join(chartFolder, 'files/rules')
  for (const name of readdirSync(rules)) {
    // Records every second instead of every 30 s.
    const text = readFileSync(join(rules, name), 'utf8').replaceAll('interval: 30s', 'interval: 1s')
    writeFileSync(join(folder, 'rules', basename(name)), text)
  }
  writeFileSync(join(folder, 'prometheus.yaml'), stringify(configuration(processes, join(folder, 'rules'))))
  const port = await freePort()
  const child = startCommand(
    [
      tool('prometheus'),
      `--config.file=${join(folder, 'prometheus.yaml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    {},
    'prometheus',
  )
  const url = `http://127.0.0.1:${port}`
  const isReady = await poll(
    () =>
      fetch(`${url}/-/ready`).then(
        ({ ok }) => ok || undefined,
        () => undefined,
      ),
    { deadlineMs: readyMsMax },
  )
  if (!isReady) throw new Error(`Prometheus did not start: ${child.errors()}`)
  return {
    query: (expr) => query(url, expr),
    async names() {
      const answer = await fetch(`${url}/api/v1/label/__name__/values`)
      return ((await answer.json()) as { data: string[] }).data
    },
    async stop() {
      child.signal('SIGKILL')
      await child.exited
      rmSync(folder, { recursive: true })
    },
  }
}

function configuration(processes: readonly ScrapedProcess[], rules: string): object {
  const target = (name: string, opsUrl: string, labels: object) => ({
    targets: [new URL(opsUrl).host],
    labels: {
      pod: `latchkey-${name}-0`,
      container: 'latchkey',
      app_kubernetes_io_component: name,
      ...labels,
    },
  })
  const [byPod, byService] = monitored
  const jobs = [
    { job_name: `${byPod}/latchkey`, labels: { namespace: byPod, endpoint: 'ops' } },
    {
      job_name: 'latchkey-metrics',
      labels: { namespace: byService, endpoint: 'ops', service: 'latchkey-metrics' },
    },
  ]
  return {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: [`${rules}/*.yaml`],
    scrape_configs: jobs.map(({ job_name, labels }) => ({
      job_name,
      static_configs: processes.map(({ name, opsUrl }) => target(name, opsUrl, labels)),
    })),
  }
}

async function query(url: string, expr: string): Promise<QueryAnswer> {
  const answer = await fetch(`${url}/api/v1/query`, {
    method: 'POST',
    body: new URLSearchParams({ query: expr }),
  })
  const { status, error, data } = (await answer.json()) as {
    status: QueryAnswer['status']
    error?: string
    data?: { result: readonly { value: readonly [number, string] }[] }
  }
  const values = (data?.result ?? []).map(({ value }) => Number(value[1]))
  return { status, ...(error !== undefined && { error }), values }
}
