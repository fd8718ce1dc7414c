import { until } from '#test/support/until.ts'
import { loadApiKey } from './event-scene.ts'

/** Answers since `begin`. */
export interface RecordAnswers {
  /** Counts by status; 0 means that the connection broke. */
  readonly answers: ReadonlyMap<number, number>
  readonly slowestMs: number
  /** Counts and slowest answer as text. */
  readonly text: string
}

/** Callers that acquire one lock after another, until `end`. */
export interface RecordLoad {
  readonly callers: number
  /** Resets the counts. */
  begin(): void
  seen(): RecordAnswers
  /** Waits for `count` further answers with this status. @throws after 20 s */
  untilMore(count: number, status: number): Promise<void>
  end(): Promise<void>
}

const callersDefault = 4
const restMs = 20

/** Starts callers that acquire locks of new keys. */
export function startRecordLoad(url: () => string, callers = callersDefault): RecordLoad {
  let answers = new Map<number, number>()
  let slowest = 0
  let ending = false
  const oneCaller = async () => {
    while (!ending) {
      const startedMs = performance.now()
      const into = answers
      const status = await acquire(url())
      into.set(status, (into.get(status) ?? 0) + 1)
      if (into === answers) slowest = Math.max(slowest, performance.now() - startedMs)
      await Bun.sleep(restMs)
    }
  }
  const all = Promise.all(Array.from({ length: callers }, oneCaller))
  return {
    callers,
    begin() {
      answers = new Map()
      slowest = 0
    },
    seen() {
      const counted = [...answers].map(([status, count]) => `${status} ${count}`).join(', ')
      return {
        answers: new Map(answers),
        slowestMs: slowest,
        text: `${counted}, slowest ${slowest.toFixed(0)} ms`,
      }
    },
    async untilMore(count, status) {
      const from = answers.get(status) ?? 0
      await until(`${count} answers ${status}`, () => (answers.get(status) ?? 0) >= from + count)
    },
    async end() {
      ending = true
      await all
    },
  }
}

async function acquire(url: string): Promise<number> {
  const body = JSON.stringify({ scope: 'faults', key: crypto.randomUUID() })
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${loadApiKey}` }
  try {
    const answer = await fetch(`${url}/v1/record`, { method: 'POST', headers, body })
    await answer.arrayBuffer()
    return answer.status
  } catch {
    return 0
  }
}
