import { genericBody, signGeneric } from '#test/support/webhook-calls.ts'
import { patience } from './node-release.ts'

const answerMsMax = 10_000 * patience
const againMs = 250
const inFlightMax = 400
/** How long a sender goes on with one event. */
const tryMsMax = 120_000 * patience

/** A call of a sender that was not acknowledged. */
export interface Failure {
  readonly atMs: number
  /** The status of its answer; 0 without one. */
  readonly status: number
  readonly text: string
}

/** What a load has sent, and what came of it. */
export interface LoadReport {
  /** The ids of the events that were acknowledged. */
  readonly acknowledged: ReadonlySet<string>
  /** Events that never were. */
  readonly given: readonly string[]
  /** In the order of time. */
  readonly failures: readonly Failure[]
}

/** A sender of webhooks at an even rate, who repeats what is not acknowledged, as providers do. */
export interface Load {
  readonly report: LoadReport
  /** Settles when it has ended, by itself or by `stop`. */
  readonly ended: Promise<LoadReport>
  /** Sends nothing new and waits until all that was sent is acknowledged, or has been tried for 2 min. Repeating it is safe. */
  stop(): Promise<LoadReport>
}

/** How much is sent where. */
export interface LoadOptions {
  readonly url: string
  readonly perSecond: number
  /** Ends by itself after so many; default: at `stop`. */
  readonly eventsMax?: number
  /** The provider's secret; read anew for each call. */
  readonly secret?: () => string
}

/** Starts to send. Every second call has a connection of its own, which a Service may lead to any pod. */
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

/** Sends one event. Gives undefined when it is acknowledged. */
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

/** The failures that a Service with a pod must never show: answers of 5xx. */
export function serverErrors({ failures }: LoadReport): readonly Failure[] {
  return failures.filter(({ status }) => status >= 500)
}
