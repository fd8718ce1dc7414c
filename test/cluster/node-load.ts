import { genericBody, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { patience } from './node-release.ts'

const answerMsMax = 10_000 * patience
const againMs = 250
const inFlightMax = 400
/** Time limit for retrying one event. */
const tryMsMax = 120_000 * patience

/** Call that was not acknowledged. */
export interface Failure {
  readonly atMs: number
  /** HTTP status; 0 without a response. */
  readonly status: number
  readonly text: string
}

/** Result of a load. */
export interface LoadReport {
  /** Ids of acknowledged events. */
  readonly acknowledged: ReadonlySet<string>
  /** Ids of events that were never acknowledged. */
  readonly given: readonly string[]
  /** Failed calls, oldest first. */
  readonly failures: readonly Failure[]
}

/** Sends webhooks at a constant rate and retries unacknowledged ones, as providers do. */
export interface Load {
  readonly report: LoadReport
  /** Resolves once the load has ended, by itself or by `stop`. */
  readonly ended: Promise<LoadReport>
  /** Sends no new events and waits until each sent one is acknowledged or has been tried for 2 min. Safe to repeat. */
  stop(): Promise<LoadReport>
}

/** Rate, target and limits of a load. */
export interface LoadOptions {
  readonly url: string
  readonly perSecond: number
  /** Number of events to send. Default: until `stop`. */
  readonly eventsMax?: number
  /** Returns the provider's secret; called for each request. */
  readonly secret?: () => string
}

/** Starts a load. Every second call opens its own connection, which the Service may route to any pod. */
export function startLoad({ url, perSecond, eventsMax = Infinity, secret }: LoadOptions): Load {
  const report = { acknowledged: new Set<string>(), given: [] as string[], failures: [] as Failure[] }
  const under = new Set<Promise<void>>()
  let [isStopped, count] = [false, 0]
  const sendOne = async () => {
    const id = crypto.randomUUID()
    const keepalive = count % 2 === 0
    const untilMs = performance.now() + tryMsMax
    do {
      const failure = await post(url, { id, keepalive, ...(secret && { secret: secret() }) })
      if (!failure) return void report.acknowledged.add(id)
      report.failures.push(failure)
      await Bun.sleep(againMs)
    } while (performance.now() < untilMs)
    report.given.push(id)
  }
  const run = async () => {
    const startedMs = performance.now()
    while (!isStopped && count < eventsMax) {
      const due = Math.floor(((performance.now() - startedMs) * perSecond) / 1000) + 1
      for (; count < Math.min(due, eventsMax) && under.size < inFlightMax; count += 1) {
        const one: Promise<void> = sendOne().finally(() => under.delete(one))
        under.add(one)
      }
      await Bun.sleep(10)
    }
    while (under.size > 0) await Promise.all(under)
    return report
  }
  const ended = run()
  return {
    report,
    ended,
    stop() {
      isStopped = true
      return ended
    },
  }
}

/** Sends one event; returns undefined if it is acknowledged. */
async function post(
  url: string,
  { id, keepalive, secret }: { readonly id: string; readonly keepalive: boolean; readonly secret?: string },
): Promise<Failure | undefined> {
  const signed = signGeneric(genericBody(id), secret === undefined ? {} : { secret })
  const atMs = performance.now()
  try {
    const signal = AbortSignal.timeout(answerMsMax)
    const response = await fetch(url, { method: 'POST', ...signed, keepalive, signal })
    const text = await response.text()
    return response.ok ? undefined : { atMs, status: response.status, text }
  } catch (error) {
    return { atMs, status: 0, text: error instanceof Error ? error.message : 'no answer' }
  }
}

/** Returns the 5xx answers, which a Service with a Ready pod must never give. */
export function serverErrors({ failures }: LoadReport): readonly Failure[] {
  return failures.filter(({ status }) => status >= 500)
}
