import { genericBody, signGeneric } from '#test/support/intake/webhook-calls.ts'
import { until } from '#test/support/until.ts'
import { EventLedger } from './event-ledger.ts'

/** Target and rate of a load. */
export interface EventLoadOptions {
  /** Returns the API's URL; called for each request, since a restart changes it. */
  readonly url: () => string
  readonly slug: string
  /** Concurrent senders, one event each at a time. Default 16. */
  readonly senders?: number
  /** Pause of a sender after an event, in ms. Default 5, which leaves CPU to the processes under test. */
  readonly restMs?: number
}

/** Running load. */
export interface EventLoad {
  readonly ledger: EventLedger
  /** Counts of answers by status; 0 means none within 10 s or a broken connection. */
  readonly answers: ReadonlyMap<number, number>
  /** Returns the slowest answer in ms. */
  slowestMs(): number
  /** Waits for `count` further acknowledged events. @throws after 30 s */
  untilMore(count: number, status?: 200 | 202): Promise<void>
  /** Sends no new events, and retries those in flight until they are acknowledged. */
  end(): Promise<void>
}

const callMsMax = 10_000
const againMs = 20
const endMsMax = 30_000

/** Starts senders that act as providers: one event after another, each retried until acknowledged. */
export function startEventLoad({ url, slug, senders = 16, restMs = 5 }: EventLoadOptions): EventLoad {
  const ledger = new EventLedger()
  const answers = new Map<number, number>()
  let slowest = 0
  let ending = false
  const send = async (id: string): Promise<number> => {
    const startedMs = performance.now()
    const status = await post(`${url()}/v1/t/${slug}/webhooks/generic`, id)
    answers.set(status, (answers.get(status) ?? 0) + 1)
    if (status !== 0) slowest = Math.max(slowest, performance.now() - startedMs)
    return status
  }
  const oneSender = async () => {
    while (!ending) {
      const id = crypto.randomUUID()
      ledger.sent(id)
      let status = await send(id)
      for (; status !== 200 && status !== 202; status = await send(id)) await Bun.sleep(againMs)
      ledger.acknowledged(id, status)
      await Bun.sleep(restMs)
    }
  }
  const all = Promise.all(Array.from({ length: senders }, oneSender))
  return {
    ledger,
    answers,
    slowestMs: () => slowest,
    async untilMore(count, status) {
      const from = ledger.acknowledgedCount(status)
      const what = `${count} more acknowledged events`
      await until(what, () => ledger.acknowledgedCount(status) >= from + count, endMsMax)
    },
    async end() {
      ending = true
      await all
    },
  }
}

/** Formats the counts of answers. */
export function answersOf({ answers }: EventLoad): string {
  const parts = [...answers].toSorted(([a], [b]) => a - b)
  return `answers ${parts.map(([status, count]) => `${status === 0 ? 'none' : status} ${count}`).join(', ')}`
}

async function post(url: string, id: string): Promise<number> {
  const call = signGeneric(genericBody(id))
  try {
    const answer = await fetch(url, { method: 'POST', ...call, signal: AbortSignal.timeout(callMsMax) })
    await answer.arrayBuffer()
    return answer.status
  } catch {
    return 0
  }
}
