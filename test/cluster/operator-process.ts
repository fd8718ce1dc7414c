import { poll } from '#internal/dev/index.ts'
import { startProcess, startProgram, type TestProcess } from '#test/support/processes/api-process.ts'

const quietMs = 3_500
const idleMsMax = 120_000
const answerMsMax = 5_000

/** Operator under test. */
export interface OperatorProcess extends TestProcess {
  readonly opsUrl: string
  /** Returns the sum of the series with all these label pairs, such as `code="403"`. */
  metric(name: string, ...labels: readonly string[]): Promise<number>
  /** Returns the number of calls answered with 403, except those of some methods, all from one reading of the metrics. */
  forbidden(...exceptMethods: readonly string[]): Promise<number>
  isLeading(): Promise<boolean>
  /** Returns the HTTP status of `/livez`. */
  liveness(): Promise<number>
  /** Waits until its queue is empty and all its events are written. @throws after 2 min */
  idle(): Promise<void>
  /** Sends SIGTERM; returns the exit code and the number of 403 answers. Safe to repeat. */
  stop(): Promise<{ readonly exitCode: number | null; readonly forbidden: number }>
}

/** Options of an operator process. */
export interface OperatorStart {
  /** Additions to the lab's environment. */
  readonly env?: Readonly<Record<string, string>>
  /** File loaded before the operator's code, for fault injection. */
  readonly preload?: string
}

/** Memory limit of the chart's operator in bytes, to which the garbage collector adapts there, too. */
const memoryBytes = 384 * 1024 * 1024

/** Starts an operator and waits until it listens. The caller ends it. */
export async function startOperatorProcess({ env = {}, preload }: OperatorStart): Promise<OperatorProcess> {
  const all = { BUN_JSC_forceRAMSize: String(memoryBytes), ...env }
  const started =
    preload === undefined
      ? startProcess('operator', all)
      : startProgram([`--preload=${preload}`, 'cmd/operator/main.ts'], all)
  let hasEnded = false
  let refused = 0
  void started.exited.then(() => {
    hasEnded = true
  })
  const { opsPort } = await started.logged('listening').catch((error: unknown) => {
    started.signal('SIGKILL')
    throw error
  })
  const opsUrl = `http://localhost:${opsPort}`
  const metric: OperatorProcess['metric'] = async (name, ...labels) =>
    sumOf(await readMetrics(opsUrl), name, labels)
  const forbidden: OperatorProcess['forbidden'] = async (...exceptMethods) => {
    const text = await readMetrics(opsUrl)
    const count = (...labels: readonly string[]) =>
      sumOf(text, 'rest_client_requests_total', ['code="403"', ...labels])
    return exceptMethods.reduce((sum, method) => sum - count(`method="${method}"`), count())
  }
  return {
    ...started,
    opsUrl,
    metric,
    forbidden,
    isLeading: async () => (await metric('leader_election_master_status')) === 1,
    liveness: async () => (await ask(`${opsUrl}/livez`)).status,
    idle: () => becomesIdle(opsUrl),
    async stop() {
      if (!hasEnded) refused = await forbidden()
      started.signal('SIGTERM')
      return { exitCode: await started.exited, forbidden: refused }
    },
  }
}

function ask(url: string): Promise<Response> {
  return fetch(url, { signal: AbortSignal.timeout(answerMsMax) })
}

async function readMetrics(opsUrl: string): Promise<string> {
  return await (await ask(`${opsUrl}/metrics`)).text()
}

function sumOf(text: string, name: string, labels: readonly string[] = []): number {
  return text
    .split('\n')
    .filter((line) => line.startsWith(name) && /^[ {]/.test(line.slice(name.length)))
    .filter((line) => labels.every((label) => line.includes(label)))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

/** Waits for 3.5 s without writes: events are written one second apart, so none is left then. */
async function becomesIdle(opsUrl: string): Promise<void> {
  let last = { written: -1, sinceMs: 0 }
  const idle = await poll(
    async () => {
      // Reads the metrics once per poll, since rendering them also creates load.
      const text = await readMetrics(opsUrl)
      const busy = sumOf(text, 'workqueue_depth') + sumOf(text, 'controller_runtime_active_workers')
      const sent = sumOf(text, 'rest_client_requests_total', ['method="P', 'code="20'])
      const written = sent - sumOf(text, 'rest_client_requests_total', ['method="PUT"'])
      if (busy > 0 || written !== last.written) last = { written, sinceMs: performance.now() }
      return performance.now() - last.sinceMs > quietMs || undefined
    },
    { deadlineMs: idleMsMax, everyMs: 500 },
  )
  if (!idle) throw new Error(`the operator was not idle within ${idleMsMax / 1000} s`)
}
